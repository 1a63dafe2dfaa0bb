package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The model test drives the real State and Orchestrator through every sequence of events that leads to a state not
// seen before, and compares each step with a model that knows nothing of how they work. The strategy is reckless: it
// retries everything, so what must not be retried is kept back by the orchestrator alone.

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

	idem     bool
	phase    Phase
	epoch    uint32 // of the latest Sent
	deadline time.Time
	until    time.Time // end of the parking
	eager    bool
	capped   bool
	moved    bool
	closed   bool
	uses     int
	steps    int
	sent     int // whole frames of this use that were handed to a socket and not proved unsent
	doubt    bool
	lastEnd  error // a sentinel that the error of Done must match

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
	w.phase, w.moved, w.sent, w.doubt, w.lastEnd, w.steps = PhaseLocal, false, 0, false, nil, 0
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
func (w *world) ended(doubt bool, sentinel error) {
	w.phase, w.doubt, w.lastEnd, w.current = PhaseDone, doubt, sentinel, 0
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
		w.until = time.Now().Add(min(delay, left))
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
	if w.doubt {
		w.complain("sent again while in doubt")
	}
	w.epoch = e
	w.phase = PhaseWire
	w.sent++
	w.doubt = !w.idem
}

func unsentEvent(e uint32) event {
	return event{fmt.Sprintf("unsent %d", e), func(w *world) {
		if w.claims("Unsent", w.op.st.Unsent(e), w.phase == PhaseWire && e == w.epoch) {
			w.phase, w.doubt = PhaseLocal, false
			w.sent--
		}
	}}
}

type how struct{ moved, near, block bool }

func (h how) String() string {
	return strings.TrimSpace(map[bool]string{true: "moved "}[h.moved] + map[bool]string{true: "near "}[h.near] +
		map[bool]string{true: "block"}[h.block])
}

func (w *world) maybeRetry(why Reason, h how) {
	if h.near { // the next delay passes the deadline
		w.deadline = time.Now().Add(time.Millisecond / 2)
		w.op.st.Deadline = w.deadline
	}
	w.block = h.block
	w.doubt = false
	w.judged(why, h.moved, h.block)
	w.op.w.o.MaybeRetry(w.op, why, errModel, Hint{Moved: h.moved})
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
			w.claimFinish(false)
		}
	}}
}

