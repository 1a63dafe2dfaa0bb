package promises_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestTheDefaultsOfTheExponentialBackoffMakeTenRetries: 3 s times the square of the retry's number, at most 180 s each
// and 1800 s in all.
func TestTheDefaultsOfTheExponentialBackoffMakeTenRetries(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(http.StatusTooManyRequests, "busy"))
		began := time.Now()
		_, err := w.do(core.HTTPRequest{Method: "PUT", Retry: policy.Graph(), Timeout: policy.GraphTime})
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, http.StatusTooManyRequests, failedWith(t, err).Status)
		at := []int{0}
		for _, s := range []int{3, 12, 27, 48, 75, 108, 147, 180, 180, 180} {
			at = append(at, at[len(at)-1]+1000*s)
		}
		require.Equal(t, at, w.arrivals(mock.ManagementService, "/x", began))
		require.Equal(t, 960*time.Second, time.Since(began))
	})
}

// TestCumulativeTimePlusRetryAfterBeyondTheLimitReturnsTheFailedResponseAtOnce: the time limit of the retries is 1800
// s.
func TestCumulativeTimePlusRetryAfterBeyondTheLimitReturnsTheFailedResponseAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(busy(1000))
		began := time.Now()
		_, err := w.do(core.HTTPRequest{Method: "PUT", Retry: policy.Graph(), Timeout: 2 * policy.GraphTime})
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, []string{"1000"}, failedWith(t, err).Header["Retry-After"])
		require.Equal(t, []int{0, 1000_000}, w.arrivals(mock.ManagementService, "/x", began))
		require.Equal(t, 1000*time.Second, time.Since(began))
	})
}
