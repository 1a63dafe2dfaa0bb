package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

var errCause = errors.New("what the attempt met")

func dice(f float64) retry.Dice { return func() float64 { return f } }

func inMS(ds ...int) []time.Duration {
	out := []time.Duration{}
	for _, d := range ds {
		out = append(out, time.Duration(d)*ms)
	}
	return out
}

// simulate lets an operation that fails for ever be judged by s, with no time between its attempts but the delays, and
// gives those of its retries. ended is the last Action.
func simulate(s retry.Strategy, why retry.Reason, most int) (ds []time.Duration, ended retry.Action) {
	r := &retry.Request{Context: context.Background(), Idempotent: true, Started: time.Now(), Err: errCause}
	ds = []time.Duration{}
	for range most {
		a := s.RetryAfter(r.Context, r, why)
		d, ok := a.Delay()
		if !ok {
			return ds, a
		}
		ds = append(ds, d)
		time.Sleep(d)
		r.LastDelay, r.Waited, r.BackoffStep = d, r.Waited+d, r.BackoffStep+1
		if why.Unseen() {
			r.Transparent++
		} else {
			r.Attempts++
		}
	}
	return ds, retry.Action{}
}

// failing is an operation under a real orchestrator, whose every attempt is answered with the same reason.
type failing struct {
	st   retry.State
	orc  *retry.Orchestrator
	why  retry.Reason
	hint retry.Hint
	at   []time.Duration
	from time.Time
	end  time.Duration
	err  error
}

func (f *failing) Retry() *retry.State { return &f.st }

func (f *failing) Describe(r *retry.Request) {
	r.Service, r.Operation, r.Endpoint, r.Started = retry.Query, "query", "a", f.from
}
func (f *failing) Context() context.Context { return context.Background() }
func (f *failing) Size() int                { return 1 }

func (f *failing) Dispatch() {
	f.at = append(f.at, time.Since(f.from))
	e, _ := f.st.Sent()
	f.st.Answered(e)
	f.orc.MaybeRetry(f, f.why, errCause, f.hint)
}
func (f *failing) Done(err error, _ bool) { f.err, f.end = err, time.Since(f.from) }

func run(s retry.Strategy, why retry.Reason, h retry.Hint) *failing {
	f := &failing{orc: retry.New(retry.Options{Default: s}), why: why, hint: h, from: time.Now()}
	f.st.Idempotent, f.st.Deadline = true, time.Now().Add(24*time.Hour)
	f.Dispatch()
	time.Sleep(25 * time.Hour)
	synctest.Wait()
	return f
}

func schedule(ds ...int) retry.Strategy {
	return retry.BestEffort{Backoff: retry.Schedule(inMS(ds...)...)}
}

// TestLimitOfAttempts proves GA6-2, SM-3, SM-13 and SM-17: the first try counts.
func TestLimitOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(policy.Limit{Base: schedule(10), MaxAttempts: 4}, retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0, 10, 20, 30), f.at)
		require.Equal(t, 30*ms, f.end)
		require.ErrorIs(t, f.err, retry.ErrExhausted)
		require.ErrorIs(t, f.err, errCause)
	})
	ds, _ := simulateIn(t, policy.Limit{Base: schedule(10), MaxAttempts: 4}, retry.NodeNotAvailable, 20)
	require.Len(t, ds, 20, "transparent retries are no attempts")
}

func simulateIn(t *testing.T, s retry.Strategy, why retry.Reason, most int) (ds []time.Duration, ended retry.Action) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { ds, ended = simulate(s, why, most) })
	return ds, ended
}

// TestLimitsOfTime proves ADR-5 to ADR-9, GR-4, GR-8 and GR-9.
func TestLimitsOfTime(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name    string
		l       policy.Limit
		want    []time.Duration
		timeout time.Duration // of the last Action
	}{
		{"below, left", policy.Limit{Base: schedule(150, 300, 500), MaxAttempts: 4, Hard: time.Second, Fit: policy.Leave}, inMS(150, 300, 500), never},
		{"below, stretched", policy.Limit{Base: schedule(150, 300, 500), MaxAttempts: 4, Hard: time.Second, Fit: policy.Stretch}, inMS(150, 300, 550), never},
		{"above, truncated", policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Truncate}, inMS(150, 300, 550), never},
		{"above, overflows", policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Overflow}, inMS(150, 300, 600), never},
		{"above, dropped", policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.Leave}, inMS(150, 300), never},
		{"above, given up", policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second, Fit: policy.GiveUp}, inMS(150, 300), never},
		{"above, capped", policy.Limit{Base: schedule(150, 300, 600), Hard: time.Second}, inMS(150, 300), 550 * ms},
		{"soft", policy.Limit{Base: schedule(150, 300, 600, 700), Soft: time.Second}, inMS(150, 300, 600), never},
		{"soft and hard", policy.Limit{Base: schedule(150, 300, 500, 1150), Soft: time.Second, Hard: 2 * time.Second, Fit: policy.Leave}, inMS(150, 300, 500), never},
		{"elapsed", policy.Limit{Base: schedule(400), MaxElapsed: time.Second, Fit: policy.GiveUp}, inMS(400, 400), never},
		{"elapsed, truncated", policy.Limit{Base: schedule(400), MaxElapsed: time.Second, Fit: policy.Truncate}, inMS(400, 400, 200), never},
		{"elapsed, capped", policy.Limit{Base: schedule(400), MaxElapsed: time.Second}, inMS(400, 400), 200 * ms},
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

