package promises_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// These are the statements of the fifth document's hedging policy. A plain kv.Get is hedged by a policy file, and
// nothing else asks for it.

const hedgeDelay = 20 * ms

// hedgesGets is a file that hedges reads over all copies.
func hedgesGets(more string) string {
	return `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}]` + more + `,
		"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.02s","nonFatalReasons":["KV_TEMPORARY_FAILURE"]}}]}`
}

// unhedgedGets are all the ways to start a plain kv.Get.
func unhedgedGets() map[string]func(context.Context, kv.Dispatcher, kv.Get) (kv.GetResult, error) {
	return map[string]func(context.Context, kv.Dispatcher, kv.Get) (kv.GetResult, error){
		"Do": kv.Do[kv.GetResult, kv.Get],
		"Start": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (kv.GetResult, error) {
			return kv.Start(ctx, d, g).Wait(context.WithoutCancel(ctx))
		},
		"Go": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (r kv.GetResult, err error) {
			done := make(chan struct{})
			kv.Go(ctx, d, g, func(res kv.GetResult, e error) { r, err = res, e; close(done) })
			<-done
			return r, err
		},
		"Batch": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (kv.GetResult, error) {
			out := kv.Batch(ctx, d, []kv.Get{g}, 0)
			return out[0].Result, out[0].Err
		},
		"GetMulti": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (kv.GetResult, error) {
			out := kv.GetMulti(ctx, d, kv.Common{}, [][]byte{g.Key})
			return out[0].Result, out[0].Err
		},
	}
}

// hedged runs f for each of them, with a document that all copies have and a file.
func hedged(t *testing.T, text string, f func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration,
	error)),
) {
	t.Helper()
	for name, start := range unhedgedGets() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				_, err := kv.Do(t.Context(), w.b, kv.Upsert{
					Key: []byte("k"), Value: []byte("v"),
					Durability: memd.DurabilityMajority,
				})
				require.NoError(t, err)
				time.Sleep(time.Second)
				f(t, w, func() (kv.GetResult, time.Duration, error) {
					began := time.Now()
					r, err := start(within(t, time.Minute), w.b, kv.Get{Key: []byte("k")})
					return r, time.Since(began), err
				})
			}, file(t, text))
		})
	}
}

// frames is how many reads the nodes have seen, of the active copy and of replicas.
func (w *world) frames() (active, replicas int) {
	return w.m.Frames(memd.OpGet), w.m.Frames(memd.OpGetReplica)
}

func TestAHedgeOfAFileSendsEachCopyOnce(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		w.refuses(memd.OpGetReplica, 0, memd.StatusTmpFail)
		active, replicas := w.frames()
		_, took, err := get()
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Zero(t, took, "each failure brings the next copy at once, and when all have failed there are no more "+
			"retries")
		a, r := w.frames()
		require.Equal(t, []int{1, 2}, []int{a - active, r - replicas})
	})
}

func TestAHedgeIsSentAfterEachDelay(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		w.fails(memd.OpGet, 0, mock.Drop())
		r, took, err := get()
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		require.Equal(t, hedgeDelay, took)
		w.fails(memd.OpGetReplica, 1, mock.Drop())
		r, took, err = get()
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		require.Equal(t, 2*hedgeDelay, took)
	})
}

func TestANonFatalFailureSendsTheNextHedgeAtOnce(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		in := w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		r, took, err := get()
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		require.Zero(t, took)
		require.Equal(t, 1, in.Fired(), "the active copy is asked once")
	})
}

func TestAFatalFailureCancelsTheOtherAttemptsAndIsReturned(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		w.refuses(memd.OpGet, 0, memd.StatusLocked) // a reason, but none that the file lists
		_, replicas := w.frames()
		_, took, err := get()
		require.ErrorIs(t, err, cberr.DocumentLocked)
		require.Zero(t, took)
		_, r := w.frames()
		require.Equal(t, replicas, r)
	})
}

