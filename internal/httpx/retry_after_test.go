package httpx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, "Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "Thu, 01 Jan 2015 00:00:00 GMT": 0,
		"Thursday, 01-Jan-26 00:00:09 GMT": 9 * time.Second, "99999999999": longestDelay,
		"0000000000000000000000000000007": 7 * time.Second,
		"Fri, 31 Dec 9999 23:59:59 GMT":   longestDelay,
	} {
		d, ok := retryAfter(v, now)
		require.True(t, ok, v)
		require.Equal(t, want, d, v)
	}
	for _, v := range []string{"", "-1", "1.5", "soon", "+3", "7 "} {
		_, ok := retryAfter(v, now)
		require.False(t, ok, v)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"0", "7", "-1", "Thu, 01 Jan 2026 00:01:00 GMT"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if d, ok := retryAfter(v, time.Unix(0, 0)); ok && d < 0 {
			t.Fatalf("%q: %v", v, d)
		}
	})
}
