package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

var (
	errBusy  = errors.New("busy")
	errFatal = errors.New("fatal")
)

// pushedBack is a busy server that says when to come again.
type pushedBack struct{ p retry.Pushback }

func (pushedBack) Error() string              { return "pushed back" }
func (pushedBack) Is(target error) bool       { return target == errBusy }
func (e pushedBack) Pushback() retry.Pushback { return e.p }

// answer is what one attempt of a script brings, after some time. An attempt whose time is negative never answers.
type answer struct {
	after time.Duration
	err   error
}

// script runs Do with attempts that behave as listed.
type script struct {
	mu       sync.Mutex
	start    time.Time
	sent     []time.Duration
	canceled []int
	answers  []answer
}

func (s *script) try(ctx context.Context, n int, used *hedge.Avoid) (string, error) {
	s.mu.Lock()
	s.sent = append(s.sent, time.Since(s.start))
	a := answer{after: -1}
	if n < len(s.answers) {
		a = s.answers[n]
	}
	s.mu.Unlock()
	used.Use(fmt.Sprint("node", n))
	var due <-chan time.Time
	if a.after >= 0 {
		t := time.NewTimer(a.after)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
		return fmt.Sprint("answer ", n), a.err
	case <-ctx.Done():
		s.mu.Lock()
		s.canceled = append(s.canceled, n)
		slices.Sort(s.canceled)
		s.mu.Unlock()
		return "", ctx.Err()
	}
}

type want struct {
	sent     []time.Duration
	end      time.Duration
	result   string
	err      error
	canceled []int
	stats    hedge.Stats
}

func inMS(ds ...int) []time.Duration {
	var out []time.Duration
	for _, d := range ds {
		out = append(out, time.Duration(d)*ms)
	}
	return out
}

func isBusy(err error) bool { return errors.Is(err, errBusy) }

// TestTimelines proves GA6-11 to GA6-16, GA6-30 and GA6-32's hedging half.
func TestTimelines(t *testing.T) {
	p := hedge.Policy{MaxAttempts: 4, Delay: 500 * ms, NonFatal: isBusy, Idempotent: true}
	atOnce := p
	atOnce.Delay = 0
	one := p
	one.MaxAttempts = 1
	for _, c := range []struct {
		name    string
		p       hedge.Policy
		answers []answer
		want    want
	}{
		{
			"one per delay until the first answers", p,
			[]answer{{1700 * ms, nil}},
			want{inMS(0, 500, 1000, 1500), 1700 * ms, "answer 0", nil, []int{1, 2, 3}, hedge.Stats{Sent: 4}},
		},
		{
			"quick answer, no hedge", p,
			[]answer{{499 * ms, nil}},
			want{inMS(0), 499 * ms, "answer 0", nil, nil, hedge.Stats{Sent: 1}},
		},
		{
			"the hedge wins", p,
			[]answer{{-1, nil}, {100 * ms, nil}},
			want{inMS(0, 500), 600 * ms, "answer 1", nil, []int{0}, hedge.Stats{Sent: 2, Winner: 1}},
		},
		{
			"all at once", atOnce,
			[]answer{{90 * ms, nil}, {80 * ms, nil}, {70 * ms, nil}, {75 * ms, nil}},
			want{inMS(0, 0, 0, 0), 70 * ms, "answer 2", nil, []int{0, 1, 3}, hedge.Stats{Sent: 4, Winner: 2}},
		},
		{
			"non-fatal: the next at once, then the delay anew", p,
			[]answer{{100 * ms, errBusy}, {-1, nil}, {50 * ms, nil}},
			want{inMS(0, 100, 600), 650 * ms, "answer 2", nil, []int{1}, hedge.Stats{Sent: 3, Winner: 2}},
		},
		{
			"fatal", p,
			[]answer{{-1, nil}, {100 * ms, errFatal}},
			want{inMS(0, 500), 600 * ms, "answer 1", errFatal, []int{0}, hedge.Stats{Sent: 2, Failed: 1, Winner: 1}},
		},
		{
			"all fail", p,
			[]answer{{100 * ms, errBusy}, {100 * ms, errBusy}, {100 * ms, errBusy}, {100 * ms, errBusy}},
			want{inMS(0, 100, 200, 300), 400 * ms, "answer 3", errBusy, nil, hedge.Stats{
				Sent: 4, Failed: 3,
				Winner: 3,
			}},
		},
		{
			"a failure waits for who is still out", p,
			[]answer{{900 * ms, nil}, {100 * ms, errBusy}, {50 * ms, errBusy}, {50 * ms, errBusy}},
			want{inMS(0, 500, 600, 650), 900 * ms, "answer 0", nil, nil, hedge.Stats{Sent: 4, Failed: 3}},
		},
		{
			"pushback after a time", p,
			[]answer{{100 * ms, pushedBack{retry.PushbackAfter(250 * ms)}}, {-1, nil}, {10 * ms, nil}},
			want{inMS(0, 350, 850), 860 * ms, "answer 2", nil, []int{1}, hedge.Stats{Sent: 3, Winner: 2}},
		},
		{
			"pushback for ever", p,
			[]answer{{900 * ms, nil}, {100 * ms, pushedBack{retry.PushbackNever()}}},
			want{inMS(0, 500), 900 * ms, "answer 0", nil, nil, hedge.Stats{Sent: 2, Failed: 1}},
		},
		{
			"pushback for ever, nothing out", p,
			[]answer{{100 * ms, pushedBack{retry.PushbackNever()}}},
			want{inMS(0), 100 * ms, "answer 0", errBusy, nil, hedge.Stats{Sent: 1}},
		},
		{
			"no hedges", one,
			[]answer{{time.Minute, nil}},
			want{inMS(0), time.Minute, "answer 0", nil, nil, hedge.Stats{Sent: 1}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{start: time.Now(), answers: c.answers}
				r, stats, err := hedge.Do(t.Context(), c.p, s.try)
				end := time.Since(s.start)
				synctest.Wait()
				require.Equal(t, c.want.end, end)
				require.ErrorIs(t, err, c.want.err)
				if c.want.err == nil {
					require.NoError(t, err)
				}
				require.Equal(t, c.want.result, r)
				require.Equal(t, c.want.sent, s.sent)
				require.Equal(t, c.want.canceled, s.canceled)
				require.Equal(t, c.want.stats, stats)
			})
		})
	}
}

