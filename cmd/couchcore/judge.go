package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// almostOne is the largest number that a dice gives.
var almostOne = math.Nextafter(1, 0)

// explanation is one question: what becomes of an operation that met this?
type explanation struct {
	spec       *kv.Spec
	answered   bool // with status
	status     memd.Status
	why        retry.Reason // when nothing was answered
	lost       bool
	body       bool
	errors     *errormap.Map
	strategy   retry.Strategy
	idempotent bool
	cas        bool
	attempt    int
}

// judged is what the client's own tables and its orchestrator made of it.
type judged struct {
	reason    *retry.Reason // nil when it is no retry matter
	retried   bool
	delay     time.Duration
	err       error // nil for a success and a retry
	consulted bool
}

// judge runs a real call against a dispatcher that lets its first attempt meet what is asked about. The call's error,
// its reason and its delay are therefore the client's.
func (x *explanation) judge(dice float64) (judged, error) {
	e := &explainer{x: x}
	e.orch = retry.New(retry.Options{Default: (*atAttempt)(e), Observer: (*watcher)(e), Dice: func() float64 { return dice }})
	_, err := kv.Do(context.Background(), e, askedOp{x})
	e.orch.Close(retry.ErrClosed)
	if !e.met {
		return judged{}, fmt.Errorf("explain: the operation was refused before it met anything: %w", err)
	}
	if !e.out.retried {
		e.out.err = err
	} else if !e.out.consulted {
		e.out.delay = retry.Controlled(x.attempt, 0)
	}
	return e.out, nil
}

// span is the judgement with the dice that makes the shortest delay, and with that of the longest.
func (x *explanation) span() (low, high judged, err error) {
	if low, err = x.judge(0); err != nil {
		return low, high, err
	}
	high, err = x.judge(almostOne)
	return low, high, err
}

// mayHaveMoved reports whether a not-my-vbucket answer may bring a map that routes the operation elsewhere: the first
// such answer is then followed at once.
func (x *explanation) mayHaveMoved() bool {
	return x.answered && x.status == memd.StatusNotMyVBucket && x.body && x.attempt == 0
}

func (x *explanation) entry() (errormap.Entry, bool) {
	if x.errors == nil {
		return errormap.Entry{}, false
	}
	return x.errors.Lookup(uint16(x.status))
}

func (x *explanation) statusName() string {
	if e, ok := x.entry(); ok && !x.status.Known() {
		return e.Name
	}
	return x.status.String()
}

func (x *explanation) statusMeaning() string {
	if e, ok := x.entry(); ok && !x.status.Known() {
		return e.Desc
	}
	return meaningOf(x.status)
}

// askedOp is an operation of any kind, with just enough in it to be valid.
type askedOp struct{ x *explanation }

// Encode implements kv.Op.
func (o askedOp) Encode(r *kv.Request) error {
	r.Opcode = o.x.spec.Opcode
	if o.x.spec.Has(kv.Keyed) {
		r.Key = []byte("key")
	}
	if o.x.cas || o.x.spec.Has(kv.WantsCAS) {
		r.CAS = 1
	}
	r.SetExtras(make([]byte, o.x.spec.ReqExtras[0]))
	return nil
}

// Decode implements kv.Op.
func (o askedOp) Decode(*kv.Response) (struct{}, error) { return struct{}{}, nil }

// explainer is a dispatcher without a network, and the owner of its one call.
type explainer struct {
	x    *explanation
	orch *retry.Orchestrator
	met  bool // it was dispatched
	out  judged
}

// NewCall implements kv.Dispatcher.
func (e *explainer) NewCall() *kv.Call { return kv.NewCall() }

// Release implements kv.Dispatcher.
func (e *explainer) Release(*kv.Call) {}

// Redispatch implements kv.Owner; the explanation ends before any second attempt.
func (e *explainer) Redispatch(*kv.Call) {}

