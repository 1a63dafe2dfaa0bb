package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/retry"
)

const ms = time.Millisecond

func random(f float64) retry.JitterSource { return func() float64 { return f } }

var nearlyOne = math.Nextafter(1, 0)

func first(b retry.Backoff, n int) []time.Duration {
	var ds []time.Duration
	var last time.Duration
	for step := range n {
		last = b(step, last)
		ds = append(ds, last)
	}
	return ds
}

func inMS(ds ...float64) []time.Duration {
	var out []time.Duration
	for _, d := range ds {
		out = append(out, time.Duration(d*float64(ms)))
	}
	return out
}

// TestBackoffCurves proves CB-21, CB-23, CB-45, ADR-2 and GR-6.
func TestBackoffCurves(t *testing.T) {
	for _, c := range []struct {
		name string
		b    retry.Backoff
		want []time.Duration
	}{
		{"controlled", retry.Controlled, inMS(1, 10, 50, 100, 500, 1000, 1000, 1000)},
		{"bare best effort", retry.Exponential(ms, 500*ms, 2), inMS(1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500)},
		{"default at worst", retry.DefaultBackoff(random(nearlyOne)), inMS(1)},
		{"default at best", retry.DefaultBackoff(random(0)), inMS(1, 1, 2, 4, 8, 16, 32, 64, 128, 250, 250)},
		{"doubling", retry.Exponential(100*ms, time.Hour, 2), inMS(100, 200, 400, 800, 1600)},
		{"constant", retry.Constant(7 * ms), inMS(7, 7, 7)},
		{"linear", retry.Linear(10*ms, 35*ms), inMS(10, 20, 30, 35, 35)},
		{"squares", retry.Polynomial(3000*ms, 2, 180*time.Second), inMS(3e3, 12e3, 27e3, 48e3, 75e3, 108e3, 147e3,
			180e3, 180e3)},
		{"schedule", retry.Schedule(5*ms, ms), inMS(5, 1, 1, 1)},
		{"no schedule", retry.Schedule(), inMS(0, 0)},
		{"full jitter", retry.FullJitter(retry.Constant(8*ms), random(0.5)), inMS(4, 4)},
		{"equal jitter", retry.EqualJitter(retry.Constant(8*ms), random(0.5)), inMS(6, 6)},
		{"added jitter", retry.AddJitter(retry.Constant(8*ms), 0.5, random(0.5)), inMS(10, 10)},
		{"proportional jitter, low", retry.PropJitter(retry.Constant(10*ms), 0.2, random(0)), inMS(8, 8)},
		{"proportional jitter, middle", retry.PropJitter(retry.Constant(10*ms), 0.2, random(0.5)), inMS(10, 10)},
		{"decorrelated, low", retry.Decorrelated(10*ms, 100*ms, random(0)), inMS(10, 10, 10)},
		{"decorrelated, middle", retry.Decorrelated(10*ms, 100*ms, random(0.5)), inMS(10, 20, 35, 57.5, 91.25, 100)},
		{"clamp", retry.Clamp(retry.Linear(10*ms, time.Hour), 15*ms, 25*ms), inMS(15, 20, 25, 25)},
		{"negative", retry.Constant(-ms), inMS(0)},
		{"shrinking", retry.Exponential(8*ms, time.Second, 0.5), inMS(8, 4, 2, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := first(c.b, len(c.want))
			for i := range got {
				got[i] = got[i].Round(time.Microsecond)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestScheduleKeepsACopy(t *testing.T) {
	ds := []time.Duration{ms, 2 * ms}
	b := retry.Schedule(ds...)
	ds[0] = time.Hour
	require.Equal(t, ms, b(0, 0))
}

// steps are numbers of retries up to 2^31 and beyond what can happen.
func steps() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(0, 70), rapid.IntRange(0, math.MaxInt32), rapid.Just(math.MaxInt),
		rapid.IntRange(-5, 0))
}

func durations() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.OneOf(rapid.Int64Range(0, int64(time.Minute)), rapid.Int64Range(0, math.MaxInt64)),
		func(n int64) time.Duration { return time.Duration(n) })
}

// TestBackoffBounds proves I8: every delay lies between its backoff's bounds, whatever the step.
func TestBackoffBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo, hi, last := durations().Draw(t, "lo"), durations().Draw(t, "hi"), durations().Draw(t, "last")
		if lo > hi {
			lo, hi = hi, lo
		}
		step := steps().Draw(t, "step")
		d := random(rapid.OneOf(rapid.Just(0.0), rapid.Just(0.5), rapid.Just(nearlyOne),
			rapid.Float64Range(0, nearlyOne)).Draw(t, "random"))
		factor := rapid.OneOf(rapid.Float64Range(0, 10), rapid.Just(math.Inf(1)), rapid.Just(math.MaxFloat64)).Draw(t,
			"factor")
		bases := []retry.Backoff{
			retry.Constant(hi), retry.Linear(lo, hi), retry.Exponential(lo, hi, factor), retry.Polynomial(lo, factor,
				hi),
			retry.Schedule(lo, hi), retry.Controlled,
		}
		for i, b := range bases {
			base := b(step, last)
			if i < 5 {
				require.LessOrEqual(t, base, hi)
			}
			require.GreaterOrEqual(t, base, time.Duration(0))
			between(t, retry.FullJitter(b, d)(step, last), 0, base)
			between(t, retry.EqualJitter(b, d)(step, last), base/2-slack(base), base)
			between(t, retry.AddJitter(b, 0.5, d)(step, last), base-slack(base), plus(base, base/2))
			between(t, retry.PropJitter(b, 0.5, d)(step, last), base/2-slack(base), plus(base, base/2))
			between(t, retry.Clamp(retry.AddJitter(b, 9, d), lo, hi)(step, last), lo, hi)
		}
		between(t, retry.Decorrelated(lo, hi, d)(step, last), lo-slack(lo), hi)
		between(t, retry.DefaultBackoff(d)(step, last), ms, 500*ms)
	})
}

