package conn

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What nobody else waits for is written at once. The pacer takes the rest, until nothing is left to write.
func TestAPacerWritesForManyConnections(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	p := NewPacer(time.Now(), &Yields{}, 1)
	a, toA := paced(t, p)
	b, toB := paced(t, p)
	ask(t, a)
	require.EqualValues(t, 1, toA.Load(), "it is alone")
	ask(t, b)
	require.EqualValues(t, 1, toB.Load())
	for round := range 3 {
		for range 5 {
			ask(t, a)
			ask(t, b)
		}
		require.EqualValues(t, 1+round, toA.Load(), "there is one processor")
		p.wg.Wait()
		require.EqualValues(t, 2+round, toA.Load())
		require.EqualValues(t, 2+round, toB.Load())
		require.EqualValues(t, 6+5*round, a.Stats.Requests.Load())
		require.False(t, a.isFlushing())
		require.False(t, p.running)
		require.Empty(t, p.due)
	}
	p.Close()
	ask(t, a) // it is known by now that there can be no event
	p.wg.Wait()
	require.EqualValues(t, 5, toA.Load(), "what has come is written all the same")
	require.False(t, a.paced())
}
