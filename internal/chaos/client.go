package chaos

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/canary"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// clientOptions are what a client's process is told.
type clientOptions struct {
	Seed     uint64        `json:"seed"`
	Scenario string        `json:"scenario"` // "" is a soak
	Hosts    []string      `json:"hosts"`
	CA       string        `json:"ca"` // in PEM; "" is without TLS
	Plant    string        `json:"plant"`
	Every    time.Duration `json:"every"` // of a soak: between two samples
}

// What the supervisor writes to a client's process.
const (
	sayCalm = "calm" // there are no faults any more
	sayEnd  = "end"
)

const (
	deadlineSlack = 50 * time.Millisecond
	coarseSlack   = 2 * time.Second // where not all is seen that holds a call up: see doc.go
	hops          = 4               // goroutines that run until a caller has its outcome: see doc.go
	closeLimit    = 2 * time.Second
	leftLimit     = 3 * time.Second // until what Close has ended is gone
	calmTimeout   = 5 * time.Second
	manyClusters  = 10
)

// client is a client's process.
type client struct {
	o           clientOptions
	sc          *scenario
	to          *wire
	watch       *watch
	delays      *delays // nil where it is not wanted, or the system does not count
	secrets     canary.Forms
	balance     balance
	worker      sync.WaitGroup // that make calls
	helpers     sync.WaitGroup // that close, cancel and take descriptors away
	stopHelpers context.CancelFunc
	opened      []atomic.Pointer[opened]
	storm       atomic.Pointer[storm]
	stopped     atomic.Bool
	closed      chan struct{} // is closed when all clients are: workers do not pause any more
	slack       time.Duration // of a call that ends after its deadline
	calmed      atomic.Int64  // when there were no faults any more, in ns
	calls       atomic.Int64
	busy        atomic.Int64
	between     atomic.Int64
	mu          sync.Mutex
	verbs       map[string]int // calls that have succeeded, by what they do
	faults      map[string]int
}

// opened is a client that is open, or was.
type opened struct {
	c      *core.Cluster
	b      *core.Bucket
	closed atomic.Int64 // when Close returned, in ns
}

// Client is a client's process: it makes calls until it is told to end, and tells how they ended.
func Client(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	c := &client{
		to: newWire(out), watch: newWatch(), verbs: map[string]int{}, faults: map[string]int{},
		closed: make(chan struct{}),
	}
	c.secrets.Add(mock.DefaultUser, password)
	if !lines.Scan() {
		return fmt.Errorf("a client without options: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(lines.Bytes(), &c.o); err != nil {
		return err
	}
	said := make(chan string)
	go func() {
		defer close(said)
		for lines.Scan() {
			said <- lines.Text()
		}
	}()
	ctx, stop := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { c.to.run(ctx) })
	if c.o.Scenario == "" {
		return c.soak(said)
	}
	if c.sc = scenarioNamed(c.o.Scenario); c.sc == nil {
		return fmt.Errorf("no scenario %q", c.o.Scenario)
	}
	if l, err := listen("127.0.0.1:0"); err == nil { // the runtime's own descriptors are there from now on
		_ = l.Close()
	}
	goroutines, files := runtime.NumGoroutine(), descriptors()
	stopWatch := c.startWatch(runtime.GOMAXPROCS(0))
	defer stopWatch()
	if err := c.openAll(); err != nil {
		return err
	}
	c.to.send(message{Ready: true})
	c.begin()
	for line := range said {
		if line == sayEnd {
			break
		}
		c.calm()
	}
	c.end()
	stopWatch() // it starts goroutines, and has files
	c.left(goroutines, files)
	c.sum()
	return nil
}

// startWatch starts what sees that the process or its threads are not run, and says how late calls may end beside that.
func (c *client) startWatch(processors int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { c.watch.run(ctx) })
	if processors > 1 {
		c.delays = newDelays(procRoot)
	}
	if c.delays != nil {
		wg.Go(func() { c.delays.run(ctx) })
	}
	c.slack = slackOf(processors, c.delays != nil)
	return func() {
		cancel()
		wg.Wait()
	}
}

