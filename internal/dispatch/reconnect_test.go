package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/pace"
)

// Pauses double up to the limit, with equal jitter, and begin anew after a connection that was of use.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		b.init(&Options{RedialMax: 200 * time.Millisecond, JitterSource: func() float64 { return 0.5 }})
		for _, ms := range []time.Duration{30, 60, 120, 200, 200} {
			require.Equal(t, ms*time.Millisecond*3/4, b.failed())
		}
		b.worked()
		require.Equal(t, redialMin*3/4, b.failed())
		b.init(&Options{JitterSource: func() float64 { return 0 }})
		for range 20 {
			b.failed()
		}
		require.Equal(t, redialMax/2, b.failed())
	})
}

// Connections that are of use follow one another at once, and then at the pace that a server may have.
func TestBackoffOfAServerThatHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		began := time.Now()
		for range 10 * pace.Connects {
			b.begins()
			b.worked()
			pause(t.Context(), b.turn(), nil)
		}
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}
