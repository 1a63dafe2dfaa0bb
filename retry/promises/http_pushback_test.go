package promises_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

const pushback = "grpc-retry-pushback-ms"

// put is a raw request that is not idempotent.
func put(s retry.Strategy) core.HTTPRequest {
	return core.HTTPRequest{Method: "PUT", Retry: s, Timeout: time.Minute}
}

// TestTheServersDelayIsExactForShippedStrategies: neither longer nor shorter, and the backoff begins anew afterwards.
func TestTheServersDelayIsExactForShippedStrategies(t *testing.T) {
	for name, s := range map[string]retry.Strategy{
		"the default":  nil,
		"best effort":  retry.BestEffort{Backoff: retry.Constant(5 * ms)},
		"a longer one": retry.BestEffort{Backoff: retry.Constant(5 * time.Second)},
		"limited":      policy.Limit{MaxAttempts: 9},
		"jittered":     retry.BestEffort{Backoff: retry.FullJitter(retry.Constant(time.Second), nil)},
	} {
		virtual(t, func(t *testing.T, w *world) {
			w.manager(busy(2), answered(http.StatusServiceUnavailable, "", pushback, "70"), done())
			began := time.Now()
			_, err := w.do(put(s))
			require.NoError(t, err, name)
			require.Equal(t, []int{0, 2000, 2070}, w.arrivals(mock.ManagementService, "/x", began), name)
		})
	}
}

// TestTheServersDelayIsAFloorUnderTheUsersOwnStrategy, unless the strategy's Action says otherwise in so many words.
func TestTheServersDelayIsAFloorUnderTheUsersOwnStrategy(t *testing.T) {
	own := func(a retry.Action) retry.Strategy {
		return retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return a })
	}
	for name, c := range map[string]struct {
		s    retry.Strategy
		want int
	}{
		"sooner":                   {own(retry.After(5 * ms)), 2000},
		"later":                    {own(retry.After(3 * time.Second)), 3000},
		"sooner, in so many words": {own(retry.After(5 * ms).IgnorePushback()), 5},
		"later, in so many words":  {own(retry.After(3 * time.Second).IgnorePushback()), 3000},
	} {
		virtual(t, func(t *testing.T, w *world) {
			w.manager(busy(2), done())
			began := time.Now()
			_, err := w.do(put(c.s))
			require.NoError(t, err, name)
			require.Equal(t, []int{0, c.want}, w.arrivals(mock.ManagementService, "/x", began), name)
		})
	}
}

// TestAServerCanSayNotToRetry: a negative or unreadable value of gRPC's header, which proxies in front of services
// send. Each strategy obeys, unless its Action says otherwise in so many words.
func TestAServerCanSayNotToRetry(t *testing.T) {
	for _, value := range []string{"-1", "soon", "007", "99999999999", "1.5", " "} {
		for name, s := range map[string]retry.Strategy{
			"the default": nil, "best effort": retry.BestEffort{}, "one's own": every(ms),
			"a function": retry.Func(func(context.Context, *retry.Request,
				retry.Reason,
			) retry.Action {
				return retry.After(ms)
			}),
		} {
			virtual(t, func(t *testing.T, w *world) {
				sc := w.manager(answered(http.StatusTooManyRequests, "no", pushback, value), done())
				_, err := w.do(core.HTTPRequest{Method: "GET", Retry: s, Timeout: time.Minute})
				require.Error(t, err, "%s %q", name, value)
				require.Equal(t, 1, sc.Fired(), "%s %q", name, value)
			})
		}
	}
	virtual(t, func(t *testing.T, w *world) {
		sc := w.manager(answered(http.StatusTooManyRequests, "no", pushback, "-1"), done())
		_, err := w.do(put(retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
			return retry.After(ms).IgnorePushback()
		})))
		require.NoError(t, err)
		require.Equal(t, 2, sc.Fired())
	})
	for s, run := range rowServices { // the typed requests, too
		virtual(t, func(t *testing.T, w *world) {
			sc := w.m.Script(mock.ServiceMatch{Service: s}, answered(http.StatusTooManyRequests, "no", pushback, "-1"),
				mock.Answer{})
			require.Error(t, run(within(t, time.Minute), w.c), s)
			require.Equal(t, 1, sc.Fired(), s)
		})
	}
}

// TestTheHeaderOfGRPCWinsOverRetryAfter: it is the more exact one.
func TestTheHeaderOfGRPCWinsOverRetryAfter(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(http.StatusServiceUnavailable, "", pushback, "30", "Retry-After", "9"), done())
		began := time.Now()
		_, err := w.do(put(nil))
		require.NoError(t, err)
		require.Equal(t, []int{0, 30}, w.arrivals(mock.ManagementService, "/x", began))
	})
}

// TestDelaysBeyondAnyDeadlineAreBoundedNotIgnored: the request waits for its deadline instead of being sent again at
// once.
func TestDelaysBeyondAnyDeadlineAreBoundedNotIgnored(t *testing.T) {
	for _, value := range []string{
		"2147483648", "4294967296", "9223372036854775807", "99999999999999999999999999",
		"Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		virtual(t, func(t *testing.T, w *world) {
			sc := w.manager(answered(http.StatusServiceUnavailable, "", "Retry-After", value), done())
			began := time.Now()
			_, err := w.do(core.HTTPRequest{Method: "PUT", Timeout: 30 * time.Second})
			require.ErrorIs(t, err, retry.ErrTimeout, value)
			require.Equal(t, 30*time.Second, time.Since(began), value)
			require.Equal(t, 1, sc.Fired(), value)
		})
	}
}

// TestAServerCannotDriveTheLoop: one that says again and again to come back at once is come back to at once, and then
// ever later.
func TestAServerCannotDriveTheLoop(t *testing.T) {
	for name, header := range map[string][]string{
		"zero": {"Retry-After", "0"}, "a past date": {"Retry-After", "Wed, 21 Oct 1998 07:28:00 GMT"},
		"zero ms": {pushback, "0"}, "one ms": {pushback, "1"},
	} {
		virtual(t, func(t *testing.T, w *world) {
			busy := make([]mock.Answer, 100) // after which a client that was driven is told that it is done
			for i := range busy {
				busy[i] = answered(http.StatusServiceUnavailable, "", header...)
			}
			w.manager(append(busy, done())...)
			began := time.Now()
			_, err := w.do(core.HTTPRequest{Method: "PUT", Timeout: 10 * time.Second})
			require.ErrorIs(t, err, retry.ErrTimeout, name)
			at := w.arrivals(mock.ManagementService, "/x", began)
			require.Less(t, len(at), 20, "%s: %v", name, at)
			require.Greater(t, len(at), 5, "%s: %v", name, at)
			require.LessOrEqual(t, at[1], 1, "the first is obeyed")
		})
	}
}
