package promises_test

import (
	"context"
	"log/slog"
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
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// refuseLookups has a scripted cluster answer its first lookups of a collection's id with a status, and counts them
// all.
func refuseLookups(s *scripted.Cluster, status memd.Status, first int32) *atomic.Int32 {
	var n atomic.Int32
	for _, node := range s.Nodes {
		node.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
			if p.Opcode != memd.OpCollectionsGetID || n.Add(1) > first {
				return false
			}
			s.Reply(p, status, nil, nil)
			return true
		})
	}
	return &n
}

var inCollection = kv.Common{Scope: "s", Collection: "c"}

// inNamedCollection runs f with a mock of three nodes, whose bucket has that collection, in virtual time.
func inNamedCollection(t *testing.T, f func(t *testing.T, m *mock.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, mock.Start(t, mock.Nodes(3), mock.Virtual(), mock.Bucket("default", 16, mock.WithCollection("s", "c"))))
	})
}

func withRetry(c kv.Common, s retry.Strategy) kv.Common {
	c.Retry = s
	return c
}

var refusesAll = retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })

// What a node refuses a lookup with is a reason for the strategy of the call that waits for it.
func TestALookupThatIsRefusedIsAReasonForTheCallsStrategy(t *testing.T) {
	for name, c := range map[string]struct {
		status memd.Status
		reason retry.Reason
	}{
		"temporary failure":       {memd.StatusTmpFail, retry.KVTemporaryFailure},
		"no collections manifest": {0x89, retry.KVErrorMapRetryIndicated},
		"the error map's retry":   {0x1234, retry.KVErrorMapRetryIndicated},
		"no bucket":               {memd.StatusNoBucket, retry.BucketNotReady},
	} {
		for strategy, s := range map[string]retry.Strategy{"default": nil, "best effort": retry.BestEffort{}} {
			t.Run(name+", "+strategy, func(t *testing.T) {
				cluster := scripted.New(t, 1)
				cluster.ErrorMap = `{"version":2,"revision":1,"errors":{"1234":{"name":"ODD","desc":"odd","attrs":["retry-later"]}}}`
				b := ready(t, cluster)
				lookups := refuseLookups(cluster, c.status, 2)
				res, err := kv.Do(within(t, 5*time.Second), b, kv.Upsert{
					Key:    []byte("k"),
					Common: withRetry(inCollection, s),
				})
				require.NoError(t, err)
				require.EqualValues(t, 3, lookups.Load())
				info := res.RetryInfo()
				require.Equal(t, 2, info.Retries())
				require.True(t, info.Reasons.Has(c.reason), info.Reasons)
			})
		}
	}
}

// Calls that wait for one lookup are judged each by its own strategy.
func TestEachWaitersStrategyJudgesTheLookup(t *testing.T) {
	cluster := scripted.New(t, 1)
	b := ready(t, cluster)
	var lookups atomic.Int32
	all := make(chan struct{}) // closed when all calls were begun
	cluster.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpCollectionsGetID || lookups.Add(1) > 1 {
			return false
		}
		<-all
		s.Reply(p, memd.StatusTmpFail, nil, nil)
		return true
	})
	var judged atomic.Int32
	asks := retry.Func(func(_ context.Context, r *retry.Request, why retry.Reason) retry.Action {
		judged.Add(1)
		if why != retry.KVTemporaryFailure || r.Code != uint32(memd.StatusTmpFail) {
			t.Errorf("%v, code %d", why, r.Code)
		}
		return retry.After(10 * time.Millisecond)
	})
	var pending []kv.Future[kv.MutationResult]
	for i, s := range []retry.Strategy{refusesAll, asks, retry.BestEffort{}, nil} {
		pending = append(pending, kv.Start(within(t, 5*time.Second), b, kv.Upsert{
			Key:    []byte{byte('a' + i)},
			Common: withRetry(inCollection, s),
		}))
	}
	close(all)
	for i, f := range pending {
		_, err := f.Wait(within(t, 5*time.Second))
		if i == 0 {
			require.ErrorIs(t, err, cberr.TemporaryFailure)
		} else {
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 1, judged.Load())
	require.LessOrEqual(t, lookups.Load(), int32(4), "they share the first one")
}

// What is no matter for a retry ends the calls at once.
func TestALookupThatIsRefusedForGoodEndsTheCall(t *testing.T) {
	cluster := scripted.New(t, 1)
	b := ready(t, cluster)
	lookups := refuseLookups(cluster, memd.StatusAccess, 1000)
	began := time.Now()
	_, err := kv.Do(within(t, 5*time.Second), b, kv.Upsert{Key: []byte("k"), Common: withRetry(inCollection,
		retry.BestEffort{})})
	require.ErrorIs(t, err, cberr.AuthenticationFailure)
	require.Less(t, time.Since(began), time.Second)
	require.EqualValues(t, 1, lookups.Load())
}

