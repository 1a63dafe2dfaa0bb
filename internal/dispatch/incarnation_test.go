package dispatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// routed runs f in a bubble with a router to a mock of one node.
func routed(t *testing.T, f func(t *testing.T, m *mock.Cluster, r *Router), opts ...mock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t,
			append([]mock.Option{
				mock.Nodes(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")),
				mock.Virtual(),
			}, opts...)...)
		var made atomic.Int64
		r := New(Options{
			Bucket: "default", Seeds: []string{m.Node(0).Addr()}, Base: time.Now(),
			Orchestrator: retry.New(retry.Options{}),
			Health:       &health.Record{}, ErrorMaps: &errormap.Store{}, Timeout: 10 * time.Second,
			JitterSource: func() float64 { return 0.5 },
			Connect: func() conn.Options {
				return conn.Options{Options: handshake.Options{
					ID: fmt.Sprint(made.Add(1)), Dial: m.Dial, Features: []memd.Feature{
						memd.FeatureCollections,
						memd.FeatureXError, memd.FeatureSelectBucket,
					},
					Mechanisms: []string{"SCRAM-SHA1"},
					Credentials: func(context.Context, string) (handshake.Credentials, error) {
						password := observe.NewSecret("password")
						return handshake.Credentials{Username: "Administrator", Password: password}, nil
					},
				}}
			},
		})
		defer func() {
			require.NoError(t, r.Close(context.Background(), errors.New("the test is over")))
			r.o.Orchestrator.Close(retry.ErrClosed)
		}()
		ready(t, r)
		f(t, m, r)
	})
}

func ready(t *testing.T, r *Router) {
	t.Helper()
	require.NoError(t, r.WaitReady(t.Context(), false, nil))
}

// heldUp is a router whose next call is held up after it was routed, before it is handed to its connection.
type heldUp struct {
	*Router
	meanwhile func()
	hand      func(p *pipeline, c *call.Call)
}

// Runner implements kv.Dispatcher.
func (h *heldUp) Runner() call.Runner { return h }

func (h *heldUp) Dispatch(c *call.Call) {
	h.admit(c, h.now())
	p := h.find(c)
	h.meanwhile()
	h.hand(p, c)
}

// A call that was routed before its bucket was deleted and created again, and is handed over after the new bucket's
// connection is there, would land in the collection that has the old one's id now.
func TestACallOfAnOldBucketIsRoutedAgain(t *testing.T) {
	for name, hand := range map[string]func(p *pipeline, c *call.Call){
		"one":  func(p *pipeline, c *call.Call) { p.submit(c) },
		"many": func(p *pipeline, c *call.Call) { p.submitAll([]*call.Call{c}) },
	} {
		t.Run(name, func(t *testing.T) {
			routed(t, func(t *testing.T, m *mock.Cluster, r *Router) {
				in := kv.Common{Scope: "s", Collection: "c"}
				_, err := kv.Do(t.Context(), r, kv.Upsert{Key: []byte("k"), Value: []byte("old"), Common: in})
				require.NoError(t, err)
				held := &heldUp{r, func() {
					require.NoError(t, m.DropBucket("default"))
					require.NoError(t, m.CreateBucket("default", 16, mock.WithCollection("s", "other"),
						mock.WithCollection("s", "c")))
					time.Sleep(10 * time.Millisecond)
					ready(t, r)
				}, hand}
				sets := m.Frames(memd.OpSet)
				_, err = kv.Do(t.Context(), held, kv.Upsert{Key: []byte("k"), Value: []byte("new"), Common: in})
				require.NoError(t, err)
				require.Equal(t, sets+1, m.Frames(memd.OpSet), "nothing was sent in vain")
				_, err = kv.Do(t.Context(), r, kv.Get{Key: []byte("k"), Common: kv.Common{
					Scope:      "s",
					Collection: "other",
				}})
				require.ErrorIs(t, err, cberr.DocumentNotFound)
				got, err := kv.Do(t.Context(), r, kv.Get{Key: []byte("k"), Common: in})
				require.NoError(t, err)
				require.Equal(t, "new", string(got.Value))
			})
		})
	}
}

// anothers is a newer map than the router's, of another bucket, and the address of the node that it is from.
func anothers(t *testing.T, r *Router) (raw []byte, addr string) {
	t.Helper()
	addr = "10.0.0.1:11210"
	r.nodes.mu.Lock()
	p := r.nodes.byAddr[addr].conns[0]
	r.nodes.mu.Unlock()
	cn, err := p.connect(t.Context())
	require.NoError(t, err)
	s := strings.ReplaceAll(string(cn.Info().Config), r.Snapshot().UUID, strings.Repeat("e", 32))
	cn.Close(errLeft)
	_ = cn.Serve()
	return regexp.MustCompile(`"rev":\d+`).ReplaceAll([]byte(s), []byte(`"rev":1000`)), addr
}

// A newer map of another bucket ends the connections that were made in the old one. It stands for as long as it may
// take its nodes to be connected to again: one that lags behind still shows the old one meanwhile, and no
// connection contradicts it.
func TestANewerMapOfAnotherBucketIsKept(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		_, err := kv.Do(t.Context(), r, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		old := r.Snapshot()
		raw, addr := anothers(t, r)
		_, was := r.connection(r.Logins()[0].Connection)
		r.maps.offers.offer(raw, 0, addr, nil)
		time.Sleep(keepTime - time.Second)
		require.ErrorIs(t, was.Cause(), errForeign)
		require.EqualValues(t, 1000, r.Snapshot().Rev, "the node shows the old bucket all the time")
		require.Empty(t, r.Logins(), "and is not connected to")
		require.ErrorIs(t, r.Status()[0].Err, errForeign)
		time.Sleep(keepTime + time.Second)
		require.Equal(t, old.UUID, r.Snapshot().UUID, "no connection has ever spoken for the other one")
		require.Equal(t, old.Rev, r.Snapshot().Rev)
		_, err = kv.Do(t.Context(), r, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// Nor is a connection used that was made before such a map was applied, and is ready only then.
func TestAConnectionThatComesTooLateForItsBucket(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		raw, addr := anothers(t, r)
		p := r.nodes.byAddr[addr].conns[0]
		cn, err := p.connect(t.Context())
		require.NoError(t, err)
		r.maps.offers.offer(raw, 0, addr, nil)
		time.Sleep(time.Millisecond)
		require.True(t, p.connected(cn))
		require.Nil(t, p.conn.Load())
		require.ErrorIs(t, cn.Serve(), errForeign)
		time.Sleep(3 * keepTime)
		require.Len(t, r.Logins(), 1, "the next one is")
	})
}

// Two seeds may be of two clusters. The first map decides, and the other one's connection is not used, though it was
// ready before.
func TestTheSecondSeedIsOfAnotherCluster(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		raw, addr := anothers(t, r)
		p := (&node{r: r, addr: addr}).newPipeline(t.Context(), "0")
		r.picker.Store(nil)
		cn, err := p.connect(t.Context())
		require.NoError(t, err)
		r.maps.offers.offer(raw, 0, addr, &claimed{considered: make(chan struct{})}) // lies there when ours comes
		require.True(t, p.connected(cn))
		require.EqualValues(t, 1000, r.Snapshot().Rev)
		require.ErrorIs(t, cn.Serve(), errForeign)
	})
}
