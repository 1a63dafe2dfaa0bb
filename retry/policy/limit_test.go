package policy_test

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestLimitOfAttempts proves GA6-2, SM-3, SM-13 and SM-17: the first try counts, and the end is told apart from a plain
// failure.
func TestLimitOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(policy.Limit{Base: schedule(10), MaxAttempts: 4}, retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0, 10, 20, 30), c.at)
		require.Equal(t, 30*ms, c.end)
		c.ended(t, retry.ErrExhausted, errCause)
		withoutHint := run(policy.Only{}, retry.KVLocked, retry.Hint{})
		withoutHint.ended(t, errCause)
		require.NotErrorIs(t, withoutHint.err, retry.ErrExhausted)
	})
}

// TestTransparentRetriesAreNoAttempts proves GA6-44 for Limit.
func TestTransparentRetriesAreNoAttempts(t *testing.T) {
	ds, _ := simulateIn(t, policy.Limit{Base: schedule(10), MaxAttempts: 4}, retry.NodeNotAvailable, 20)
	require.Len(t, ds, 20)
}

// TestLimitOfTimeAndAttempts proves SM-3, GR-4 and GR-8: either limit ends an operation, whichever comes first, and the
// one of time is optional.
func TestLimitOfTimeAndAttempts(t *testing.T) {
	for _, c := range []struct {
		name string
		l    policy.Limit
		took time.Duration
		sent []time.Duration
		end  time.Duration
	}{
		{"attempts first", policy.Limit{MaxAttempts: 3, MaxElapsed: time.Second}, 0, inMS(0, 100, 200), 200 * ms},
		{"time first", policy.Limit{MaxAttempts: 9, MaxElapsed: 250 * ms}, 0, inMS(0, 100, 200), 200 * ms},
		{"no time limit", policy.Limit{MaxAttempts: 5}, 0, inMS(0, 100, 200, 300, 400), 400 * ms},
		{"attempts take time too", policy.Limit{MaxElapsed: 400 * ms}, 80 * ms, inMS(0, 180, 360), 440 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.l.Base, c.l.Fit = schedule(100), policy.GiveUp
				x := newCall(c.l, script(answer{why: retry.ServiceResponseCodeIndicated, took: c.took})).play()
				require.Equal(t, c.sent, x.at)
				require.Equal(t, c.end, x.end)
				x.ended(t, retry.ErrExhausted, errCause)
			})
		})
	}
}

// TestMaximumTotalRetryTime proves ADR-5 with every fit: what the delays come to in all, and how the operation ends.
func TestMaximumTotalRetryTime(t *testing.T) {
	for _, c := range []struct {
		fit  policy.Fit
		sent []time.Duration
		end  time.Duration
		err  error
	}{
		{policy.Cap, inMS(0, 400, 800), time.Second, retry.ErrTimeout},
		{policy.GiveUp, inMS(0, 400, 800), 800 * ms, retry.ErrExhausted},
		{policy.Drop, inMS(0, 400, 800), 800 * ms, retry.ErrExhausted},
		{policy.Stretch, inMS(0, 400, 800), 800 * ms, retry.ErrExhausted},
		{policy.Truncate, inMS(0, 400, 800, 1000), time.Second, retry.ErrExhausted},
		{policy.Overflow, inMS(0, 400, 800, 1200), 1200 * ms, retry.ErrExhausted},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := run(policy.Limit{Base: schedule(400), Hard: time.Second, Fit: c.fit}, retry.KVLocked, retry.Hint{})
			require.Equal(t, c.sent, x.at, "fit %d", c.fit)
			require.Equal(t, c.end, x.end, "fit %d", c.fit)
			x.ended(t, c.err, errCause)
		})
	}
}

