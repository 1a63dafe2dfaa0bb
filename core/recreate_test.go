package core_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// Fault 42: a bucket that is deleted and created again is another one, with other ids of its collections and, perhaps,
// another number of vbuckets. Meanwhile calls wait with BUCKET_NOT_READY, and then they go on.
func TestABucketIsDeletedAndCreatedAgain_Fault42(t *testing.T) {
	for _, vbuckets := range []int{64, 8} {
		virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			in := kv.Common{Scope: "s", Collection: "c", Timeout: 8 * time.Second}
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("old"), Common: in})
			require.NoError(t, err)
			require.NoError(t, m.DropBucket("default"))
			time.Sleep(time.Second)
			_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 500 * time.Millisecond}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			info, ok := retry.InfoOf(err)
			require.True(t, ok)
			require.True(t, info.Reasons.Has(retry.BucketNotReady))
			require.ErrorIs(t, err, cberr.BucketNotFound)

			f := kv.Start(ctx(t), b, kv.Upsert{Key: []byte("k2"), Value: []byte("new"), Common: in})
			time.Sleep(time.Second)
			// Another collection takes the id that the old one had.
			require.NoError(t, m.CreateBucket("default", vbuckets, mock.WithCollection("s", "other"),
				mock.WithCollection("s", "c")))
			_, err = f.Wait(ctx(t))
			require.NoError(t, err)
			_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k2"), Common: in})
			require.NoError(t, err)
			_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k2"), Common: kv.Common{Scope: "s", Collection: "other"}})
			require.ErrorIs(t, err, cberr.DocumentNotFound, "nothing lands in the collection that has the old id")
			_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: in})
			require.ErrorIs(t, err, cberr.DocumentNotFound, "the old bucket is gone")
			mp, _ := b.Map()
			require.Equal(t, vbuckets, mp.VBuckets)
			require.NoError(t, b.WaitReady(ctx(t)))
		})
	}
}

// A cluster that is set up anew at the same addresses counts its revisions from the beginning. The version of the old
// map does not bar the new one, whichever way maps come.
func TestAClusterIsSetUpAnewAtTheSameAddresses(t *testing.T) {
	for name, overHTTP := range map[string]bool{"maps over connections": false, "maps over HTTP": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
				for range 50 {
					old.BumpRevision()
				}
				fresh := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
				if overHTTP {
					mapless(old)
					mapless(fresh)
				}
				var moved atomic.Bool
				b := open(t, old, func(cfg *core.Config) {
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if moved.Load() {
							return fresh.Dial(ctx, network, addr)
						}
						return old.Dial(ctx, network, addr)
					}
				}).Bucket("default")
				require.NoError(t, b.WaitReady(ctx(t)))
				time.Sleep(10 * time.Second)
				moved.Store(true)
				old.DisconnectAll()
				for i := range 50 {
					_, err := kv.Do(ctx(t), b, kv.Upsert{
						Key:    fmt.Appendf(nil, "%d", i),
						Common: kv.Common{Timeout: 8 * time.Second},
					})
					require.NoError(t, err)
				}
				mp, _ := b.Map()
				require.Equal(t, 16, mp.VBuckets)
				require.Len(t, mp.Nodes, 2)
				require.Len(t, fresh.ApplyLog("default"), 50)
			})
		})
	}
}

// While machines change hands, the old cluster may answer once more. Its maps stand for a while; the new one's are not
// forgotten for that.
func TestTheOldClusterAnswersOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		for range 50 {
			old.BumpRevision()
		}
		fresh := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
		mapless(old)
		mapless(fresh)
		var moved atomic.Bool
		b := open(t, old, func(cfg *core.Config) {
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if moved.Load() {
					return fresh.Dial(ctx, network, addr)
				}
				return old.Dial(ctx, network, addr)
			}
		}).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		nodes := func() int {
			mp, _ := b.Map()
			return len(mp.Nodes)
		}
		time.Sleep(10 * time.Second)
		moved.Store(true)
		old.DisconnectAll()
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, nodes())
		moved.Store(false)
		fresh.DisconnectAll()
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, nodes())
		moved.Store(true)
		old.DisconnectAll()
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, nodes(), "it stands")
		for i := range 50 {
			_, err := kv.Do(ctx(t), b, kv.Upsert{
				Key:    fmt.Appendf(nil, "%d", i),
				Common: kv.Common{Timeout: 8 * time.Second},
			})
			require.NoError(t, err)
		}
		require.Equal(t, 2, nodes())
	})
}

// anew is a client of one cluster, in whose place another one comes.
type anew struct {
	fresh *mock.Cluster
	b     *core.Bucket
	moved atomic.Bool // new connections are to the other one

	mu    sync.Mutex
	conns map[string][]net.Conn // to the old one, by address
}

// setUpAnew is a client of a cluster of three nodes that has seen many revisions, and a new one of two nodes of the
// same addresses, which has seen few. Other connections than that to the third node are to the new one.
func setUpAnew(t *testing.T, bucket string, old, fresh []mock.BucketOption) *anew {
	t.Helper()
	m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64, old...), mock.Virtual())
	for range 50 {
		m.BumpRevision()
	}
	last := m.Node(2).Addr()
	a := &anew{
		fresh: mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64, fresh...), mock.Virtual()),
		conns: map[string][]net.Conn{},
	}
	a.b = open(t, m, func(cfg *core.Config) {
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if a.moved.Load() {
				return a.fresh.Dial(ctx, network, addr)
			}
			nc, err := m.Dial(ctx, network, addr)
			if err == nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.conns[addr] = append(a.conns[addr], nc)
			}
			return nc, err
		}
	}).Bucket(bucket)
	require.NoError(t, a.b.WaitReady(ctx(t)))
	time.Sleep(10 * time.Second)
	a.moved.Store(true)
	a.end(t, func(addr string) bool { return addr != last })
	time.Sleep(2 * time.Second)
	mp, _ := a.b.Map()
	require.Len(t, mp.Nodes, 3, "one still speaks for the old cluster")
	return a
}