func TestTheEntrysTimeoutIsThatOfTheWholeChainOfHedges(t *testing.T) {
	hedged(t, hedgesGets(`,"timeout":"0.3s"`), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		w.fails(memd.OpGet, 0, mock.Drop())
		w.fails(memd.OpGetReplica, 0, mock.Drop())
		_, took, err := get()
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 300*ms, took)
	})
}

// dead lets the node of a document's active copy be gone.
func (w *world) dead(key string) {
	w.t.Helper()
	_, nodes, ok := w.b.Locate([]byte(key))
	require.True(w.t, ok)
	for i, n := range w.m.Nodes() {
		if n.Addr() == nodes[0] {
			require.NoError(w.t, w.m.Kill(i))
		}
	}
}

func TestADeadActiveNodeBringsTheReplicaWhateverTheFileLists(t *testing.T) {
	none := `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],"hedgingPolicy":{"maxAttempts":2,"hedgingDelay":"1s"}}]}`
	t.Run("its connection is gone", func(t *testing.T) {
		hedged(t, none, func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
			w.dead("k")
			time.Sleep(100 * ms)
			r, took, err := get()
			require.NoError(t, err)
			require.True(t, r.FromReplica)
			require.Less(t, took, time.Second, "at once, not after the delay")
		})
	})
	t.Run("its connection is lost while the read is out", func(t *testing.T) {
		hedged(t, none, func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
			w.fails(memd.OpGet, 1, mock.CloseBefore())
			r, took, err := get()
			require.NoError(t, err)
			require.True(t, r.FromReplica)
			require.Zero(t, took)
		})
	})
	t.Run("with a list of the call's own", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			_, err := kv.Do(t.Context(), w.b, kv.Upsert{
				Key: []byte("k"), Value: []byte("v"),
				Durability: memd.DurabilityMajority,
			})
			require.NoError(t, err)
			time.Sleep(time.Second)
			w.dead("k")
			time.Sleep(100 * ms)
			h := &kv.Hedge{MaxAttempts: 2, Delay: time.Second, NonFatal: func(error) bool { return false }}
			r, err := kv.Do(within(t, time.Minute), w.b, kv.Get{Key: []byte("k"), Hedge: h})
			require.NoError(t, err)
			require.True(t, r.FromReplica)
		})
	})
}

// TestWhenNoCopyCanBeAskedAHedgedReadWaitsForOne: what never leaves the client is sent again until the deadline, hedged
// or not.
func TestWhenNoCopyCanBeAskedAHedgedReadWaitsForOne(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		for i := range 3 {
			require.NoError(t, w.m.Kill(i))
		}
		time.Sleep(100 * ms)
		time.AfterFunc(time.Second, func() {
			for i := range 3 {
				_ = w.m.Respawn(i)
			}
		})
		r, took, err := get()
		require.NoError(t, err)
		require.Equal(t, "v", string(r.Value))
		require.GreaterOrEqual(t, took, time.Second)
		require.Less(t, took, 2500*ms)
	})
}

func TestAHedgedReadOfADeadClusterEndsAtItsDeadline(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		for i := range 3 {
			require.NoError(t, w.m.Kill(i))
		}
		time.Sleep(100 * ms)
		_, took, err := get()
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2500*ms, took)
	})
}

// TestARefusingQueryNodeBringsAnotherOneWhateverTheFileLists: the same over HTTP.
func TestARefusingQueryNodeBringsAnotherOneWhateverTheFileLists(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.ScriptQuery("SELECT", mock.Answer{Rows: []string{"1"}})
		for i := range 3 {
			addr := w.m.Node(i).ServiceAddr(mock.QueryService)
			w.m.Network().Refuse(addr)
			began := time.Now()
			rows, err := w.c.Query(within(t, time.Minute), &query.Request{Statement: "SELECT 1", Readonly: true})
			require.NoError(t, err)
			require.NotEqual(t, addr, rows.Endpoint())
			require.NoError(t, rows.Close())
			require.Less(t, time.Since(began), time.Second)
			w.m.Network().Restore(addr)
			time.Sleep(time.Minute)
		}
	}, file(t, `{"operationConfig":[{"name":[{"service":"query"}],"hedgingPolicy":{"maxAttempts":2,"hedgingDelay":"5s"}}]}`))
}

