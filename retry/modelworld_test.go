package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var errModel = errors.New("what the attempt met")

const (
	recklessDelay = 5 * time.Millisecond
	modelTimeout  = time.Hour
	modelEpochs   = 5 // no more sends once an attempt has this number
)

// world is the system under test and beside it the model's idea of it.
type world struct {
	o  *Orchestrator
	op *modelOp

	idem      bool
	phase     Phase
	epoch     uint32 // of the latest Sent
	deadline  time.Time
	since     time.Time // beginning of the parking
	until     time.Time // its end
	eager     bool
	capped    bool
	moved     bool
	closed    bool
	uses      int
	steps     int
	sent      int // whole frames of this use that were handed to a socket and not proved unsent
	ambiguous bool
	lastEnd   error // a sentinel that the error of Done must match

	block    bool
	release  chan struct{}
	running  []context.Context // of strategies that have not answered
	current  int               // how many of those belong to the present judgement: 0 or 1
	trail    []string
	complain func(format string, args ...any)
}

type modelOp struct {
	st         State
	w          *world
	dispatches int
	done       int
	err        error
	inDoubt    bool
}

func (op *modelOp) Retry() *State { return &op.st }
func (op *modelOp) Describe(r *Request) {
	r.Service, r.Operation, r.Endpoint, r.ID = KV, "model", "n1", "0x1"
}
func (op *modelOp) Context() context.Context { return context.Background() }
func (op *modelOp) Size() int                { return 100 }
func (op *modelOp) Dispatch()                { op.dispatches++ }
func (op *modelOp) Done(err error, inDoubt bool) {
	op.done++
	op.err, op.inDoubt = err, inDoubt
}

// reckless retries everything, also what is unsafe.
type reckless struct{ w *world }

func (r reckless) Inline() bool { return !r.w.block }
func (r reckless) RetryAfter(ctx context.Context, q *Request, why Reason) Action {
	if why.AlwaysRetry() {
		r.w.complain("the strategy was asked about %v", why)
	}
	if r.w.block {
		r.w.running = append(r.w.running, ctx)
		<-r.w.release
	}
	q.Idempotent = true // changes nothing
	return After(recklessDelay)
}

func newWorld(idem bool) *world {
	w := &world{idem: idem, release: make(chan struct{})}
	w.o = New(Options{Default: reckless{w}})
	w.op = &modelOp{w: w}
	w.complain = func(f string, a ...any) { panic("before the first step: " + fmt.Sprintf(f, a...)) }
	w.begin()
	return w
}

func (w *world) begin() {
	w.deadline = time.Now().Add(modelTimeout)
	w.op.st.Idempotent, w.op.st.Deadline = w.idem, w.deadline
	w.phase, w.moved, w.sent, w.ambiguous, w.lastEnd, w.steps = PhaseLocal, false, 0, false, nil, 0
	w.op.dispatches, w.op.done, w.op.err, w.op.inDoubt = 0, 0, nil, false
}

// key is all of the world that its future depends on.
func (w *world) key() string {
	past := !time.Now().Before(w.deadline)
	near := !past && time.Until(w.deadline) < time.Minute
	return fmt.Sprint(w.idem, w.phase, w.epoch, w.eager && w.phase == PhaseParked, w.capped && w.phase == PhaseParked,
		w.moved, w.closed, w.uses, past, near, len(w.running), w.current)
}

type event struct {
	name string
	run  func(w *world)
}

// ended is the model's idea of an end.
func (w *world) ended(ambiguous bool, sentinel error) {
	w.phase, w.ambiguous, w.lastEnd, w.current = PhaseDone, ambiguous, sentinel, 0
}

// judged is the model's idea of MaybeRetry.
func (w *world) judged(why Reason, moved, block bool) {
	left := time.Until(w.deadline)
	delay := recklessDelay
	switch {
	case !w.idem && !why.AllowsNonIdempotent():
		w.ended(false, nil)
		return
	case why.AlwaysRetry():
		delay = []time.Duration{1, 10, 50, 100, 500, 1000}[min(w.steps, 5)] * time.Millisecond
		if why == KVNotMyVBucket && moved && !w.moved {
			delay = 0
		}
	case block && w.closed:
		w.ended(false, ErrClosed)
		return
	case block && left <= 0:
		w.current = 1
		w.ended(false, ErrTimeout)
		return
	case block:
		w.phase, w.current = PhaseDeciding, 1
		return
	}
	w.parked(delay, why, moved)
}

func (w *world) parked(delay time.Duration, why Reason, moved bool) {
	left := time.Until(w.deadline)
	switch {
	case left <= 0:
		w.ended(false, ErrTimeout)
	case w.closed:
		w.ended(false, ErrClosed)
	default:
		w.phase, w.capped = PhaseParked, delay >= left
		w.since, w.until = time.Now(), time.Now().Add(min(delay, left))
		w.eager = why.Unseen() && !why.AlwaysRetry()
		if delay == 0 && moved {
			w.moved = true
			w.steps--
		}
	}
}

