package mock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Application telemetry (SDK RFC 84), the server's side. Clients connect to the management service of a node by a
// websocket and are asked for counters. Sources: ns_server, app_telemetry_scraper.erl and app_telemetry_pool.erl.

const (
	telemetryPath    = "/_appTelemetry"
	telemetryPage    = "/settings/appTelemetry"
	telemetryTimeout = time.Second // of an answer; a client that takes longer is dropped
	telemetryLimit   = 16 << 20    // bytes of an answer
)

// TelemetryGet is the command that asks a client for a report.
const TelemetryGet = 0x00

// AppTelemetry switches application telemetry on from the start, see Cluster.SetAppTelemetry.
func AppTelemetry() Option { return func(s *settings) { s.telemetry = true } }

// SetAppTelemetry switches application telemetry on or off, as the setting "enabled" of /settings/appTelemetry does,
// which is off at first. While it is on, and every node is of 8.0 or later, configurations name the path to connect to,
// and each client that is connected is asked at the setting's interval. Off ends the connections.
func (c *Cluster) SetAppTelemetry(on bool) {
	c.management.Set(telemetryPage, "enabled", on)
	c.telemetryChanged()
}

// telemetryOn reports whether clients may connect. The caller holds the mutex.
func (c *Cluster) telemetryOn() bool {
	on, _ := c.management.Setting(telemetryPage, "enabled").(bool)
	return on && c.compat() >= v80
}

// telemetryChanged announces the configuration with the path or without it, and drops clients above the limit.
func (c *Cluster) telemetryChanged() {
	c.BumpRevision()
	var over []*telemetrySocket
	c.mu.Lock()
	for _, n := range c.nodes {
		most := 0
		if c.telemetryOn() {
			most = c.telemetrySetting("maxScrapeClientsPerNode")
		}
		for s := range n.sockets {
			if len(n.sockets) <= most {
				break
			}
			delete(n.sockets, s)
			over = append(over, s)
		}
	}
	c.mu.Unlock()
	for _, s := range over {
		s.drop()
	}
}

