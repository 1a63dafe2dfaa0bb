package retry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Op is what the orchestrator needs of an operation.
type Op interface {
	// Retry gives the State that the operation embeds.
	Retry() *State
	// Describe fills what it knows of Service, Operation, Endpoint, ID, Bucket, Scope, Collection and Started, and
	// Deadline unless the State has it. It is called when something failed, by the owner of the operation's step, never
	// while it may be routed. It must not keep the Request.
	Describe(*Request)
	// Context is the caller's.
	Context() context.Context
	// Size is the number of bytes that the operation holds while parked; below 0 it cannot be sent again.
	Size() int
	// Dispatch routes and sends the operation again. It must not block. The operation may end, and be used again,
	// before it returns.
	Dispatch()
	// Done completes the operation; it is called once, unless another goroutine wins State.Finish. It must not block.
	// err is an *Error.
	Done(err error, inDoubt bool)
}

// Identifier is an Op whose id is worth making only when an observer may see it. Describe leaves ID alone then.
type Identifier interface {
	// Identify gives the ID of a Request. It is called like Describe.
	Identify() string
}

// Explainer is an Op that may know more of why it has found no way to a server than its last attempt has met.
type Explainer interface {
	// Explain gives cause, which may be nil, together with what else is known. It is called once, when the deadline has
	// passed of an operation whose last attempt was not sent. It must not block.
	Explain(cause error) error
}

// Attempter is an Op that notes when its attempts end.
type Attempter interface {
	// AttemptFailed says that the attempt which was out, if one was, has failed with cause. It is called like Describe.
	AttemptFailed(cause error)
}

// Hint is what the failed attempt's answer says about the next one.
type Hint struct {
	Pushback Pushback // the server's own delay, or its "do not retry"
	Moved    bool     // a newer config routes this operation elsewhere
	Overload bool     // the answer speaks of a rate limit: the Kind is Throttling whatever the reason
	// InDoubt says that the server may have executed the request although it answered with a failure: of an attempt
	// that was claimed by Answered. An operation that is not idempotent is then never sent again, and ends in doubt.
	InDoubt bool
	Code    uint32 // the service's own number, for strategies
	seen    bool   // the server had begun to answer when the connection died; see AnswerLost
	kind    Kind   // of the failure, whatever the reason's is, with ownKind
	ownKind bool
	// Wakes is what Orchestrator.Wakes gave before a way to a server was looked for that was not found. If there has
	// been a Wake since, the way may be there: the operation then waits as if that Wake had come after it was parked. 0
	// says nothing.
	Wakes uint64
}

// Options are the settings of an Orchestrator. The zero value is usable.
type Options struct {
	Default        Strategy     // for operations without one; nil is FastFailOnTerminalError{}
	Inherited      Strategy     // what an operation's own strategy inherits where it has no Base; nil is Default
	MaxParked      int          // operations that wait at the same time; 0 is 32768
	MaxBytes       int64        // that all waiting operations hold together; 0 is no limit
	MaxOpBytes     int64        // that one operation may hold to be retried at all; 0 is no limit
	DisableRetries bool         // retry only what no server's logic has seen
	Observer       Observer     // nil: no observer
	JitterSource   JitterSource // for strategies that bring none; nil is math/rand/v2
	// DispatchAll dispatches operations that are due, or woken, at the same time, each as its own Dispatch would; nil
	// does that. It must not keep the slice.
	DispatchAll func([]Op)
}

const defaultMaxParked = 32768

