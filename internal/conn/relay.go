package conn

import (
	"sync"
	"sync/atomic"
)

// Pair is what the two connections of a node have in common while it has two for the same callers.
type Pair struct {
	both atomic.Bool // there are two now
	all  atomic.Bool // and no processor but those of their readers
}

// Begin says that there are two, in a program with that many processors.
func (p *Pair) Begin(processors int) {
	p.all.Store(processors <= 2)
	p.both.Store(true)
}

// End says that there is one again.
func (p *Pair) End() { p.both.Store(false) }

// Both reports whether there are two.
func (p *Pair) Both() bool { return p.both.Load() }

// relay is how the reader gives way to the callers that it has woken, and to them alone. With runtime.Gosched it would come
// after those who wait for any processor, on whichever is free first, and the callers that it wakes next would be woken there,
// away from their memory. A goroutine that is woken comes next on the processor of whoever wakes it, and the one that would
// have come next goes to the end of that processor's queue. So the relay's goroutine, which the reader wakes before the last
// caller, has its turn when all callers have had theirs; it wakes the reader, who comes next. If the runtime did it otherwise
// the reader would go on too soon, or elsewhere.
type relay struct{ ask, back chan struct{} }

// newRelay starts the goroutine, which ends with stop.
func newRelay(wg *sync.WaitGroup) *relay {
	r := &relay{make(chan struct{}, 1), make(chan struct{}, 1)}
	wg.Go(func() {
		for range r.ask {
			r.back <- struct{}{}
		}
	})
	return r
}

// begin comes before the last caller is woken, and wait after that.
func (r *relay) begin() { r.ask <- struct{}{} }

func (r *relay) wait() { <-r.back }

func (r *relay) stop() {
	if r != nil {
		close(r.ask)
	}
}

const (
	// fewStay is how many calls in flight are too few for a relay's turns to be worth it.
	fewStay = Crowd / 4
	// maxWoken is how many goroutines a reader with a relay wakes before it gives way. A processor's queue has room for 256;
	// what is too much for it goes to all processors.
	maxWoken = 192
)

// stays reports whether the reader is to give way with its relay: callers have two connections, and this one is theirs who are
// on this processor.
func (c *Conn) stays() bool {
	if c.pair == nil || !c.pair.Both() || c.Load() < fewStay {
		return false
	}
	if c.relay == nil {
		c.relay = newRelay(&c.wg)
	}
	return true
}
