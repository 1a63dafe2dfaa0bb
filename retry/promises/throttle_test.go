package promises_test

import (
	"fmt"
	"net/http"
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
	"github.com/couchcore/couchcore/retry/policy"
)

// These are the statements of the fifth document's throttling.

func throttling(tokens int, ratio string) string {
	return fmt.Sprintf(`{"retryThrottling":{"maxTokens":%d,"tokenRatio":%s}}`, tokens, ratio)
}

// tokensOfOneNode is a cluster of one node: all tokens are that node's.
func tokensOfOneNode(t *testing.T, text string, f func(t *testing.T, w *world), change ...func(*core.Config)) {
	t.Helper()
	virtualOf(t, []mock.Option{mock.Nodes(1), mock.Bucket("default", 16)}, f, append(change, file(t, text))...)
}

// retried reports whether a write that is refused once is tried again.
func (w *world) retried() bool {
	w.t.Helper()
	in := w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
	defer in.Remove()
	_, _, err := w.upsert(every(ms))
	if err != nil {
		require.ErrorIs(w.t, err, retry.ErrThrottled)
		require.ErrorIs(w.t, err, cberr.TemporaryFailure)
	}
	return err == nil
}

func TestTheFifthFailureOfTenTokensStopsRetries(t *testing.T) {
	tokensOfOneNode(t, throttling(10, "0.1"), func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, _, err := w.upsert(every(ms))
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, 5, in.Fired())
		_, _, err = w.upsert(every(ms))
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, 6, in.Fired(), "first sends are always allowed")
	})
}

func TestEverySuccessfulRPCIncrementsTheTokenCount(t *testing.T) {
	tokensOfOneNode(t, throttling(2, "0.1"), func(t *testing.T, w *world) {
		require.False(t, w.retried(), "one of two tokens is left: not above half")
		_, err := kv.Do(t.Context(), w.b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.True(t, func() bool { _, _, err := w.get(nil); return err == nil }())
		w.refuses(memd.OpSet, 1, memd.StatusLocked) // no failure of the node's, and so a look at the tokens alone
		_, _, err = w.upsert(every(ms))
		require.NoError(t, err, "1.2 tokens are above half")
	})
}

func TestAnAnswerThatIsNoRetryableFailureGivesTokensBack(t *testing.T) {
	for name, answer := range map[string]func(w *world) error{
		"a missing document": func(w *world) error { _, _, err := w.get(nil); return err },
		"a document that exists": func(w *world) error {
			_, _ = kv.Do(w.t.Context(), w.b, kv.Upsert{Key: []byte("e")})
			_, err := kv.Do(w.t.Context(), w.b, kv.Insert{Key: []byte("e")})
			return err
		},
		"missing documents of a batch": func(w *world) error {
			return kv.GetMulti(w.t.Context(), w.b, kv.Common{}, [][]byte{[]byte("x"), []byte("y")})[1].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			tokensOfOneNode(t, throttling(2, "0.1"), func(t *testing.T, w *world) {
				require.False(t, w.retried())
				require.Error(t, answer(w))
				w.refuses(memd.OpSet, 1, memd.StatusLocked)
				_, _, err := w.upsert(every(ms))
				require.NoError(t, err, "the node is well: it has answered")
			})
		})
	}
}

// TestMissesRestoreRetries: a thousand misses after four failures.
func TestMissesRestoreRetries(t *testing.T) {
	tokensOfOneNode(t, throttling(10, "0.1"), func(t *testing.T, w *world) {
		for range 5 {
			w.retried()
		}
		require.False(t, w.retried())
		for range 1000 {
			_, err := kv.Do(t.Context(), w.b, kv.Get{Key: []byte("missing")})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
		require.True(t, w.retried())
	})
}

// asked is a query of one node, and whether a 503 to it is retried.
func (w *world) asked(again int) error {
	w.t.Helper()
	s := w.m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: again}, mock.Answer{Status: 503})
	defer s.Remove()
	rows, err := w.c.Query(within(w.t, time.Minute), &query.Request{
		Statement: "SELECT 1", Readonly: true,
		Retry: every(ms),
	})
	if err == nil {
		err = rows.Close()
	}
	return err
}

