package promises_test

import (
	"context"
	"net/http"
	"os"
	"strings"
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

// guidesFile is the example of a policy file in the guide, exactly.
func guidesFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/retry.md")
	require.NoError(t, err)
	_, tail, ok := strings.Cut(string(text), "\n```json\n")
	require.True(t, ok)
	example, _, ok := strings.Cut(tail, "```")
	require.True(t, ok)
	require.Contains(t, example, `"hedgingPolicy"`)
	return example
}

// narrow is a file that lets everything pass once and lists next to nothing.
const narrow = `{"operationConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s",
	"backoffMultiplier":1,"retryableReasons":["KV_LOCKED",429],"softLimit":"0.001s","hardLimit":"0.002s"%s}}],
	"retryThrottling":{"maxTokens":1,"tokenRatio":0.001}}`

// used is everything that an application does here: it must succeed while something happens.
func (w *world) used(key []byte) {
	w.t.Helper()
	ctx := within(w.t, time.Minute)
	_, err := kv.Do(ctx, w.b, kv.Upsert{Key: key, Value: []byte(`{"a":1}`)})
	require.NoError(w.t, err, "upsert")
	_, err = kv.Do(ctx, w.b, kv.Get{Key: key})
	require.NoError(w.t, err, "get")
	_, err = kv.Do(ctx, w.b, kv.Exists{Key: key})
	require.NoError(w.t, err, "exists")
	_, err = kv.Do(ctx, w.b, kv.Get{Key: key, Paths: []string{"a"}})
	require.NoError(w.t, err, "get a path")
	for _, out := range kv.GetMulti(ctx, w.b, kv.Common{}, [][]byte{key, key}) {
		require.NoError(w.t, out.Err, "many")
	}
	rows, err := w.c.Query(ctx, &query.Request{Statement: "SELECT 1"})
	require.NoError(w.t, err, "query")
	require.NoError(w.t, rows.Close())
	resp, err := w.c.Do(ctx, &core.HTTPRequest{Method: http.MethodGet, Path: "/pools"})
	require.NoError(w.t, err, "management")
	require.NoError(w.t, resp.Body.Close())
}

// passUnnoticed lets what may happen to a cluster happen.
func passUnnoticed(t *testing.T, text string) {
	for name, happens := range map[string]func(w *world, key []byte){
		"a restart": func(w *world, key []byte) {
			require.NoError(w.t, w.m.Kill(1))
			time.AfterFunc(1200*ms, func() { _ = w.m.Respawn(1) })
		},
		"a restart that has just begun": func(w *world, key []byte) {
			time.AfterFunc(ms, func() { _ = w.m.Kill(1) })
			time.AfterFunc(1200*ms, func() { _ = w.m.Respawn(1) })
			time.Sleep(2 * ms)
		},
		"connections that are lost": func(w *world, key []byte) { w.m.DisconnectAll() },
		"a read that is lost":       func(w *world, key []byte) { w.fails(memd.OpGet, 1, mock.CloseBefore()) },
		"a look-up that is lost": func(w *world, key []byte) {
			w.fails(memd.OpSubdocMultiLookup, 1, mock.CloseBefore())
			w.fails(memd.OpGetMeta, 1, mock.CloseBefore())
		},
		"a failover": func(w *world, key []byte) {
			require.NoError(w.t, w.m.Kill(1))
			time.AfterFunc(time.Second, func() { _ = w.m.Failover(1) })
		},
		"a rebalance": func(w *world, key []byte) {
			for vb := range 64 {
				_ = w.m.MoveVBucket("default", vb, 2)
			}
		},
		"one refusing query node": func(w *world, key []byte) {
			w.m.Network().Refuse(w.m.Node(0).ServiceAddr(mock.QueryService))
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.m.ScriptQuery("SELECT", mock.Answer{Rows: []string{"1"}})
				for range 3 {
					key := w.keyOn(1)
					happens(w, key)
					w.used(key)
					time.Sleep(10 * time.Second)
					w.m.Network().HealAll()
					if name == "a failover" || name == "a rebalance" {
						return
					}
				}
			}, file(t, text))
		})
	}
}