// TestCapTimesOut lets a limit of time end an operation as its deadline would.
func TestCapTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(policy.Limit{Base: schedule(400), MaxElapsed: time.Second}, retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0, 400, 800), f.at)
		require.Equal(t, time.Second, f.end)
		require.ErrorIs(t, f.err, retry.ErrTimeout)
		require.ErrorIs(t, f.err, errCause)
	})
}

// TestPlan proves ADR-10: no operation waits longer in all than planned.
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
			curve := func(d retry.Dice) retry.Backoff {
				return retry.Clamp(retry.EqualJitter(retry.Exponential(7*ms, 700*ms, 1.7), d), ms, 650*ms)
			}
			l.Base = retry.BestEffort{Backoff: curve(func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "dice") })}
			ds, ended := simulate(l, retry.KVLocked, 60)
			total, _ := ended.TimesOut()
			for _, d := range ds {
				total += d
			}
			require.LessOrEqual(t, total, l.Plan(curve(dice(math.Nextafter(1, 0)))))
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
		{policy.Limit{Soft: 3 * time.Second}, 4 * time.Second},
		{policy.Limit{Soft: 3 * time.Second, Hard: 9 * time.Second, MaxAttempts: 9, Fit: policy.Stretch}, 9 * time.Second},
		{policy.Limit{MaxElapsed: 3 * time.Second}, 3 * time.Second},
	} {
		require.Equal(t, c.want, c.l.Plan(b), "%+v", c.l)
	}
}

// TestGraph proves GR-6.
func TestGraph(t *testing.T) {
	ds, _ := simulateIn(t, policy.Graph(), retry.ServiceResponseCodeIndicated, 20)
	require.Equal(t, inMS(3e3, 12e3, 27e3, 48e3, 75e3, 108e3, 147e3, 180e3, 180e3), ds)
	synctest.Test(t, func(t *testing.T) {
		f := run(policy.Graph(), retry.ServiceResponseCodeIndicated, retry.Hint{Pushback: retry.PushbackAfter(time.Hour)})
		require.Zero(t, f.end, "GR-9: what does not fit fails at once")
		require.ErrorIs(t, f.err, retry.ErrExhausted)
	})
}

// TestTokens proves GA6-20 against a model, and I10.
func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, ratio := rapid.IntRange(1, 20).Draw(t, "max"), rapid.IntRange(1, 3000).Draw(t, "ratio")
		tokens, model := policy.NewTokens(most, ratio), most*1000
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			if rapid.Bool().Draw(t, "success") {
				tokens.Success()
				model = min(model+ratio, most*1000)
			} else {
				model = max(model-1000, 0)
				require.Equal(t, 2*model > most*1000, tokens.Failure())
			}
			require.Equal(t, 2*model > most*1000, tokens.Allowed())
		}
	})
	var none *policy.Tokens
	none.Success()
	require.True(t, none.Failure() && none.Allowed())
}

func TestTokensFromManyGoroutines(t *testing.T) {
	tokens := policy.NewTokens(1000, 1000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 120 {
				tokens.Failure()
			}
		})
	}
	wg.Wait()
	require.True(t, tokens.Allowed())
	for range 20 {
		require.True(t, tokens.Allowed())
		tokens.Failure()
	}
	require.False(t, tokens.Allowed(), "500 of 1000 are left")
	require.Zero(t, testing.AllocsPerRun(100, func() { tokens.Success(); tokens.Failure() }))
}

