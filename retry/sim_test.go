package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// sim is a scripted server and network below many operations with random strategies. The server's own count of what it
// executed is the judge of doubt. COUCHCORE_SEED replays a run.
type sim struct {
	mu     sync.Mutex
	rng    *rand.Rand
	orc    *retry.Orchestrator
	tick   time.Duration // one more nanosecond per event, so that no two share an instant
	raised retry.Reasons
	faults map[string]int
	ledger ledger
	wrong  []string // what was seen on the way
}

// ledger is a budget that refuses at random and remembers what it was paid.
type ledger struct {
	s             *sim
	paid, settled int
}

func (l *ledger) Take(retry.Kind) (int32, bool) {
	if l.s.roll(4) == 0 {
		l.s.note("budget refuses")
		return 0, false
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.paid += 3
	return 3, true
}

func (l *ledger) Settle(cost int32, _ bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.settled += int(cost)
}

func (s *sim) complain(format string, args ...any) {
	s.mu.Lock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	s.mu.Unlock()
}

func (s *sim) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *sim) later(upTo time.Duration, f func()) {
	s.mu.Lock()
	s.tick++
	d := time.Duration(s.rng.Int64N(int64(upTo))).Truncate(time.Microsecond) + s.tick
	s.mu.Unlock()
	time.AfterFunc(d, f)
}

func (s *sim) note(fault string) {
	s.mu.Lock()
	s.faults[fault]++
	s.mu.Unlock()
}

// simOp is one operation of a simulation.
type simOp struct {
	s       *sim
	st      retry.State
	started time.Time

	mu         sync.Mutex
	dispatches int
	applied    int // times that the server executed it
	frames     int // handed to a socket and not proved unsent
	done       int
	success    bool
	inDoubt    bool
	err        error
	end        time.Time
}

func (x *simOp) Retry() *retry.State { return &x.st }
func (x *simOp) Describe(r *retry.Request) {
	r.Service, r.Operation, r.Started = retry.KV, "sim", x.started
}
func (x *simOp) Context() context.Context { return context.Background() }
func (x *simOp) Size() int                { return 10 }
func (x *simOp) Dispatch() {
	x.mu.Lock()
	x.dispatches++
	x.mu.Unlock()
	if x.s.roll(3) == 0 {
		x.s.note("queued")
		x.s.later(10*time.Millisecond, x.attempt)
		return
	}
	x.attempt()
}

func (x *simOp) Done(err error, inDoubt bool) { x.finish(err, inDoubt) }

func (x *simOp) finish(err error, inDoubt bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done++
	x.success, x.err, x.inDoubt, x.end = err == nil, err, inDoubt, time.Now()
}

// ofServers are all reasons but that of retry.Do, which its own evaluation gives.
var ofServers = slices.DeleteFunc(slices.Collect(retry.All()), func(why retry.Reason) bool {
	return why == retry.EvaluationIndicated
})

func (x *simOp) reason(ok func(retry.Reason) bool) retry.Reason {
	for {
		why := ofServers[x.s.roll(len(ofServers))]
		if ok(why) {
			x.s.mu.Lock()
			x.s.raised = x.s.raised.With(why)
			x.s.mu.Unlock()
			return why
		}
	}
}

