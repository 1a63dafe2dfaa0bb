package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/canary"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

const bucketName = "default"

// world is one run: everything in it lives in one bubble.
type world struct {
	*plan
	m       *mock.Cluster
	c       *core.Cluster
	b       *core.Bucket
	began   time.Time
	tap     *taps
	report  *Report
	flushes []span         // when the bucket lost its documents
	applied []mock.Applied // to buckets that are gone
	over    chan struct{}  // closed at the end, for planted defects
	later   later

	mu       sync.Mutex
	balance  *balance
	meters   *meters
	password string
	ledger   []*entry
	calls    int
	latest   map[string]*entry // reads and removals that were begun last, by key
	parked   int               // most at one time

	statements []*statement
	executed   map[string]int // how often, by a statement's token
	asked      map[string]int // requests to services, by token
	looked     []asking
	told       map[string]order // when they may come back
	packed     map[string]bool  // whether the last answer was, by token
	bomb       []byte           // such an answer
	hungUp     map[string]int   // instead of an answer, by token

	driven      map[string][]time.Time // answers that drive a loop, by what was asked
	scanned     []scanning
	scannedLast *scanning

	facts   *facts
	counts  retry.Stats       // when the client was closed
	logs    map[string]string // what the documents that calls append to hold at the end
	virtual time.Duration     // how long the run took

	newest  version         // of the maps that were seen in use
	members []membership    // of those, in order
	renewed []time.Duration // when the password became another one
	unused  []unused
	ids     ids
	given   []*givenUp // answers that gave their connections up
	queued  int        // most calls that waited for one connection

	lastGivenUp map[string]time.Time // by address
	forged      map[time.Time]bool   // when nodes have proven nothing
	bars        *mock.Injection      // refuses logins at the beginning
	shows       map[string]showing   // certificates, by host
	shown       map[string][]shown   // for how long they showed it
	encrypted   []string             // ports; none without TLS
	named       map[string]bool      // hosts that the configuration names, or its SRV record
	stalls      map[string]*stall    // of nodes that are silent, by address
	clock       atomic.Int64         // how far the client's clock is off
	slow        atomic.Int64         // how much longer it takes to connect
	jumps       []jump               // when it was
	moods       moods
	empty       unreadiness

	errorMap map[memd.Status]mapEntry // the nodes'
	closedAt time.Duration            // when the client began to be closed
	finished time.Duration            // when the client was closed
	secrets  canary.Forms
	closing  atomic.Bool

	settled   bool          // all faults are over
	faulted   time.Duration // when the last one was
	broken    span          // when connections were broken after that
	disturbed []breakage
	out       []breakage // nodes that have left
}

// span is a stretch of the run.
type span struct{ from, to time.Duration }

// since is the time of the run.
func (w *world) since() time.Duration { return time.Since(w.began) }

