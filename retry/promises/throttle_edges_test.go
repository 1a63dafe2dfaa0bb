package promises_test

import (
	"context"
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

// A server that asks not to be tried again takes a token, also when the failure is in no list of those to retry.
func TestAPushbackNotToRetryTakesATokenWhateverIsListed(t *testing.T) {
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		tokens := policy.NewTokens(2, 1)
		s := policy.Only{Base: policy.Throttle{
			Base: every(ms), Node: func(string) *policy.Tokens { return tokens },
		}}
		sc := w.manager(answered(http.StatusServiceUnavailable, "", pushback, "5"))
		_, err := w.do(core.HTTPRequest{Method: "GET", Retry: s})
		require.Error(t, err)
		require.Equal(t, 1, sc.Fired())
		require.True(t, tokens.Allowed(), "what is not retryable takes none")
		w.manager(answered(http.StatusServiceUnavailable, "", pushback, "-1"))
		_, err = w.do(core.HTTPRequest{Method: "GET", Retry: s})
		require.Error(t, err)
		require.False(t, tokens.Allowed())
	})
}

// The token count never lies above the maximum, also when a success gives back more than is missing.
func TestTheTokenCountNeverExceedsTheMaximum(t *testing.T) {
	tokensOfOneNode(t, throttling(10, "0.3"), func(t *testing.T, w *world) {
		require.True(t, w.retried())
		for range 9 {
			_, _, err := w.get(nil)
			require.NoError(t, err)
		}
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, _, err := w.upsert(every(ms))
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, 5, in.Fired(), "as with ten tokens, not with 10.2")
	})
}

// Hedges are asked for at the nodes that their read has used: one in trouble keeps a read from more hedges once it was
// sent there, and no other read.
func TestAHedgeIsThrottledByTheNodesThatItsReadHasUsed(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		for range 10 {
			_, err := kv.Do(t.Context(), w.b, kv.Upsert{Key: w.keyOn(0)})
			require.ErrorIs(t, err, retry.ErrThrottled, "node 0 is in trouble")
		}
		w.fails(memd.OpGet, 0, mock.Drop())
		w.fails(memd.OpGetReplica, 0, mock.Drop())
		sick := w.m.Node(0).Addr()
		places := map[int]bool{}
		for i := range 256 {
			key := fmt.Appendf(nil, "place-%d", i)
			_, nodes, ok := w.b.Locate(key)
			require.True(t, ok)
			require.Len(t, nodes, 3)
			at := 0
			for nodes[at] != sick {
				at++
			}
			if places[at] {
				continue
			}
			places[at] = true
			active, replicas := w.frames()
			_, err := kv.Do(within(t, time.Second), w.b, kv.Get{
				Key: key, Hedge: &kv.Hedge{MaxAttempts: 3, Delay: 10 * ms}, Common: kv.Common{Timeout: 500 * ms},
			})
			require.Error(t, err)
			a, r := w.frames()
			require.Equal(t, []int{1, at}, []int{a - active, r - replicas}, "the copy number %d is in trouble", at)
		}
		require.Len(t, places, 3)
	}, file(t, throttling(10, "0.001")))
}

// An answer that speaks of a rate limit is throttling, whatever else its reason usually is.
func TestAnAnswerThatSpeaksOfARateLimitIsThrottling(t *testing.T) {
	kinds := func(s *recorder) (all []retry.Kind) {
		for _, r := range s.asked() {
			all = append(all, r.Kind)
		}
		return all
	}
	for st, want := range map[memd.Status]retry.Kind{
		memd.StatusRateLimitedMaxCommands: retry.Throttling,
		memd.StatusWouldThrottle:          retry.Throttling,
		memd.StatusBusy:                   retry.ServerSide,
	} {
		virtual(t, func(t *testing.T, w *world) {
			s := &recorder{base: never{}}
			w.refuses(memd.OpSet, 0, st)
			_, _, err := w.upsert(s)
			require.Error(t, err)
			require.Equal(t, []retry.Kind{want}, kinds(s), "%v", st)
		})
	}
	for code, want := range map[int]retry.Kind{1191: retry.Throttling, 5000: retry.ServerSide} {
		virtual(t, func(t *testing.T, w *world) {
			s := &recorder{base: never{}}
			w.m.ScriptQuery("SELECT", mock.Answer{Errors: []mock.ServiceError{{
				Code: code, Message: "queryport.indexNotFound", Retry: true,
			}}})
			require.Error(t, drained(w.c.Query(within(t, time.Minute), &query.Request{
				Statement: "SELECT 1", Readonly: true, Retry: s,
			})))
			require.Equal(t, []retry.Kind{want}, kinds(s), "%d", code)
		})
	}
}

// The error map describes statuses that have a meaning of their own, and does not decide about them.
func TestTheErrorMapDescribesAnInternalErrorAndDoesNotDecideAboutIt(t *testing.T) {
	for _, st := range []memd.Status{memd.StatusInternal, memd.StatusNotInitialized} {
		virtual(t, func(t *testing.T, w *world) {
			s := &recorder{base: every(ms)}
			in := w.refuses(memd.OpSet, 0, st)
			_, err := kv.Do(context.Background(), w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s}})
			var answer *kv.Error
			require.ErrorAs(t, err, &answer)
			require.NotEmpty(t, answer.Description, "%v", st)
			require.Equal(t, 1, in.Fired())
			require.Empty(t, s.asked())
			require.Equal(t, st == memd.StatusInternal, answer.Ambiguous())
		})
	}
}

// TestATransparentRetryTakesNothingFromATokenBucket: not even an empty one keeps a call from being sent that has never
// left the client.
func TestATransparentRetryTakesNothingFromATokenBucket(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(100 * ms)
		time.AfterFunc(time.Second, func() { _ = w.m.Respawn(1) })
		store := policy.NewStore(1, 0, policy.Costs{})
		res, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{
			Retry: policy.Bucket{Base: every(100 * ms), Store: store},
		}})
		require.NoError(t, err)
		require.Positive(t, res.RetryInfo().Transparent)
		require.Equal(t, 1, store.Tokens())
	})
}

// TestAPushbackNotToRetryTakesATokenOfHedgesToo: also with a failure after which no hedge follows anyway.
func TestAPushbackNotToRetryTakesATokenOfHedgesToo(t *testing.T) {
	const syntax = `{"errors":[{"code":3000,"msg":"syntax error"}],"status":"fatal"}`
	for word, hedges := range map[string]int{"7": 1, "-1": 0} { // the first is no failure that a throttle counts
		virtual(t, func(t *testing.T, w *world) {
			read := hedgedRequests(t.Context(), w, &core.Hedge{MaxAttempts: 2, Delay: 100 * ms})[mock.QueryService]
			w.m.ScriptQuery("SELECT", answered(http.StatusBadRequest, syntax, pushback, word))
			for range 30 { // every node answers some
				require.ErrorIs(t, read(), cberr.ParsingFailure)
			}
			silent := w.m.ScriptQuery("SELECT", mock.Answer{Never: true})
			require.ErrorIs(t, read(), retry.ErrTimeout)
			require.Equal(t, 1+hedges, silent.Fired(), word)
		}, file(t, throttling(4, "0.1")))
	}
}