// A lookup is one operation: asked of one node after the other, with one history, which the call's error has, and
// counted and logged as the retries of others are.
func TestALookupIsOneOperationWithOneHistory(t *testing.T) {
	inNamedCollection(t, func(t *testing.T, m *mock.Cluster) {
		var log syncBuffer
		c := client(t, m, func(cfg *core.Config) {
			cfg.Observe.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(t.Context()))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpCollectionsGetID}}, mock.Status(memd.StatusTmpFail))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpCollectionsGetID}, Times: 2}, mock.Drop())
		_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("k"), Common: withRetry(inCollection, refusesAll)})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		var call *kv.Error
		require.ErrorAs(t, err, &call)
		require.Equal(t, []retry.Reason{retry.KVTemporaryFailure}, reasonsOf(call.Retry))
		lookup := lookupOf(t, call.Cause)
		require.Len(t, lookup.Log, 3)
		require.Equal(t, 2, lookup.Retries())
		for _, a := range lookup.Log {
			require.NotEmpty(t, a.Endpoint)
		}
		require.NotEqual(t, lookup.Log[0].Endpoint, lookup.Log[1].Endpoint, "one node after the other")
		stats := c.RetryStats().Operations[retry.OperationKey{Service: "kv", Operation: "collection-lookup"}]
		require.EqualValues(t, 1, stats.GaveUp)
		require.EqualValues(t, 2, stats.Retries+stats.Transparent)
		require.NoError(t, c.Close())
		require.Contains(t, log.String(), "collection-lookup")
	})
}

// lookupOf is the history of the lookup that a call's cause wraps.
func lookupOf(t *testing.T, cause error) retry.Info {
	t.Helper()
	var own *retry.Error
	require.ErrorAs(t, cause, &own)
	require.ErrorAs(t, own.Cause, &own)
	require.Equal(t, "collection-lookup", own.Operation)
	return own.Info
}

func reasonsOf(i retry.Info) (all []retry.Reason) {
	for r := range i.Reasons.All() {
		all = append(all, r)
	}
	return all
}

// syncBuffer is text that one goroutine writes and another one reads.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A lookup that is refused until the deadline ends the call there, with the reason, and is not asked in a loop.
func TestALookupThatIsRefusedForEverEndsAtTheDeadline(t *testing.T) {
	inNamedCollection(t, func(t *testing.T, m *mock.Cluster) {
		b := client(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(t.Context()))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpCollectionsGetID}}, mock.Status(memd.StatusTmpFail))
		began := time.Now()
		_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("k"), Common: inCollection})
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Less(t, m.Frames(memd.OpCollectionsGetID), 25)
	})
}

// A default collection that was dropped ends as a missing named one does: at once under the default strategy, at the
// deadline and with the reason under one that waits.
func TestADroppedDefaultCollectionIsCollectionNotFound(t *testing.T) {
	key := []byte("k")
	for name, do := range map[string]func(ctx context.Context, b *core.Bucket, c kv.Common) error{
		"upsert": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Common: c})
			return err
		},
		"get": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.Do(ctx, b, kv.Get{Key: key, Common: c})
			return err
		},
		"get of many": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			out := kv.GetMulti(ctx, b, c, [][]byte{key, []byte("l")})
			if out[1].Err == nil {
				return nil
			}
			return out[0].Err
		},
		"mutate-in": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.Do(ctx, b, kv.MutateIn{
				Key: key, Common: c,
				Specs: []kv.MutateSpec{kv.UpsertPath("a", []byte("1"))},
			})
			return err
		},
		"by its name": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			c.Scope, c.Collection = "_default", "_default"
			_, err := kv.Do(ctx, b, kv.Remove{Key: key, Common: c})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inNamedCollection(t, func(t *testing.T, m *mock.Cluster) {
				b := client(t, m).Bucket("default")
				require.NoError(t, b.WaitReady(t.Context()))
				require.NoError(t, m.DropCollection("default", "_default", "_default"))
				began := time.Now()
				require.ErrorIs(t, do(t.Context(), b, kv.Common{}), cberr.CollectionNotFound)
				require.Less(t, time.Since(began), 100*time.Millisecond)
				began = time.Now()
				err := do(t.Context(), b, kv.Common{Retry: retry.BestEffort{}, Timeout: time.Second})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorIs(t, err, cberr.CollectionNotFound)
				require.Equal(t, time.Second, time.Since(began))
				_, err = kv.Do(t.Context(), b, kv.Upsert{Key: key, Common: inCollection})
				require.NoError(t, err, "other collections are not concerned")
			})
		})
	}
}

// A node that does not know the default collection for a moment is no reason to give it up.
func TestADefaultCollectionThatIsThereIsUsedAgain(t *testing.T) {
	inNamedCollection(t, func(t *testing.T, m *mock.Cluster) {
		b := client(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(t.Context()))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 2}, mock.Status(memd.StatusUnknownCollection))
		res, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.True(t, res.RetryInfo().Reasons.Has(retry.KVCollectionOutdated))
		asked := m.Frames(memd.OpCollectionsGetID)
		require.Positive(t, asked)
		synctest.Wait()
		_, err = kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, asked, m.Frames(memd.OpCollectionsGetID), "it is known again")
	})
}