// Orchestrator is the one entry to retrying. It keeps the operations that wait for a delay, with one timer and no
// goroutine for all of them; a strategy that may block runs on a goroutine that lives as long as the strategy's call.
// All methods may be called from any goroutine, none blocks, and none calls code of the user's under a lock. Close ends
// what it keeps.
type Orchestrator struct {
	opts    Options
	base    time.Time // what the heap's times count from
	scratch sync.Pool // of *Request, for describe
	batches sync.Pool // of *batch

	standard atomic.Pointer[Strategy] // of operations without one of their own

	stats tallies

	// mu is what all operations take turns in, to be parked and to leave. What an operation has of its own is guarded
	// by its history's mutex; no goroutine has both.
	mu         sync.Mutex
	heap       sleepers
	parked     int   // entries of the heap that wait for a delay
	bytes      int64 // that those hold
	numbers    uint64
	wakes      atomic.Uint64 // changed under the mutex
	timer      *time.Timer
	armed      time.Duration // what the timer is set to, since the base; never when it has fired or is stopped
	closed     atomic.Bool   // changed under the mutex, after closeCause
	closeCause error
}

// Format prints that it is an orchestrator, whatever the verb: calls may be using it meanwhile.
func (o *Orchestrator) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "retry.Orchestrator") }

// New makes an Orchestrator. It starts nothing.
func New(opts Options) *Orchestrator {
	if opts.Default == nil {
		opts.Default = FastFailOnTerminalError{}
	}
	if opts.Inherited == nil {
		opts.Inherited = opts.Default
	}
	if opts.MaxParked <= 0 {
		opts.MaxParked = defaultMaxParked
	}
	o := &Orchestrator{opts: opts, base: time.Now(), armed: never}
	o.stats.kinds = make(map[OperationKey]*tally)
	o.SetDefault(opts.Default)
	return o
}

// judgement is one failed attempt on its way to a decision.
type judgement struct {
	op    Op
	s     *State
	h     *history
	word  uint32 // the State's as long as the judgement is valid
	stage Stage
	why   Reason
	kind  Kind // of the failure, once it is recorded
	cause error
	hint  Hint
	size  int64
	r     *Request  // the strategy's, never read here once it was given away
	turn            // what the history has made of the failure
	now   time.Time // when the failure was entered into the history
	begun bool      // the strategy runs, or ran, on a goroutine of its own

	deadline time.Time
}

// MaybeRetry decides about an operation whose attempt failed, and retries or fails it. The caller has claimed the
// attempt: Answered, Lost or NotSent of its State said true. cause is what the attempt met. When the operation has
// ended meanwhile, nothing happens.
func (o *Orchestrator) MaybeRetry(op Op, why Reason, cause error, hint Hint) {
	s := op.Retry()
	w := s.ph.Load()
	if !deciding(w) { // guard: claimed
		return
	}
	if phaseOf(w) == decidingUnjudged && (s.Idempotent || !hint.InDoubt) { // guard: no doubt
		if !s.NotApplied() {
			return
		}
		w = withPhase(w, decidingReply)
	}
	j := judgement{op: op, s: s, word: w, stage: stageOf(w), why: why, cause: cause, hint: hint, size: int64(op.Size())}
	may := o.allowed(&j)
	if !o.record(&j) {
		return
	}
	always := why.AlwaysRetry() // guard: always
	switch {
	case !may:
		o.fail(&j, nil, nil)
	case always:
		o.park(&j, j.controlled(), j.now)
	default:
		o.consult(&j)
	}
}

// allowed reports whether the operation may be sent again at all.
func (o *Orchestrator) allowed(j *judgement) bool {
	switch {
	case !j.s.Idempotent && !j.why.AllowsNonIdempotent(): // guard: unsafe reason
	case !j.s.Idempotent && j.hint.InDoubt: // guard: executed in part
	case o.opts.DisableRetries && !j.why.Unseen(): // guard: disabled
	case j.size < 0 || o.opts.MaxOpBytes > 0 && j.size > o.opts.MaxOpBytes: // guard: size
	default:
		return true
	}
	return false
}

// record enters the failure into the operation's history, which the first failure creates.
func (o *Orchestrator) record(j *judgement) bool {
	noteFailure(j)
	asked := !j.why.AlwaysRetry() // no code sees the Request of an attempt that is always retried
	m := o.memory(j, asked || o.opts.Observer != nil)
	if asked {
		m.r = new(Request)
	}
	h := j.publish(m)
	h.mu.Lock()
	if !j.enter(m) {
		h.mu.Unlock()
		return false
	}
	if asked {
		j.r = h.request(m.r, &j.turn)
	}
	var report AttemptInfo
	if o.opts.Observer != nil {
		report = h.attempt(j.why, h.Stage, j.cause, j.now)
	}
	h.mu.Unlock()
	if o.opts.Observer != nil {
		o.opts.Observer.Attempt(report)
	}
	return true
}

