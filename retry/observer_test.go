package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// diary writes down what an Observer is told.
type diary struct{ lines []string }

func (d *diary) observer() hooks {
	add := func(format string, args ...any) { d.lines = append(d.lines, fmt.Sprintf(format, args...)) }
	return hooks{
		attempt: func(a retry.AttemptInfo) {
			add("attempt %d of %s at %s (%s): %v %v %v", a.Number, a.Operation, a.Endpoint, a.ID, a.Stage, a.Reason,
				a.Err)
		},
		retry: func(r *retry.Request, why retry.Reason, delay time.Duration) {
			add("retry %s after %v because of %v, %d+%d before", r.Operation, delay, why, r.Counted, r.Transparent)
		},
		gaveUp: func(r *retry.Request, why retry.Reason, err error) {
			add("gave up %s because of %v: %v", r.Operation, why, err)
		},
	}
}

// TestObserverIsToldEverything proves CB-42, CB-43, GR-10's part of this package, and GA6-47.
func TestObserverIsToldEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var d diary
		orc := retry.New(retry.Options{
			Observer: d.observer(),
			Default:  retry.BestEffort{Backoff: retry.Constant(2 * ms)},
		})

		x := newOp(false, time.Second)
		x.answer(orc, retry.KVLocked, retry.Hint{})
		pass(10 * ms)
		x.answer(orc, retry.KVNotMyVBucket, retry.Hint{})
		pass(10 * ms)
		e, _ := x.st.Sent()
		orc.ConnLost(x, e, io.EOF)
		require.Equal(t, []string{
			"attempt 1 of get at 10.0.0.1:11210 (0x00000007): response KV_LOCKED what the attempt met",
			"retry get after 2ms because of KV_LOCKED, 0+0 before",
			"attempt 2 of get at 10.0.0.1:11210 (0x00000007): response KV_NOT_MY_VBUCKET what the attempt met",
			"retry get after 10ms because of KV_NOT_MY_VBUCKET, 1+0 before",
			"attempt 3 of get at 10.0.0.1:11210 (0x00000007): network SOCKET_CLOSED_WHILE_IN_FLIGHT EOF",
			"gave up get because of SOCKET_CLOSED_WHILE_IN_FLIGHT: EOF",
		}, d.lines)

		d.lines = nil
		y := newOp(true, time.Second)
		y.answer(orc, retry.KVLocked, retry.Hint{})
		pass(10 * ms)
		e, _ = y.st.Sent()
		y.st.Answered(e)
		y.st.Finish()
		y.st.Settle(nil)
		require.Equal(t, "attempt 2 of get at 10.0.0.1:11210 (0x00000007): response UNKNOWN <nil>",
			d.lines[len(d.lines)-1])

		d.lines = nil
		z := newOp(true, time.Second)
		z.answer(orc, retry.KVLocked, retry.Hint{})
		pass(10 * ms)
		z.st.Sent()
		orc.Expire(z)
		require.Equal(t, []string{
			"attempt 2 of get at 10.0.0.1:11210 (0x00000007): " +
				"network UNKNOWN operation timed out: what the attempt met",
			"gave up get because of KV_LOCKED: operation timed out: what the attempt met",
		}, d.lines[2:])

		d.lines = nil
		never := newOp(true, time.Second)
		never.st.Sent()
		orc.Cancel(never, nil)
		done := newOp(true, time.Second)
		done.st.Finish()
		done.st.Settle(nil)
		require.Empty(t, d.lines, "nothing had failed")
	})
}

// TestStats proves GA6-48, GA6-49 and GA6-50.
func TestStats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: retry.BestEffort{Backoff: retry.Constant(2 * ms)}})
		run := func(name string, script ...retry.Reason) *op {
			x := newOp(false, time.Hour)
			x.name = name
			for _, why := range script {
				x.answer(orc, why, retry.Hint{})
				pass(2 * time.Second)
			}
			return x
		}
		finish := func(x *op, err error) {
			e, _ := x.st.Sent()
			x.st.Answered(e)
			x.st.Finish()
			x.st.Settle(err)
		}
		finish(run("get", retry.KVLocked, retry.KVNotMyVBucket, retry.KVLocked), nil)
		finish(run("get", retry.KVLocked), io.EOF)
		finish(run("get"), nil)
		run("get", retry.KVLocked, retry.Unknown)
		x := run("touch", retry.KVLocked)
		e, _ := x.st.Sent()
		orc.ConnLost(x, e, io.EOF)
		y := newOp(false, time.Second) // in doubt without a reason
		y.name = "touch"
		y.st.Sent()
		orc.Expire(y)
		z := newOp(true, time.Second)
		z.name = "noop"
		z.st.Strategy = after{retry.StopWith(func(err error) error {
			return fmt.Errorf("%w: %w", retry.ErrThrottled,
				err)
		})}
		z.answer(orc, retry.KVLocked, retry.Hint{})

		s := orc.Stats()
		require.Zero(t, s.Parked)
		require.Zero(t, s.Bytes)
		get := s.Operations[retry.OperationKey{Service: retry.KV, Operation: "get"}].Reasons
		require.Equal(t, retry.Resends{Retries: 4}, get[retry.KVLocked])
		require.Equal(t, retry.Resends{Transparent: 1}, get[retry.KVNotMyVBucket])
		for k, n := range s.Operations { // the rest is compared as a whole
			n.Reasons = retry.OperationStats{}.Reasons
			s.Operations[k] = n
		}
		require.Equal(t, map[retry.OperationKey]retry.OperationStats{
			{Service: retry.KV, Operation: "get"}: {
				Retries: 4, Transparent: 1, Failed: 3, GaveUp: 1, Delay: 18 * ms, Histogram: [8]uint64{3, 1, 1},
			},
			{Service: retry.KV, Operation: "touch"}: {
				Retries: 1, Failed: 1, GaveUp: 1, InDoubt: 2, Delay: 2 * ms, Histogram: [8]uint64{1},
			},
			{Service: retry.KV, Operation: "noop"}: {Throttled: 1, GaveUp: 1},
		}, s.Operations)
	})
}

