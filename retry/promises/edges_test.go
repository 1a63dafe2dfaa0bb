package promises_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestLimitsOfDelaysAtTheirExactEdge: a sum that has come to the soft limit allows no further retry, and a delay that
// ends exactly on the hard limit is made.
func TestLimitsOfDelaysAtTheirExactEdge(t *testing.T) {
	for name, l := range map[string]policy.Limit{
		"soft": {Soft: 20 * ms}, "hard": {Hard: 20 * ms},
		"truncated": {Hard: 20 * ms, Fit: policy.Truncate}, "overflowing": {Hard: 20 * ms, Fit: policy.Overflow},
	} {
		virtual(t, func(t *testing.T, w *world) {
			w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
			l.Base = every(10 * ms)
			took, info, err := w.upsert(l)
			require.ErrorIs(t, err, retry.ErrExhausted, name)
			require.Equal(t, 2, info.Counted, name)
			require.Equal(t, 20*ms, took, name)
		})
	}
}

// TestAFitDoesNotChangeTheServersDelay: the last delay is filled up to the hard limit or shortened to it, but not one
// that the server has named.
func TestAFitDoesNotChangeTheServersDelay(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(busy(3), done())
		began := time.Now()
		status, err := w.do(core.HTTPRequest{Method: "PUT", Timeout: time.Minute, Retry: policy.Limit{
			Base: policy.Pushback{Base: every(ms)}, MaxAttempts: 2, Hard: 30 * time.Second, Fit: policy.Stretch,
		}})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, 3000, w.arrivals(mock.ManagementService, "/x", began)[1])
	})
}

// TestSuccessesFillAThrottleNoFurtherThanToItsTop: after any number of successes as many failures in a row are retried
// as at the beginning.
func TestSuccessesFillAThrottleNoFurtherThanToItsTop(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for range 20 {
			_, _, err := w.upsert(nil)
			require.NoError(t, err)
		}
		w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, info, err := w.upsert(nil)
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, 1, info.Counted)
	}, file(t, `{"retryThrottling":{"maxTokens":4,"tokenRatio":1}}`))
}

// TestATransparentRetryIsMadeAfterTheLastAttemptOfALimit: an attempt that no server has seen uses none up, not even the
// last that a limit allows.
func TestATransparentRetryIsMadeAfterTheLastAttemptOfALimit(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		time.AfterFunc(50*ms, func() { // the attempt is to be sent at 100 ms
			for i := range 3 {
				w.m.Network().Refuse(w.m.Node(i).Addr())
			}
			w.m.Network().ResetAll()
		})
		time.AfterFunc(time.Second, func() {
			for i := range 3 {
				w.m.Network().Restore(w.m.Node(i).Addr())
			}
		})
		took, info, err := w.upsert(policy.Limit{Base: every(100 * ms), MaxAttempts: 2})
		require.NoError(t, err)
		require.Equal(t, 1, info.Counted)
		require.Positive(t, info.Transparent)
		require.Greater(t, took, time.Second)
	})
}
