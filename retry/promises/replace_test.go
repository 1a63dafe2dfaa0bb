package promises_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

func parsed(t *testing.T, text string) *policy.Config {
	t.Helper()
	p, err := core.ParsePolicy([]byte(text))
	require.NoError(t, err)
	return p
}

// writesTwice is a file that gives writes two attempts.
const writesTwice = `{"operationConfig":[{"name":[{"service":"kv","operation":"upsert"},{"service":"management"}],"timeout":"0.7s",
	"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,
	"retryableReasons":["KV_TEMPORARY_FAILURE","SERVICE_RESPONSE_CODE_INDICATED"]}}]}`

func TestAPolicyCanBeReplacedWhileTheClientRuns(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		_, err := kv.Do(t.Context(), w.b, kv.Upsert{
			Key: []byte("k"), Value: []byte("v"),
			Durability: memd.DurabilityMajority,
		})
		require.NoError(t, err)
		attempts := func() int {
			in := w.refuses(memd.OpSet, 6, memd.StatusTmpFail)
			defer in.Remove()
			_, _, _ = w.upsert(nil)
			return in.Fired()
		}
		requests := func() int {
			s := w.m.Script(mock.ServiceMatch{Path: "/pools", Times: 6}, mock.Answer{Status: 503})
			defer s.Remove()
			resp, err := w.c.Do(within(t, time.Minute), &core.HTTPRequest{Method: http.MethodGet, Path: "/pools"})
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			return s.Fired()
		}
		replicas := func() int {
			in := w.fails(memd.OpGet, 1, mock.DelayReply(100*ms))
			defer in.Remove()
			_, before := w.frames()
			_, _, err := w.get(nil)
			require.NoError(t, err)
			_, after := w.frames()
			return after - before
		}
		throttled := func() bool {
			in := w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
			defer in.Remove()
			_, _, err := w.upsert(every(ms))
			return err != nil
		}
		for range 3 {
			require.Equal(t, []int{6, 6, 0}, []int{attempts(), requests(), replicas()}, "without a file")
			w.c.SetPolicy(parsed(t, writesTwice))
			require.Equal(t, []int{2, 2, 0}, []int{attempts(), requests(), replicas()})
			w.c.SetPolicy(parsed(t, hedgesGets("")))
			require.Equal(t, []int{6, 6, 1}, []int{attempts(), requests(), replicas()})
			w.c.SetPolicy(parsed(t, throttling(2, "0.001")))
			require.True(t, throttled())
			w.c.SetPolicy(parsed(t, throttling(1000, "0.001")))
			require.False(t, throttled(), "the tokens are the new file's")
			w.c.SetPolicy(nil)
		}
	})
}

// TestSuccessesOnConnectionsThatAreOpenCountForANewFile: the throttle hears of them although they were made without
// one.
func TestSuccessesOnConnectionsThatAreOpenCountForANewFile(t *testing.T) {
	virtualOf(t, []mock.Option{mock.Nodes(1), mock.Bucket("default", 16)}, func(t *testing.T, w *world) {
		w.c.SetPolicy(parsed(t, throttling(4, "1")))
		for range 5 {
			in := w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
			_, _, err := w.upsert(nil)
			require.NoError(t, err)
			in.Remove()
		}
	})
}

// TestCallsUnderWayKeepThePolicyThatTheyHaveBegunWith while others begin with the next one.
func TestCallsUnderWayKeepThePolicyThatTheyHaveBegunWith(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.c.SetPolicy(parsed(t, writesTwice))
		w.fails(memd.OpSet, 1, mock.Drop())
		f := kv.Start(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("k")})
		time.Sleep(100 * ms)
		w.c.SetPolicy(nil)
		began := time.Now()
		_, err := f.Wait(t.Context())
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Equal(t, 600*ms, time.Since(began), "of 0.7 s")
	})
}

func TestAPolicyIsReplacedWhileCallsRun(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					_, err := kv.Do(t.Context(), w.b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 20 * ms}})
					if err == nil {
						t.Error("it cannot have succeeded")
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 200 {
				w.c.SetPolicy([]*policy.Config{nil, parsed(t, hedgesGets("")), parsed(t, throttling(2, "0.1"))}[i%3])
				time.Sleep(ms)
			}
		})
		wg.Wait()
		in.Remove()
		w.c.SetPolicy(nil)
		_, info, err := w.get(nil)
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		require.Equal(t, retry.Info{}, info)
	})
}
