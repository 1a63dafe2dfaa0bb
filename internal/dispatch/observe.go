package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/retry"
)

// whole is an operation under observation, of which one call is the only part, or several are parts.
type whole struct {
	op    observe.Operation
	inner context.Context
}

type wholeKey struct{}

func (r *Router) start(ctx context.Context, t observe.Target) *whole {
	t.Service, t.Bucket = "kv", r.o.Bucket
	w := &whole{}
	w.inner, w.op = r.o.Instruments.StartOperation(ctx, t)
	w.inner = context.WithoutCancel(w.inner)
	return w
}

// observeHedged implements call.HedgePlan.Observe.
func (r *Router) observeHedged(ctx context.Context, scope, collection string) (of context.Context, end func(error)) {
	w := r.start(ctx, observe.Target{Operation: "get", Scope: scope, Collection: collection})
	return context.WithValue(ctx, wholeKey{}, w), func(err error) { w.op.End(w.inner, outcomeOf(err)) }
}

// observe opens the call's span and takes its time, and that of its attempts. It is called only when a provider was
// given. The client's own requests are not operations of a user.
func (r *Router) observe(c *call.Call) {
	ctx := c.Context()
	if w, ok := ctx.Value(wholeKey{}).(*whole); ok {
		c.ObserveAttempts(&watch{r: r, of: w, part: true})
		return
	}
	if awaits, _ := c.AwaitsMap(); awaits || c.Req.Retry() == Strict {
		return
	}
	t := observe.Target{
		Operation: strings.ReplaceAll(c.Spec().Name, "-", "_"), Scope: c.Req.Scope(), Collection: c.Req.Collection(),
	}
	if c.Req.Durability != 0 {
		t.Durability = c.Req.Durability.String()
	}
	c.ObserveAttempts(&watch{r: r, of: r.start(ctx, t)})
}

// watch implements call.Watcher. Attempts that have ended are kept until a goroutine of the call's owner, or of the
// router, tells of them: a provider is code of the user's, which no connection waits for.
type watch struct {
	r    *Router
	of   *whole
	part bool // of an operation that another one ends

	mu      sync.Mutex
	out     attempt // the one that is out
	ended   []attempt
	retries int
	again   []again // the first of them
}

// again is a retry.
type again struct {
	at    time.Time
	why   retry.Reason
	delay time.Duration
}

// attempt is one attempt of a call.
type attempt struct {
	via        *call.Via // nil: no dispatch seen
	opaque     uint32
	began, end time.Time
	failure    observe.Outcome
}

// mostKept is how many attempts are kept until they are told of.
const mostKept = 16

// Sent implements call.Watcher.
func (w *watch) Sent(v *call.Via, opaque uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = attempt{via: v, opaque: opaque, began: time.Now()}
}

// Unsent implements call.Watcher.
func (w *watch) Unsent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = attempt{}
}

// Failed implements call.Watcher.
func (w *watch) Failed(cause error) {
	w.mu.Lock()
	w.close(failureOf(cause))
	var full []attempt
	if len(w.ended) == mostKept {
		full, w.ended = w.ended, nil
	}
	w.mu.Unlock()
	if full != nil {
		w.r.work.run(func() { w.tell(full) })
	}
}

// Retried implements call.Watcher.
func (w *watch) Retried(i retry.Info) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retries = i.Retries()
	if n := len(i.Log); n > 0 && len(w.again) < observe.MostRetryEvents {
		w.again = append(w.again, again{time.Now(), i.Reason, i.Log[n-1].Delay})
	}
}

// Done implements call.Watcher.
func (w *watch) Done(err error) {
	out := outcomeOf(err)
	w.mu.Lock()
	w.close(out)
	last, retries := w.ended, w.again
	w.ended = nil
	out.Retries = w.retries
	w.mu.Unlock()
	w.tell(last)
	if w.part { // others of the operation may end at the same time
		return
	}
	for n, a := range retries {
		w.of.op.RetryAt(a.at, a.why.String(), n+1, a.delay)
	}
	w.of.op.End(w.of.inner, out)
}

// close ends the attempt that is out, if one is. The lock is held.
func (w *watch) close(failure observe.Outcome) {
	if w.out.via == nil {
		return
	}
	w.out.end, w.out.failure = time.Now(), failure
	w.ended = append(w.ended, w.out)
	w.out = attempt{}
}

// tell makes the spans and durations of attempts.
func (w *watch) tell(attempts []attempt) {
	for i := range attempts {
		a := &attempts[i]
		d := observe.Dispatch{LocalID: a.via.Local}
		if host, port, err := net.SplitHostPort(a.via.Endpoint); err == nil {
			d.Server, d.Peer = host, host
			d.ServerPort, _ = strconv.Atoi(port) // 0 for a port with a name
			d.PeerPort = d.ServerPort
		}
		w.of.op.DispatchAt(w.of.inner, d, a.began).EndAt(a.end, observe.Attempt{
			Opaque: a.opaque, HasOpaque: true, Status: a.failure.Status, ErrorName: a.failure.ErrorName,
		})
	}
}

// failureOf is outcomeOf for what an attempt has met, which need not be an error of the call's.
func failureOf(cause error) observe.Outcome {
	if o := outcomeOf(cause); o.ErrorName != "" {
		return o
	}
	if kind := cberr.KindOf(cause); kind != nil {
		return observe.Outcome{ErrorName: observe.ErrorName(kind.Name())}
	}
	return observe.Outcome{ErrorName: observe.ErrorName(cberr.RequestCanceled.Name())} // its connection is lost
}

// outcomeOf says how a call ended in the words of spans and metrics.
func outcomeOf(err error) observe.Outcome {
	var e *call.Error
	if !errors.As(err, &e) {
		return observe.Outcome{}
	}
	o := observe.Outcome{ErrorName: observe.ErrorName(e.Kind()), Retries: e.Retry.Retries()}
	if e.Answered {
		o.Status = fmt.Sprintf("0x%02x", uint16(e.Status))
		o.Answer = !errors.Is(err, cberr.Timeout) && !errors.Is(err, cberr.TemporaryFailure) &&
			!errors.Is(err, cberr.InternalServerFailure)
	}
	return o
}
