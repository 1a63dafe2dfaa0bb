package pace_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/pace"
)

// In no second are there more than Connects beginnings, whatever the pauses between them were.
func TestStartsInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s pace.Starts
		var began []time.Time
		for i := range 100 {
			if wait := s.Wait(); wait > 0 {
				time.Sleep(wait - time.Nanosecond)
				require.EqualValues(t, 1, s.Wait())
				time.Sleep(time.Nanosecond)
			}
			require.LessOrEqual(t, s.Wait(), time.Duration(0))
			s.Begin()
			began = append(began, time.Now())
			time.Sleep(time.Duration(i*7%13) * 20 * time.Millisecond)
		}
		for i := pace.Connects; i < len(began); i++ {
			require.GreaterOrEqual(t, began[i].Sub(began[i-pace.Connects]), time.Second)
		}
		require.Less(t, began[len(began)-1].Sub(began[0]), 30*time.Second, "it does not wait longer than it has to")
	})
}

// The first beginnings do not wait, nor those after a second without one.
func TestStartsAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s pace.Starts
		for range 3 {
			for range pace.Connects {
				require.LessOrEqual(t, s.Wait(), time.Duration(0))
				s.Begin()
			}
			require.Equal(t, time.Second, s.Wait())
			time.Sleep(time.Second)
		}
	})
}