// config is that of a client of the scenario.
func (c *client) config() core.Config {
	cfg := core.Config{CloseTimeout: closeLimit}
	cfg.Seeds.Hosts = c.o.Hosts
	cfg.Net.Network, cfg.Net.ConnectTimeout, cfg.Net.ReconnectMax = "external", 2*time.Second, 500*time.Millisecond
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(password)
	cfg.Maps.PollInterval, cfg.Maps.PollTimeout = 500*time.Millisecond, 500*time.Millisecond
	if c.o.CA != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(c.o.CA))
		cfg.TLS.Config = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	cfg.Observe.Hook = &c.balance
	cfg.Observe.Log = slog.New(slog.NewTextHandler(sink{c}, nil))
	if c.sc == nil {
		return cfg
	}
	cfg.Limits.Queue, cfg.Limits.InFlight = c.sc.queue, c.sc.queue
	cfg.KV.Compression.Off = c.sc.buffer > 0 // so that values fill the sockets
	if c.sc.clusters > manyClusters {        // SCRAM would be most of what they do
		cfg.Auth.Mechanisms, cfg.Auth.AllowPlain = []string{"PLAIN"}, true
	}
	if c.sc.buffer > 0 || c.sc.hogs {
		cfg.Net.Dial = c.dial
	}
	return cfg
}

// dial makes small sockets, and counts what fails for want of a descriptor.
func (c *client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		if outOfDescriptors(err) {
			c.fired(faultNoDescriptor, 1)
		}
		return nil, err
	}
	if tcp, ok := nc.(*net.TCPConn); ok && c.sc.buffer > 0 {
		_ = tcp.SetReadBuffer(c.sc.buffer)
		_ = tcp.SetWriteBuffer(c.sc.buffer)
	}
	return nc, nil
}

func (c *client) open() (*opened, error) {
	cl, err := core.Open(context.Background(), c.config())
	if err != nil {
		return nil, err
	}
	return &opened{c: cl, b: cl.Bucket(bucketName)}, nil
}

