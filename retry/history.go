package retry

import (
	"context"
	"sync"
	"time"
)

// history is what an operation has once it failed: counters, log, the place in the heap. The fields o, op and s never
// change.
type history struct {
	o  *Orchestrator
	op Op
	s  *State

	mu      sync.Mutex // guards what follows, to the orchestrator's part
	req     described  // the latest attempt
	started time.Time

	deadline time.Time

	course
	retrying bool // an attempt that is a retry is out
	counting bool // and it is one of OperationStats.Retries
	planned  bool // the last delay of the log has been decided, and the operation has not been seen to wait
	cause    error
	first    [1]Attempt // memory for the log: most operations fail once
	charges  []charge
	counts   *tally // of the operation's kind, found when something is counted first
	kept     Kept

	// The orchestrator's part is guarded by its mutex. Once the operation has ended and is in the heap no more, nothing
	// writes to it.
	cancel context.CancelFunc // ends the context of the strategy that runs
	parking
	index int    // in the heap, -1 outside
	asked uint64 // the number of the parking in which its strategy is asked, until the next one
}

// counters finds the counters of the operation's kind; under the mutex.
func (h *history) counters() *tally {
	if h.counts == nil {
		h.counts = h.o.stats.of(OperationKey{h.req.Service, h.req.Operation})
	}
	return h.counts
}

// Kept is what a caller keeps of an operation that has ended.
type Kept struct {
	*Info // nil when nothing failed
	// Notes are the owner's, of what few operations have.
	Notes [3]uint32
}

// described is what Describe has said of an attempt, and what its answer has. It is all that has to be kept of a
// Request while an operation waits.
type described struct {
	Context                   context.Context
	Service                   Service
	Operation, Endpoint, ID   string
	Bucket, Scope, Collection string
	Pushback                  Pushback
	Code                      uint32
	Kind                      Kind
}

// description is what Describe has said.
type description struct {
	described
	started, deadline time.Time
}

// parking is one stay in the heap: the wait for a delay, or for the deadline while a strategy runs.
type parking struct {
	// number names the parking: two may have no Sent between them, so the word alone would not.
	number   uint64
	word     uint32        // the State's while the parking is valid
	at       time.Duration // this and the next since the orchestrator's base
	since    time.Duration
	delay    time.Duration
	lasted   time.Duration // how long it was, once it is over
	earliest time.Duration // before which no event wakes the operation
	size     int64
	reason   Reason
	kind     Kind
	budget   Budget
	judging  bool // a strategy runs; at is the deadline
	capped   bool // at is the deadline: nothing may be sent then
	eager    bool // Wake may end it early
	free     bool // counts as no step of the backoff
	pushed   bool // the server named the delay: the backoff starts afresh

	transparent bool // the retry counts against no limit and no budget
}

// charge is what the operation has paid to a budget.
type charge struct {
	budget Budget
	cost   int32
}

const logEnd = 4 // attempts kept at either end of the log

// add appends to the log, which keeps its first and last four entries. The caller has seen to room for one.
func (h *history) add(a Attempt) {
	if len(h.Log) < 2*logEnd {
		h.Log = append(h.Log, a)
		return
	}
	copy(h.Log[logEnd:], h.Log[logEnd+1:])
	h.Log[2*logEnd-1] = a
}

// request fills r for a reader that may write to it or keep it.
func (h *history) request(r *Request, t *turn) *Request {
	d := &h.req
	*r = Request{
		Context: d.Context, Service: d.Service, Operation: d.Operation, Endpoint: d.Endpoint, ID: d.ID,
		Bucket: d.Bucket, Scope: d.Scope, Collection: d.Collection, Pushback: d.Pushback, Code: d.Code, Kind: d.Kind,
		Idempotent: h.s.Idempotent, Deadline: h.deadline, Started: h.started, Err: h.cause,
		JitterSource: h.o.opts.JitterSource, Strategy: h.o.strategyOf(h.s), Default: h.o.inherited(h.s),
	}
	h.tell(r, t)
	return r
}

func (h *history) attempt(reason Reason, stage Stage, err error, now time.Time) AttemptInfo {
	return AttemptInfo{
		Context: h.req.Context, Service: h.req.Service, Operation: h.req.Operation, Endpoint: h.req.Endpoint,
		ID: h.req.ID, Number: h.Retries() + 1, Reason: reason, Stage: stage, Err: err, At: now,
	}
}

// pay remembers a charge. One entry per budget, so that a long life does not make a long list.
func (h *history) pay(b Budget, cost int32) {
	for i := range h.charges {
		if same(h.charges[i].budget, b) {
			h.charges[i].cost += cost
			return
		}
	}
	h.charges = append(h.charges, charge{b, cost})
}

// describe asks op what it is, and for its id if an observer may see that. Only the owner of the operation's present
// step may: the claimant of an attempt, or the winner of Finish in a phase in which it is not routed.
func (o *Orchestrator) describe(op Op, id bool) description {
	r, ok := o.scratch.Get().(*Request)
	if !ok {
		r = &Request{}
	}
	r.Context = op.Context()
	op.Describe(r)
	if r.Context == nil {
		r.Context = context.Background()
	}
	if i, ok := op.(Identifier); ok && id {
		r.ID = i.Identify()
	}
	d := description{described{
		Context: r.Context, Service: r.Service, Operation: r.Operation, Endpoint: r.Endpoint, ID: r.ID,
		Bucket: r.Bucket, Scope: r.Scope, Collection: r.Collection, Pushback: r.Pushback, Code: r.Code, Kind: r.Kind,
	}, r.Started, r.Deadline}
	*r = Request{}
	o.scratch.Put(r)
	return d
}
