package core_test

import (
	"context"
	"fmt"
	"net"
	"strings"
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
			require.NoError(t, m.CreateBucket("default", vbuckets, mock.WithCollection("s", "other"), mock.WithCollection("s", "c")))
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

// A cluster that is set up anew at the same addresses counts its revisions from the beginning. The version of the old map
// does not bar the new one.
func TestAClusterIsSetUpAnewAtTheSameAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		for range 50 {
			old.BumpRevision()
		}
		fresh := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
		var moved atomic.Bool
		b := open(t, old, func(cfg *core.Config) {
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
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
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "%d", i), Common: kv.Common{Timeout: 8 * time.Second}})
			require.NoError(t, err)
		}
		mp, _ := b.Map()
		require.Equal(t, 16, mp.VBuckets)
		require.Len(t, mp.Nodes, 2)
		require.Len(t, fresh.ApplyLog("default"), 50)
	})
}

// Fault 39, P8: whatever order maps come in, and from whatever node, the version of the one in use does not go back; that
// holds for those of a bucket of the same name that is gone, too.
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