// TestLimitsOfTime proves ADR-6 to ADR-9 with the numbers of the decision record; the names say which.
func TestLimitsOfTime(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name    string
		l       policy.Limit
		want    []time.Duration
		timeout time.Duration // of the last Action
	}{
		{"ADR-6 below, left", policy.Limit{
			Base: schedule(150, 300, 500), MaxAttempts: 4, Hard: time.Second,
			Fit: policy.Drop,
		}, inMS(150, 300, 500), never},
		{"ADR-6 below, stretched", policy.Limit{
			Base: schedule(150, 300, 500), MaxAttempts: 4, Hard: time.Second,
			Fit: policy.Stretch,
		}, inMS(150, 300, 550), never},
		{"stretched without a last one", policy.Limit{
			Base: schedule(150, 300, 500), Hard: time.Second,
			Fit: policy.Stretch,
		}, inMS(150, 300, 500), never},
		{
			"ADR-7 above, truncated",
			policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Truncate},
			inMS(150, 300, 550), never,
		},
		{
			"ADR-7 above, overflows",
			policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Overflow},
			inMS(150, 300, 600), never,
		},
		{
			"above, dropped",
			policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Drop},
			inMS(150, 300), never,
		},
		{
			"above, given up",
			policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.GiveUp},
			inMS(150, 300), never,
		},
		{
			"above, capped",
			policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Cap},
			inMS(150, 300), 550 * ms,
		},
		{"ADR-8 soft", policy.Limit{Base: schedule(150, 300, 600, 700), Soft: time.Second}, inMS(150, 300, 600), never},
		{"ADR-9 soft and hard", policy.Limit{
			Base: schedule(150, 300, 500, 1150), Soft: time.Second,
			Hard: 2 * time.Second, Fit: policy.Drop,
		}, inMS(150, 300, 500), never},
		{
			"elapsed",
			policy.Limit{Base: schedule(400), MaxElapsed: time.Second, Fit: policy.GiveUp},
			inMS(400, 400),
			never,
		},
		{
			"elapsed, truncated",
			policy.Limit{Base: schedule(400), MaxElapsed: time.Second, Fit: policy.Truncate},
			inMS(400, 400, 200), never,
		},
		{
			"elapsed, capped",
			policy.Limit{Base: schedule(400), MaxElapsed: time.Second, Fit: policy.Cap},
			inMS(400, 400),
			200 * ms,
		},
		{
			"exactly on the limit",
			policy.Limit{Base: schedule(500), Hard: time.Second, Fit: policy.Drop},
			inMS(500, 500),
			never,
		},
		{
			"no time left, given up",
			policy.Limit{Base: schedule(1000, 0), Hard: time.Second, Fit: policy.GiveUp},
			inMS(1000), never,
		},
		{"no time left, nothing overflows", policy.Limit{
			Base: schedule(1000, 500), Hard: time.Second,
			Fit: policy.Overflow,
		}, inMS(1000), never},
		{"no time left, nothing truncated", policy.Limit{
			Base: schedule(1000, 500), Hard: time.Second,
			Fit: policy.Truncate,
		}, inMS(1000), never},
		{
			"no delay, stretched",
			policy.Limit{Base: schedule(0), MaxAttempts: 2, Hard: time.Second, Fit: policy.Stretch},
			inMS(1000), never,
		},
		{"none", policy.Limit{Base: schedule(400)}, inMS(400, 400, 400, 400, 400, 400), never},
	} {
		t.Run(c.name, func(t *testing.T) {
			ds, ended := simulateIn(t, c.l, retry.KVLocked, 6)
			require.Equal(t, c.want, ds)
			d, ok := ended.TimesOut()
			require.Equal(t, c.timeout != never, ok)
			if ok {
				require.Equal(t, c.timeout, d)
			}
		})
	}
}

// TestCapTimesOut lets a limit of time end an operation as its deadline would, also when an attempt took it past the
// limit.
func TestCapTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := policy.Limit{Base: schedule(400), MaxElapsed: time.Second, Fit: policy.Cap}
		c := run(l, retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0, 400, 800), c.at)
		require.Equal(t, time.Second, c.end)
		c.ended(t, retry.ErrTimeout, errCause)

		c = newCall(l, script(answer{why: retry.KVLocked, took: 2 * time.Second})).play()
		require.Equal(t, inMS(0), c.at)
		require.Equal(t, 2*time.Second, c.end, "at once")
		c.ended(t, retry.ErrTimeout, errCause)
	})
}

// TestServersDelayIsNotFitted keeps a limit from changing a delay that the server named: GA6-27 and GR-3 ask for
// exactly that delay.
func TestServersDelayIsNotFitted(t *testing.T) {
	hint := retry.Hint{Pushback: retry.PushbackAfter(300 * ms)}
	for _, c := range []struct {
		fit  policy.Fit
		sent []time.Duration
		end  time.Duration
	}{
		{policy.Truncate, inMS(0, 300), 300 * ms}, // a second one would end at 500 ms, too early
		{policy.Overflow, inMS(0, 300, 600), 600 * ms},
		{policy.Drop, inMS(0, 300), 300 * ms},
		{policy.Stretch, inMS(0, 300), 300 * ms},
		{policy.Cap, inMS(0, 300), 500 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := policy.Limit{Base: policy.Pushback{}, MaxAttempts: 9, Hard: 500 * ms, Fit: c.fit}
			x := run(l, retry.ServiceResponseCodeIndicated, hint)
			require.Equal(t, c.sent, x.at, "fit %d", c.fit)
			require.Equal(t, c.end, x.end, "fit %d", c.fit)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := policy.Limit{Base: policy.Pushback{}, MaxAttempts: 2, Hard: 500 * ms, Fit: policy.Stretch}
		require.Equal(t, inMS(0, 300), run(l, retry.ServiceResponseCodeIndicated, hint).at,
			"the last one is not made longer")
		l.Base = retry.Func(func(context.Context, *retry.Request,
			retry.Reason,
		) retry.Action {
			return retry.After(100 * ms)
		})
		require.Equal(t, inMS(0, 500), run(l, retry.ServiceResponseCodeIndicated, hint).at,
			"unless Base has a delay of its own")
	})
}