// telemetrySetting is a number of the page of settings.
func (c *Cluster) telemetrySetting(name string) int {
	switch n := c.management.Setting(telemetryPage, name).(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

// telemetrySocket is the connection of one client.
type telemetrySocket struct {
	n       *Node
	ws      *websocket.Conn
	client  TelemetryClient
	asking  chan struct{} // holds one token while a command is under way
	awaited atomic.Bool   // the next message is the answer to it
	answers chan []byte
	ended   chan struct{}
}

// TelemetryClient is a client that is connected to be asked for reports.
type TelemetryClient struct {
	Node  int    // that it is connected to
	User  string // that it has logged in as
	Agent string // as its request says
	TLS   bool
}

// TelemetryAnswer is what a client has answered to a command.
type TelemetryAnswer struct {
	TelemetryClient
	Status byte   // 0 is success, 1 an unknown command
	Text   string // the report, in the text format of Prometheus
	Err    error  // no answer came in time, or none that has a status; the client is dropped then
}

// serveTelemetry serves a client until its connection ends.
func (n *Node) serveTelemetry(w http.ResponseWriter, r *http.Request, u *user) {
	c := n.c
	c.mu.Lock()
	status := 0
	switch {
	case !c.telemetryOn():
		status = http.StatusNotFound
	case u == nil || u.name == "":
		status = http.StatusUnauthorized
	case len(n.sockets) >= c.telemetrySetting("maxScrapeClientsPerNode"):
		status = http.StatusTooManyRequests
	case c.closed:
		status = http.StatusServiceUnavailable
	default:
		c.wg.Add(1) // the goroutine of the connection is counted until it is taken over
	}
	c.mu.Unlock()
	if status != 0 {
		http.Error(w, http.StatusText(status), status)
		return
	}
	defer c.wg.Done()
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	ws.SetReadLimit(telemetryLimit)
	s := &telemetrySocket{
		n: n, ws: ws, client: TelemetryClient{n.index, u.name, r.UserAgent(), r.TLS != nil},
		asking: make(chan struct{}, 1), answers: make(chan []byte, 1), ended: make(chan struct{}),
	}
	c.mu.Lock()
	up := n.up && !c.closed
	if up {
		n.sockets[s] = struct{}{}
	}
	c.mu.Unlock()
	if up {
		c.tell("telemetry client", "node", n.index, "user", u.name)
		s.serve()
	}
	s.drop()
}

// serve reads what the client says until the connection ends, and asks it at the interval.
func (s *telemetrySocket) serve() {
	asks := make(chan struct{})
	go func() { // until the connection ends
		defer close(asks)
		for {
			t := time.NewTimer(time.Duration(s.n.c.telemetrySetting("scrapeIntervalSeconds")) * time.Second)
			select {
			case <-t.C:
				s.ask(context.Background(), TelemetryGet)
			case <-s.ended:
				t.Stop()
				return
			}
		}
	}()
	for {
		_, msg, err := s.ws.Read(context.Background())
		if err != nil || !s.awaited.Swap(false) { // a client that was not asked is dropped
			break
		}
		s.answers <- msg // has room: the command before has had its answer, or has ended the connection
	}
	close(s.ended)
	<-asks
}

// drop ends the connection.
func (s *telemetrySocket) drop() {
	s.n.c.mu.Lock()
	delete(s.n.sockets, s)
	s.n.c.mu.Unlock()
	_ = s.ws.CloseNow() // it may be closed already
}

// ask sends a command and waits for the answer.
func (s *telemetrySocket) ask(ctx context.Context, command ...byte) TelemetryAnswer {
	a := TelemetryAnswer{TelemetryClient: s.client}
	ctx, cancel := context.WithTimeout(ctx, telemetryTimeout)
	defer cancel()
	msg, err := s.exchange(ctx, command)
	switch {
	case err != nil:
	case len(msg) == 0:
		err = errors.New("the answer is empty")
	default:
		a.Status, a.Text = msg[0], string(msg[1:])
		if len(command) == 1 && command[0] == TelemetryGet && a.Status == 0 {
			s.n.c.keepTelemetry(a.Text)
		}
	}
	if a.Err = err; err != nil {
		s.drop()
	}
	return a
}

func (s *telemetrySocket) exchange(ctx context.Context, command []byte) ([]byte, error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-s.ended:
		return nil, errors.New("the connection has ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.awaited.Store(true)
	if err := s.ws.Write(ctx, websocket.MessageBinary, command); err != nil {
		return nil, fmt.Errorf("mock: telemetry: %w", err)
	}
	select {
	case msg := <-s.answers:
		return msg, nil
	case <-s.ended:
		return nil, errors.New("the connection has ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sockets are the connections of all clients, by node.
func (c *Cluster) sockets() (all []*telemetrySocket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		for s := range n.sockets {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *telemetrySocket) int {
		return cmp.Or(cmp.Compare(a.client.Node, b.client.Node), cmp.Compare(a.client.User, b.client.User),
			cmp.Compare(a.client.Agent, b.client.Agent))
	})
	return all
}

// TelemetryClients are the clients that are connected.
func (c *Cluster) TelemetryClients() []TelemetryClient {
	var all []TelemetryClient
	for _, s := range c.sockets() {
		all = append(all, s.client)
	}
	return all
}

// AskTelemetry sends a command to each client that is connected, TelemetryGet for a report, and waits for the answers:
// for a second at most each, and until ctx ends. Nothing is sent by an empty command but an empty message.
func (c *Cluster) AskTelemetry(ctx context.Context, command ...byte) []TelemetryAnswer {
	var all []TelemetryAnswer
	for _, s := range c.sockets() {
		all = append(all, s.ask(ctx, command...))
	}
	return all
}
