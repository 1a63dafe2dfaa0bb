package chaos

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Faults that are counted elsewhere than in the tables below.
const (
	faultSlow         = "a node reads slowly"
	faultFull         = "a connection is full, and a call waits for room"
	faultMemory       = "the memory is close to its limit"
	faultNoDescriptor = "a connection fails: no descriptor is left"
	faultCancelled    = "many calls are cancelled at once"
	faultClosed       = "a client is closed under load"
)

// nodeFault happens to a node. It is over when act returns; ctx ends it early.
type nodeFault struct {
	name string
	act  func(ctx context.Context, rd *round, n *sockets, r *rand.Rand) error
}

var nodeFaults = []nodeFault{
	{"a node is killed", func(ctx context.Context, rd *round, n *sockets, r *rand.Rand) error {
		n.kill()
		sleep(ctx, between(r, 50*time.Millisecond, 700*time.Millisecond))
		return rd.restart(n)
	}},
	{"a node is stopped", func(ctx context.Context, _ *round, n *sockets, r *rand.Rand) error {
		n.pause()
		sleep(ctx, between(r, 100*time.Millisecond, 1500*time.Millisecond))
		n.resume()
		return nil
	}},
	{"a node is killed while it is stopped", func(ctx context.Context, rd *round, n *sockets, r *rand.Rand) error {
		n.pause()
		sleep(ctx, between(r, 50*time.Millisecond, 500*time.Millisecond))
		n.kill()
		return rd.restart(n)
	}},
	{"a node resets its connections", func(_ context.Context, _ *round, n *sockets, _ *rand.Rand) error {
		n.say(nodeReset)
		return nil
	}},
}

func slowly(ctx context.Context, n *sockets, r *rand.Rand) {
	n.say(nodeSlow)
	sleep(ctx, between(r, 300*time.Millisecond, 1500*time.Millisecond))
	n.say(nodeFast)
}

// clusterFault happens behind the nodes until end is called, which gives how often a request or a connection has met
// it.
type clusterFault struct {
	name string
	act  func(m *mock.Cluster, r *rand.Rand) (end func() int)
}

func answers(name string, f func(r *rand.Rand) mock.Fault, ops ...memd.Opcode) clusterFault {
	return clusterFault{name, func(m *mock.Cluster, r *rand.Rand) (end func() int) {
		in := m.Inject(mock.Match{Opcodes: ops, Times: 1 + r.IntN(10)}, f(r))
		return func() int {
			in.Remove()
			return in.Fired()
		}
	}}
}

// done is the end of what happens at once, or has failed.
func done(err error) (end func() int) {
	return func() int {
		if err != nil {
			return 0
		}
		return 1
	}
}

func always(f mock.Fault) func(*rand.Rand) mock.Fault {
	return func(*rand.Rand) mock.Fault { return f }
}

func delayed(r *rand.Rand) mock.Fault { return mock.DelayReply(between(r, 0, 300*time.Millisecond)) }

var documents = []memd.Opcode{
	memd.OpGet, memd.OpSet, memd.OpAdd, memd.OpDelete, memd.OpIncrement, memd.OpAppend, memd.OpPrepend, memd.OpReplace,
	memd.OpDecrement, memd.OpTouch, memd.OpGAT, memd.OpGetReplica, memd.OpSubdocMultiLookup,
	memd.OpSubdocMultiMutation,
}

var handshakes = []memd.Opcode{
	memd.OpHello, memd.OpSASLStep, memd.OpSASLAuth, memd.OpSelectBucket, memd.OpGetErrorMap, memd.OpGetClusterConfig,
}

var clusterFaults = []clusterFault{
	{"a vbucket moves", func(m *mock.Cluster, r *rand.Rand) (end func() int) {
		return done(m.MoveVBucket(bucketName, r.IntN(vbuckets), r.IntN(nodes)))
	}},
	{"the cluster closes connections", func(m *mock.Cluster, r *rand.Rand) (end func() int) {
		return done(m.CloseConns(r.IntN(nodes)))
	}},
	answers("an answer is late", delayed, documents...),
	answers("an answer is lost", always(mock.DropReply()), documents...),
	answers("a request is lost", always(mock.Drop()), documents...),
	answers("the connection ends after the work", always(mock.CloseAfter()), documents...),
	answers("the connection ends in an answer", func(r *rand.Rand) mock.Fault { return mock.Truncate(r.IntN(30)) },
		documents...),
	answers("a node is short of memory", always(mock.Status(memd.StatusTmpFail)), documents...),
	answers("a node says NOT_MY_VBUCKET", always(mock.NotMyVBucket(true, nil)), documents...),
	answers("an answer comes twice", always(mock.Twice()), documents...),
	answers("the connection ends in the handshake", always(mock.CloseAfter()), handshakes...),
	answers("the handshake is slow", delayed, handshakes...),
}

// disturb makes faults until ctx ends or the client process does, and leaves none behind.
func (rd *round) disturb(ctx context.Context, over chan error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i := range rd.nodes {
		r := rand.New(rand.NewPCG(rd.o.Seed, uint64(rd.number*10+i)))
		wg.Go(func() { rd.disturbNode(ctx, rd.nodes[i], r) })
	}
	if rd.m != nil {
		wg.Go(func() { rd.disturbCluster(ctx, rand.New(rand.NewPCG(rd.o.Seed, uint64(rd.number*10+nodes)))) })
		wg.Go(func() { rd.rearrange(ctx, rand.New(rand.NewPCG(rd.o.Seed, uint64(rd.number*10+nodes+1)))) })
	}
	select {
	case <-ctx.Done():
	case err := <-over:
		over <- err
		stop()
	}
	wg.Wait()
}

func (rd *round) disturbNode(ctx context.Context, n *sockets, r *rand.Rand) {
	for {
		sleep(ctx, between(r, 100*time.Millisecond, time.Second))
		if ctx.Err() != nil || !rd.disturbOnce(ctx, n, r) {
			return
		}
	}
}

// disturbOnce makes one fault of a node's process; false when that has failed.
func (rd *round) disturbOnce(ctx context.Context, n *sockets, r *rand.Rand) bool {
	n.turn.Lock()
	defer n.turn.Unlock()
	if rd.sc.slow && r.IntN(2) == 0 {
		slowly(ctx, n, r)
		rd.report.fired(faultSlow, 1)
		return true
	}
	f := nodeFaults[r.IntN(len(nodeFaults))]
	if err := f.act(ctx, rd, n, r); err != nil {
		rd.report.violate("setup", "%s: %v", f.name, err)
		return false
	}
	rd.report.fired(f.name, 1)
	return true
}

func (rd *round) disturbCluster(ctx context.Context, r *rand.Rand) {
	ends := map[string][]func() int{}
	for ctx.Err() == nil {
		sleep(ctx, between(r, 5*time.Millisecond, 100*time.Millisecond))
		f := clusterFaults[r.IntN(len(clusterFaults))]
		ends[f.name] = append(ends[f.name], f.act(rd.m, r))
	}
	for name, all := range ends {
		for _, end := range all {
			rd.report.fired(name, end())
		}
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)+1))
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func portOf(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// free reports whether the ports can be listened at.
func free(ports []port) bool {
	for _, p := range ports {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.Listen)
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