func TestWhenNoNodeTakesAHedgedRequestItWaitsForOne(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.ScriptQuery("SELECT", mock.Answer{Rows: []string{"1"}})
		for i := range 3 {
			w.m.Network().Refuse(w.m.Node(i).ServiceAddr(mock.QueryService))
		}
		time.AfterFunc(time.Second, func() {
			for i := range 3 {
				w.m.Network().Restore(w.m.Node(i).ServiceAddr(mock.QueryService))
			}
		})
		rows, err := w.c.Query(within(t, time.Minute), &query.Request{
			Statement: "SELECT 1", Readonly: true,
			Timeout: 5 * time.Second,
		})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
	}, file(t, `{"operationConfig":[{"name":[{"service":"query"}],"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"5s"}}]}`))
}

func TestHedgingIsOnlyForWhatIsSafeToExecuteMultipleTimes(t *testing.T) {
	all := `{"operationConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":3,"nonFatalReasons":["KV_TEMPORARY_FAILURE",503]}}]}`
	virtual(t, func(t *testing.T, w *world) {
		before := w.m.Frames(memd.OpSet)
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
		require.Equal(t, 1, w.m.Frames(memd.OpSet)-before)
		s := w.m.ScriptQuery("UPDATE", mock.Answer{Rows: []string{"1"}})
		rows, err := w.c.Query(t.Context(), &query.Request{Statement: "UPDATE x"})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		time.Sleep(time.Second)
		require.Equal(t, 1, s.Fired())
	}, file(t, all))
}

func TestAnRPCIsGovernedByARetryPolicyOrAHedgePolicyNotBoth(t *testing.T) {
	t.Run("kv", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			h := &kv.Hedge{MaxAttempts: 2, Delay: time.Second}
			for name, get := range unhedgedGets() {
				if name == "GetMulti" {
					continue
				}
				_, err := get(t.Context(), w.b, kv.Get{Key: []byte("k"), Hedge: h, Common: kv.Common{Retry: every(ms)}})
				require.ErrorIs(t, err, cberr.InvalidArgument, name)
				require.ErrorContains(t, err, "hedge", name)
			}
		})
	})
	t.Run("http", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			_, err := w.c.Do(t.Context(), &core.HTTPRequest{
				Method: http.MethodGet, Path: "/pools", Hedge: &core.Hedge{MaxAttempts: 2}, Retry: every(ms),
			})
			require.ErrorIs(t, err, cberr.InvalidArgument)
			require.ErrorContains(t, err, "Hedge")
		})
	})
	t.Run("file", func(t *testing.T) {
		_, err := core.ParsePolicy([]byte(`{"operationConfig":[{"name":[{}],
			"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableReasons":[429]},
			"hedgingPolicy":{"maxAttempts":2}}]}`))
		require.ErrorContains(t, err, "not both")
	})
}

// getsRetried is a file that retries reads.
const getsRetried = `{"operationConfig":[{"name":[{"service":"kv","operation":"get"},{"service":"management"}],"retryPolicy":{"maxAttempts":4,
	"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableReasons":["KV_TEMPORARY_FAILURE","SERVICE_RESPONSE_CODE_INDICATED"]%s}}]}`

