package httpx

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/internal/telemetry"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/retry"
)

// Limits of an answer that is not given to the caller, and of every answer's headers.
const (
	maxHeaders = 64 << 10
	drainLimit = 256 << 10
	drainTime  = 50 * time.Millisecond
	textTime   = time.Second // for the text of an answer whose status says that it is no success
)

// Defaults of Options.
const (
	defaultTimeout = 75 * time.Second
	defaultConnect = 10 * time.Second
	defaultIdle    = time.Second // services close idle connections after about five
	defaultMaxIdle = 64
	keepAlive      = 30 * time.Second
)

// Credentials are what a request is authenticated with: a name and a password, or a token. With none of them a client
// certificate has to do.
type Credentials struct {
	Username        string
	Password, Token observe.Secret
}

// Options are a client's surroundings. Dial, Credentials, Endpoints, Orchestrator, Health and JitterSource are needed.
type Options struct {
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS  *tls.Config // nil means plaintext
	// Credentials gives those of a request, which goes encrypted or not.
	Credentials func(ctx context.Context, service httpsvc.Service, addr string, encrypted bool) (Credentials, error)
	// Shows says why the node at addr must not be sent a password, which others would see; nodes of which it says
	// nothing are preferred. It must not block. Nil allows all of them.
	Shows func(addr string, encrypted bool) error
	// Endpoints gives the addresses of a service, from the newest cluster map: with a bucket those of the nodes that
	// hold active data of it. known is false before there is a map.
	Endpoints func(svc topology.Service, bucket string) (addrs []string, known bool)
	// AwaitMap waits for the first cluster map, at most until ctx ends, and no longer than one may be on its way. With
	// a bucket it is that bucket's. Nil does not wait.
	AwaitMap func(ctx context.Context, bucket string)
	// WhyNoMap is why there is no cluster map, or no newer one, as far as that is known. Nil knows nothing.
	WhyNoMap     func(bucket string) error
	Orchestrator *retry.Orchestrator
	Health       *health.Record
	// Timeout is that of a request that names none; nil means 75 s for every service.
	Timeout func(svc httpsvc.Service) time.Duration
	// Policy gives the strategy of a request, and its time if the policy sets one; own is the strategy that the request
	// names. Nil leaves both as they are.
	Policy func(svc retry.Service, operation string, own retry.Strategy) (retry.Strategy, time.Duration)
	// Well is told of a node's answers that are no retryable failures. It must not block; nil is not told.
	Well         func(endpoint string)
	JitterSource func() float64
	Agent        string
	// Instruments get a span and a duration of each request, which end when its answer is given out: with the headers,
	// or the first row. Nil means none.
	Instruments *observe.Instruments
	Telemetry   *telemetry.Meter // counts attempts; nil: none
	// Slow is told of each request that has taken at least SlowAfter, when it has its answer's headers or first row, or
	// has failed. It must not block. Nil is not told.
	Slow      func(observe.Request)
	SlowAfter func(svc httpsvc.Service) time.Duration
	// Server is the address of a node by its name in the cluster map, for spans. Nil means the one it is reached at.
	Server func(svc httpsvc.Service, addr string) string

	ConnectTimeout time.Duration // of dialing, and of the TLS handshake; 0 means 10 s
	IdleTimeout    time.Duration // of an unused connection; 0 means 1 s
	MaxConns       int           // per node; 0 means no limit
	MaxIdle        int           // per node; 0 means 64
	MaxIdleTotal   int           // to all nodes; 0 means no limit
	Door           *tasks.Door   // counts requests until their answers are closed; nil: of no other use
	LeaveKeepAlive bool          // Dial has decided about TCP's probes; otherwise they come after 30 s
	RowLimit       int           // bytes of one row, and of all else together; 0 means httpsvc.DefaultRowLimit
	RowDepth       int           // levels of one row; 0 means httpsvc.DefaultDepthLimit
}

// Client sends requests. It is safe for concurrent use. Close ends it.
type Client struct {
	o    Options
	hc   *http.Client
	own  *http.Client                       // for Get, whose streams must not take connections from requests
	raw  *http.Client                       // for connections that go on with another protocol
	next map[httpsvc.Service]*atomic.Uint32 // the turns of each service's nodes; does not change
	sick sickList
	gate gate

	hosts hosts
	tls   atomic.Pointer[tls.Config] // as Options.TLS, or as SetTLS has it

	ctx   context.Context // ends with the client
	close context.CancelCauseFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once the client is closed
	tasks tasks.Group           // that Wait waits for: connecting and closing, by the node's address
}

