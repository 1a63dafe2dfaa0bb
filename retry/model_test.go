package retry

import (
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

func baseEvents() []event {
	return []event{
		{"send", sendEvent},
		{"cancel", func(w *world) {
			ambiguous := w.phase == PhaseWire && !w.idem
			if w.claims("Cancel", w.o.Cancel(w.op, errModel), w.phase != PhaseDone) {
				w.ended(ambiguous, ErrCanceled)
			}
		}},
		{"expire", func(w *world) {
			ambiguous := w.phase == PhaseWire && !w.idem
			if w.claims("Expire", w.o.Expire(w.op), w.phase != PhaseDone) {
				w.ended(ambiguous, ErrTimeout)
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
			if floor := w.since.Add(time.Millisecond); w.phase != PhaseParked || !w.eager {
			} else if w.op.dispatches > 0 && time.Now().Before(floor) { // retried before
				if w.eager = false; w.until.After(floor) {
					w.until, w.capped = floor, false
				}
			} else {
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
	evs := slices.DeleteFunc(baseEvents(), func(e event) bool {
		return e.name == "send" && w.epoch >= modelEpochs || e.name == "reuse" && (w.uses > 0 || w.phase == PhaseLocal)
	})
	for e := uint32(1); e <= w.epoch; e++ {
		evs = append(evs, unsentEvent(e), successEvent(e), wonEvent(e), lostEvent(e, how{}),
			lateEvent(e, false), lateEvent(e, true),
			answerEvent(e, KVLocked, how{}))
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
	evs = append(evs, answerEvent(w.epoch, KVNotMyVBucket, how{moved: true}), answerEvent(w.epoch, KVTemporaryFailure,
		how{partly: true}))
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
	if want == 1 && op.inDoubt != w.ambiguous {
		w.complain("in doubt %v, should be %v", op.inDoubt, w.ambiguous)
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
		panic("model violated") // a failed step leaves goroutines that do not end
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