func TestRefusesWhatIsNotIdempotent(t *testing.T) {
	_, stats, err := hedge.Do(t.Context(), hedge.Policy{MaxAttempts: 3}, func(context.Context, int, *hedge.Avoid) (int,
		error,
	) {
		t.Error("sent")
		return 0, nil
	})
	require.ErrorIs(t, err, hedge.ErrNotIdempotent)
	require.Zero(t, stats.Sent)
}

// TestEveryFailureIsFatalByDefault leaves NonFatal nil.
func TestEveryFailureIsFatalByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{start: time.Now(), answers: []answer{{ms, errBusy}}}
		_, stats, err := hedge.Do(t.Context(), hedge.Policy{MaxAttempts: 3, Delay: time.Second, Idempotent: true},
			s.try)
		require.ErrorIs(t, err, errBusy)
		require.Equal(t, 1, stats.Sent)
	})
}

// TestCallersEnd proves GA6-3 and GA6-19: what ends the caller's context ends every attempt.
func TestCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the caller left")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &script{start: time.Now()}
		time.AfterFunc(1200*ms, func() { cancel(why) })
		_, stats, err := hedge.Do(ctx, hedge.Policy{MaxAttempts: 4, Delay: 500 * ms, Idempotent: true}, s.try)
		require.ErrorIs(t, err, why)
		require.Equal(t, 1200*ms, time.Since(s.start))
		require.Equal(t, hedge.Stats{Sent: 3, Winner: -1}, stats)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, s.canceled)
	})
}

// TestAvoid proves GA6-17: every attempt sees where the others went.
func TestAvoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []string{"a", "b", "c"}
		var mu sync.Mutex
		var went []string
		_, _, err := hedge.Do(t.Context(), hedge.Policy{MaxAttempts: 3, Delay: ms, NonFatal: isBusy, Idempotent: true},
			func(ctx context.Context, _ int, used *hedge.Avoid) (int, error) {
				for _, n := range nodes {
					if !used.Used(n) {
						used.Use(n)
						mu.Lock()
						went = append(went, n)
						mu.Unlock()
						require.Contains(t, used.Endpoints(), n)
						break
					}
				}
				time.Sleep(10 * ms)
				return 0, errBusy
			})
		require.ErrorIs(t, err, errBusy)
		require.Equal(t, nodes, went)
	})
	var none *hedge.Avoid
	none.Use("a")
	require.False(t, none.Used("a"))
	require.Empty(t, none.Endpoints())
}

