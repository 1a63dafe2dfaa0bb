package policy_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

var errCause = errors.New("what the attempt met")

func random(f float64) retry.JitterSource { return func() float64 { return f } }

func inMS(ds ...int) []time.Duration {
	out := []time.Duration{}
	for _, d := range ds {
		out = append(out, time.Duration(d)*ms)
	}
	return out
}

func schedule(ds ...int) retry.Strategy {
	return retry.BestEffort{Backoff: retry.Schedule(inMS(ds...)...)}
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
			r.WaitedUnseen += d
			r.Transparent++
		} else {
			r.Counted++
		}
	}
	return ds, retry.Action{}
}

func simulateIn(t *testing.T, s retry.Strategy, why retry.Reason, most int) (ds []time.Duration, ended retry.Action) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { ds, ended = simulate(s, why, most) })
	return ds, ended
}

// answer is what becomes of one attempt.
type answer struct {
	why  retry.Reason
	hint retry.Hint
	took time.Duration // from the send to the answer
	ok   bool          // it succeeds
	none bool          // there is no way to a server
	lost bool          // the connection dies unanswered
}

// call is an operation under a real orchestrator, before a server that answers as it is told to.
type call struct {
	st        retry.State
	orc       *retry.Orchestrator
	service   retry.Service
	operation string
	endpoint  string
	answer    func(n int) answer // of the n-th attempt, 0 being the first

	tries   int
	at      []time.Duration // when it was sent
	from    time.Time
	end     time.Duration
	done    int
	err     error
	inDoubt bool
}

func (c *call) Retry() *retry.State { return &c.st }

func (c *call) Describe(r *retry.Request) {
	r.Service, r.Operation, r.Endpoint, r.Started = c.service, c.operation, c.endpoint, c.from
}
func (c *call) Context() context.Context { return context.Background() }
func (c *call) Size() int                { return 1 }

func (c *call) Dispatch() {
	a := c.answer(c.tries)
	c.tries++
	if a.none {
		if c.st.NotSent() {
			c.orc.MaybeRetry(c, a.why, errCause, a.hint)
		}
		return
	}
	c.at = append(c.at, time.Since(c.from))
	epoch, _ := c.st.Sent()
	if a.took > 0 {
		time.AfterFunc(a.took, func() { c.answered(epoch, a) })
		return
	}
	c.answered(epoch, a)
}

func (c *call) answered(epoch uint32, a answer) {
	switch {
	case a.lost:
		c.orc.ConnLost(c, epoch, io.EOF)
	case !c.st.Answered(epoch):
	case a.ok:
		if won, _ := c.st.Finish(); won {
			c.st.Settle(nil)
			c.Done(nil, false)
		}
	default:
		c.orc.MaybeRetry(c, a.why, errCause, a.hint)
	}
}

func (c *call) Done(err error, inDoubt bool) {
	c.done++
	c.err, c.inDoubt, c.end = err, inDoubt, time.Since(c.from)
}

func newCall(s retry.Strategy, answers func(n int) answer) *call {
	c := &call{
		orc: retry.New(retry.Options{Default: s}), service: retry.Query, operation: "query", endpoint: "a",
		answer: answers,
	}
	c.st.Idempotent = true
	return c
}

// play runs the operation to its end, which takes a day at most.
func (c *call) play() *call {
	c.from = time.Now()
	if c.st.Deadline.IsZero() {
		c.st.Deadline = c.from.Add(24 * time.Hour)
	}
	c.Dispatch()
	time.Sleep(25 * time.Hour)
	synctest.Wait()
	return c
}

// always answers every attempt in the same way.
func always(why retry.Reason, h retry.Hint) func(int) answer {
	return func(int) answer { return answer{why: why, hint: h} }
}

// script answers the attempts in turn, and the later ones like the last.
func script(as ...answer) func(int) answer {
	return func(n int) answer { return as[min(n, len(as)-1)] }
}

// run lets every attempt of an operation be answered in the same way.
func run(s retry.Strategy, why retry.Reason, h retry.Hint) *call {
	return newCall(s, always(why, h)).play()
}

// retries says whether s retries an operation that fails for the reason.
func retries(s retry.Strategy, r retry.Request, why retry.Reason) bool {
	r.Context, r.Idempotent = context.Background(), true
	_, ok := s.RetryAfter(r.Context, &r, why).Delay()
	return ok
}

// ended checks that an operation ended once, with all of the errors.
func (c *call) ended(t *testing.T, want ...error) {
	t.Helper()
	require.Equal(t, 1, c.done)
	for _, err := range want {
		require.ErrorIs(t, c.err, err)
	}
}