// Cancel implements kv.Owner.
func (e *explainer) Cancel(c *kv.Call, cause error) bool { return e.orch.Cancel(c, cause) }

// Complete implements kv.Owner.
func (e *explainer) Complete(f func()) { f() }

// errLost stands for what a socket says when it is lost.
var errLost = errors.New("the connection was lost")

// Dispatch implements kv.Dispatcher: the first attempt meets what was asked about.
func (e *explainer) Dispatch(c *kv.Call) {
	e.met = true
	x := e.x
	now := time.Now()
	c.Bind(e, "", now)
	c.Share()
	c.State.Deadline = now.Add(time.Hour)
	c.State.Idempotent = c.State.Idempotent || x.idempotent
	switch {
	case x.lost:
		e.why(retry.SocketClosedWhileInFlight)
		epoch, _ := c.State.Sent()
		e.orch.ConnLost(c, epoch, errLost)
	case x.answered:
		e.answer(c, x.status)
	case x.why.Unseen() || x.why.Terminal():
		e.why(x.why)
		c.State.NotSent()
		e.orch.MaybeRetry(c, x.why, nil, retry.Hint{})
	default:
		e.why(x.why)
		epoch, _ := c.State.Sent()
		c.State.Answered(epoch)
		e.orch.MaybeRetry(c, x.why, e.errorFor(c), retry.Hint{})
	}
	if e.out.retried {
		e.orch.Cancel(c, nil)
	}
}

func (e *explainer) why(r retry.Reason) { e.out.reason = &r }

// answer judges a status as the dispatcher does: the table, then the error map for what the table leaves to it.
func (e *explainer) answer(c *kv.Call, st memd.Status) {
	epoch, _ := c.State.Sent()
	c.State.Answered(epoch)
	d := kv.Classify(e.x.spec.Opcode, st, c.Req.CAS != 0)
	hint := retry.Hint{Code: uint32(st)}
	if entry, ok := e.x.entry(); ok {
		hint.Overload = entry.RateLimit()
		if d.Class == kv.ClassAskMap && entry.RetryIndicated() {
			d.Class, d.Reason = kv.ClassRetry, retry.KVErrorMapRetryIndicated
		}
	}
	p := memd.Packet{Opcode: e.x.spec.Opcode, Status: st}
	if d.Class == kv.ClassSuccess {
		c.Succeed(&p, false)
		return
	}
	err := c.StatusError(&p, d)
	if d.Class != kv.ClassRetry {
		c.Fail(err)
		return
	}
	e.why(d.Reason)
	e.orch.MaybeRetry(c, d.Reason, err, hint)
}

// errorFor makes the error of the status that has the reason; nil when none has.
func (e *explainer) errorFor(c *kv.Call) error {
	for st := range 0x100 {
		d := kv.Classify(e.x.spec.Opcode, memd.Status(st), c.Req.CAS != 0)
		if d.Class == kv.ClassRetry && d.Reason == e.x.why {
			return c.StatusError(&memd.Packet{Opcode: e.x.spec.Opcode, Status: memd.Status(st)}, d)
		}
	}
	return nil
}

// atAttempt asks the strategy as if so many retries had been made.
type atAttempt explainer

// RetryAfter implements retry.Strategy.
func (s *atAttempt) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.out.consulted = true
	r.Attempts, r.BackoffStep = s.x.attempt, s.x.attempt
	return s.x.strategy.RetryAfter(ctx, r, why)
}

// Inline implements retry.Inline.
func (s *atAttempt) Inline() bool { return true }

// watcher sees the orchestrator's decision.
type watcher explainer

// Attempt implements retry.Observer.
func (w *watcher) Attempt(retry.AttemptInfo) {}

// Retry implements retry.Observer.
func (w *watcher) Retry(_ *retry.Request, _ retry.Reason, d time.Duration) {
	w.out.retried, w.out.delay = true, d
}

// GaveUp implements retry.Observer.
func (w *watcher) GaveUp(*retry.Request, retry.Reason, error) {}
