package bench

import (
	"math/rand/v2"
	"sync"
	"time"
)

// seed makes the arrivals of all clients the same.
const seed = 20

// arrivals starts operations by the clock, at random times with the same mean distance, whatever becomes of those
// before, as long as one of the callers is free. An operation's time counts from when it was to start, so that it holds
// what it waited for a caller, too. Each runs on a goroutine of its own, as a server's handlers do. wait waits for the
// end of all.
func arrivals(callers []*worker, rate int, c *clock) (wait func(), err error) {
	a, err := newAlarm()
	if err != nil {
		return nil, err
	}
	free := make(chan *worker, len(callers))
	for _, w := range callers {
		free <- w
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer a.close()
		gaps := rand.New(rand.NewPCG(seed, uint64(rate)))
		due := c.now()
		for c.phase.Load() != over {
			due += time.Duration(gaps.ExpFloat64() * float64(time.Second) / float64(rate))
			if d := due - c.now(); d > 0 && a.sleep(d) != nil {
				return
			}
			w := <-free
			if w.errors > mostErrors {
				free <- w
				return
			}
			go func(due time.Duration) {
				w.once(due, c)
				free <- w
			}(due)
		}
	})
	return func() {
		wg.Wait()
		for range callers { // each comes back when its operation has ended
			<-free
		}
	}, nil
}

// busy computes until the slice is over. It calls nothing, so that only the runtime's preemption takes its processor
// away.
func busy(c *clock) {
	for x := uint64(1); c.phase.Load() != over; {
		for range 1 << 12 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		if x == 0 {
			return
		}
	}
}