// TestThrottle proves GA6-21, GA6-23, GA6-24, GA6-25 and D5.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := map[string]*policy.Tokens{"a": policy.NewTokens(10, 100), "b": policy.NewTokens(10, 100)}
		s := policy.Throttle{Base: schedule(10), Node: func(e string) *policy.Tokens { return nodes[e] }}
		f := run(s, retry.KVTemporaryFailure, retry.Hint{})
		require.Equal(t, inMS(0, 10, 20, 30, 40), f.at, "the fifth failure stops")
		require.Equal(t, 40*ms, f.end, "at once")
		require.ErrorIs(t, f.err, retry.ErrThrottled)
		require.ErrorIs(t, f.err, errCause)
		require.True(t, nodes["b"].Allowed(), "another node")

		ask := func(endpoint string, why retry.Reason, p retry.Pushback) bool {
			_, ok := s.RetryAfter(t.Context(), &retry.Request{Idempotent: true, Endpoint: endpoint, Pushback: p}, why).Delay()
			return ok
		}
		require.False(t, ask("a", retry.KVLocked, retry.Pushback{}), "no retry while throttled")
		require.True(t, ask("a", retry.NodeNotAvailable, retry.Pushback{}), "but transparent ones")
		require.True(t, ask("elsewhere", retry.KVLocked, retry.Pushback{}))
		for range 20 {
			require.True(t, ask("b", retry.KVLocked, retry.Pushback{}), "an item that is busy costs nothing")
			require.True(t, ask("b", retry.NodeNotAvailable, retry.Pushback{}))
		}
		for range 5 {
			ask("b", retry.KVLocked, retry.PushbackNever())
		}
		require.False(t, nodes["b"].Allowed(), "do-not-retry counts")
		for range 11 {
			nodes["b"].Success()
		}
		require.True(t, ask("b", retry.KVLocked, retry.Pushback{}))
		_, ok := policy.Throttle{}.RetryAfter(t.Context(), &retry.Request{Idempotent: true}, retry.KVLocked).Delay()
		require.True(t, ok, "no nodes, no throttle")
	})
}

// TestThrottleSeesTheLastFailure counts the failure that a limit above ends.
func TestThrottleSeesTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := policy.NewTokens(2, 1)
		s := policy.Limit{MaxAttempts: 1, Base: policy.Throttle{Node: func(string) *policy.Tokens { return tokens }}}
		f := run(s, retry.KVTemporaryFailure, retry.Hint{})
		require.Error(t, f.err)
		require.False(t, tokens.Allowed())
	})
}

// TestPushback proves GA6-27, GA6-28 and GA6-29.
func TestPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hint := retry.Hint{Pushback: retry.PushbackAfter(77 * ms)}
		f := run(policy.Limit{MaxAttempts: 4, Base: policy.Pushback{Base: schedule(1, 2, 3)}}, retry.KVTemporaryFailure, hint)
		require.Equal(t, inMS(0, 77, 154, 231), f.at, "exactly, and no attempt more")
		f = run(policy.Pushback{}, retry.KVTemporaryFailure, retry.Hint{Pushback: retry.PushbackNever()})
		require.Zero(t, f.end)
		require.ErrorIs(t, f.err, errCause)
	})
	a := policy.Pushback{}.RetryAfter(t.Context(), &retry.Request{Pushback: retry.PushbackAfter(ms)}, retry.Unknown)
	_, ok := a.Delay()
	require.False(t, ok, "what Base does not retry stays so")
}

// TestOnly proves GA6-5.
func TestOnly(t *testing.T) {
	s := policy.Only{Base: schedule(5), Reasons: retry.Reasons(0).With(retry.KVLocked), Codes: []uint32{429}}
	for _, c := range []struct {
		why  retry.Reason
		code uint32
		want bool
	}{
		{retry.KVLocked, 0, true},
		{retry.KVTemporaryFailure, 0, false},
		{retry.ServiceResponseCodeIndicated, 429, true},
		{retry.ServiceResponseCodeIndicated, 503, false},
		{retry.Unknown, 429, false},
	} {
		_, ok := s.RetryAfter(t.Context(), &retry.Request{Code: c.code, Idempotent: true}, c.why).Delay()
		require.Equal(t, c.want, ok, "%+v", c)
	}
	_, ok := policy.Only{}.RetryAfter(t.Context(), &retry.Request{Idempotent: true}, retry.KVLocked).Delay()
	require.False(t, ok)
}