func TestTheGuidesExamplePolicyFileHarmsNoCall(t *testing.T) { passUnnoticed(t, guidesFile(t)) }

func TestTransparentRetriesAreRegardlessOfTheRetryConfiguration(t *testing.T) {
	passUnnoticed(t, strings.ReplaceAll(narrow, "%s", ""))
	passUnnoticed(t, strings.ReplaceAll(narrow, "%s", `,"pinned":true`))
}

func TestWhatNeverLeavesTheClientIsRetriedUntilTheDeadline(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(100 * ms)
		began := time.Now()
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2500*ms, time.Since(began))
		info, _ := retry.InfoOf(err)
		require.Zero(t, info.Counted, "they are no attempts")
		require.Greater(t, info.Transparent, 3)
		require.True(t, info.Reasons.Has(retry.SocketNotAvailable), "the error says why")
	}, file(t, strings.ReplaceAll(narrow, "%s", "")))
}

func TestWhatReachedTheServerUnseenIsRetriedOnceAndThenByThePolicy(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for times, want := range []int{1: 2, 2: 2} { // the second loss is the policy's, which does not list it
			if times == 0 {
				continue
			}
			in := w.fails(memd.OpGetMeta, times, mock.CloseBefore())
			before := w.m.Frames(memd.OpGetMeta)
			_, err := kv.Do(within(t, time.Minute), w.b, kv.GetMeta{Key: []byte("k")})
			require.Equal(t, want, w.m.Frames(memd.OpGetMeta)-before)
			if times == 1 {
				require.ErrorIs(t, err, cberr.DocumentNotFound)
			} else {
				require.ErrorIs(t, err, cberr.RequestCanceled)
				info, _ := retry.InfoOf(err)
				require.Zero(t, info.Counted)
				require.Equal(t, 1, info.Transparent)
			}
			in.Remove()
			time.Sleep(time.Second)
		}
	}, file(t, strings.ReplaceAll(narrow, "%s", "")))
}

func TestTransparentRetriesDoNotCountAsFailuresForTheThrottle(t *testing.T) {
	const two = `{"retryThrottling":{"maxTokens":2,"tokenRatio":0.001}}`
	virtual(t, func(t *testing.T, w *world) {
		for range 5 { // one lost read each: none takes a token
			w.fails(memd.OpGet, 1, mock.CloseBefore())
			_, _, err := w.get(nil)
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			time.Sleep(time.Second)
		}
		w.refuses(memd.OpGet, 1, memd.StatusLocked)
		_, _, err := w.get(nil)
		require.ErrorIs(t, err, cberr.DocumentNotFound, "retries are allowed")
	}, file(t, two))
}

func TestTransparentRetriesAreNotInRetryAttempt(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var numbers []string
		w.m.Script(mock.ServiceMatch{Path: "/pools"}, mock.Answer{Func: func(r *mock.ServiceRequest) mock.Answer {
			numbers = append(numbers, r.Header.Get("Retry-Attempt"))
			return mock.Answer{Body: []byte("{}")}
		}})
		for i := range 2 {
			w.m.Network().Refuse(w.m.Node(i).ServiceAddr(mock.ManagementService))
		}
		for range 6 {
			resp, err := w.c.Do(t.Context(), &core.HTTPRequest{Method: http.MethodGet, Path: "/pools"})
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, []string{"", "", "", "", "", ""}, numbers, "a node that refuses has seen no request")
	})
}

// askedOnce is a strategy of the user's: it is asked about everything that is not always retried, transparent or not.
func TestAUsersOwnStrategyIsAskedAboutTransparentFailuresToo(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(100 * ms)
		began := time.Now()
		var unseen bool
		s := retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
			unseen = r.Unseen
			return retry.Stop()
		})
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{Retry: s}})
		require.Error(t, err)
		require.Zero(t, time.Since(began))
		require.True(t, unseen)
	})
}
