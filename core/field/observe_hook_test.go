package field_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// hook keeps what it is told.
type hook struct {
	mu    sync.Mutex
	began []core.Operation
	ended []core.Operation
	how   []core.OperationEnd
	open  map[int]bool // the Begins without an End
}

type hookKey struct{}

func (h *hook) Begin(ctx context.Context, of core.Operation) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[int]bool{}
	}
	h.open[len(h.began)] = true
	h.began = append(h.began, of)
	return context.WithValue(ctx, hookKey{}, len(h.began)-1)
}

func (h *hook) End(ctx context.Context, of core.Operation, how core.OperationEnd) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := ctx.Value(hookKey{}).(int)
	if !h.open[n] || h.began[n] != of {
		panic("it ends twice, or is another one")
	}
	delete(h.open, n)
	h.ended, h.how = append(h.ended, of), append(h.how, how)
}

// take gives the names of the operations that have ended, each as often as it has, and the last of each.
func (h *hook) take(t *testing.T) (names []string, last map[string]core.OperationEnd) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.open {
		require.Fail(t, "it has begun and not ended", "%+v", h.began[n])
	}
	last = map[string]core.OperationEnd{}
	for i, o := range h.ended {
		name := o.Service + " " + o.Operation
		if h.how[i].Err != nil {
			name += " failed"
		}
		names, last[o.Operation] = append(names, name), h.how[i]
	}
	slices.Sort(names)
	h.began, h.ended, h.how = nil, nil, nil
	return names, last
}

