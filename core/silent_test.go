package core_test

import (
	"math/rand/v2"
	"sync"
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

// fiveNodes runs f with a client of five nodes, each with one connection.
func fiveNodes(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(5), mock.Bucket("default", 64), mock.Virtual(),
			mock.Latency(100*time.Microsecond))
		b := open(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		f(t, m, b)
	})
}

// linkOf is the connection to a node.
func linkOf(t *testing.T, m *mock.Cluster, node int) *mock.Link {
	t.Helper()
	for _, l := range m.Network().Links() {
		if l.RemoteAddr() == m.Node(node).Addr() {
			return l
		}
	}
	t.Fatal("no connection to node")
	return nil
}

// A connection whose other end has vanished without a word is found out as soon as a call on it has expired, not when
// its node's turn comes to be asked for its cluster map, which with five nodes takes up to fifteen seconds.
func TestASilentConnectionIsFoundOutByACallThatExpires(t *testing.T) {
	for node := range 5 {
		for _, timeout := range []time.Duration{100 * time.Millisecond, 2500 * time.Millisecond} {
			fiveNodes(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				key := keyOn(t, b, m.Node(node).Addr())
				time.Sleep(time.Second)
				l := linkOf(t, m, node)
				l.Up().Drop()
				l.Down().Drop()
				began := time.Now()
				for {
					if _, err := kv.Do(ctx(t), b,
						kv.Upsert{Key: key, Common: kv.Common{Timeout: timeout}}); err == nil {
						break
					}
					require.Less(t, time.Since(began), time.Minute)
				}
				require.LessOrEqual(t, time.Since(began), timeout+time.Second+200*time.Millisecond)
				for i := range 5 {
					_, err := kv.Do(ctx(t), b, kv.Upsert{
						Key:    keyOn(t, b, m.Node(i).Addr()),
						Common: kv.Common{Timeout: timeout},
					})
					require.NoError(t, err)
				}
			})
		}
	}
}

// However many calls expire, a connection is asked for one sign of life at a time; and one that brings it stays.
func TestASignOfLifeIsAskedForOnceAtATime(t *testing.T) {
	for _, alive := range []bool{false, true} {
		fiveNodes(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			key := keyOn(t, b, m.Node(0).Addr())
			l, hellos, noops := linkOf(t, m, 0), m.Frames(memd.OpHello), m.Frames(memd.OpNoop)
			if alive {
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpNoop}}, mock.Delay(900*time.Millisecond))
			} else {
				l.Down().Drop() // requests still arrive
			}
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					_, err := kv.Do(t.Context(), b, kv.Get{Key: key, Common: kv.Common{Timeout: 100*time.Millisecond +
						time.Duration(i)*15*time.Millisecond}})
					if i < 40 || alive {
						require.ErrorIs(t, err, cberr.UnambiguousTimeout)
					}
				})
			}
			wg.Wait()
			time.Sleep(200 * time.Millisecond)
			require.Equal(t, noops+1, m.Frames(memd.OpNoop))
			time.Sleep(2 * time.Second)
			if alive {
				require.Equal(t, hellos, m.Frames(memd.OpHello))
			} else {
				require.Equal(t, hellos+1, m.Frames(memd.OpHello))
			}
		})
	}
}

// While the bytes of a large document come in, calls behind it may expire: the connection is not silent.
func TestALargeAnswerIsNoSilence(t *testing.T) {
	fiveNodes(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		value := make([]byte, 8<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(value) // nothing that could be compressed
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: value})
		require.NoError(t, err)
		hellos := m.Frames(memd.OpHello)
		linkOf(t, m, 0).Down().SetBandwidth(2 << 20)
		large := kv.Start(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 20 * time.Second}})
		for range 50 {
			_, err := kv.Do(ctx(t), b, kv.Exists{Key: key, Common: kv.Common{Timeout: 50 * time.Millisecond}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		_, err = large.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, hellos, m.Frames(memd.OpHello))
	})
}

// A durable write that its node takes long for may hold up what comes after it on its connection: that is no silence,
// neither for calls that expire behind it nor for the request for the cluster map.
func TestADurableWriteIsNoSilence(t *testing.T) {
	fiveNodes(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		hellos := m.Frames(memd.OpHello)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet, memd.OpNoop, memd.OpGetClusterConfig}, Nodes: []int{0}},
			mock.Drop())
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Delay(28*time.Second))
		write := kv.Start(t.Context(), b, kv.Upsert{
			Key: key, Durability: memd.DurabilityMajority, Common: kv.Common{Timeout: 30 * time.Second},
		})
		for range 20 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 50 * time.Millisecond}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		_, err := write.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, hellos, m.Frames(memd.OpHello))
	})
}