// gate is a Throttle for tests.
type gate struct {
	allow  func(used []string) bool
	failed []string
}

func (g *gate) Allowed(used []string) bool { return g.allow == nil || g.allow(used) }
func (g *gate) Failure(endpoint string)    { g.failed = append(g.failed, endpoint) }

// TestThrottle proves GA6-22, GA6-23 and GA6-24 for hedges.
func TestThrottle(t *testing.T) {
	never := func([]string) bool { return false }
	for _, c := range []struct {
		name    string
		answers []answer
		allow   func([]string) bool
		err     error
		sent    []time.Duration
		end     time.Duration
		stats   hedge.Stats
		failed  []string
	}{
		{
			"the first is sent, hedges are dropped",
			[]answer{{2 * time.Second, nil}},
			never, nil,
			inMS(0), 2 * time.Second,
			hedge.Stats{Sent: 1, Throttled: 2},
			nil,
		},
		{
			"a failure ends it at once",
			[]answer{{100 * ms, errBusy}},
			never, errBusy,
			inMS(0), 100 * ms,
			hedge.Stats{Sent: 1, Throttled: 1},
			[]string{"node0"},
		},
		{
			"by what was used",
			[]answer{{-1, nil}, {-1, nil}, {-1, nil}},
			func(used []string) bool { return len(used) < 2 },
			context.DeadlineExceeded, inMS(0, 500), 3 * time.Second,
			hedge.Stats{Sent: 2, Throttled: 1, Winner: -1},
			nil,
		},
		{
			"fatal failures do not count",
			[]answer{{100 * ms, errFatal}},
			nil, errFatal,
			inMS(0), 100 * ms,
			hedge.Stats{Sent: 1},
			nil,
		},
		{
			"but do-not-retry does",
			[]answer{{100 * ms, fmt.Errorf("%w: %w", errFatal, noMore{})}},
			nil, errFatal,
			inMS(0), 100 * ms,
			hedge.Stats{Sent: 1},
			[]string{"node0"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				g := &gate{allow: c.allow}
				s := &script{start: time.Now(), answers: c.answers}
				p := hedge.Policy{MaxAttempts: 3, Delay: 500 * ms, NonFatal: isBusy, Idempotent: true, Throttle: g}
				_, stats, err := hedge.Do(ctx, p, s.try)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.end, time.Since(s.start))
				synctest.Wait()
				require.Equal(t, c.sent, s.sent)
				require.Equal(t, c.stats, stats)
				require.Equal(t, c.failed, g.failed)
			})
		})
	}
}

// noMore is a fatal failure with which a server asks not to be tried again.
type noMore struct{}

func (noMore) Error() string            { return "no more" }
func (noMore) Pushback() retry.Pushback { return retry.PushbackNever() }

func TestAttemptsThatBreak(t *testing.T) {
	p := hedge.Policy{MaxAttempts: 2, Delay: time.Second, Idempotent: true}
	_, _, err := hedge.Do(t.Context(), p, func(context.Context, int, *hedge.Avoid) (int, error) { panic("boom") })
	var pe *retry.PanicError
	require.ErrorAs(t, err, &pe)
	require.Equal(t, "boom", pe.Value)
	require.Contains(t, pe.Error(), "boom")
	require.NotEmpty(t, pe.Stack)
	_, _, err = hedge.Do(t.Context(), p, func(context.Context, int, *hedge.Avoid) (int, error) {
		runtime.Goexit()
		return 0, nil
	})
	require.ErrorContains(t, err, "ended its goroutine")
}

