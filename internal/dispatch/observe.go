package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// whole is an operation under observation, of which one call is the only part, or several are parts.
type whole struct {
	op    observe.Operation
	inner context.Context
	last  observe.Last // of an earlier use of the memory

	mu       sync.Mutex // guards what follows, of an operation with several calls
	sent     int
	attempts []observe.Tried
}

type wholeKey struct{}

// defaultName is the name of the scope, and of the collection, of an operation that names none.
const defaultName = "_default"

func (r *Router) start(ctx context.Context, w *whole, t observe.Target) {
	t.Service, t.Bucket = "kv", r.o.Bucket
	w.inner, w.op = r.o.Instruments.StartAgain(ctx, t, w.last)
}

// observeHedged implements call.HedgePlan.Observe.
func (r *Router) observeHedged(ctx context.Context, scope, collection string) (of context.Context, end func(error)) {
	w := &whole{}
	r.start(ctx, w, observe.Target{
		Operation: "get", Scope: cmp.Or(scope, defaultName), Collection: cmp.Or(collection, defaultName),
	})
	return context.WithValue(w.inner, wholeKey{}, w), func(err error) {
		out := outcomeOf(err)
		w.mu.Lock()
		out.Retries, out.Attempts = max(w.sent-1, out.Retries), w.attempts
		w.mu.Unlock()
		w.op.End(w.inner, out)
	}
}

func untold(error) {}

// Compose implements call.Observing.
func (r *Router) Compose(ctx context.Context, name, scope, collection string) (of context.Context, end func(error)) {
	if r.o.Instruments == nil {
		return ctx, untold
	}
	w := &whole{}
	r.start(ctx, w, observe.Target{Operation: name, Scope: scope, Collection: collection, Parts: true})
	return w.inner, func(err error) { w.op.End(w.inner, outcomeOf(err)) }
}

// Rejected implements call.Observing.
func (r *Router) Rejected(ctx context.Context, c *call.Call, err error) {
	if r.o.Instruments == nil || hidden(ctx, c) {
		return
	}
	if _, part := ctx.Value(wholeKey{}).(*whole); part {
		return
	}
	w := &whole{}
	r.start(ctx, w, targetOf(c))
	w.op.End(w.inner, outcomeOf(err))
}

type wantedKey struct{}

// Wanted is a context for requests with the strategy Strict that are a part of an operation of the program's.
func Wanted(ctx context.Context) context.Context { return context.WithValue(ctx, wantedKey{}, true) }

// hidden reports whether a call with the context ctx is the client's own, which is not an operation of a user's.
func hidden(ctx context.Context, c *call.Call) bool {
	awaits, _ := c.AwaitsMap()
	return awaits || c.Req.Retry() == call.Strict && ctx.Value(wantedKey{}) == nil
}

func targetOf(c *call.Call) observe.Target {
	t := observe.Target{Operation: c.Name(), Scope: c.Req.Scope(), Collection: c.Req.Collection()}
	if s := c.Spec(); s != nil && s.Has(call.Keyed) {
		t.Scope, t.Collection = cmp.Or(t.Scope, defaultName), cmp.Or(t.Collection, defaultName)
	}
	if c.Req.Durability != 0 {
		t.Durability = c.Req.Durability.String()
	}
	return t
}

// observe opens the call's span and takes its time, and that of its attempts. It is called only when there are
// instruments.
func (r *Router) observe(c *call.Call) {
	w, _ := c.Watcher().(*watch)
	if of, ok := c.Context().Value(wholeKey{}).(*whole); ok {
		c.ObserveAttempts(&watch{r: r, c: c, of: of, part: true})
		return
	}
	if hidden(c.Context(), c) {
		return
	}
	if w == nil || w.shared || w.part {
		w = &watch{}
	}
	w.r, w.c, w.of = r, c, &w.own
	w.retries, w.again, w.own.attempts = 0, nil, nil // of an earlier use of the call's memory
	r.start(c.Context(), w.of, targetOf(c))
	c.ObserveAttempts(w)
}

// watch implements call.Watcher. Attempts that have ended are kept until a goroutine of the call's owner, or of the
// router, tells of them: a provider is code of the user's, which no connection waits for.
type watch struct {
	r      *Router
	c      *call.Call
	own    whole
	of     *whole
	part   bool // of an operation that another one ends
	shared bool // a goroutine of the router's may still use it

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
	server     uint16 // how long the server has worked, as the protocol encodes it
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
	w.close(failureOf(cause), cause, time.Now())
	var full []attempt
	if len(w.ended) == mostKept {
		full, w.ended, w.shared = w.ended, nil, true
	}
	w.mu.Unlock()
	if full != nil {
		w.r.work.run(func() { w.tell(full) })
	}
}

// Retried implements call.Watcher.
func (w *watch) Retried(retries int, why retry.Reason, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retries = retries
	if retries > 0 && len(w.again) < observe.MostRetryEvents {
		w.again = append(w.again, again{time.Now(), why, delay})
	}
}

