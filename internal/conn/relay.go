package conn

import (
	"sync"
	"sync/atomic"
	"time"
)

// Pair is what the two connections of a node have in common while it has two for the same callers.
type Pair struct {
	both atomic.Bool  // there are two now
	all  atomic.Bool  // and no processor but those of their readers
	busy atomic.Int32 // how many of them have enough calls in flight
	rest atomic.Int64 // until when, since the calls' base, their readers do not linger
	// rests is whether that time is still to come, for whoever does not look at the clock.
	rests atomic.Bool
}

// lingerProcessors is how many processors there may be for readers to linger: they keep one each.
const lingerProcessors = 2

// Begin says that there are two, in a program with that many processors.
func (p *Pair) Begin(processors int) {
	p.all.Store(processors <= lingerProcessors)
	p.both.Store(true)
}

// End says that there is one again.
func (p *Pair) End() { p.both.Store(false) }

// Both reports whether there are two.
func (p *Pair) Both() bool { return p.both.Load() }

// restUntil has the readers not linger before then.
func (p *Pair) restUntil(then int64) {
	p.rest.Store(then)
	p.rests.Store(true)
}

// over notes that this time has passed, if it has.
func (p *Pair) over(now int64) {
	if p != nil && p.rests.Load() && now >= p.rest.Load() {
		p.rests.Store(false)
		if now < p.rest.Load() { // the other reader has begun another rest meanwhile
			p.rests.Store(true)
		}
	}
}

// Lopsided reports whether one of them alone has enough.
func (p *Pair) Lopsided() bool { return p.busy.Load() == 1 }

// relay is how the reader gives way to the goroutines that it has woken, and whatever else is ready on its processor. With
// runtime.Gosched it would come after those who wait for any processor, on whichever is free first, and the callers that it wakes
// next would be woken there, away from their memory. A goroutine that is woken comes next on the processor of whoever wakes it,
// and the one that would have come next goes to the end of that processor's queue. So the reader wakes the first of two goroutines
// and then the second, which does nothing but send the first to the end of the queue. When all others have had their turn that one
// wakes the reader, who comes next. If the runtime did it otherwise the reader would go on too soon, or elsewhere.
type relay struct{ last, next, back chan struct{} }

// newRelay starts the goroutines, which end with stop.
func newRelay(wg *sync.WaitGroup) *relay {
	r := &relay{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)}
	wg.Go(func() {
		for range r.last {
			r.back <- struct{}{}
		}
	})
	wg.Go(func() {
		for range r.next {
		}
	})
	return r
}

func (r *relay) giveWay() {
	r.last <- struct{}{}
	r.next <- struct{}{}
	<-r.back
}

func (r *relay) stop() {
	if r != nil {
		close(r.last)
		close(r.next)
	}
}

const (
	// fewStay is how many calls in flight are too few for a relay's turns to be worth it.
	fewStay = Crowd / 4
	// maxWoken is how many goroutines a reader with a relay wakes before it gives way. A processor's queue has room for 256;
	// what is too much for it goes to all processors.
	maxWoken = 192
	// maxTurns is how often it gives way at most before it writes what they have asked for.
	maxTurns = 3
)

// note keeps whether the connection has enough calls in flight for two readers to stay.
func (c *Conn) note(busy bool) {
	if c.pair == nil || busy == c.busy {
		return
	}
	if c.busy = busy; busy {
		c.pair.busy.Add(1)
	} else {
		c.pair.busy.Add(-1)
	}
}

// stays reports whether the reader is to give way with its relay: callers have two connections and use both, and this one is
// theirs who are on this processor.
func (c *Conn) stays() bool {
	if c.pair == nil || !c.pair.Both() || c.pair.busy.Load() < 2 {
		return false
	}
	if c.relay == nil {
		c.relay = newRelay(&c.wg)
	}
	return true
}

// lingers reports whether the reader is to linger in its next read: it stays, its processor and the other connection's are all
// there are, and the program does little else.
func (c *Conn) lingers() bool {
	if c.linger == nil || !c.stays() || !c.pair.all.Load() {
		return false
	}
	now := c.now()
	may := now >= c.pair.rest.Load()
	looked, ok := c.linger.around(now)
	if looked {
		c.relay.giveWay() // to those for whom something has come
		if may && c.others.busy(now, c.now()-now) {
			c.pair.restUntil(now + int64(othersRest))
			may = false
		}
	}
	return ok && may
}

// others is what the program does beside its calls, as far as a reader sees it that looks around: the connections of another
// cluster perhaps, whose readers and callers need the processors as much. Lingering is a loss then.
type others struct {
	since, took int64
	times       int // in a row that it was much
}

const (
	othersTime = 50 * time.Millisecond
	// othersShare is which part of the time is much.
	othersShare = 12
	// othersRest is how long readers do not linger when it was much twice in a row.
	othersRest = time.Second
)

// busy takes how long others had the processor after a look at now, and reports whether lingering had better rest.
func (o *others) busy(now, took int64) bool {
	o.took += took
	passed := now - o.since
	if passed < int64(othersTime) {
		return false
	}
	much := o.took*othersShare > passed && passed < 2*int64(othersTime) // it has not looked for long otherwise
	o.since, o.took = now, 0
	if !much {
		o.times = 0
		return false
	}
	o.times++
	return o.times%2 == 0
}
