package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// D81: a strategy is tested by calling it. There is nothing to fake.
func TestImpatient_D81(t *testing.T) {
	s := impatient{retry.FastFailOnTerminalError{Base: retry.BestEffort{Backoff: retry.Constant(5 * time.Millisecond)}}}
	for why, want := range map[retry.Reason]bool{
		retry.KVLocked: false, retry.KVTemporaryFailure: true, retry.SocketClosedWhileInFlight: false,
		retry.AuthenticationError: false,
	} {
		delay, again := s.RetryAfter(t.Context(), &retry.Request{Context: t.Context()}, why).Delay()
		require.Equal(t, want, again, "%v", why)
		if again {
			require.Equal(t, 5*time.Millisecond, delay)
		}
	}
	require.False(t, retry.IsInline(s), "it may block: the client asks it on a goroutine of its own")
}