// Done implements call.Watcher.
func (w *watch) Done(err error) {
	out := outcomeOf(err)
	w.mu.Lock()
	now := time.Now()
	w.close(out, err, now)
	last, retries := w.ended, w.again
	w.ended, w.again = w.ended[:0], nil // its turn to be sent again may come at the same time
	out.Retries = max(out.Retries, w.retries)
	w.mu.Unlock()
	w.tell(last)
	if w.part { // others of the operation may end at the same time
		return
	}
	for n, a := range retries {
		w.of.op.RetryAt(a.at, a.why.String(), n+1, a.delay)
	}
	w.of.mu.Lock()
	out.Attempts = w.of.attempts
	w.of.mu.Unlock()
	w.of.op.EndAt(w.of.inner, now, out)
	if !w.shared { // the memory may wait long for its next use
		w.own.last = w.own.op.Last()
		w.own.op, w.own.inner, w.own.attempts = observe.Operation{}, nil, nil
		clear(last)
	}
}

// close ends the attempt that is out, if one is, now. The lock is held.
func (w *watch) close(failure observe.Outcome, err error, now time.Time) {
	if w.out.via == nil {
		return
	}
	w.out.end, w.out.failure = now, failure
	if err == nil {
		w.out.server = w.c.Res.ServerTime()
	} else {
		w.out.server = serverTimeIn(err)
	}
	w.ended = append(w.ended, w.out)
	w.out = attempt{}
}

// serverTimeIn is how long the server has worked on what has failed with err.
func serverTimeIn(err error) uint16 {
	var e *call.Error
	if errors.As(err, &e) {
		return call.FactsOf(e).Duration
	}
	return 0
}

// tell makes the spans and durations of attempts.
func (w *watch) tell(attempts []attempt) {
	spans, hooked := w.of.op.Recording(), w.r.o.Instruments.Hooked()
	for i := range attempts {
		a := &attempts[i]
		d := observe.Dispatch{LocalID: a.via.Local}
		d.Peer, d.PeerPort = split(a.via.Endpoint)
		var server time.Duration
		if spans || hooked {
			server = serverTimeOf(a.server)
		}
		if spans {
			d.Server, d.ServerPort = split(w.r.canonical(a.via.Endpoint))
			d.Local, d.LocalPort = split(a.via.LocalAddr)
		}
		w.of.op.DispatchAt(w.of.inner, d, a.began).EndAt(a.end, observe.Attempt{
			Opaque: a.opaque, HasOpaque: true, Status: a.failure.Status, ErrorName: a.failure.ErrorName,
			ServerDuration: server,
		})
		if hooked || w.part {
			w.of.mu.Lock()
			w.of.sent++
			if hooked {
				w.of.attempts = append(w.of.attempts, a.tried(server))
			}
			w.of.mu.Unlock()
		}
	}
}

// serverTimeOf decodes how long a server has worked.
func serverTimeOf(code uint16) time.Duration {
	return time.Duration(memd.DecodeServerDuration(code) * float64(time.Microsecond))
}

func (a *attempt) tried(server time.Duration) observe.Tried {
	return observe.Tried{
		Endpoint: a.via.Endpoint, LocalAddr: a.via.LocalAddr, ConnectionID: a.via.Local,
		OperationID: observe.OpaqueID(a.opaque), Status: a.failure.Status, ErrorName: a.failure.ErrorName,
		Began: a.began, Took: a.end.Sub(a.began), Server: server,
	}
}

// split gives the host and the port of an address; 0 for a port that is a name.
func split(addr string) (host string, port int) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(text)
	return host, port
}

// canonical is the address of a node by its name in the cluster map, which may be another one than it is reached at.
func (r *Router) canonical(addr string) string {
	if pk := r.picker.Load(); pk != nil {
		for i, n := range pk.nodes {
			if n != nil && n.addr == addr {
				if own, ok := pk.snap.Nodes[i].Addr(topology.KV, "", r.tls()); ok {
					return own
				}
			}
		}
	}
	return addr
}

// outcomeOfOther is outcomeOf for an error that is not a *call.Error.
func outcomeOfOther(err error) observe.Outcome {
	o := observe.Outcome{ErrorName: observe.OtherError, Err: err}
	if kind := cberr.KindOf(err); kind != nil {
		o.ErrorName = observe.ErrorName(kind.Name())
	}
	return o
}

// failureOf is outcomeOf for what an attempt has met, which need not be an error of the call's.
func failureOf(cause error) observe.Outcome {
	if o := outcomeOf(cause); o.ErrorName != "" && o.ErrorName != observe.OtherError {
		return o
	}
	return observe.Outcome{ErrorName: observe.ErrorName(cberr.RequestCanceled.Name())} // its connection is lost
}

// outcomeOf says how a call ended in the words of spans and metrics.
func outcomeOf(err error) observe.Outcome {
	if err == nil { // before there is memory for it
		return observe.Outcome{}
	}
	return outcomeOfFailure(err)
}

func outcomeOfFailure(err error) observe.Outcome {
	var e *call.Error
	if !errors.As(err, &e) {
		return outcomeOfOther(err)
	}
	o := observe.Outcome{ErrorName: observe.ErrorName(e.Kind()), Retries: e.Retry.Retries(), Err: err}
	if e.Answered {
		o.Status = fmt.Sprintf("0x%02x", uint16(e.Status))
		o.Answer = !errors.Is(err, cberr.Timeout) && !errors.Is(err, cberr.TemporaryFailure) &&
			!errors.Is(err, cberr.InternalServerFailure)
	}
	return o
}