var _ httpsvc.Doer = (*Client)(nil)

// New makes a client. It connects to nothing.
func New(o Options) *Client {
	setDefault(&o.ConnectTimeout, defaultConnect)
	setDefault(&o.IdleTimeout, defaultIdle)
	setDefault(&o.MaxIdle, defaultMaxIdle)
	if o.Door == nil {
		o.Door = tasks.NewDoor()
	}
	c := &Client{o: o, conns: map[net.Conn]struct{}{}, next: map[httpsvc.Service]*atomic.Uint32{}}
	c.ctx, c.close = context.WithCancelCause(context.Background())
	c.tls.Store(o.TLS)
	c.hc, c.own = c.client(o.MaxConns, "h2", "http/1.1"), c.client(0, "h2", "http/1.1")
	c.raw = c.client(0, "http/1.1") // no other version can be switched from
	first := uint32(o.JitterSource() * 1024)
	for service := range services {
		c.next[service] = new(atomic.Uint32)
		c.next[service].Store(first)
	}
	return c
}

// client makes an HTTP client with so many connections to a node at most, which over TLS speak one of the protocols.
func (c *Client) client(maxConns int, protocols ...string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: c.dial, ForceAttemptHTTP2: slices.Contains(protocols, "h2"),
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return c.dialTLS(ctx, network, addr, protocols)
			},
			MaxResponseHeaderBytes: maxHeaders, IdleConnTimeout: c.o.IdleTimeout, MaxConnsPerHost: maxConns,
			MaxIdleConnsPerHost: c.o.MaxIdle, MaxIdleConns: c.o.MaxIdleTotal,
			// An answer is read as it comes: one that unpacks to a thousand times its size is not unpacked.
			DisableCompression: true,
		},
		// Credentials must not follow a redirect to another host, and no service redirects on purpose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// SetTLS replaces the settings of the connections that are made from now on, and closes those that are not in use; nil
// turns TLS off.
func (c *Client) SetTLS(t *tls.Config) {
	c.tls.Store(t)
	c.hc.CloseIdleConnections()
	c.own.CloseIdleConnections()
}

// Close ends every request under way with retry.ErrClosed, those whose rows are being read as well, and closes all
// connections. It does not wait for the callers, and Wait waits for the rest.
func (c *Client) Close() {
	c.close(retry.ErrClosed)
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	c.hc.CloseIdleConnections()
	c.own.CloseIdleConnections()
	for nc := range conns {
		nc.Close()
	}
}

// Wait waits until a closed client connects to nothing any more and all its connections are closed. net/http goes on
// with that when the request has ended. Only what the user gave can take time: a dialer that ignores its context, or a
// connection whose Close does not return. When ctx ends before, the error names the nodes.
func (c *Client) Wait(ctx context.Context) error { return c.tasks.Wait(ctx) }

// connecting notes that the calling goroutine connects to addr, until it ends the task; false means that the client is
// closed.
func (c *Client) connecting(addr string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		return false
	}
	c.tasks.Begin(addr)
	return true
}

// dial opens a connection, in a time of its own: a node that is not there must not use up the request's.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !c.connecting(addr) {
		return nil, retry.ErrClosed
	}
	defer c.tasks.End(addr)
	a := attemptIn(ctx)
	if a != nil {
		if err := c.hosts.await(ctx, c.ctx, a, addr); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	nc, err := c.o.Dial(ctx, network, addr)
	if err != nil {
		if a != nil && a.ctx.Err() == nil && c.ctx.Err() == nil {
			c.hosts.lose(addr)
		}
		return nil, err
	}
	if k, ok := nc.(interface{ SetKeepAlivePeriod(time.Duration) error }); ok && !c.o.LeaveKeepAlive {
		_ = k.SetKeepAlivePeriod(keepAlive)
	}
	c.mu.Lock()
	closed := c.conns == nil
	t := &tracked{Conn: nc, c: c, addr: addr}
	t.user.Store(a)
	if !closed {
		c.conns[t] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		nc.Close()
		return nil, retry.ErrClosed
	}
	return t, nil
}

