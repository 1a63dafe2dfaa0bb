package conn

import (
	"sync/atomic"
	"time"
)

// Yields is what connections know of how long it takes to give way. Whoever is about to write does so, for callers who can run and
// have their next request; they take some microseconds. Where goroutines that do not stop use all processors it takes them, each for
// as long as the runtime lets it, and all that is about to be written waits for that: nobody gives way then, for a while. One is for
// all connections of a Router, whose base is the same. Nil gives way always. What it keeps may be lost in a race: it is about speed.
type Yields struct {
	until atomic.Int64 // since the base, nobody gives way
	rest  atomic.Int64 // how long that was for
	late  atomic.Int64 // when somebody had the processor back too late, and nobody in time since; 0 if there is no such
}

const (
	// yieldLong is what is too long beside what callers take, callTurn each at most. With one goroutine on two processors that does not
	// stop it happens, but not twice in a row.
	yieldLong = 5 * time.Millisecond
	callTurn  = 4 * time.Microsecond
	// yieldRest is for how long nobody gives way when it was too long twice in a row. It is twice as long the next time if that is soon,
	// and yieldMost at most, so that little is written late where it is always too long.
	yieldRest = 250 * time.Millisecond
	yieldMost = 2 * time.Second
)

// Rest reports whether nobody gives way now.
func (y *Yields) Rest(now int64) bool { return y != nil && now < y.until.Load() }

// took notes when somebody who gave way had the processor again, and reports whether that was too late beside so many callers.
func (y *Yields) took(began, now, callers int64) (long bool) {
	if y == nil {
		return false
	}
	late := y.late.Load()
	if now-began <= int64(yieldLong)+callers*int64(callTurn) {
		if late != 0 && began >= late {
			y.late.Store(0)
		}
		return false
	}
	switch {
	case late == 0:
		y.late.Store(now)
	case began >= late: // otherwise it was the same turn of others that made both late
		rest, until := int64(yieldRest), y.until.Load()
		if until != 0 && now-until < int64(yieldMost) {
			rest = min(2*y.rest.Load(), int64(yieldMost))
		}
		y.late.Store(0)
		y.rest.Store(rest)
		y.until.Store(now + rest)
	}
	return true
}

// callers is how many the connections have that this one is among, as far as it knows: those of the others are as many as its own.
func (c *Conn) callers() int64 {
	n := int64(c.Load())
	if c.serving != nil {
		n *= int64(max(c.serving.Load(), 1))
	}
	return n
}