// start makes the cluster, the network and the client.
func (w *world) start() error {
	p := w.plan
	m, err := mock.New(w.clusterOptions()...)
	if err != nil {
		return err
	}
	w.m, w.began = m, time.Now()
	w.tap = newTaps()
	w.serves()
	w.executes()
	w.latest, w.lastGivenUp = map[string]*entry{}, map[string]time.Time{}
	w.driven, w.forged, w.named = map[string][]time.Time{}, map[time.Time]bool{}, map[string]bool{}
	w.shows, w.shown, w.stalls = map[string]showing{}, map[string][]shown{}, map[string]*stall{}
	w.oddErrors()
	w.emptyAtFirst()
	w.bar()
	m.Network().OnLink(w.link)
	cfg, err := core.ParseConnString(cmp.Or(m.TLSConnString(), m.ConnString()))
	if err != nil {
		return err
	}
	w.password = fmt.Sprintf("canary-%016x", w.d.roll(text("password")))
	w.secrets.Add(mock.DefaultUser, w.password)
	if err := m.SetPassword(mock.DefaultUser, w.password); err != nil {
		return err
	}
	w.logsIn(&cfg)
	cfg.Observe.Log, cfg.Retry.Strategy = w.logger(), everyones{w: w}
	cfg.Retry.JitterSource = w.d.now
	w.encrypts(&cfg)
	w.callbacks(&cfg)
	if p.names {
		cfg.Seeds.SRV, cfg.Seeds.Resolver = srvName, liar{w}
	}
	cfg.Maps.NoNotifications, cfg.Maps.PollInterval, cfg.CloseTimeout, cfg.KV.Connections = !p.pushes, pollInterval,
		closeLimit, p.connections
	cfg.Net.ConnectTimeout = 3*time.Second + 101
	cfg.KV.Compression.Off, cfg.KV.ResourceUnits = !p.packs, true
	cfg.Limits.Row, cfg.HTTP.IdleTimeout = 1<<20, time.Second+709 // not when a Retry-After is over
	cfg.Limits.Parked, cfg.Limits.Queue, cfg.Limits.InFlight = p.limits()
	if p.Break == UnboundedParks {
		cfg.Limits.Parked = 0
	}
	if p.breaker {
		cfg.Retry.CircuitBreaker = &core.CircuitBreaker{
			Volume: 8, SleepWindow: time.Second + 211, CanaryTimeout: time.Second + 307, RollingWindow: 5*time.Second +
				401,
		}
	}
	w.balance, w.meters = newBalance(w), newMeters(w)
	cfg.Observe.TracerProvider, cfg.Observe.Hook, cfg.Observe.MeterProvider = w.balance, w.balance, w.meters
	cfg.Observe.Conventions, cfg.Observe.Retry = core.ConventionsStable, waits{observer{w}}
	w.plant()
	w.c, err = core.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	w.b = w.c.Bucket(bucketName)
	return nil
}

// clusterOptions are those of the mock cluster.
func (w *world) clusterOptions() []mock.Option {
	p := w.plan
	opts := []mock.Option{
		mock.Nodes(p.nodes), mock.Replicas(p.replicas), mock.Virtual(), mock.RecordFrames(), mock.Seed(p.Seed),
		mock.ReportUnits(), mock.AnswersApart(time.Nanosecond),
		mock.Bucket(bucketName, p.vbuckets, w.bucketOptions()...),
	}
	if p.single {
		for n := 1; n < maxNodes; n++ {
			opts = append(opts, mock.NodeServices(n, mock.KVService, mock.QueryService, mock.ViewsService))
		}
	}
	if p.tls {
		opts = append(opts, mock.TLS(), mock.InTheClear(newIntake))
	}
	if p.whole {
		opts = append(opts, mock.WithoutFeatures(memd.FeatureClustermapChangeBrief))
	}
	return opts
}

// credentials are those of the moment.
func (w *world) credentials(ctx context.Context) (core.Credentials, error) {
	w.behave(ctx, credentials, longestDial)
	w.mu.Lock()
	defer w.mu.Unlock()
	return core.Credentials{Username: mock.DefaultUser, Password: core.NewSecret(w.password)}, nil
}

// dial takes a time of its own, for each connection and instant, and counts.
func (w *world) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.tap.mu.Lock()
	w.tap.dials[addr] = append(w.tap.dials[addr], time.Now())
	n := len(w.tap.dials[addr])
	w.tap.mu.Unlock()
	bucket, _ := pprof.Label(ctx, "couchcore.bucket")
	connection, _ := pprof.Label(ctx, "couchcore.connection")
	took := w.d.between(w.latency, 4*w.latency, text("dial"), text(addr), text(bucket), text(connection),
		uint64(time.Now().UnixNano()))
	sleep(ctx, took+time.Duration(w.slow.Load()))
	w.tap.mu.Lock()
	w.tap.arrived[addr]++
	w.tap.mu.Unlock()
	nc, err := w.m.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	// dials that a partition has held up end at one instant
	sleep(ctx, w.d.between(time.Nanosecond, 10*time.Microsecond, text("made"), text(nc.LocalAddr().String())))
	c := &wire{Conn: nc, d: w.d, tap: w.tap, addr: addr, number: n, leaves: w.leaves, answered: w.answered}
	c.flips, c.even, c.aside = func() { w.fired(alertAnswered, 1) }, w.tight, connection == "ordered"
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	w.tap.open++
	w.tap.live[c] = true
	_, port, _ := net.SplitHostPort(addr)
	c.service = port != w.kvPort()
	c.lost = c.service // what a service says is handed on as it comes
	if slices.Contains(w.encrypted, port) {
		c.secret = newSniffer(&w.tap.secrets)
		w.tap.secret = append(w.tap.secret, c)
	}
	return c, nil
}