func noteFailure(j *judgement) {
	if a, ok := j.op.(Attempter); ok {
		a.AttemptFailed(j.cause)
	}
}

// memory is what enter needs, and is made before a mutex is taken: who makes memory may have to wait for the
// collector, and all who want the mutex would wait with it.
type memory struct {
	desc description
	h    *history  // of an operation that had none
	log  []Attempt // longer than its log, which is full; nil: it is not
	r    *Request  // nil: no code is asked
}

// memory makes it, and describes the operation, with its id if an observer may see that. It is for the claimant of the
// attempt, who alone enters anything into the log.
func (o *Orchestrator) memory(j *judgement, id bool) (m memory) {
	m.desc = o.describe(j.op, id)
	j.now = time.Now()
	if h := j.s.h.Load(); h == nil {
		m.h = o.newHistory(j.op, &m.desc, j.now)
	} else if n := len(h.Log); n == cap(h.Log) && n < 2*logEnd {
		m.log = make([]Attempt, n, min(2*n, 2*logEnd))
	}
	return m
}

// publish gives the operation's history, which is there from the first failure on. It comes before enter looks whether
// the operation has ended: a goroutine that ends it afterwards finds the history.
func (j *judgement) publish(m memory) *history {
	if j.h = j.s.h.Load(); j.h == nil {
		j.h = m.h
		j.s.h.Store(m.h)
	}
	return j.h
}

// enter is record under the history's mutex. It is false when the operation has ended.
func (j *judgement) enter(m memory) bool {
	if j.s.ph.Load() != j.word { // guard: ended while described
		return false
	}
	h := j.h
	h.req = m.desc.described
	if m.log != nil {
		copy(m.log, h.Log)
		h.Log = m.log
	}
	if j.deadline = j.s.Deadline; j.deadline.IsZero() {
		j.deadline = m.desc.deadline
	}
	h.deadline = j.deadline
	h.req.Kind, h.req.Pushback, h.req.Code = j.why.Kind(), j.hint.Pushback, j.hint.Code
	switch {
	case j.hint.Overload:
		h.req.Kind = Throttling
	case j.hint.ownKind:
		h.req.Kind = j.hint.kind
	}
	j.kind = h.req.Kind
	j.turn = h.failed(j.why, &j.hint)
	h.cause, h.Stage = j.cause, j.stage
	if j.stage == StageDispatch {
		h.Unsent++
	}
	h.add(Attempt{Reason: j.why, Endpoint: h.req.Endpoint, At: j.now.Sub(h.started)})
	if h.retrying && h.counting {
		h.counters().failed.Add(1)
	}
	h.retrying = false
	return true
}

func (o *Orchestrator) newHistory(op Op, desc *description, now time.Time) *history {
	h := &history{o: o, op: op, s: op.Retry(), req: desc.described, started: desc.started, index: -1}
	h.Log = h.first[:0]
	if h.started.IsZero() {
		h.started = now
	}
	return h
}

// strategyOf is the strategy in force for an operation.
func (o *Orchestrator) strategyOf(s *State) Strategy {
	if s.Strategy != nil {
		return s.Strategy
	}
	return *o.standard.Load()
}

// SetDefault replaces the strategy of operations without one of their own, for failures that are judged from now on;
// nil is FastFailOnTerminalError{}. What an operation's own strategy inherits stays as it is.
func (o *Orchestrator) SetDefault(s Strategy) {
	if s == nil {
		s = FastFailOnTerminalError{}
	}
	o.standard.Store(&s)
}