func TestSuccessesOverHTTPGiveTokensBackAsThoseOverKVDo(t *testing.T) {
	tokensOfOneNode(t, throttling(4, "0.6"), func(t *testing.T, w *world) {
		w.m.ScriptQuery("SELECT", mock.Answer{Rows: []string{"1"}})
		require.ErrorIs(t, w.asked(2), retry.ErrThrottled, "2 of 4 tokens are not above half")
		require.NoError(t, queryOnce(w))
		w.m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1},
			mock.Answer{Errors: []mock.ServiceError{{Code: 3000, Message: "syntax"}}})
		require.Error(t, queryOnce(w), "an answer that is no retryable failure")
		require.NoError(t, w.asked(1), "2 and twice 0.6, less 1, are above half")
	})
}

func queryOnce(w *world) error {
	rows, err := w.c.Query(within(w.t, time.Minute), &query.Request{Statement: "SELECT 1", Readonly: true})
	if err != nil {
		return err
	}
	return rows.Close()
}

// TestFive503sInTheLifeOfAProcessDoNotSwitchRetryingOffForGood: between them a thousand requests succeed.
func TestFive503sInTheLifeOfAProcessDoNotSwitchRetryingOffForGood(t *testing.T) {
	tokensOfOneNode(t, throttling(10, "0.1"), func(t *testing.T, w *world) {
		w.m.ScriptQuery("SELECT", mock.Answer{Rows: []string{"1"}})
		for i := range 12 {
			require.NoError(t, w.asked(1), "the %dth one is retried, too", i)
			for range 20 {
				require.NoError(t, queryOnce(w))
			}
			time.Sleep(time.Hour)
		}
	})
	tokensOfOneNode(t, throttling(10, "0.1"), func(t *testing.T, w *world) {
		for i := range 12 {
			s := w.m.Script(mock.ServiceMatch{Path: "/pools", Times: 1}, mock.Answer{Status: 503})
			resp, err := w.c.Do(t.Context(), &core.HTTPRequest{Method: http.MethodGet, Path: "/pools"})
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.Status, "the %dth one is retried, too", i)
			s.Remove()
			for range 20 {
				resp, err := w.c.Do(t.Context(), &core.HTTPRequest{Method: http.MethodGet, Path: "/pools/nothing"})
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
		}
	})
}

func TestTheThrottlingIsDonePerServer(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		bad, good := w.keyOn(0), w.keyOn(1)
		in := w.m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSet}},
			mock.Status(memd.StatusTmpFail))
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: bad})
		require.ErrorIs(t, err, retry.ErrThrottled)
		in.Remove()
		w.m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpSet}, Times: 3},
			mock.Status(memd.StatusTmpFail))
		res, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: good})
		require.NoError(t, err)
		require.Equal(t, 3, res.RetryInfo().Counted)
	}, file(t, throttling(10, "0.1")))
}

func TestOnlyFailuresThatAreRetryableCount(t *testing.T) {
	tokensOfOneNode(t, throttling(2, "0.001"), func(t *testing.T, w *world) {
		for range 20 {
			_, _, err := w.get(nil)
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			_, err = kv.Do(t.Context(), w.b, kv.Get{})
			require.ErrorIs(t, err, cberr.InvalidArgument)
		}
		w.refuses(memd.OpSet, 1, memd.StatusLocked) // the item is busy, not the node
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
	})
}

func TestThrottledRetriesNeverWait(t *testing.T) {
	tokensOfOneNode(t, throttling(2, "0.001"), func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		took, _, err := w.upsert(every(time.Second))
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Zero(t, took)
	})
}

func TestTheFirstRPCIsSentAndFurtherHedgesOnlyAboveTheThreshold(t *testing.T) {
	text := `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.02s",
		"nonFatalReasons":["KV_TEMPORARY_FAILURE"]}}],"retryThrottling":{"maxTokens":2,"tokenRatio":0.001}}`
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		active, replicas := w.frames()
		took, _, err := w.get(nil)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Zero(t, took)
		a, r := w.frames()
		require.Equal(t, []int{1, 0}, []int{a - active, r - replicas},
			"the failure took the node's token, and the hedge is dropped")
	}, file(t, text))
}

// TestWhatAnOperationPaidComesBackWithADefiniteAnswer: a miss after a retry is no failure of the server's.
func TestWhatAnOperationPaidComesBackWithADefiniteAnswer(t *testing.T) {
	store := policy.NewStore(20, 0, policy.Costs{})
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpGet, 1, memd.StatusTmpFail)
		_, info, err := w.get(policy.Bucket{Store: store, Base: every(ms)})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		require.Equal(t, 1, info.Counted)
		require.Equal(t, 20, store.Tokens())
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		_, _, err = w.get(policy.Limit{MaxAttempts: 2, Base: policy.Bucket{Store: store, Base: every(ms)}})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Equal(t, 10, store.Tokens(), "a failure gives nothing back")
	})
}