// slack is what the conversion to a floating-point number may cost.
func slack(d time.Duration) time.Duration { return 1 + d>>50 }

func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b-2-slack(a) {
		return math.MaxInt64
	}
	return a + b + 1 + slack(a)
}

func between(t *rapid.T, d, lo, hi time.Duration) {
	require.GreaterOrEqual(t, d, lo)
	require.LessOrEqual(t, d, hi)
}

func TestExponentialNeverFallsUntilItsTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := retry.Exponential(ms, 500*ms, rapid.Float64Range(1, 4).Draw(t, "factor"))
		step := rapid.IntRange(0, math.MaxInt32).Draw(t, "step")
		require.LessOrEqual(t, b(step, 0), b(step+1, 0))
	})
}

// TestDefaultBackoffIsItsFormula proves D3.
func TestDefaultBackoffIsItsFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := random(rapid.Float64Range(0, nearlyOne).Draw(t, "random"))
		formula := retry.Clamp(retry.EqualJitter(retry.Exponential(ms, 500*ms, 2), d), ms, 500*ms)
		step := steps().Draw(t, "step")
		require.Equal(t, formula(step, 0), retry.DefaultBackoff(d)(step, 0))
	})
}

func TestANilJitterSourceIsThatOfMathRand(t *testing.T) {
	b := retry.FullJitter(retry.Constant(time.Hour), nil)
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[b(0, 0)] = true
	}
	require.Greater(t, len(seen), 1)
}

func TestBackoffAllocatesNothing(t *testing.T) {
	for _, b := range []retry.Backoff{
		retry.Controlled, retry.DefaultBackoff(nil), retry.Clamp(retry.AddJitter(retry.Exponential(ms, time.Second, 2),
			0.5, nil), 0, ms),
		retry.Decorrelated(ms, time.Second, nil),
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { b(3, ms) }))
	}
}