// forms is every way to run something, with what a hook sees of it.
func forms(b *core.Bucket) map[string]struct {
	run  func(ctx context.Context, c *core.Cluster) error
	want []string
} {
	key := []byte("k")
	get := kv.Get{Key: key}
	type form = struct {
		run  func(ctx context.Context, c *core.Cluster) error
		want []string
	}
	return map[string]form{
		"Do": {func(ctx context.Context, _ *core.Cluster) error {
			return second(kv.Do(ctx, b, get))
		}, []string{"kv get"}},
		"Start": {func(ctx context.Context, _ *core.Cluster) error {
			return second(kv.Start(ctx, b, get).Wait(ctx))
		}, []string{"kv get"}},
		"Start, without a waiter": {func(ctx context.Context, _ *core.Cluster) error {
			<-kv.Start(ctx, b, get).Done()
			return nil
		}, []string{"kv get"}},
		"Go": {func(ctx context.Context, _ *core.Cluster) error {
			done := make(chan error, 1)
			kv.Go(ctx, b, get, func(_ kv.GetResult, err error) { done <- err })
			return <-done
		}, []string{"kv get"}},
		"an absent document is an answer": {func(ctx context.Context, _ *core.Cluster) error {
			return second(kv.Do(ctx, b, kv.GetOrNull{Key: []byte("absent")}))
		}, []string{"kv get_or_null"}},
		"a failure": {func(ctx context.Context, _ *core.Cluster) error {
			return fails(second(kv.Do(ctx, b, kv.Get{Key: []byte("absent")})))
		}, []string{"kv get failed"}},
		"a bad argument": {func(ctx context.Context, _ *core.Cluster) error {
			return fails(second(kv.Do(ctx, b, kv.Get{})))
		}, []string{"kv get failed"}},
		"a context that has ended": {func(ctx context.Context, _ *core.Cluster) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return fails(second(kv.Start(ctx, b, get).Wait(context.Background())))
		}, []string{"kv get failed"}},
		"a batch": {func(ctx context.Context, _ *core.Cluster) error {
			return kv.GetMulti(ctx, b, kv.Common{}, [][]byte{key, key})[1].Err
		}, []string{"kv batch", "kv get", "kv get"}},
		"a sequence": {func(ctx context.Context, _ *core.Cluster) error {
			for _, err := range kv.BatchSeq(ctx, b, slices.Values([]kv.Get{get, get}), 0) {
				if err != nil {
					return err
				}
			}
			return nil
		}, []string{"kv batch", "kv get", "kv get"}},
		"a hedge": {func(ctx context.Context, _ *core.Cluster) error {
			return second(kv.Do(ctx, b, kv.Get{Key: key, Hedge: &kv.Hedge{MaxAttempts: 2}}))
		}, []string{"kv get"}},
		"any copy": {func(ctx context.Context, _ *core.Cluster) error {
			_, err := kv.GetAnyReplica(ctx, b, kv.GetReplica{Key: key})
			return err
		}, nil},
		"all copies": {func(ctx context.Context, _ *core.Cluster) error {
			all, err := kv.GetAllReplicas(ctx, b, kv.GetReplica{Key: key})
			if err == nil {
				for _, ok := all.Next(ctx); ok; _, ok = all.Next(ctx) {
				}
			}
			return err
		}, []string{"kv get", "kv get_all_replicas", "kv get_replica"}},
		"copies of a bad argument": {func(ctx context.Context, _ *core.Cluster) error {
			return fails(second(kv.LookupInAllReplicas(ctx, b, kv.LookupIn{Key: key})))
		}, []string{"kv lookup_in_all_replicas failed"}},
		"a scan": {func(ctx context.Context, _ *core.Cluster) error {
			run, err := kv.Scan{Concurrency: 1, Samples: 1}.Run(ctx, b)
			if err == nil {
				for _, failed := range run.All(ctx) {
					err = errors.Join(err, failed)
				}
			}
			return err
		}, nil},
		"polled durability": {func(ctx context.Context, _ *core.Cluster) error {
			_, err := kv.DoPolled(ctx, b, kv.Upsert{Key: key}, kv.PollDurability{PersistTo: 1, ByCAS: true})
			return err
		}, nil},
		"statistics of all nodes": {func(ctx context.Context, _ *core.Cluster) error {
			return second(kv.StatAll(ctx, b, kv.Stat{}))
		}, nil},
		"manifests of all nodes": {func(ctx context.Context, _ *core.Cluster) error {
			return second(kv.ManifestAll(ctx, b, kv.GetManifest{}))
		}, nil},
		"a ping": {func(ctx context.Context, c *core.Cluster) error {
			return second(c.Ping(ctx, core.PingOptions{}))
		}, nil},
		"a query": {func(ctx context.Context, c *core.Cluster) error {
			return drain(c.Query(ctx, &query.Request{Statement: "SELECT 1"}))
		}, []string{"query query"}},
		"a prepared query": {func(ctx context.Context, c *core.Cluster) error {
			return drain(c.Query(ctx, &query.Request{Statement: "SELECT 1", Prepare: true}))
		}, []string{"query query"}},
		"a query that cannot be sent": {func(ctx context.Context, c *core.Cluster) error {
			return fails(drain(c.Query(ctx, &query.Request{})))
		}, []string{"query query failed"}},
		"analytics": {func(ctx context.Context, c *core.Cluster) error {
			return drain(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1"}))
		}, []string{"analytics analytics"}},
		"a search": {func(ctx context.Context, c *core.Cluster) error {
			return fails(drain(c.Search(ctx, &search.Request{
				Index: "none", Query: map[string]any{"match_all": struct{}{}},
			})))
		}, []string{"search search failed"}},
		"a view": {func(ctx context.Context, _ *core.Cluster) error {
			return fails(drain(b.View(ctx, &views.Request{Design: "none", View: "none"})))
		}, []string{"views views failed"}},
		"a request": {func(ctx context.Context, c *core.Cluster) error {
			resp, err := c.Do(ctx, &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}, []string{"management get"}},
		"a request that cannot be sent": {func(ctx context.Context, c *core.Cluster) error {
			return fails(second(c.Do(ctx, &core.HTTPRequest{Method: "GET", Path: "pools"})))
		}, []string{"management get failed"}},
	}
}

func second[R any](_ R, err error) error { return err }

// fails turns a failure into a success, and the other way round.
func fails(err error) error {
	if err == nil {
		return errors.New("it has not failed")
	}
	return nil
}

func drain[R interface{ Close() error }](rows R, err error) error {
	if err == nil {
		err = rows.Close()
	}
	return err
}

// A hook sees every operation of every form and service begin and end, once each, and what is made of parts as their
// parent. With spans, each of these has one that ends once, below its parent's.
func TestAHookSeesEveryFormAndService_D152(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		h := &hook{}
		c, rec := mocked(t, m, func(cfg *core.Config) { cfg.Observe.Hook = h })
		b := c.Bucket("default")
		_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k"), Value: []byte("{}")})
		require.NoError(t, err)
		all := forms(b)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			synctest.Wait()
			_, _ = h.take(t)
			rec.take(t)
			require.NoError(t, all[name].run(within(t, 5*time.Second), c), name)
			synctest.Wait()
			names, _ := h.take(t)
			if all[name].want != nil {
				require.Equal(t, all[name].want, names, name)
			}
			operations := 0
			for _, path := range tree(rec.take(t)) {
				if !inner(path) {
					operations++
				}
			}
			require.Len(t, names, operations, "%s: a span for each of %v", name, names)
		}
	})
}

