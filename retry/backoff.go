package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// Backoff gives the delay before the next retry. step is the number of retries already made, last the delay before the
// latest. Any step is allowed; results saturate and are never negative. A Backoff of this package allocates nothing and
// may be used from many goroutines when its jitter source may.
type Backoff func(step int, last time.Duration) time.Duration

// JitterSource gives numbers in [0,1). A nil JitterSource is math/rand/v2's. It is called from many goroutines.
type JitterSource func() float64

func (s JitterSource) next() float64 {
	if s == nil {
		return rand.Float64()
	}
	return s()
}

// Controlled is the schedule of reasons that are always retried: 1, 10, 50, 100, 500 and then 1000 ms, never jittered.
var Controlled = Schedule(time.Millisecond, 10*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond,
	500*time.Millisecond, 1000*time.Millisecond)

// Constant waits d each time.
func Constant(d time.Duration) Backoff {
	d = max(d, 0)
	return func(int, time.Duration) time.Duration { return d }
}

// Linear waits d, 2d, 3d and so on, at most hi.
func Linear(d, hi time.Duration) Backoff { return Polynomial(d, 1, hi) }

// Exponential waits lo, then each time factor times as long, at most hi. A factor below 1 lets the delays shrink.
func Exponential(lo, hi time.Duration, factor float64) Backoff {
	lo, hi = max(lo, 0), max(hi, 0)
	return func(step int, _ time.Duration) time.Duration {
		return min(saturate(float64(lo)*math.Pow(factor, count(step))), hi)
	}
}

// Polynomial waits d times (step+1) to the given power, at most hi.
func Polynomial(d time.Duration, power float64, hi time.Duration) Backoff {
	d, hi = max(d, 0), max(hi, 0)
	return func(step int, _ time.Duration) time.Duration {
		return min(saturate(float64(d)*math.Pow(count(step)+1, power)), hi)
	}
}

// Schedule waits as listed, and as the last one says from then on. An empty one does not wait. It keeps a copy of ds.
func Schedule(ds ...time.Duration) Backoff {
	own := make([]time.Duration, max(len(ds), 1))
	copy(own, ds)
	return func(step int, _ time.Duration) time.Duration {
		return max(own[min(max(step, 0), len(own)-1)], 0)
	}
}

// FullJitter waits a random time between 0 and what b says.
func FullJitter(b Backoff, d JitterSource) Backoff { return spread(b, 0, 1, d) }

// EqualJitter waits a random time between half and all of what b says.
func EqualJitter(b Backoff, d JitterSource) Backoff { return spread(b, 0.5, 1, d) }

// AddJitter adds up to f times what b says to it.
func AddJitter(b Backoff, f float64, d JitterSource) Backoff { return spread(b, 1, 1+f, d) }

// PropJitter waits what b says, up to f times that more or less.
func PropJitter(b Backoff, f float64, d JitterSource) Backoff { return spread(b, 1-f, 1+f, d) }

// spread waits between lo and hi times what b says.
func spread(b Backoff, lo, hi float64, random JitterSource) Backoff {
	lo = max(lo, 0)
	hi = max(hi, lo)
	return func(step int, last time.Duration) time.Duration {
		d := b(step, last)
		return jitter(d, lo, hi, random)
	}
}

func jitter(d time.Duration, lo, hi float64, random JitterSource) time.Duration {
	j := saturate(float64(d) * (lo + (hi-lo)*random.next()))
	if hi <= 1 {
		return min(j, d) // the product of a huge d may round up
	}
	return j
}

// Decorrelated waits a random time between lo and three times the last delay, at most hi.
func Decorrelated(lo, hi time.Duration, random JitterSource) Backoff {
	lo = max(lo, 0)
	hi = max(hi, lo)
	return func(_ int, last time.Duration) time.Duration {
		top := max(3*float64(last), float64(lo))
		return min(saturate(float64(lo)+(top-float64(lo))*random.next()), hi)
	}
}

// Clamp keeps what b says between lo and hi. It belongs outside of a jitter, which would otherwise pass the maximum.
func Clamp(b Backoff, lo, hi time.Duration) Backoff {
	lo = max(lo, 0)
	hi = max(hi, lo)
	return func(step int, last time.Duration) time.Duration { return min(max(b(step, last), lo), hi) }
}

const (
	defaultLo = time.Millisecond
	defaultHi = 500 * time.Millisecond
)

// DefaultBackoff is BestEffort's: from 1 ms doubling to 500 ms, of which a random half is waited, never less than 1 ms.
func DefaultBackoff(random JitterSource) Backoff {
	return func(step int, _ time.Duration) time.Duration { return defaultDelay(step, random) }
}

// defaultDelay is Clamp(EqualJitter(Exponential(1 ms, 500 ms, 2), random), 1 ms, 500 ms) without building it.
func defaultDelay(step int, random JitterSource) time.Duration {
	d := defaultHi
	if step < 9 { // 2^9 ms is past the top
		d = defaultLo << max(step, 0)
	}
	return min(max(jitter(d, 0.5, 1, random), defaultLo), defaultHi)
}

func count(step int) float64 { return float64(max(step, 0)) }

// saturate makes a duration of f nanoseconds. What is no number, which 0 times infinity is, counts as 0.
func saturate(f float64) time.Duration {
	switch {
	case math.IsNaN(f) || f <= 0:
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	}
	return time.Duration(f)
}