func (c *client) openAll() error {
	c.opened = make([]atomic.Pointer[opened], c.sc.clusters)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for i := range c.opened {
		o, err := c.open()
		if err != nil {
			return err
		}
		c.opened[i].Store(o)
	}
	for i := range c.opened {
		if err := c.opened[i].Load().b.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the workers, and what disturbs them from inside of the process.
func (c *client) begin() {
	ctx, stop := context.WithCancel(context.Background())
	c.stopHelpers = stop
	c.storm.Store(newStorm())
	for id := range c.sc.workers {
		w := &worker{client: c, id: id, r: rand.New(rand.NewPCG(c.o.Seed, uint64(id)))}
		c.worker.Go(w.run)
	}
	helper := func(n uint64, wanted bool, f func(ctx context.Context, r *rand.Rand)) {
		if wanted {
			c.helpers.Go(func() { f(ctx, rand.New(rand.NewPCG(c.o.Seed, 1<<32+n))) })
		}
	}
	helper(0, c.sc.cancels, c.cancelMany)
	helper(1, c.sc.hogs, c.exhaust)
	helper(2, c.sc.memory > 0, c.weigh)
	for i := range c.opened {
		helper(uint64(3+i), c.sc.closes, func(ctx context.Context, r *rand.Rand) { c.reopen(ctx, r, i) })
	}
}

// calm ends what disturbs from inside. Calls that begin a while later are to succeed.
func (c *client) calm() {
	c.stopHelpers()
	c.helpers.Wait()
	c.calmed.Store(time.Now().UnixNano())
}

// end closes all clients with calls under way, and waits for the workers.
func (c *client) end() {
	c.calmed.Store(0)
	c.stopHelpers()
	c.helpers.Wait()
	var wg sync.WaitGroup
	for i := range c.opened {
		wg.Go(func() { c.closeOne(c.opened[i].Load()) })
	}
	wg.Wait()
	c.stopped.Store(true)
	close(c.closed)
	c.worker.Wait()
}

// closeOne closes a client and judges how long that takes.
func (c *client) closeOne(o *opened) {
	if text, err := json.Marshal(o.c.Diagnostics()); err != nil || c.secrets.In(text) {
		c.violate("P13", "", "the password is in the diagnostics, or these cannot be written: %v", err)
	}
	if c.sc.queue > 0 {
		c.fired(faultFull, refusedByAFullConnection(o.c.RetryStats()))
	}
	began := time.Now()
	err := o.c.Close()
	now := time.Now()
	o.closed.Store(now.UnixNano())
	c.fired(faultClosed, 1)
	late := now.Sub(began) - closeLimit - deadlineSlack
	stalled := c.watch.stalled(began, now)
	if late > 0 && late > hops*stalled || err != nil && stalled < closeLimit/4 {
		c.violate("P11", "", "Close took %v of %v, the process was not run for %v: %v", now.Sub(began), closeLimit,
			stalled, err)
	}
}

// refusedByAFullConnection counts the attempts that found no room and were made again.
func refusedByAFullConnection(all retry.Stats) (n int) {
	for _, of := range all.Operations {
		r := of.Reasons[retry.EndpointNotWritable]
		n += int(r.Retries + r.Transparent)
	}
	return n
}

// reopen closes a client at any moment, in its handshakes too, and opens another one in its place.
func (c *client) reopen(ctx context.Context, r *rand.Rand, i int) {
	for {
		sleep(ctx, between(r, 0, 600*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		o, err := c.open()
		if err != nil {
			c.violate("P11", "", "a client could not be opened: %v", err)
			return
		}
		c.closeOne(c.opened[i].Swap(o))
	}
}

// storm is a context that many calls have.
type storm struct {
	ctx   context.Context
	end   context.CancelFunc
	ended atomic.Int64 // ns
}

func newStorm() *storm {
	s := new(storm)
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// cancelMany ends the context of all calls under way, again and again.
func (c *client) cancelMany(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		sleep(ctx, between(r, time.Millisecond, 150*time.Millisecond))
		old := c.storm.Swap(newStorm())
		old.ended.Store(time.Now().UnixNano())
		old.end()
		c.fired(faultCancelled, 1)
	}
}

// exhaust takes away the descriptors that are not in use yet, for a time, again and again.
func (c *client) exhaust(ctx context.Context, r *rand.Rand) {
	const plenty = 1 << 12
	for ctx.Err() == nil {
		sleep(ctx, between(r, 50*time.Millisecond, 300*time.Millisecond))
		if err := limitDescriptors(3); err != nil {
			c.violate("setup", "", "descriptors cannot be limited: %v", err)
			return
		}
		sleep(ctx, between(r, 100*time.Millisecond, 700*time.Millisecond))
		if err := limitDescriptors(plenty); err != nil {
			c.violate("setup", "", "descriptors cannot be had again: %v", err)
			return
		}
	}
}

// left judges what is left when all is closed: nothing is to be.
func (c *client) left(goroutines, files int) {
	switch c.o.Plant {
	case plantGoroutine:
		leakGoroutine()
	case plantDescriptor:
		defer runtime.KeepAlive(leakDescriptor()) // files that are garbage are closed
	}
	until := time.Now().Add(leftLimit)
	for time.Now().Before(until) && (runtime.NumGoroutine() > goroutines || descriptors() > files) {
		time.Sleep(5 * time.Millisecond)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 0 {
		var text bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&text, 1)
		c.to.send(message{Violation: &Violation{
			Property: "P11", What: fmt.Sprintf("%d goroutines are left", n), Detail: head(text.String(), 60),
			Count: goroutinesLeft, N: n,
		}})
	}
	if n := descriptors() - files; n > 0 {
		c.to.send(message{Violation: &Violation{
			Property: "P11", What: fmt.Sprintf("%d descriptors are left", n), Count: descriptorsLeft, N: n,
		}})
	}
	if b, e := c.balance.began.Load(), c.balance.ended.Load(); b != e {
		c.violate("P15", endedNotOnce, "%d operations have begun, %d have ended", b, e)
	}
}

// sum tells what was counted.
func (c *client) sum() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to.send(message{Summary: &summary{
		Calls: int(c.calls.Load()), Verbs: c.verbs, Busy: int(c.busy.Load()),
		WorstStall: c.watch.worst.Load(), Faults: c.faults, Strict: c.slack == deadlineSlack,
		Between: int(c.between.Load()),
	}})
}

func (c *client) violate(property string, count counter, format string, args ...any) {
	c.to.send(message{Violation: &Violation{Property: property, What: fmt.Sprintf(format, args...), Count: count}})
}

func (c *client) fired(name string, n int) {
	c.mu.Lock()
	c.faults[name] += n
	c.mu.Unlock()
}

func (c *client) succeeded(verb string) {
	c.mu.Lock()
	c.verbs[verb]++
	c.mu.Unlock()
}

// balance counts operations.
type balance struct{ began, ended atomic.Int64 }

// Begin implements core.OperationHook.
func (b *balance) Begin(ctx context.Context, op core.Operation) context.Context {
	b.began.Add(1)
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && !op.Parts {
		a.counts.CompareAndSwap(0, time.Now().UnixNano())
	}
	return ctx
}

// End implements core.OperationHook.
func (b *balance) End(context.Context, core.Operation, core.OperationEnd) { b.ended.Add(1) }

// sink takes the client's log.
type sink struct{ c *client }

func (s sink) Write(line []byte) (int, error) {
	switch {
	case s.c.secrets.In(line):
		s.c.violate("P13", "", "the password is in the log")
	case bytes.Contains(line, []byte("level="+slog.LevelError.String())):
		s.c.violate("P16", "", "the log says %s", line)
	}
	return len(line), nil
}

var errNever = errors.New("it has not ended")