// TestHistogram proves GA6-49: the n-th retry adds one to exactly one bucket.
func TestHistogram(t *testing.T) {
	orc := retry.New(retry.Options{})
	orc.Hedged(retry.KV, "get", 1, 0) // no hedge was sent
	orc.Hedged(retry.KV, "get", 2001, 7)
	s := orc.Stats().Operations[retry.OperationKey{Service: retry.KV, Operation: "get"}]
	require.Equal(t, [8]uint64{1, 1, 1, 1, 5, 90, 900, 1001}, s.Histogram)
	require.EqualValues(t, 2000, s.Hedges)
	require.EqualValues(t, 7, s.Failed)
}

func TestStatsAreBounded(t *testing.T) {
	orc := retry.New(retry.Options{})
	for n := range 3000 {
		orc.Hedged(retry.Management, fmt.Sprint(n), 2, 0)
	}
	s := orc.Stats().Operations
	require.LessOrEqual(t, len(s), 1025)
	require.EqualValues(t, 3000-1024, s[retry.OperationKey{Operation: "other"}].Hedges)
}

// TestErrors proves SM-16 and SM-17 and what section 12 of the design says of the sentinels.
func TestErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: after{retry.After(time.Second)}})
		ends := map[error]func(x *op){
			retry.ErrTimeout:  func(x *op) { orc.Expire(x) },
			retry.ErrCanceled: func(x *op) { orc.Cancel(x, context.Canceled) },
		}
		for sentinel, end := range ends {
			x := newOp(false, time.Minute)
			x.answer(orc, retry.KVLocked, retry.Hint{})
			end(x)
			var e *retry.Error
			require.ErrorAs(t, x.err, &e)
			require.ErrorIs(t, e, sentinel)
			require.ErrorIs(t, e, errCause)
			require.Equal(t, errCause, e.Cause)
			require.Equal(t, retry.KV, e.Service)
			require.Equal(t, "get", e.Operation)
			require.Equal(t, "10.0.0.1:11210", e.Endpoint)
			require.Equal(t, "0x00000007", e.ID)
			require.False(t, e.InDoubt)
			require.Equal(t, retry.KVLocked, e.Reason)
			require.Equal(t, sentinel == retry.ErrTimeout, errors.Is(e, context.DeadlineExceeded))
			require.Equal(t, sentinel == retry.ErrCanceled, errors.Is(e, context.Canceled))
			require.Contains(t, e.Error(), errCause.Error())
			require.Contains(t, e.Error(), sentinel.Error())
			info, ok := retry.InfoOf(fmt.Errorf("wrapped: %w", e))
			require.True(t, ok)
			require.Equal(t, e.Info, info)
		}
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, retry.ErrTimeout, &timeout)
		require.True(t, timeout.Timeout())
		_, ok := retry.InfoOf(io.EOF)
		require.False(t, ok)
		minimal := &retry.Error{Info: retry.Info{Reason: retry.KVLocked}}
		require.Contains(t, minimal.Error(), "KV_LOCKED")
		require.Empty(t, minimal.Unwrap())
	})
}

// TestExpireBeforeAnyFailure names the operation although no attempt had failed.
func TestExpireBeforeAnyFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		x := newOp(false, time.Second)
		x.st.Sent()
		orc.Expire(x)
		var e *retry.Error
		require.ErrorAs(t, x.err, &e)
		require.Equal(t, "get", e.Operation)
		require.Equal(t, "10.0.0.1:11210", e.Endpoint)
		require.Equal(t, retry.StageNetwork, e.Stage)
		require.True(t, e.InDoubt)
		require.NoError(t, e.Cause)

		y := newOp(false, time.Second)
		y.describe = func() { t.Error("described while it may be routed") }
		orc.Expire(y)
		require.ErrorAs(t, y.err, &e)
		require.Equal(t, retry.StageDispatch, e.Stage)
	})
}