func TestACallWithItsOwnHedgeIsNotAlsoUnderAFilesRetryPolicy(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		_, err := kv.Do(t.Context(), w.b, kv.Upsert{
			Key: []byte("k"), Value: []byte("v"),
			Durability: memd.DurabilityMajority,
		})
		require.NoError(t, err)
		time.Sleep(time.Second)
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		w.refuses(memd.OpGetReplica, 0, memd.StatusTmpFail)
		active, replicas := w.frames()
		_, err = kv.Do(t.Context(), w.b, kv.Get{Key: []byte("k"), Hedge: &kv.Hedge{MaxAttempts: 3}})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		a, r := w.frames()
		require.Equal(t, []int{1, 2}, []int{a - active, r - replicas})

		s := w.m.Script(mock.ServiceMatch{Path: "/pools"}, mock.Answer{Status: 503})
		_, _ = w.c.Do(t.Context(), &core.HTTPRequest{
			Method: http.MethodGet, Path: "/pools",
			Hedge: &core.Hedge{MaxAttempts: 3},
		})
		require.LessOrEqual(t, s.Fired(), 3, "each node once")
	}, file(t, fmt.Sprintf(getsRetried, "")))
}

// TestAPinnedEntryNeverTouchesRequestsOfTheClientsOwn: pings, polls and the reads of a hedge are sent once.
func TestAPinnedEntryNeverTouchesRequestsOfTheClientsOwn(t *testing.T) {
	all := `{"operationConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.001s","maxBackoff":"0.001s",
		"backoffMultiplier":1,"retryableReasons":["KV_TEMPORARY_FAILURE",503,429],"pinned":true}}]}`
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpNoop, 0, memd.StatusTmpFail)
		_, err := w.c.Ping(t.Context(), core.PingOptions{Services: []string{"kv"}})
		require.NoError(t, err)
		require.Equal(t, 3, in.Fired(), "one for each node")
		time.Sleep(10 * time.Second)
		polls := w.refuses(memd.OpGetClusterConfig, 0, memd.StatusTmpFail)
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, polls.Fired(), 10, "one for each turn of polling, not five")
	}, file(t, all), func(c *core.Config) { c.Maps.NoNotifications = true })

	var pings atomic.Int64
	c := services(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/ping" {
			pings.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}, file(t, all))
	_, err := c.PingService(within(t, 5*time.Second), core.Query, "")
	require.Error(t, err)
	require.EqualValues(t, 1, pings.Load())
}

// TestAPinnedHedgeBeatsACallsOwnStrategyAndAPinnedRetryPolicyItsHedge: pinned means that the call does not replace the
// entry.
func TestAPinnedHedgeBeatsACallsOwnStrategyAndAPinnedRetryPolicyItsHedge(t *testing.T) {
	pinned := `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],
		"hedgingPolicy":{"maxAttempts":3,"nonFatalReasons":["KV_TEMPORARY_FAILURE"],"pinned":true}}]}`
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		w.refuses(memd.OpGetReplica, 0, memd.StatusTmpFail)
		active, replicas := w.frames()
		_, _, err := w.get(every(ms))
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		a, r := w.frames()
		require.Equal(t, []int{1, 2}, []int{a - active, r - replicas})
	}, file(t, pinned))
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		active, replicas := w.frames()
		_, err := kv.Do(t.Context(), w.b, kv.Get{Key: []byte("k"), Hedge: &kv.Hedge{MaxAttempts: 3}})
		require.ErrorIs(t, err, retry.ErrExhausted)
		a, r := w.frames()
		require.Equal(t, []int{4, 0}, []int{a - active, r - replicas})
	}, file(t, fmt.Sprintf(getsRetried, `,"pinned":true`)))
}

func TestTheCallersCancelReachesEveryOutstandingHedge(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.fails(memd.OpGet, 0, mock.Drop())
		w.fails(memd.OpGetReplica, 0, mock.Drop())
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*ms, func() { cancel(errFlaky) })
		began := time.Now()
		_, err := kv.Do(ctx, w.b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.ErrorIs(t, err, errFlaky)
		require.Equal(t, 50*ms, time.Since(began))
	}, file(t, hedgesGets("")))
}