// AnswersAtOnce reports whether MaybeRetry returns with the decision about an operation made: its strategy is one that
// never blocks.
func (o *Orchestrator) AnswersAtOnce(op Op) bool {
	s := op.Retry()
	return inline(o.strategyOf(s), o.inherited(s))
}

// inherited is what the strategy in force for an operation inherits: the default inherits nothing of its own.
func (o *Orchestrator) inherited(s *State) Strategy {
	if s.Strategy != nil {
		return o.opts.Inherited
	}
	return nil
}

// consult asks the operation's strategy.
func (o *Orchestrator) consult(j *judgement) {
	st := o.strategyOf(j.s)
	if inline(st, o.inherited(j.s)) {
		a, err := askInline(j.r.Context, st, j.r, j.why)
		o.obey(j, a, err)
		return
	}
	of := j.r.Context
	ctx, cancel := context.WithCancel(of)
	if !o.begin(j, cancel) {
		cancel()
		return
	}
	own := *j
	own.begun = true
	go o.consultOn(of, ctx, cancel, st, &own)
}

// consultOn asks a strategy that may block, on the goroutine that is started for it. of is the operation's context.
func (o *Orchestrator) consultOn(of, ctx context.Context, cancel context.CancelFunc, st Strategy, j *judgement) {
	var a Action
	err := errStrategyGone // stays when the strategy ends its goroutine
	defer func() {
		kind, why := j.over(of)
		cancel()
		if kind != nil { // the operation may not have been told yet; when it has ended, this changes nothing
			o.fail(j, kind, why)
			return
		}
		o.answered(j)
		o.obey(j, a, err)
	}()
	a, err = ask(ctx, st, j.r, j.why)
}

// over is what the operation of that context ends with when it is over, or the deadline has passed; nil: it goes on.
func (j *judgement) over(of context.Context) (kind, why error) {
	switch err := of.Err(); {
	case errors.Is(err, context.DeadlineExceeded), err == nil && !time.Now().Before(j.deadline):
		return ErrTimeout, nil
	case err == nil:
		return nil, nil
	}
	return ErrCanceled, usable(context.Cause(of))
}

// begin enters an operation whose strategy runs on a goroutine of its own into the heap, so that its deadline and Close
// end it whatever the strategy does.
func (o *Orchestrator) begin(j *judgement, cancel context.CancelFunc) bool {
	o.mu.Lock()
	if o.closed.Load() { // guard: closed before its strategy
		why := o.closeCause
		o.mu.Unlock()
		o.fail(j, ErrClosed, why)
		return false
	}
	// A goroutine that ends the operation from here on waits for the mutex and then finds both.
	if j.s.ph.Load() != j.word { // guard: ended before its strategy
		o.mu.Unlock()
		return false
	}
	j.h.cancel = cancel
	now := time.Now()
	since := now.Sub(o.base)
	// Not the deadline itself, which may have no monotonic reading.
	o.link(j.h, parking{word: j.word, judging: true, since: since, at: later(since, j.deadline.Sub(now))})
	o.arm()
	o.mu.Unlock()
	return true
}

// answered ends what begin has begun, when the strategy has answered.
func (o *Orchestrator) answered(j *judgement) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if j.h.index >= 0 && j.h.judging && j.h.word == j.word {
		o.unlink(j.h, time.Since(o.base))
		o.arm()
		j.h.cancel = nil
	}
}

// obey acts on a strategy's answer. One that comes after the operation's end changes nothing.
func (o *Orchestrator) obey(j *judgement, a Action, err error) {
	if j.s.ph.Load() != j.word { // guard: late answer
		return
	}
	switch {
	case err != nil:
		o.fail(j, nil, err)
	case a.kind == again && !a.ignore && j.hint.Pushback.Never(): // guard: pushed back
		o.fail(j, nil, nil)
	case a.kind == again || a.kind == waits:
		o.park(j, a, time.Now()) // a strategy may take its time
	case a.kind == stopTerminal:
		o.fail(j, ErrTerminal, nil)
	default:
		j.cause = translated(a.translate, j.cause)
		o.fail(j, nil, nil)
	}
}