// TestBucket proves SM-6 to SM-9, SM-11 and SM-14.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := policy.NewStore(20, time.Second, policy.Costs{})
		f := run(policy.Bucket{Base: schedule(10), Store: store}, retry.KVTemporaryFailure, retry.Hint{})
		require.Equal(t, inMS(0, 10, 20), f.at)
		require.Equal(t, 30*ms, f.end, "a retry that cannot be paid fails after its delay")
		require.ErrorIs(t, f.err, retry.ErrThrottled)
		require.Equal(t, 20, store.Tokens(), "filled up since")

		for _, k := range []retry.Kind{retry.ServerSide, retry.ClientSide, retry.Timeout, retry.Throttling} {
			before := store.Tokens()
			cost, ok := store.Take(k)
			require.True(t, ok)
			require.EqualValues(t, map[bool]int{false: 5, true: 10}[k == retry.Throttling], cost, "throttling is dearest")
			require.Equal(t, before-int(cost), store.Tokens())
			store.Settle(cost, true)
			require.Equal(t, before, store.Tokens())
		}
		cost, _ := store.Take(retry.Throttling)
		store.Settle(cost, false)
		require.Equal(t, 10, store.Tokens(), "forfeited")
		for range 10000 { // each of these is too short for a thousandth of a token
			time.Sleep(200 * time.Microsecond)
			_, ok := store.Take(retry.Throttling)
			if ok {
				store.Settle(10, true)
			}
		}
		require.Equal(t, 12, store.Tokens(), "fractions go on counting")
		time.Sleep(200 * 365 * 24 * time.Hour)
		require.Equal(t, 20, store.Tokens())
	})
	a := policy.Bucket{Base: schedule(5)}.RetryAfter(t.Context(), &retry.Request{Idempotent: true}, retry.KVLocked)
	d, ok := a.Delay()
	require.True(t, ok)
	require.Equal(t, 5*ms, d)
}

// TestBucketNeverGivesMoreThanItHas is the property behind SM-9 and I10.
func TestBucketNeverGivesMoreThanItHas(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			capacity := rapid.IntRange(0, 50).Draw(t, "capacity")
			per := time.Duration(rapid.IntRange(0, 3000).Draw(t, "per token")) * ms
			s := policy.NewStore(capacity, per, policy.Costs{Server: 1, Client: 2, Throttling: 3, Timeout: 4})
			start := time.Now()
			taken := 0
			for range rapid.IntRange(0, 50).Draw(t, "events") {
				time.Sleep(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * ms / 3)
				cost, ok := s.Take(retry.Kind(rapid.IntRange(0, 3).Draw(t, "kind")))
				if ok && rapid.Bool().Draw(t, "success") {
					s.Settle(cost, true)
				} else if ok {
					taken += int(cost)
				}
				require.GreaterOrEqual(t, s.Tokens(), 0)
				require.LessOrEqual(t, s.Tokens(), capacity)
				given := capacity
				if per > 0 {
					given += int(time.Since(start)/per) + 1
				}
				require.LessOrEqual(t, taken, given)
			}
		})
	})
}

// TestStackIsInline checks that every wrapper answers for what it wraps, and that a nil Base is BestEffort.
func TestStackIsInline(t *testing.T) {
	blocking := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
	for _, wrap := range []func(retry.Strategy) retry.Strategy{
		func(b retry.Strategy) retry.Strategy { return policy.Limit{Base: b} },
		func(b retry.Strategy) retry.Strategy { return policy.Throttle{Base: b} },
		func(b retry.Strategy) retry.Strategy { return policy.Bucket{Base: b} },
		func(b retry.Strategy) retry.Strategy { return policy.Pushback{Base: b} },
		func(b retry.Strategy) retry.Strategy {
			return policy.Only{Base: b, Reasons: retry.Reasons(0).With(retry.KVLocked)}
		},
	} {
		name := fmt.Sprintf("%T", wrap(nil))
		require.True(t, retry.IsInline(wrap(nil)), name)
		require.True(t, retry.IsInline(wrap(retry.BestEffort{})), name)
		require.False(t, retry.IsInline(wrap(blocking)), name)
		r := &retry.Request{Idempotent: true, Dice: dice(0.5), BackoffStep: 3}
		d, ok := wrap(nil).RetryAfter(t.Context(), r, retry.KVLocked).Delay()
		require.True(t, ok, name)
		require.Equal(t, 6*ms, d, name)
	}
}

// TestStackFromOutsideIn runs the whole stack in the order that the package recommends.
func TestStackFromOutsideIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := policy.NewTokens(100, 100)
		s := retry.FastFailOnTerminalError{Base: policy.Only{
			Reasons: retry.Reasons(0).With(retry.KVTemporaryFailure).With(retry.AuthenticationError),
			Base: policy.Limit{
				MaxAttempts: 3,
				Base:        policy.Throttle{Node: func(string) *policy.Tokens { return tokens }, Base: policy.Pushback{Base: schedule(10)}},
			},
		}}
		require.True(t, retry.IsInline(s))
		require.ErrorIs(t, run(s, retry.AuthenticationError, retry.Hint{}).err, retry.ErrTerminal)
		f := run(s, retry.KVTemporaryFailure, retry.Hint{})
		require.ErrorIs(t, f.err, retry.ErrExhausted)
		require.Len(t, f.at, 3)
		require.Len(t, run(s, retry.KVLocked, retry.Hint{}).at, 1)
	})
}