// TestPolicyIsANumberAndDurations proves ADR-1: the number of retries, and the duration of each.
func TestPolicyIsANumberAndDurations(t *testing.T) {
	for _, want := range [][]time.Duration{inMS(), inMS(7), inMS(7, 1, 30), inMS(100, 200, 400, 800, 1600)} {
		l := policy.Limit{MaxAttempts: len(want) + 1, Base: retry.BestEffort{Backoff: retry.Schedule(want...)}}
		ds, _ := simulateIn(t, l, retry.KVLocked, 20)
		require.Equal(t, want, ds)
	}
}

// TestLinearAndExponential proves ADR-2: the same delay each time, or twice the last; 3.1 s in all for five retries.
func TestLinearAndExponential(t *testing.T) {
	for _, c := range []struct {
		name string
		b    retry.Backoff
		want []time.Duration
		sum  time.Duration
	}{
		{"linear", retry.Constant(100 * ms), inMS(100, 100, 100, 100, 100), 500 * ms},
		{"exponential", retry.Exponential(100*ms, time.Hour, 2), inMS(100, 200, 400, 800, 1600), 3100 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := policy.Limit{MaxAttempts: 6, Base: retry.BestEffort{Backoff: c.b}}
			ds, _ := simulate(l, retry.KVLocked, 20)
			require.Equal(t, c.want, ds, c.name)
			require.Equal(t, c.sum, l.Plan(c.b), c.name)
			x := run(l, retry.KVLocked, retry.Hint{})
			require.Equal(t, c.sum, x.end, c.name)
		})
	}
}

// TestJitterOfHalfThePeriod proves ADR-3.
func TestJitterOfHalfThePeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "delay"))
		roll := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		got := retry.AddJitter(retry.Constant(d), 0.5, random(roll))(rapid.Int().Draw(t, "step"), 0)
		require.GreaterOrEqual(t, got, d)
		require.LessOrEqual(t, got, d+d/2+1)
		require.InDelta(t, float64(d)*(1+roll/2), float64(got), 2)
	})
}

// TestWaitingRetriesHoldNothingUp proves ADR-4: 10,000 operations wait for a retry without a goroutine of their own,
// and another one goes on meanwhile.
func TestWaitingRetriesHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: policy.Limit{Base: schedule(1000), MaxAttempts: 2}})
		start := func(answers func(int) answer) *call {
			c := newCall(nil, answers)
			c.orc, c.from = orc, time.Now()
			c.st.Deadline = c.from.Add(time.Hour)
			c.Dispatch()
			return c
		}
		before := goroutines()
		var waiting []*call
		for range 10_000 {
			waiting = append(waiting, start(always(retry.KVTemporaryFailure, retry.Hint{})))
		}
		require.Equal(t, 10_000, orc.Stats().Parked)
		synctest.Wait() // the goroutine on which the last backoff was asked has ended
		require.LessOrEqual(t, goroutines(), before)
		other := start(script(answer{ok: true}))
		require.Equal(t, 1, other.done)
		require.NoError(t, other.err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, orc.Stats().Parked)
		for _, c := range waiting {
			require.Equal(t, inMS(0, 1000), c.at)
			c.ended(t, retry.ErrExhausted)
		}
	})
}

// goroutines counts those that have a stack. runtime.NumGoroutine has those that have just ended, too.
func goroutines() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "goroutine ")
}