// dialTLS opens an encrypted connection. The handshake has a time of its own, too.
func (c *Client) dialTLS(ctx context.Context, network, addr string, protocols []string) (net.Conn, error) {
	if !c.connecting(addr) {
		return nil, retry.ErrClosed
	}
	defer c.tasks.End(addr)
	raw, err := c.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := c.tls.Load().Clone()
	if t == nil {
		_ = raw.Close()
		return nil, errNotEncrypted
	}
	t.NextProtos = slices.DeleteFunc(slices.Clone(t.NextProtos), func(p string) bool {
		return p == "h2" && !slices.Contains(protocols, p)
	})
	for _, p := range protocols {
		if !slices.Contains(t.NextProtos, p) {
			t.NextProtos = append(t.NextProtos, p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.ConnectTimeout)
	defer cancel()
	nc, err := handshake.TLS(ctx, raw, t, addr)
	if err != nil { // not a nil *tls.Conn
		return nil, err
	}
	return nc, nil
}

// tracked is a connection that Close knows of, and that knows whether anything was written to it.
type tracked struct {
	net.Conn
	c      *Client
	writes atomic.Int64 // that have written something, or are about to
	closed atomic.Bool

	addr    string
	user    atomic.Pointer[attempt] // the latest
	good    atomic.Bool             // it has carried a good answer
	refused atomic.Pointer[refusal] // the latest other answer that it has carried, nil for none
}

// Write implements net.Conn.
func (t *tracked) Write(b []byte) (int, error) {
	t.writes.Add(1)
	if t.closed.Load() {
		t.writes.Add(-1)
		return 0, net.ErrClosed
	}
	n, err := t.Conn.Write(b)
	if n == 0 && err != nil {
		t.writes.Add(-1)
	}
	return n, err
}

// refusal is an answer that is not a good one.
type refusal struct {
	of *attempt
	at time.Time
}

// lost reports whether a connection that closes now has ended without a good answer, and not by the client's doing: its
// latest attempt waits for an answer, or was refused and no idle connection is closed yet. A service that hangs up
// later than lateClose after a refusal does not drive the client to connect.
func (t *tracked) lost() bool {
	a := t.user.Load()
	if a == nil || t.good.Load() || t.c.ctx.Err() != nil {
		return false
	}
	if a.ctx.Err() == nil {
		return true
	}
	r := t.refused.Load()
	return r != nil && r.of == a && time.Since(r.at) < min(t.c.o.IdleTimeout, lateClose)
}

// Close implements net.Conn. It does not wait for the connection's own Close, which may not return when the user's Dial
// has made it; Client.Wait does.
func (t *tracked) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	if t.lost() {
		t.c.hosts.lose(t.addr)
	}
	t.c.mu.Lock()
	delete(t.c.conns, t)
	t.c.mu.Unlock()
	t.c.tasks.Go(t.addr, func() { _ = t.Conn.Close() })
	return nil
}

var errCleartextToken = fmt.Errorf("%w: a token is sent over TLS only", cberr.InvalidArgument)

// errNotEncrypted is a connection that was to be encrypted when TLS was turned off.
var errNotEncrypted = errors.New("TLS was turned off")

// errElsewhere is a node's address that is a part of a URL, and leads to another host than it says.
var errElsewhere = fmt.Errorf("%w: the node's address is not a host and a port", cberr.InvalidArgument)

// authorize adds the credentials, unless the request has brought its own. They are for the node at addr: topology
// checks the hosts of cluster maps, and here nothing is sent to another one whatever address has come from elsewhere.
func (c *Client) authorize(ctx context.Context, h *http.Request, service httpsvc.Service, addr string) error {
	if h.URL.Host != addr || h.URL.User != nil {
		return errElsewhere
	}
	if h.Header.Get("Authorization") != "" {
		return nil
	}
	encrypted := h.URL.Scheme == "https"
	cr, err := c.o.Credentials(ctx, service, addr, encrypted)
	if err != nil {
		return &credentialsError{err}
	}
	switch {
	case encrypted != (c.tls.Load() != nil):
		return errTurned
	case !cr.Token.Empty() && !encrypted:
		return errCleartextToken
	case !cr.Token.Empty():
		h.Header.Set("Authorization", "Bearer "+cr.Token.Reveal())
	case cr.Username != "":
		if err := c.shows(addr, encrypted); err != nil {
			return fmt.Errorf("%w: %w", cberr.InvalidArgument, err)
		}
		h.Header.Set("Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(cr.Username+":"+cr.Password.Reveal())))
	}
	return nil
}

// errTurned ends the making of a request that would go the other way now.
var errTurned = errors.New("TLS has been turned on or off meanwhile")

// shows is Options.Shows.
func (c *Client) shows(addr string, encrypted bool) error {
	if c.o.Shows == nil {
		return nil
	}
	return c.o.Shows(addr, encrypted)
}

// Connections is how many connections to services are open.
func (c *Client) Connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}