// attempt routes the operation and lets the network and the server do their worst.
func (x *simOp) attempt() {
	s := x.s
	if s.roll(5) == 0 {
		s.note("not sent")
		why := x.reason(func(r retry.Reason) bool { return r.Unseen() && !r.AlwaysRetry() })
		if x.st.NotSent() {
			s.orc.MaybeRetry(x, why, io.ErrNoProgress, retry.Hint{})
		}
		return
	}
	e, ok := x.st.Sent()
	if !ok {
		return
	}
	if x.ended() {
		s.complain("sent after its end")
	}
	x.whole(1)
	switch s.roll(8) {
	case 0: // the connection dies before the write ends, which can be proved or not
		if s.roll(2) == 0 {
			s.note("proved unsent")
			if x.st.Unsent(e) {
				x.whole(-1)
				s.later(time.Millisecond, x.attempt)
			}
			return
		}
		s.note("lost before execution")
		s.later(5*time.Millisecond, func() { s.orc.ConnLost(x, e, io.EOF) })
	case 1:
		s.note("lost after execution")
		s.later(5*time.Millisecond, func() {
			x.execute()
			s.later(5*time.Millisecond, func() { s.orc.ConnLost(x, e, io.EOF) })
		})
	case 2:
		s.note("no answer")
		s.later(20*time.Millisecond, x.execute)
	case 3, 4:
		s.note("refused")
		// The server's answer of a reason that allows it means that nothing was executed.
		why := x.reason(func(retry.Reason) bool { return true })
		s.later(5*time.Millisecond, func() {
			if x.st.Answered(e) {
				s.orc.MaybeRetry(x, why, io.ErrShortWrite, retry.Hint{Moved: s.roll(2) == 0})
			}
			s.later(time.Millisecond, func() { s.orc.ConnLost(x, e, io.EOF) }) // the teardown comes late
		})
	default:
		s.note("executed")
		x.execute()
		s.later(5*time.Millisecond, func() {
			if !x.st.Answered(e) {
				return
			}
			if won, ambiguous := x.st.Finish(); won {
				x.st.Settle(nil)
				x.finish(nil, ambiguous)
			}
		})
	}
}

func (x *simOp) ended() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.done > 0
}

func (x *simOp) whole(n int) {
	x.mu.Lock()
	x.frames += n
	x.mu.Unlock()
}

func (x *simOp) execute() {
	x.mu.Lock()
	x.applied++
	x.mu.Unlock()
}

// strategy is any Strategy at all, also one that blocks, panics or retries everything.
func (s *sim) strategy() retry.Strategy {
	delay := func() time.Duration { return time.Duration(s.roll(30)) * time.Millisecond }
	wild := func(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
		if why.AlwaysRetry() {
			s.complain("a strategy was asked about %v", why)
		}
		switch s.roll(9) {
		case 0:
			r.Idempotent, r.Err, r.Deadline = true, nil, time.Now().Add(time.Hour)
			return retry.After(delay())
		case 1:
			return retry.FastFailOnTerminalError{}.RetryAfter(ctx, r, why)
		case 2:
			if s.roll(4) == 0 {
				s.note("strategy panics")
				panic("any strategy may panic")
			}
		case 3:
			if s.roll(4) == 0 {
				return retry.StopWith(func(err error) error { return fmt.Errorf("translated: %w", err) })
			}
		case 4:
			return retry.After(time.Hour)
		case 5:
			return retry.After(delay()).Charged(&s.ledger)
		}
		return retry.After(delay())
	}
	switch s.roll(5) {
	case 0:
		return nil
	case 1:
		return retry.BestEffort{}
	case 2:
		return inlineFunc(wild)
	default:
		return retry.Func(func(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
			if s.roll(3) == 0 {
				time.Sleep(delay())
			}
			if s.roll(10) == 0 {
				s.note("strategy blocks")
				<-ctx.Done()
			}
			return wild(ctx, r, why)
		})
	}
}

func (s *sim) start() *simOp {
	x := &simOp{s: s, started: time.Now()}
	x.st.Idempotent = s.roll(3) == 0
	x.st.Deadline = x.started.Add(time.Duration(20+s.roll(300)) * time.Millisecond)
	x.st.Strategy = s.strategy()
	// The dispatcher's part: whatever is in no heap of the orchestrator ends at its deadline too.
	time.AfterFunc(time.Until(x.st.Deadline), func() { s.orc.Expire(x) })
	if s.roll(10) == 0 {
		s.later(100*time.Millisecond, func() {
			if s.orc.Cancel(x, io.ErrClosedPipe) {
				s.note("canceled")
			}
		})
	}
	x.attempt()
	return x
}

// simulationSeeds is how many seeds a run has, a tenth of it a short one; COUCHCORE_SEEDS changes it, and
// COUCHCORE_SEED replays one.
const simulationSeeds = 1000

