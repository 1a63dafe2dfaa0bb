package field_test

import (
	"context"
	"fmt"
	"net"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// unreached gives a bucket of two nodes whose connections have ended. The next ones to the nodes of the numbers are not
// made before answers is called for them.
func unreached(t *testing.T, nodes ...int) (m *mock.Cluster, b *core.Bucket, answers func(node int)) {
	t.Helper()
	m = mock.Start(t, mock.Nodes(2), mock.Replicas(1), mock.Bucket("default", 1), mock.Virtual())
	var mu sync.Mutex
	held := map[string]chan struct{}{}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		hold := held[addr]
		mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return m.Dial(ctx, network, addr)
	}
	b = openMock(t, m, func(cfg *core.Config) { cfg.Net.Dial = dial })
	for _, n := range nodes {
		mu.Lock()
		held[m.Node(n).Addr()] = make(chan struct{})
		mu.Unlock()
		require.NoError(t, m.ResetConns(n))
	}
	time.Sleep(10 * time.Millisecond)
	return m, b, func(node int) { close(held[m.Node(node).Addr()]) }
}

// A call waits for the connection to its node, and its vbucket moves to another one while the node stays a member: it
// goes there as soon as the map says so. That is no retry.
func TestACallThatWaitsForAConnectionFollowsItsVBucket_D238(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, b, _ := unreached(t, 1)
		require.NoError(t, m.MoveVBucket("default", 0, 1))
		time.Sleep(100 * time.Millisecond)
		var all []kv.Future[kv.MutationResult]
		for _, block := range []bool{false, true} {
			op := kv.Upsert{Key: []byte("k"), Common: kv.Common{Block: block}}
			all = append(all, kv.Start(context.Background(), b, op))
		}
		time.Sleep(100 * time.Millisecond)
		moved := time.Now()
		require.NoError(t, m.MoveVBucket("default", 0, 0))
		for _, f := range all {
			_, err := f.Wait(within(t, 10*time.Second))
			require.NoError(t, err)
			require.Less(t, time.Since(moved), 50*time.Millisecond)
		}
	})
}

// The connection to a node has ended, and another node was asked whether it has a newer map. It gets one after that and
// says so: it is asked again at once, and the node that cannot be reached is not waited for.
func TestAMapIsAskedForWhereItIs_D239(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, b, _ := unreached(t, 1)
		require.NoError(t, m.MoveVBucket("default", 0, 1))
		time.Sleep(100 * time.Millisecond)
		_, rev := m.Revision()
		got, ok := b.Map()
		require.True(t, ok)
		require.Equal(t, rev, got.Rev)
	})
}

// A call that any node may take waits for one connection, and another one is there first.
func TestACallForAnyNodeTakesTheFirstConnection_D238(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, answers := unreached(t, 0, 1)
		var all []kv.Future[kv.Result]
		for range 4 {
			all = append(all, kv.Start(context.Background(), b, kv.Noop{}))
		}
		pinned := kv.Start(context.Background(), b, kv.Noop{Pinned: true, Node: 1})
		time.Sleep(100 * time.Millisecond)
		answers(0)
		there := time.Now()
		for _, f := range all {
			_, err := f.Wait(within(t, 10*time.Second))
			require.NoError(t, err)
			require.Less(t, time.Since(there), 50*time.Millisecond)
		}
		answers(1)
		_, err := pinned.Wait(within(t, 10*time.Second))
		require.NoError(t, err)
	})
}

// Hedged reads wait for connections until their deadline. At that moment several timers of theirs are due. Whichever
// runs first, nothing is asked for again, and the error says what the read of the active copy waited for.
func TestAHedgedReadEndsAtItsDeadlineInOneWay_D240(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, _ := unreached(t, 0, 1)
		get := kv.Get{
			Key: []byte("k"), Common: kv.Common{Timeout: 100 * time.Millisecond},
			Hedge: &kv.Hedge{MaxAttempts: 2, Delay: 30 * time.Millisecond},
		}
		for range 50 { // the attempts to connect take longer
			_, err := kv.Do(context.Background(), b, get)
			require.ErrorContains(t, err, "unambiguous timeout in 100ms, waiting for a connection to its node")
		}
	})
}

// A node has two connections. The login of one is refused while the other one is stuck in its handshake: the calls of
// both are told, not only those that wait for the first.
func TestARefusedLoginIsToldToCallsOfTheOtherConnection_D244(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 1), mock.Virtual())
		var stuck atomic.Bool
		first := make(chan struct{})
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch which, _ := pprof.Label(ctx, "couchcore.connection"); {
			case !stuck.Load():
			case which == "1":
				<-ctx.Done()
			default:
				<-first
			}
			return m.Dial(ctx, network, addr)
		}
		b := openMock(t, m, func(cfg *core.Config) { cfg.KV.Connections, cfg.Net.Dial = 2, dial })
		time.Sleep(time.Millisecond)
		node := 0
		if _, nodes, ok := b.Locate([]byte("k")); ok && nodes[0] != m.Node(0).Addr() {
			node = 1
		}
		stuck.Store(true)
		login := mock.Match{Nodes: []int{node}, Opcodes: []memd.Opcode{memd.OpSASLAuth}}
		m.Inject(login, mock.Status(memd.StatusAuthError))
		require.NoError(t, m.ResetConns(node))
		time.Sleep(time.Millisecond)
		var all []kv.Future[kv.MutationResult]
		for i := range 20 {
			all = append(all, kv.Start(context.Background(), b, kv.Upsert{Key: fmt.Appendf(nil, "k-%d", i)}))
		}
		time.Sleep(100 * time.Millisecond)
		close(first)
		told := time.Now()
		for _, f := range all {
			_, err := f.Wait(within(t, 10*time.Second))
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
			require.Less(t, time.Since(told), 50*time.Millisecond)
		}
	})
}