// woken is the model's idea of what the clock does to the operation.
func (w *world) woken() {
	now := time.Now()
	switch {
	case w.phase == PhaseParked && !now.Before(w.until) && w.capped:
		w.ended(false, ErrTimeout)
	case w.phase == PhaseParked && !now.Before(w.until):
		w.phase = PhaseLocal
		w.steps++
	case w.phase == PhaseDeciding && !now.Before(w.deadline):
		w.ended(false, ErrTimeout)
	}
}

func (w *world) claims(what string, got, want bool) bool {
	if got != want {
		w.complain("%s said %v in phase %v", what, got, w.phase)
	}
	return got
}

func sendEvent(w *world) {
	e, ok := w.op.st.Sent()
	if !w.claims("Sent", ok, w.phase == PhaseLocal) {
		return
	}
	if e <= w.epoch {
		w.complain("attempt %d after attempt %d", e, w.epoch)
	}
	if w.ambiguous {
		w.complain("sent again while in doubt")
	}
	w.epoch = e
	w.phase = PhaseWire
	w.sent++
	w.ambiguous = !w.idem
}

func unsentEvent(e uint32) event {
	return event{fmt.Sprintf("unsent %d", e), func(w *world) {
		if w.claims("Unsent", w.op.st.Unsent(e), w.phase == PhaseWire && e == w.epoch) {
			w.phase, w.ambiguous = PhaseLocal, false
			w.sent--
		}
	}}
}

// how is how an attempt fails. partly is an answer that leaves open whether the request was executed.
type how struct{ moved, near, block, partly bool }

func (h how) String() string {
	return strings.TrimSpace(map[bool]string{true: "moved "}[h.moved] + map[bool]string{true: "near "}[h.near] +
		map[bool]string{true: "block "}[h.block] + map[bool]string{true: "partly"}[h.partly])
}

func (w *world) maybeRetry(why Reason, h how) {
	if h.near { // the next delay passes the deadline
		w.deadline = time.Now().Add(time.Millisecond / 2)
		w.op.st.Deadline = w.deadline
	}
	w.block = h.block
	w.ambiguous = false
	if h.partly && !w.idem {
		w.ended(true, nil)
	} else {
		w.judged(why, h.moved, h.block)
	}
	w.op.w.o.MaybeRetry(w.op, why, errModel, Hint{Moved: h.moved, InDoubt: h.partly})
}

func answerEvent(e uint32, why Reason, h how) event {
	return event{fmt.Sprintf("answer %d %v %v", e, why, h), func(w *world) {
		if w.claims("Answered", w.op.st.Answered(e), w.phase == PhaseWire && e == w.epoch) {
			w.maybeRetry(why, h)
		}
	}}
}

func notSentEvent(why Reason, h how) event {
	return event{fmt.Sprintf("not sent %v %v", why, h), func(w *world) {
		if w.claims("NotSent", w.op.st.NotSent(), w.phase == PhaseLocal) {
			w.maybeRetry(why, h)
		}
	}}
}

func successEvent(e uint32) event {
	return event{fmt.Sprintf("success %d", e), func(w *world) {
		if w.claims("Answered", w.op.st.Answered(e), w.phase == PhaseWire && e == w.epoch) {
			w.claimFinish(!w.idem) // the answer has not been judged
		}
	}}
}

// wonEvent is a good answer that ends the operation in one step.
func wonEvent(e uint32) event {
	return event{fmt.Sprintf("won %d", e), func(w *world) {
		if w.claims("Succeeded", w.op.st.Succeeded(e), w.phase == PhaseWire && e == w.epoch) {
			w.op.done++
			w.op.inDoubt = false
			w.ended(false, nil)
		}
	}}
}

// claimFinish ends the operation without the orchestrator, as another goroutine would.
func (w *world) claimFinish(ambiguous bool) {
	won, inDoubt := w.op.st.Finish()
	w.claims("Finish", won, w.phase != PhaseDone)
	if !won {
		return
	}
	if inDoubt != ambiguous {
		w.complain("Finish said in doubt %v", inDoubt)
	}
	w.op.done++
	w.op.inDoubt = inDoubt
	w.op.st.Settle(nil)
	w.ended(ambiguous, nil)
}

func lostEvent(e uint32, h how) event {
	return event{fmt.Sprintf("lost %d %v", e, h), func(w *world) {
		w.block = h.block
		if w.phase == PhaseWire && e == w.epoch {
			if w.idem {
				w.judged(SocketClosedWhileInFlight, false, h.block)
			} else {
				w.ended(true, nil)
			}
		}
		w.o.ConnLost(w.op, e, errModel)
	}}
}

// lateEvent is an attempt that is claimed, but the operation ends before its failure is judged.
func lateEvent(e uint32, notApplied bool) event {
	return event{fmt.Sprintf("answer %d, notApplied %t, cancel, judge", e, notApplied), func(w *world) {
		if !w.claims("Answered", w.op.st.Answered(e), w.phase == PhaseWire && e == w.epoch) {
			return
		}
		if notApplied {
			w.claims("NotApplied", w.op.st.NotApplied(), true)
		}
		w.claims("Cancel", w.o.Cancel(w.op, errModel), true)
		w.ended(!w.idem && !notApplied, ErrCanceled)
		w.claims("NotApplied", w.op.st.NotApplied(), false)
		w.o.MaybeRetry(w.op, KVTemporaryFailure, errModel, Hint{})
	}}
}