// TestSimulation checks I1, I2, I3, I4, I6, I7, I9, I10, I11, I15 and I16 over random schedules and random strategies,
// among them ones that block, panic or retry everything: a thousand seeds. Every reason and every fault must have
// happened.
func TestSimulation(t *testing.T) {
	seeds := uint64(simulationSeeds)
	if testing.Short() {
		seeds /= 10
	}
	first, n := rand.Uint64(), number(t, "COUCHCORE_SEEDS", seeds)
	if os.Getenv("COUCHCORE_SEED") != "" {
		first, n = number(t, "COUCHCORE_SEED", 0), 1
	}
	var raised retry.Reasons
	faults := map[string]int{}
	for i := range n {
		s := simulate(t, first+i)
		for why := range s.raised.All() {
			raised = raised.With(why)
		}
		for fault, times := range s.faults {
			faults[fault] += times
		}
	}
	if n < simulationSeeds/10 {
		return // too few to have met everything
	}
	for _, why := range ofServers {
		require.True(t, raised.Has(why), "%v never fired", why)
	}
	for _, fault := range []string{
		"not sent", "proved unsent", "lost before execution", "lost after execution", "no answer", "refused",
		"executed",
		"strategy panics", "strategy blocks", "budget refuses", "canceled", "too many wait", "closed", "queued",
	} {
		require.NotZero(t, faults[fault], fault)
	}
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, variable)
	return n
}

// simulate runs one seed. A failure names it.
func simulate(t *testing.T, seed uint64) (s *sim) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("COUCHCORE_SEED=%d", seed)
			}
		}()
		s = &sim{rng: rand.New(rand.NewPCG(seed, 1)), faults: map[string]int{}}
		s.ledger.s = s
		o := retry.Options{JitterSource: func() float64 { return float64(s.roll(1000)) / 1000 }}
		if s.roll(3) == 0 {
			o.MaxParked, o.MaxBytes = 1+s.roll(20), int64(s.roll(200))
			o.Observer = s.bounds(o)
		}
		s.orc = retry.New(o)
		closing := -1
		if s.roll(10) == 0 {
			closing = s.roll(200)
		}
		var ops []*simOp
		for i := range 200 {
			if i == closing {
				s.note("closed")
				s.orc.Close(io.ErrClosedPipe)
			}
			ops = append(ops, s.start())
			time.Sleep(time.Duration(s.roll(1000)) * time.Microsecond)
			if s.roll(20) == 0 {
				s.orc.Wake(func(retry.Op) bool { return s.roll(2) == 0 })
			}
		}
		pass(time.Second)
		for i, x := range ops {
			x.check(t, i)
		}
		require.Zero(t, s.orc.Stats().Parked)
		require.Zero(t, s.orc.Stats().Bytes)
		require.Empty(t, s.wrong)
		require.Equal(t, s.ledger.paid, s.ledger.settled)
		s.orc.Close(nil)
		synctest.Wait()
	})
	return s
}

// bounds looks at what waits whenever something begins to, and whenever something is given up.
func (s *sim) bounds(o retry.Options) retry.Observer {
	look := func() {
		if st := s.orc.Stats(); st.Parked > o.MaxParked || o.MaxBytes > 0 && st.Bytes > o.MaxBytes {
			s.complain("%d operations with %d bytes wait", st.Parked, st.Bytes)
		}
	}
	return hooks{
		retry: func(*retry.Request, retry.Reason, time.Duration) { look() },
		gaveUp: func(_ *retry.Request, _ retry.Reason, err error) {
			look()
			if errors.Is(err, retry.ErrTooManyInRetry) {
				s.note("too many wait")
			}
		},
	}
}

func (x *simOp) check(t *testing.T, n int) {
	t.Helper()
	require.Equal(t, 1, x.done, "operation %d", n)
	require.False(t, x.end.After(x.st.Deadline), "operation %d ended %v late", n, x.end.Sub(x.st.Deadline))
	info := x.st.Info()
	require.Equal(t, x.dispatches, info.Retries(), "operation %d", n)
	require.LessOrEqual(t, x.frames, 1+x.dispatches, "operation %d", n)
	require.LessOrEqual(t, info.Waited, x.st.Deadline.Sub(x.started), "operation %d", n)
	if x.st.Idempotent {
		require.False(t, x.inDoubt, "operation %d", n)
		return
	}
	require.LessOrEqual(t, x.applied, 1, "operation %d was executed again", n)
	switch {
	case x.success:
		require.Equal(t, 1, x.applied, "operation %d succeeded", n)
	case !x.inDoubt:
		require.Zero(t, x.applied, "operation %d failed without doubt: %v", n, x.err)
	}
}