// link gives a new connection its latency, and delivers its packets one by one: how many of them the client or a node
// puts into one write depends on which of its goroutines was first. Of connections to services only the latency
// matters.
func (w *world) link(l *mock.Link) {
	kv := w.kvPort()
	_, port, _ := net.SplitHostPort(l.RemoteAddr())
	for i, f := range []*mock.Flow{l.Up(), l.Down()} {
		w.pace(f, l.ID()*2+uint64(i), w.latency)
		if port != kv {
			continue
		}
		if !w.tls {
			f.SetPackets(size)
		}
		w.pieces(l, f, whole)
	}
	if port == kv && !w.tls {
		l.Up().SetOrder(before)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls[l.RemoteAddr()].hold(l.Down())
}

// whole cuts nothing.
func whole(n int) int { return n }

// pieces cuts what goes over a direction of a connection. What the client has sent over TLS at one instant arrives at
// one instant, see intake.
func (w *world) pieces(l *mock.Link, f *mock.Flow, size func(n int) int) {
	gap := time.Nanosecond
	if w.tls && f == l.Up() {
		gap = 0
	}
	f.SetPieces(size, gap)
}

// kvPort is the port of the key-value service that the client uses.
func (w *world) kvPort() string {
	_, port, _ := net.SplitHostPort(w.addr(w.m.Node(0)))
	return port
}

// addr is the address of a node's key-value service that the client uses.
func (w *world) addr(n *mock.Node) string {
	if w.tls {
		return n.TLSAddr()
	}
	return n.Addr()
}

// bucketOptions are those of the bucket.
func (w *world) bucketOptions() []mock.BucketOption {
	opts := []mock.BucketOption{mock.WithCollection("s", "c")}
	if w.active {
		opts = append(opts, mock.Compression("active"))
	}
	return opts
}

// pace makes a direction deliver after lo to twice lo, which is anew for each piece.
func (w *world) pace(f *mock.Flow, id uint64, lo time.Duration) {
	w.paceWith(f, id, lo, func() {})
}

// paceWith is pace that says when a latency is asked for.
func (w *world) paceWith(f *mock.Flow, id uint64, lo time.Duration, asked func()) {
	f.SetLatencyFunc(func() time.Duration {
		asked()
		return w.d.between(lo, 2*lo, text("latency"), id, uint64(time.Now().UnixNano()))
	})
}

// Run runs one seed in a bubble of its own and judges it. It must not be called inside a bubble. A deadlock or a panic
// in the run ends the process: a caller that must survive that runs it in a process of its own.
func Run(t *testing.T, o Options) *Report {
	w := &world{plan: draw(o), report: newReport(o)}
	synctest.Test(t, w.run)
	w.Progress.ended()
	w.check()
	return w.report
}

func (w *world) run(*testing.T) {
	w.over = make(chan struct{})
	defer close(w.over)
	ours := goroutinesInBubble() // package testing's own
	if err := w.start(); err != nil {
		w.report.violate("setup", "%v", err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	var faults, workers sync.WaitGroup
	for i := range w.faultsAtOnce() {
		faults.Go(func() { w.disturb(ctx, i) })
	}
	if w.topology || w.loses() {
		faults.Go(func() { w.rearrange(ctx) })
	}
	faults.Go(func() { w.admit(ctx) })
	if w.asks {
		faults.Go(func() { w.ask(ctx, mock.QueryService) })
		faults.Go(func() { w.ask(ctx, mock.AnalyticsService) })
		faults.Go(func() { w.look(ctx, mock.SearchService) })
		faults.Go(func() { w.look(ctx, mock.ViewsService) })
	}
	if w.scans {
		faults.Go(func() { w.scan(ctx) })
	}
	w.startWork(&workers)
	workers.Wait()
	if w.calm {
		stop()
		faults.Wait()
		w.settle()
		w.calmDown()
	}
	w.end()
	stop()
	faults.Wait()
	w.collect()
	c := w.letGo()
	if err := w.m.Close(); err != nil {
		w.report.violate("setup", "%v", err)
	}
	sleep(context.Background(), time.Microsecond) // so long a read takes to see the end, see wire.Read
	synctest.Wait()
	if w.Break == LeakedRoutine {
		never := make(chan struct{})
		defer close(never)
		go func() { <-never }()
		synctest.Wait()
	}
	w.report.GoroutinesLeft = goroutinesInBubble() - ours
	if n := w.report.GoroutinesLeft; n > 0 {
		w.report.violate("P11", "%d goroutines are left after Close", n)
		if w.abandon != nil && w.Break == "" { // the bubble cannot end while they are blocked
			w.check()
			w.abandon(w.report)
		}
	}
	w.checkMemory(c)
}

// end closes the client, with calls in flight unless it was calm.
func (w *world) end() {
	var inFlight sync.WaitGroup
	if !w.calm {
		if w.private { // some of them wait for their retry when the client is closed
			w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
		}
		for i := range 20 {
			inFlight.Go(func() { w.last(i) })
		}
		sleep(context.Background(), w.d.between(time.Microsecond, 20*time.Millisecond, text("end")))
	} else {
		w.finalReads()
		if w.scans {
			w.finalScan()
		}
	}
	w.lastWords()
	w.closing.Store(true)
	began := time.Now()
	w.closedAt = w.since()
	err := w.c.Close()
	if took := time.Since(began); err != nil || took > closeLimit {
		w.report.violate("P11", "Close took %v of %v: %v", took, closeLimit, err)
	}
	w.closed()
	inFlight.Wait()
	w.counted()
	w.tap.mu.Lock()
	open := w.tap.open
	w.tap.mu.Unlock()
	if open != 0 {
		w.report.violate("P11", "%d sockets are open after Close", open)
	}
}

// goroutinesInBubble counts the goroutines of the caller's bubble beside the caller.
func goroutinesInBubble() int {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		if len(buf) > math.MaxInt32 {
			return -1
		}
		buf = make([]byte, 2*len(buf))
	}
	var mine string
	count := 0
	for line := range strings.Lines(string(buf)) {
		if !strings.HasPrefix(line, "goroutine ") {
			continue
		}
		_, bubble, ok := strings.Cut(line, "synctest bubble ")
		bubble, _, _ = strings.Cut(bubble, "]")
		bubble, _, _ = strings.Cut(bubble, ",")
		switch {
		case !ok:
		case mine == "":
			mine = bubble // the first one is the caller
		case bubble == mine:
			count++
		}
	}
	return count
}

// addresses are those of the key-value service of the nodes, in the order of their numbers.
func (w *world) addresses() []string {
	var as []string
	for _, n := range w.m.Nodes() {
		as = append(as, w.addr(n))
	}
	return as
}

func host(addr string) string {
	h, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return h
}

// linksTo are the connections to an address.
func (w *world) linksTo(addr string) []*mock.Link {
	return slices.DeleteFunc(w.m.Network().Links(), func(l *mock.Link) bool { return l.RemoteAddr() != addr })
}

// faultsAtOnce is how many goroutines cause faults.
func (w *world) faultsAtOnce() int { return w.plan.faults }

// settle ends what faults have left behind, unless that is part of the plan.
func (w *world) settle() {
	n := w.m.Network()
	for _, a := range w.addresses() {
		w.heal(a)
		if w.Break != NoRecovery || a != w.addresses()[0] {
			n.Restore(a)
		}
	}
	if !w.harsh {
		w.breaks(everywhere)
		w.reset(n.Links())
	}
	if w.Break == NoRecovery {
		n.Refuse(w.addresses()[0])
		w.reset(n.Links())
	}
	w.goodAgain()
	w.moods.calm()
	w.readyAtLast()
	w.settled, w.faulted = true, w.since()
}
