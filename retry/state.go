package retry

import (
	"sync/atomic"
	"time"
)

// State is the retry side of an operation, which embeds it by value. Its zero value is a fresh operation. It must not
// be copied once used.
//
// The owner sets the exported fields before the operation starts and does not change them afterwards. The methods are
// claims: the goroutine whose claim succeeds owns the next step. A false is not an error; the event came too late and
// is to be dropped. All methods may be called from any goroutine and none blocks.
type State struct {
	// ph is the attempt's number, the epoch, above three bits of phase. An operation that is used again keeps counting:
	// otherwise the teardown of an old connection could name an attempt of the operation that now lives in the same
	// memory. It may wrap; no event is 2^29 attempts late.
	ph atomic.Uint32

	Idempotent bool

	// h is nil until the first failure. The claimant of the failed attempt publishes it; what it points to has a mutex,
	// because Cancel and Close read it from other goroutines.
	h atomic.Pointer[history]

	// What only failures need comes last: an owner may let it begin another cache line.
	Deadline time.Time // the caller's, else the service's default; zero when Describe tells it
	Strategy Strategy  // nil inherits the orchestrator's default
}

// Phase says where an operation is on its way.
type Phase uint8

// The phases.
const (
	PhaseLocal    Phase = iota // on no socket: may be routed, dropped or sent
	PhaseWire                  // handed to a socket, no answer yet
	PhaseDeciding              // a failure is being judged; a strategy may be running
	PhaseParked                // waits for a delay
	PhaseDone                  // ended: no event acts on it
)

// String is the phase's name in lower case.
func (p Phase) String() string {
	return [...]string{"local", "wire", "deciding", "parked", "done", "deciding", "deciding", "deciding"}[p&phaseMask]
}

// The word's phases. Deciding has four forms, which remember the stage that the failed attempt had reached, and whether
// the answer may leave in doubt what the server has done.
const (
	inLocal          = uint32(PhaseLocal)
	onWire           = uint32(PhaseWire)
	decidingLocal    = uint32(PhaseDeciding)
	inParked         = uint32(PhaseParked)
	isDone           = uint32(PhaseDone)
	decidingLost     = isDone + 1
	decidingReply    = isDone + 2
	decidingUnjudged = isDone + 3

	phaseMask = 7
	epochUnit = 1 << 3
)

func phaseOf(w uint32) uint32          { return w & phaseMask }
func withPhase(w, phase uint32) uint32 { return w&^phaseMask | phase }

func deciding(w uint32) bool {
	p := phaseOf(w)
	return p == decidingLocal || p >= decidingLost
}

// wire is the word of an attempt that is on the wire under the given number.
func wire(epoch uint32) uint32 { return epoch<<3 | onWire }

// unjudged reports whether an attempt of that word is, or was, on the wire, and it is not known what has become of it.
func unjudged(w uint32) bool { return phaseOf(w) == onWire || phaseOf(w) == decidingUnjudged }

// queued reports whether an operation of that word may be in the orchestrator's heap: for a delay, or for its strategy.
func queued(w uint32) bool { return phaseOf(w) == inParked || deciding(w) }

// stageOf is the stage that the attempt had reached; only for words of the local, wire and deciding phases.
func stageOf(w uint32) Stage {
	switch phaseOf(w) {
	case onWire, decidingLost:
		return StageNetwork
	case decidingReply, decidingUnjudged:
		return StageResponse
	}
	return StageDispatch
}

// Sent claims the operation for a socket: the writer calls it at the last moment at which the frame can still be left
// out of the write. ok is false when the frame must be dropped. The connection keeps epoch, the attempt's number, and
// names it in Unsent, Answered and Lost.
func (s *State) Sent() (epoch uint32, ok bool) {
	w := s.ph.Load()
	if phaseOf(w) != inLocal { // guard: send only from local
		return 0, false
	}
	next := withPhase(w, onWire) + epochUnit
	// A swap that fails lost to a goroutine that ended the operation or moved it.
	return next >> 3, s.ph.CompareAndSwap(w, next)
}

// Unsent takes the attempt back to the local phase. The writer calls it when it can prove that the frame did not leave
// whole: the write ended before the frame's end and the connection is closed.
func (s *State) Unsent(epoch uint32) bool {
	w := s.ph.Load()
	if w != wire(epoch) { // guard: epoch of unsent
		return false
	}
	return s.ph.CompareAndSwap(w, withPhase(w, inLocal))
}

// Answered claims the attempt for the reader that matched a response to it. An operation that is not idempotent and
// ends before the response is judged ends in doubt: the server may have executed it. NotApplied says that it has not,
// and MaybeRetry does so itself for a response that says so.
func (s *State) Answered(epoch uint32) bool {
	w := s.ph.Load()
	if w != wire(epoch) { // guard: epoch of answered
		return false
	}
	return s.ph.CompareAndSwap(w, withPhase(w, decidingUnjudged))
}

// NotApplied says that the server has not executed the attempt that was claimed by Answered. It is for the claimant,
// before the judgement: MaybeRetry, or Finish. It changes nothing, and is false, when the operation has ended or the
// attempt is judged.
func (s *State) NotApplied() bool {
	w := s.ph.Load()
	return phaseOf(w) == decidingUnjudged && s.ph.CompareAndSwap(w, withPhase(w, decidingReply))
}

// Succeeded claims the attempt and the operation's completion for the reader that matched a good response: Answered,
// Finish and Settle in one step.
func (s *State) Succeeded(epoch uint32) bool {
	w := s.ph.Load()
	if w != wire(epoch) { // guard: epoch of succeeded
		return false
	}
	if !s.ph.CompareAndSwap(w, withPhase(w, isDone)) {
		return false
	}
	// which is in no queue: an operation on the wire does not wait, and no strategy judges it
	if h := s.h.Load(); h != nil {
		h.o.settle(h, nil, true)
	}
	return true
}