// TestPlan proves ADR-10 and I8: no operation waits longer in all than planned.
func TestPlan(t *testing.T) {
	span := rapid.Map(rapid.IntRange(0, 5000), func(n int) time.Duration { return time.Duration(n) * ms })
	limits := rapid.Custom(func(t *rapid.T) policy.Limit {
		return policy.Limit{
			MaxAttempts: rapid.SampledFrom([]int{0, 1, 2, 3, 7, 30}).Draw(t, "attempts"),
			MaxElapsed:  rapid.OneOf(rapid.Just(time.Duration(0)), span).Draw(t, "elapsed"),
			Soft:        rapid.OneOf(rapid.Just(time.Duration(0)), span).Draw(t, "soft"),
			Hard:        rapid.OneOf(rapid.Just(time.Duration(0)), span).Draw(t, "hard"),
			Fit:         policy.Fit(rapid.IntRange(0, 5).Draw(t, "fit")),
		}
	})
	synctest.Test(t, func(*testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			l := limits.Draw(t, "limit")
			curve := func(d retry.JitterSource) retry.Backoff {
				return retry.Clamp(retry.EqualJitter(retry.Exponential(7*ms, 700*ms, 1.7), d), ms, 650*ms)
			}
			l.Base = retry.BestEffort{Backoff: curve(func() float64 {
				return rapid.Float64Range(0, 0.999).Draw(t,
					"random")
			})}
			ds, ended := simulate(l, retry.KVLocked, 60)
			total, _ := ended.TimesOut()
			past := 0 // delays after the soft limit was reached
			for _, d := range ds {
				if l.Soft > 0 && total >= l.Soft {
					past++
				}
				total += d
			}
			require.LessOrEqual(t, total, l.Plan(curve(random(math.Nextafter(1, 0)))))
			require.Zero(t, past)
			if l.Hard > 0 && l.Fit != policy.Overflow {
				require.LessOrEqual(t, total, l.Hard, "I8")
			}
		})
	})
}

func TestPlanOfLimits(t *testing.T) {
	b := retry.Constant(time.Second)
	for _, c := range []struct {
		l    policy.Limit
		want time.Duration
	}{
		{policy.Limit{}, math.MaxInt64},
		{policy.Limit{MaxAttempts: 1}, 0},
		{policy.Limit{MaxAttempts: 4}, 3 * time.Second},
		{policy.Limit{MaxAttempts: 5001}, 5000 * time.Second},
		{policy.Limit{Hard: 1500 * ms}, 1500 * ms},
		{policy.Limit{Hard: 1500 * ms, Fit: policy.Overflow}, 2500 * ms},
		{policy.Limit{Hard: 10 * time.Second, MaxAttempts: 3, Fit: policy.Stretch}, 10 * time.Second},
		{policy.Limit{Hard: 10 * time.Second, MaxAttempts: 3}, 2 * time.Second},
		{policy.Limit{Hard: 10 * time.Second, MaxAttempts: 1, Fit: policy.Stretch}, 0},
		{policy.Limit{Soft: 3 * time.Second}, 4 * time.Second},
		{
			policy.Limit{Soft: 3 * time.Second, Hard: 9 * time.Second, MaxAttempts: 9, Fit: policy.Stretch},
			9 * time.Second,
		},
		{policy.Limit{MaxElapsed: 3 * time.Second}, 3 * time.Second},
	} {
		require.Equal(t, c.want, c.l.Plan(b), "%+v", c.l)
	}
	late := retry.Linear(ms, time.Hour) // longest after more steps than are looked at one by one
	require.Equal(t, time.Hour+3*time.Second, policy.Limit{Soft: 3 * time.Second}.Plan(late))
}

// TestGraph proves GR-6: 3 s times the square of the retry's number, at most 180 s, ten retries, 1800 s in all.
func TestGraph(t *testing.T) {
	ds, _ := simulateIn(t, policy.Graph(), retry.ServiceResponseCodeIndicated, 20)
	require.Equal(t, inMS(3e3, 12e3, 27e3, 48e3, 75e3, 108e3, 147e3, 180e3, 180e3, 180e3), ds)
	synctest.Test(t, func(t *testing.T) {
		slow := newCall(policy.Graph(), script(answer{
			why:  retry.ServiceResponseCodeIndicated,
			took: 590 * time.Second,
		})).play()
		require.Len(t, slow.at, 3, "the fourth would be sent after 1812 s")
		slow.ended(t, retry.ErrExhausted, errCause)
	})
}

// TestRetryAfterBeyondTheLimit proves GR-9: when what has passed and the server's delay together exceed the limit, the
// failure is returned at once, and else the retry happens.
func TestRetryAfterBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(policy.Graph(), retry.ServiceResponseCodeIndicated,
			retry.Hint{Pushback: retry.PushbackAfter(time.Hour)})
		require.Zero(t, c.end, "no wait")
		c.ended(t, retry.ErrExhausted, errCause)

		c = run(policy.Graph(), retry.ServiceResponseCodeIndicated,
			retry.Hint{Pushback: retry.PushbackAfter(800 * time.Second)})
		require.Equal(t, inMS(0, 800e3, 1600e3), c.at)
		require.Equal(t, 1600*time.Second, c.end, "the third would end after 2400 s")
		c.ended(t, retry.ErrExhausted, errCause)
	})
}