// TestAttemptsThatIgnoreTheirContext are not waited for.
func TestAttemptsThatIgnoreTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, _, err := hedge.Do(t.Context(), hedge.Policy{MaxAttempts: 2, Delay: ms, Idempotent: true},
			func(_ context.Context, n int, _ *hedge.Avoid) (int, error) {
				time.Sleep(time.Duration(1-n) * time.Hour)
				return n, nil
			})
		require.NoError(t, err)
		require.Equal(t, 1, r)
		require.Equal(t, ms, time.Since(start))
		time.Sleep(time.Hour) // what it brings then is dropped
	})
}

// TestAnswerBeforeTheEnd: a good answer that has come is taken, though the caller's context has ended meanwhile, and a
// failure that has come then is the context's.
func TestAnswerBeforeTheEnd(t *testing.T) {
	for _, answer := range []error{nil, errFatal, errBusy} {
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				why := errors.New("the caller left")
				ctx, cancel := context.WithCancelCause(t.Context())
				arrived := make(chan struct{})
				g := &gate{allow: func([]string) bool { // the second send waits until both have happened
					close(arrived)
					synctest.Wait()
					return false
				}}
				p := hedge.Policy{MaxAttempts: 2, NonFatal: isBusy, Idempotent: true, Throttle: g}
				r, stats, err := hedge.Do(ctx, p, func(context.Context, int, *hedge.Avoid) (int, error) {
					<-arrived
					cancel(why)
					return 7, answer
				})
				if answer == nil {
					require.NoError(t, err)
					require.Equal(t, 7, r)
					return
				}
				require.ErrorIs(t, err, why)
				require.Equal(t, hedge.Stats{Sent: 1, Throttled: 1, Winner: -1}, stats)
			})
		}
	}
}

// TestPolicyThatPanics: what the caller of Do gave it may panic, and only this operation fails.
func TestPolicyThatPanics(t *testing.T) {
	for name, p := range map[string]hedge.Policy{
		"NonFatal": {NonFatal: func(error) bool { panic("boom") }},
		"Allowed":  {Throttle: &gate{allow: func([]string) bool { panic("boom") }}},
		"Failure":  {NonFatal: isBusy, Throttle: exploding{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p.MaxAttempts, p.Idempotent = 3, true
				if name != "Allowed" {
					p.Delay = time.Second
				}
				s := &script{start: time.Now(), answers: []answer{{ms, errBusy}}}
				_, stats, err := hedge.Do(t.Context(), p, s.try)
				var pe *retry.PanicError
				require.ErrorAs(t, err, &pe)
				require.Equal(t, "boom", pe.Value)
				require.Equal(t, hedge.Stats{Sent: 1, Winner: -1}, stats)
			})
		})
	}
}

// exploding is a Throttle that cannot count.
type exploding struct{}

func (exploding) Allowed([]string) bool { return true }
func (exploding) Failure(string)        { panic("boom") }

// TestRace proves I12 and GA6-41: one outcome, at most MaxAttempts sends, everybody else canceled, and a failure only
// when nothing is out that could still succeed. Many events share an instant.
func TestRace(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			var sent, live, good atomic.Int32
			p := hedge.Policy{
				MaxAttempts: 1 + rand.IntN(5), Delay: time.Duration(rand.IntN(4)) * ms, NonFatal: isBusy,
				Idempotent: true,
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20))*ms)
			defer cancel()
			r, stats, err := hedge.Do(ctx, p, func(ctx context.Context, n int, used *hedge.Avoid) (int, error) {
				sent.Add(1)
				live.Add(1)
				defer live.Add(-1)
				used.Use(fmt.Sprint(n))
				tm := time.NewTimer(time.Duration(rand.IntN(4)) * ms)
				defer tm.Stop()
				select {
				case <-tm.C:
					err := [...]error{nil, errBusy, errBusy, errFatal}[rand.IntN(4)]
					if err == nil {
						good.Add(1)
					}
					return n, err
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			switch {
			case err == nil:
				require.Equal(t, stats.Winner, r)
				require.Positive(t, good.Load())
			case isBusy(err):
				require.Equal(t, p.MaxAttempts, stats.Sent)
				require.Zero(t, live.Load(), "a failure while something is out")
				require.Zero(t, good.Load())
			}
			require.LessOrEqual(t, stats.Sent, p.MaxAttempts)
			synctest.Wait()
			require.Zero(t, live.Load(), "who has lost is canceled")
			require.EqualValues(t, stats.Sent, sent.Load())
		})
	}
}