// Lost claims the attempt when its connection died unanswered. It is true for idempotent operations only: any other
// may have been executed and must not be sent again; see Orchestrator.ConnLost.
func (s *State) Lost(epoch uint32) bool {
	w := s.ph.Load()
	if w != wire(epoch) { // guard: epoch of lost
		return false
	}
	// Read after the word: only while this attempt is the operation's is this goroutine surely the only writer of the
	// field.
	if !s.Idempotent { // guard: wire
		return false
	}
	return s.ph.CompareAndSwap(w, withPhase(w, decidingLost))
}

// NotSent claims an operation whose routing failed before any socket.
func (s *State) NotSent() bool {
	w := s.ph.Load()
	if phaseOf(w) != inLocal { // guard: claim only from local
		return false
	}
	return s.ph.CompareAndSwap(w, withPhase(w, decidingLocal))
}

// Finish claims the operation's completion; only the winner may complete it. inDoubt says that a server may have
// executed it: it is not idempotent and its last attempt is on the wire, or its answer has not been judged. Once Finish
// has said true the operation is in no queue of the orchestrator and the context of its strategy has ended.
func (s *State) Finish() (won, inDoubt bool) {
	w, won := s.finish()
	if !won {
		return false, false
	}
	if h := s.h.Load(); h != nil {
		h.o.forget(h, w)
	}
	return true, s.ambiguous(w)
}

// finish moves any phase to done and gives the word that it replaced.
func (s *State) finish() (from uint32, won bool) {
	for {
		w := s.ph.Load()
		if phaseOf(w) == isDone { // guard: done
			return w, false
		}
		if s.ph.CompareAndSwap(w, withPhase(w, isDone)) {
			return w, true
		}
	}
}

// finishAs is finish for the one claim that w stands for.
func (s *State) finishAs(w uint32) bool { return s.ph.CompareAndSwap(w, withPhase(w, isDone)) }

// ambiguous tells whether an operation that ended in the phase of w may have been executed. An attempt in doubt is
// never sent again, so no bit needs to remember an earlier one.
func (s *State) ambiguous(w uint32) bool {
	return unjudged(w) && !s.Idempotent // guard: doubt
}

// Phase is the operation's present phase, which may be another by the time the caller looks at it.
func (s *State) Phase() Phase {
	w := s.ph.Load()
	if deciding(w) {
		return PhaseDeciding
	}
	return Phase(phaseOf(w))
}

// Epoch is the number of the latest attempt that was handed to a socket. Numbers of an operation that is used again go
// on counting.
func (s *State) Epoch() uint32 { return s.ph.Load() >> 3 }

// Reset makes the State of an ended operation, or of one that never started, ready for its next use; it changes nothing
// and says false while the operation is on its way. The attempts' numbers go on counting, everything else is zero
// afterwards. The caller must know that no other goroutine will act on the earlier use but by naming an attempt, which
// fails: in particular that every call of the orchestrator with it has returned.
func (s *State) Reset() bool {
	w := s.ph.Load()
	if p := phaseOf(w); p != isDone && p != inLocal { // guard: reset
		return false
	}
	s.Idempotent, s.Deadline, s.Strategy = false, time.Time{}, nil
	if s.h.Load() != nil { // a store costs more than a look
		s.h.Store(nil)
	}
	// A number of its own, so that a goroutine about to wake a parking of the earlier use finds another word.
	w += epochUnit // guard: reset's number
	s.ph.Store(withPhase(w, inLocal))
	return true
}

// Info says how the operation was retried; it is zero when nothing failed. The winner of Finish may call it, and
// any other goroutine as long as the operation is not used again.
func (s *State) Info() Info {
	h := s.h.Load()
	if h == nil {
		return Info{}
	}
	var log [2 * logEnd]Attempt
	h.mu.Lock()
	i := h.Info
	n := copy(log[:], i.Log)
	h.mu.Unlock()
	i.Log = append([]Attempt(nil), log[:n]...)
	return i
}

// Again says how often the operation has been retried, the present time included, the reason for that, and after which
// delay it is; zeros when nothing has failed. It takes no lock: it is for the goroutine that is told to dispatch the
// operation, until it has done so.
func (s *State) Again() (retries int, why Reason, delay time.Duration) {
	h := s.h.Load()
	if h == nil || len(h.Log) == 0 {
		return 0, Unknown, 0
	}
	return h.Counted + h.Transparent, h.Reason, h.Log[len(h.Log)-1].Delay // what an end meanwhile does not write
}

// Kept is Info for a caller that keeps it: nil when nothing failed. Only the goroutine that ended the operation after
// claiming its last attempt may call it, after Settle. It takes no further memory, and keeps the operation's in
// existence.
func (s *State) Kept() *Kept {
	h := s.h.Load()
	if h == nil {
		return nil
	}
	// Without the mutex: who else still knows the history reads, in Info, what is kept.
	h.req, h.cause = described{}, nil // which need not be kept
	h.kept.Info = &h.Info
	return &h.kept
}

// Settle says how the operation ended, err being nil when it succeeded. The winner of Finish calls it once; an
// orchestrator that ends an operation does so itself. It pays back budgets and reports the last attempt to the
// observer, and costs a nil check when nothing had failed.
func (s *State) Settle(err error) {
	if h := s.h.Load(); h != nil {
		h.o.settle(h, err, false)
	}
}