// Operations over several nodes have a parent, also where a call fails; the parts are below it.
func TestOperationsWithPartsHaveAParentSpan_D152(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, rec := mocked(t, m)
		b := c.Bucket("default")
		_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k"), Value: []byte("{}")})
		require.NoError(t, err)
		all := forms(b)
		for name, parent := range map[string]string{
			"a batch": "batch", "a sequence": "batch", "any copy": "get_any_replica", "all copies": "get_all_replicas",
			"a scan": "range_scan", "polled durability": "poll_durability", "a hedge": "get",
			"statistics of all nodes": "stat_all_nodes", "manifests of all nodes": "get_manifest_all_nodes",
			"a ping": "ping",
		} {
			synctest.Wait()
			rec.take(t)
			require.NoError(t, all[name].run(within(t, 5*time.Second), c), name)
			synctest.Wait()
			paths := tree(rec.take(t))
			require.Greater(t, len(paths), 1, name)
			for i, path := range paths {
				if i == 0 {
					require.Equal(t, parent, path, name)
					continue
				}
				require.Regexp(t, "^"+parent+"/", path, name)
			}
		}
	})
}

func inner(path string) bool {
	for _, name := range []string{"dispatch_to_server", "request_encoding"} {
		if path == name || len(path) > len(name) && path[len(path)-len(name)-1:] == "/"+name {
			return true
		}
	}
	return false
}

// inMock runs f on a mock of two nodes in virtual time.
func inMock(t *testing.T, f func(t *testing.T, m *mock.Cluster), opts ...mock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, mock.Start(t, append([]mock.Option{
			mock.Nodes(2), mock.Bucket("default", 16), mock.Replicas(1), mock.Virtual(),
		}, opts...)...))
	})
}

// A hook learns what each attempt has met, over which connection, and how the operation has ended.
func TestAHookLearnsOfAttempts_D152(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		h := &hook{}
		c, _ := mocked(t, m, func(cfg *core.Config) { cfg.Observe.Hook, cfg.Observe.TracerProvider = h, nil })
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 2}, mock.Status(memd.StatusTmpFail))
		res, err := kv.Do(within(t, time.Second), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		_, last := h.take(t)
		end := last["upsert"]
		require.Equal(t, 2, end.Retries)
		require.Positive(t, end.Took)
		require.Len(t, end.Attempts, 3)
		for i, a := range end.Attempts {
			require.Equal(t, res.Endpoint(), a.Endpoint)
			require.Equal(t, res.Connection(), a.ConnectionID)
			require.Equal(t, res.LocalAddr(), a.LocalAddr)
			require.Regexp(t, "^0x[0-9a-f]+$", a.OperationID)
			require.Equal(t, i < 2, a.ErrorName == "TemporaryFailure" && a.Status == "0x86")
			require.Positive(t, a.Server)
		}
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Drop())
		_, err = kv.Do(within(t, time.Second), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.Error(t, err)
		_, last = h.take(t)
		require.Same(t, err, last["upsert"].Err)
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Status: 429})
		require.NoError(t, drain(c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"})))
		_, last = h.take(t)
		require.Equal(t, 1, last["query"].Retries)
		require.Equal(t, "429", last["query"].Attempts[0].Status)
		require.NotEmpty(t, last["query"].Attempts[1].LocalAddr)
	})
}
