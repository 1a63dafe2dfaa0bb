package sim

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// strategy gives a call a strategy: the client's own, or a user's of any manners. The second result says that it is
// one of the client's own.
func (w *world) strategy(r *source) (retry.Strategy, bool) {
	pick, seed := r.below(12), r.next()
	switch {
	case pick < 5:
		return nil, true
	case pick < 8:
		return retry.BestEffort{}, true
	}
	d := random(seed)
	return retry.Func(func(ctx context.Context, rq *retry.Request, _ retry.Reason) retry.Action {
		n := uint64(rq.Attempts + rq.Transparent)
		// Many calls may have failed at one instant, and each asks on a goroutine of its own.
		sleep(context.Background(), d.between(time.Nanosecond, 500*time.Microsecond, n, 4))
		switch pick {
		case 8: // reckless: at once, whatever it is
			return retry.After(0)
		case 9: // blocks until the call is over
			<-ctx.Done()
			return retry.After(0)
		case 10:
			return retry.After(time.Duration(d.below(0, n))) // divides by zero, and panics
		}
		if d.below(6, n) == 0 {
			return retry.Stop()
		}
		if d.below(3, n, 1) == 0 { // slow
			sleep(ctx, d.between(time.Microsecond, 30*time.Millisecond, n, 2))
		}
		return retry.After(d.between(0, 80*time.Millisecond, n, 3))
	}), false
}
