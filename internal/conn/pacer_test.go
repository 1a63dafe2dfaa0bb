package conn

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
)

// A pacer waits three times, until that has taken long or cannot be done.
func TestHowLongAPacerWaits(t *testing.T) {
	const part = yieldLong / 6
	for name, c := range map[string]struct {
		looks, yields time.Duration
		cannot        bool
		times         int
		late          bool
	}{
		"nothing else runs":              {0, 0, false, 3, false},
		"callers run":                    {part, part, false, 3, false},
		"others run for long in all":     {part, part + time.Microsecond, false, 3, true},
		"twice for half of that":         {0, yieldLong/2 + 1, false, 2, true},
		"nobody looks for long":          {yieldLong + 1, 0, false, 1, true},
		"others run for long":            {0, yieldLong + 1, false, 1, true},
		"there is no event":              {0, 0, true, 1, false},
		"there is none, and it was long": {time.Second, 0, true, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var y Yields
			p := NewPacer(time.Now().Add(-time.Hour), &y, 2)
			times, yields := 0, 0
			p.gather(0, func() bool {
				times++
				time.Sleep(c.looks)
				return !c.cannot
			}, func() {
				yields++
				time.Sleep(c.yields)
			})
			require.Equal(t, c.times, times, name)
			if !c.cannot {
				require.Equal(t, times, yields, name)
			}
			require.Equal(t, c.late, y.late.Load() != 0, name)
			var serving atomic.Int32
			cn := &Conn{base: p.base, serving: &serving, pacer: p}
			serving.Store(2*paceNodes - 1)
			require.False(t, cn.paced(), name)
			serving.Store(2 * paceNodes)
			require.Equal(t, !c.cannot, cn.paced(), name)
		})
	}
	require.False(t, (&Conn{}).paced())
}

// counting is a socket that says what was written to it.
type counting struct{ wrote *atomic.Int32 }

func (c counting) TryWrite(b []byte) (int, error) {
	c.wrote.Add(1)
	return len(b), nil
}

// paced is a connection to one of many nodes, and how many writes there were.
func paced(t *testing.T, p *Pacer) (*Conn, *atomic.Int32) {
	var serving, wrote atomic.Int32
	serving.Store(math.MaxInt32)
	near, _ := Loopback(t)
	c := newConn(near, &Options{Base: p.base, Serving: &serving, Pacer: p, Yields: p.yields}, &bootstrap{buf: make([]byte, minRead)})
	c.try = counting{&wrote}
	t.Cleanup(func() { c.timer.Stop() })
	return c, &wrote
}

func ask(t *testing.T, c *Conn) {
	require.True(t, c.SubmitRead(&kv.Reads{Started: 1, Deadline: never}, []byte("k"), 1))
}

// A connection that ends does not wait for the pacer, which does not write for it any more.
func TestAPacerLeavesConnectionsThatHaveEnded(t *testing.T) {
	p := NewPacer(time.Now(), &Yields{}, 1)
	p.running = true // it never gets to it
	a, toA := paced(t, p)
	b, _ := paced(t, p)
	a.flushing, b.flushing = true, true
	p.add(a)
	p.add(b)
	a.Close(nil)
	a.teardown()
	require.False(t, a.isFlushing())
	require.Equal(t, []*Conn{b}, p.due)
	require.Zero(t, toA.Load())
	require.False(t, p.drop(a))
	require.False(t, (*Pacer)(nil).drop(a))
}