// end ends connections to the old cluster.
func (a *anew) end(t *testing.T, which func(addr string) bool) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for addr, all := range a.conns {
		if which(addr) {
			for _, nc := range all {
				require.NoError(t, nc.Close())
			}
			delete(a.conns, addr)
		}
	}
}

func (a *anew) endAll(t *testing.T) {
	t.Helper()
	a.end(t, func(string) bool { return true })
}

// One connection that speaks for the old cluster is enough for the new one's maps to be refused. When it is lost, to a
// node that the new cluster does not have, no handshake is left to bring the map again, and each node has shown it
// already.
func TestTheLastToSpeakForTheOldClusterIsOnANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := setUpAnew(t, "default", nil, nil)
		for _, s := range a.b.Status() {
			if !s.Connected {
				require.ErrorContains(t, s.Err, "another bucket of that name")
			}
		}
		a.endAll(t)
		began := time.Now()
		for i := range 50 {
			_, err := kv.Do(ctx(t), a.b, kv.Upsert{
				Key:    fmt.Appendf(nil, "%d", i),
				Common: kv.Common{Timeout: 8 * time.Second},
			})
			require.NoError(t, err)
		}
		require.Less(t, time.Since(began), 200*time.Millisecond,
			"the other nodes are connected to as soon as no node speaks for the old one")
		mp, _ := a.b.Map()
		require.Len(t, mp.Nodes, 2)
		require.Len(t, a.fresh.ApplyLog("default"), 50)
	})
}

// The map of the whole cluster, without a bucket, is no other.
func TestTheLastToSpeakForTheOldClusterIsGoneWithoutABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := setUpAnew(t, "", nil, nil)
		a.endAll(t)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, a.b.WaitReady(ctx(t)))
		mp, _ := a.b.Map()
		require.Len(t, mp.Nodes, 2)
		require.Len(t, a.b.Status(), 2)
	})
}

// While the new cluster's maps are refused, so are its nodes: what is known of collections is the old one's, and the id
// may be another collection's in the new one.
func TestNothingIsWrittenToAClusterWhoseMapIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := setUpAnew(t, "default", []mock.BucketOption{mock.WithCollection("s", "c")},
			[]mock.BucketOption{mock.WithCollection("s", "other"), mock.WithCollection("s", "c")})
		upsert := func(i int, timeout time.Duration) error {
			in := kv.Common{Scope: "s", Collection: "c", Timeout: timeout}
			_, err := kv.Do(ctx(t), a.b, kv.Upsert{Key: fmt.Appendf(nil, "%d", i), Common: in})
			return err
		}
		refused := 0
		for i := range 20 {
			if err := upsert(i, 500*time.Millisecond); err != nil {
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				info, ok := retry.InfoOf(err)
				require.True(t, ok)
				require.True(t, info.Reasons.Has(retry.BucketNotReady), info.Reasons)
				refused++
			}
		}
		require.NotZero(t, refused)
		require.Less(t, refused, 20, "the node of the old cluster still answers")
		require.Empty(t, a.fresh.ApplyLog("default"))
		a.endAll(t)
		for i := range 20 {
			require.NoError(t, upsert(i, 8*time.Second))
			_, err := kv.Do(ctx(t), a.b, kv.Get{Key: fmt.Appendf(nil, "%d", i), Common: kv.Common{
				Scope:      "s",
				Collection: "other",
			}})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
	})
}

// Nodes that cannot be reached have their rest, however often the others are lost.
func TestANodeThatIsDownIsLeftInPeaceByTheLossOfOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		gone := m.Node(1).Addr()
		var down atomic.Bool
		var dials atomic.Int64
		b := open(t, m, func(cfg *core.Config) {
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if down.Load() && addr == gone {
					dials.Add(1)
					return nil, syscall.ECONNREFUSED
				}
				return m.Dial(ctx, network, addr)
			}
		}).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		down.Store(true)
		m.DisconnectAll()
		time.Sleep(20 * time.Second)
		before := dials.Load()
		for range 20 {
			m.DisconnectAll()
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, dials.Load(), before+2)
	})
}

// Fault 39, P8: whatever order maps come in, and from whatever node, the version of the one in use does not go back;
// that holds for those of a bucket of the same name that is gone, too.
func TestMapsNeverGoBack_Fault39(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		var mu sync.Mutex
		var kept [][]byte // maps of earlier, also of other epochs
		flap, turn := false, 0
		m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
			mu.Lock()
			defer mu.Unlock()
			if len(rep.Value) > 0 && !flap {
				kept = append(kept, append([]byte(nil), rep.Value...))
			}
			if flap {
				turn++
				rep.Value, rep.Datatype = kept[turn%len(kept)], memd.DatatypeJSON
				if turn%3 == 0 { // one that another bucket had
					rep.Value = []byte(strings.Replace(string(rep.Value), `"uuid":"`, `"uuid":"ff`, 1))
				}
			}
		}))
		for i := range 6 {
			require.NoError(t, m.MoveVBucket("default", i, i%3))
			if i == 3 {
				m.BumpEpoch()
			}
			time.Sleep(3 * time.Second)
		}
		mu.Lock()
		flap = true
		require.Greater(t, len(kept), 4)
		mu.Unlock()
		epoch, rev := m.Revision()
		for i := range 200 {
			time.Sleep(500 * time.Millisecond)
			mp, _ := b.Map()
			require.Equal(t, []int64{epoch, rev}, []int64{mp.Epoch, mp.Rev}, i)
		}
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}
