package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// D81: a strategy is tested by calling it. There is nothing to fake.
func TestImpatient_D81(t *testing.T) {
	s := impatient{retry.BestEffort{Backoff: retry.Constant(5 * time.Millisecond)}}
	for why, want := range map[retry.Reason]bool{
		retry.KVLocked: false, retry.KVTemporaryFailure: true, retry.SocketClosedWhileInFlight: false,
	} {
		delay, again := s.RetryAfter(t.Context(), &retry.Request{Context: t.Context()}, why).Delay()
		require.Equal(t, want, again, "%v", why)
		if again {
			require.Equal(t, 5*time.Millisecond, delay)
		}
	}
	require.True(t, s.Inline(), "it never blocks, so no goroutine is started for it")
}