// claimFinish is somebody who ends the operation without the orchestrator.
func (w *world) claimFinish(doubt bool) {
	won, inDoubt := w.op.st.Finish()
	w.claims("Finish", won, w.phase != PhaseDone)
	if !won {
		return
	}
	if inDoubt != doubt {
		w.complain("Finish said in doubt %v", inDoubt)
	}
	w.op.done++
	w.op.inDoubt = inDoubt
	w.op.st.Settle(nil)
	w.ended(doubt, nil)
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
func lateEvent(e uint32) event {
	return event{fmt.Sprintf("answer %d, cancel, judge", e), func(w *world) {
		if !w.claims("Answered", w.op.st.Answered(e), w.phase == PhaseWire && e == w.epoch) {
			return
		}
		w.claims("Cancel", w.o.Cancel(w.op, errModel), true)
		w.ended(false, ErrCanceled)
		w.o.MaybeRetry(w.op, KVTemporaryFailure, errModel, Hint{})
	}}
}

func plainEvents() []event {
	return []event{
		{"send", sendEvent},
		{"cancel", func(w *world) {
			doubt := w.phase == PhaseWire && !w.idem
			if w.claims("Cancel", w.o.Cancel(w.op, errModel), w.phase != PhaseDone) {
				w.ended(doubt, ErrCanceled)
			}
		}},
		{"expire", func(w *world) {
			doubt := w.phase == PhaseWire && !w.idem
			if w.claims("Expire", w.o.Expire(w.op), w.phase != PhaseDone) {
				w.ended(doubt, ErrTimeout)
			}
		}},
		{"finish", func(w *world) { w.claimFinish(w.phase == PhaseWire && !w.idem) }},
		{"time", func(w *world) {
			time.Sleep(2 * time.Second)
			w.woken()
		}},
		{"deadline", func(w *world) {
			time.Sleep(2 * modelTimeout)
			w.woken()
		}},
		{"wake", func(w *world) {
			if w.phase == PhaseParked && w.eager {
				w.phase = PhaseLocal
				w.steps++
			}
			w.o.Wake(nil)
		}},
		{"close", func(w *world) {
			if w.phase == PhaseParked || w.phase == PhaseDeciding {
				w.ended(false, ErrClosed)
			}
			w.closed = true
			w.o.Close(errModel)
		}},
		{"strategy answers", func(w *world) {
			if w.current == 1 && w.phase == PhaseDeciding {
				// The reason does not matter but for Wake, so it is read from the system.
				w.parked(recklessDelay, w.op.st.Info().Reason, false)
			}
			w.current = 0
			w.running = nil
			close(w.release)
			w.release = make(chan struct{})
		}},
		{"reuse", func(w *world) {
			if w.claims("Reset", w.op.st.Reset(), w.phase == PhaseDone) {
				w.uses++
				w.begin()
				w.epoch = w.op.st.Epoch()
			}
		}},
	}
}

func eventsFor(w *world) []event {
	evs := slices.DeleteFunc(plainEvents(), func(e event) bool {
		return e.name == "send" && w.epoch >= modelEpochs || e.name == "reuse" && (w.uses > 0 || w.phase == PhaseLocal)
	})
	for e := uint32(1); e <= w.epoch; e++ {
		evs = append(evs, unsentEvent(e), successEvent(e), lostEvent(e, how{}), lateEvent(e), answerEvent(e, KVLocked, how{}))
	}
	if w.phase != PhaseWire && w.phase != PhaseLocal {
		return append(evs, notSentEvent(SocketNotAvailable, how{}))
	}
	modes := []how{{}, {near: true}, {block: true}}
	for _, h := range modes {
		for _, why := range []Reason{KVTemporaryFailure, SocketNotAvailable, KVNotMyVBucket} {
			evs = append(evs, answerEvent(w.epoch, why, h), notSentEvent(why, h))
		}
		evs = append(evs, lostEvent(w.epoch, h))
	}
	evs = append(evs, answerEvent(w.epoch, KVNotMyVBucket, how{moved: true}))
	if w.uses == 0 && !w.closed && w.epoch <= 2 {
		for why := range All() {
			evs = append(evs, answerEvent(w.epoch, why, how{}), notSentEvent(why, how{}))
		}
	}
	return evs
}

// apply runs one event and compares.
func (w *world) apply(ev event) {
	w.trail = append(w.trail, ev.name)
	ev.run(w)
	time.Sleep(time.Nanosecond) // lets a delay of 0 pass
	synctest.Wait()
	w.woken()
	w.check()
}

func (w *world) check() {
	st, op := &w.op.st, w.op
	if st.Phase() != w.phase {
		w.complain("phase is %v, should be %v", st.Phase(), w.phase)
	}
	want := 0
	if w.phase == PhaseDone {
		want = 1
	}
	if op.done != want {
		w.complain("done %d times in phase %v", op.done, w.phase)
	}
	if want == 1 && op.inDoubt != w.doubt {
		w.complain("in doubt %v, should be %v", op.inDoubt, w.doubt)
	}
	if w.lastEnd != nil && !errors.Is(op.err, w.lastEnd) {
		w.complain("ended with %v, should be %v", op.err, w.lastEnd)
	}
	info := st.Info()
	if info.Retries() != op.dispatches {
		w.complain("%d retries but %d dispatches", info.Retries(), op.dispatches)
	}
	if w.sent > 1+op.dispatches {
		w.complain("%d frames with %d dispatches", w.sent, op.dispatches)
	}
	s := w.o.Stats()
	parked := 0
	if w.phase == PhaseParked {
		parked = 1
	}
	if s.Parked != parked || s.Bytes != int64(100*parked) {
		w.complain("%d parked with %d bytes in phase %v", s.Parked, s.Bytes, w.phase)
	}
	entries := parked + w.current
	w.o.mu.Lock()
	inHeap := len(w.o.heap)
	w.o.mu.Unlock()
	if inHeap != entries {
		w.complain("%d entries in the heap, should be %d", inHeap, entries)
	}
	for i, ctx := range w.running {
		ended := i < len(w.running)-w.current
		if (ctx.Err() != nil) != ended {
			w.complain("context of strategy %d: %v, ended %v", i, ctx.Err(), ended)
		}
	}
}

// replay runs a trail from the start.
func replay(t *testing.T, idem bool, trail []event) *world {
	w := newWorld(idem)
	w.complain = func(f string, a ...any) {
		t.Errorf("idempotent %v: %s: %s", idem, strings.Join(w.trail, " / "), fmt.Sprintf(f, a...))
		panic("model violated") // a failed step leaves goroutines that nobody will end
	}
	for _, ev := range trail {
		w.apply(ev)
	}
	return w
}

func (w *world) stop() {
	w.o.Close(nil)
	close(w.release)
	synctest.Wait()
}

// TestModel visits every state once and applies every event to each.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, idem := range []bool{false, true} {
			seen := map[string]bool{}
			queue := [][]event{nil}
			steps := 0
			for len(queue) > 0 {
				trail := queue[0]
				queue = queue[1:]
				w := replay(t, idem, trail)
				evs := eventsFor(w)
				w.stop()
				for _, ev := range evs {
					next := append(slices.Clip(trail), ev)
					w := replay(t, idem, next)
					steps++
					if k := w.key(); !seen[k] {
						seen[k] = true
						queue = append(queue, next)
					}
					w.stop()
				}
			}
			t.Logf("idempotent %v: %d states, %d steps", idem, len(seen), steps)
			if len(seen) < 100 {
				t.Errorf("only %d states: the events no longer reach what they should", len(seen))
			}
		}
	})
}
