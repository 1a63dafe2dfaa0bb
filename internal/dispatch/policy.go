package dispatch

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

// OpPolicy is what a retry policy has for an operation.
type OpPolicy struct {
	retry.Rule[call.Hedge]
	Timeout time.Duration // of calls that name none; 0 is the default
}

// Policies are what a policy file says about calls. They do not change.
type Policies struct {
	// Of gives what there is for an opcode, nil for one that is no operation. It must not block.
	Of func(op memd.Opcode) *OpPolicy
	// Throttle keeps hedges from nodes in trouble; nil does not.
	Throttle hedge.Throttle
	// Feedback gives what is told that a node has answered well; nil: nothing is.
	Feedback func(addr string) conn.Feedback
}

// SetPolicies replaces the policies of calls that begin from now on; nil removes them. Calls under way keep theirs.
func (r *Router) SetPolicies(p *Policies) {
	r.policies.Store(p)
	for _, p := range r.nodes.list() {
		if cn := p.conn.Load(); cn != nil {
			cn.SetFeedback(p.feedback())
		}
	}
}

// mayHedge tells a new call whether to ask for hedges.
func (r *Router) mayHedge(c *call.Call) {
	if r.policies.Load() != nil {
		c.HasPolicy()
	}
}

// govern gives the call what the policies have for its operation, and says how long it may take; 0 is the default. The
// client's own requests are left alone.
func (ps *Policies) govern(c *call.Call, limit time.Duration) time.Duration {
	if c.Req.Retry() == call.Strict {
		return limit
	}
	p := ps.Of(c.Req.Opcode)
	if p == nil {
		return limit
	}
	if s, _ := p.StrategyOf(c.Req.Retry()); s != nil {
		c.SetStrategy(s)
	}
	if limit == 0 {
		limit = p.Timeout
	}
	return limit
}

// PolicyRule implements call.Hedger.
func (r *Router) PolicyRule(op memd.Opcode) *retry.Rule[call.Hedge] {
	if ps := r.policies.Load(); ps != nil {
		if p := ps.Of(op); p != nil {
			return &p.Rule
		}
	}
	return nil
}

// well says that a node has given an answer that is no retryable failure.
func (r *Router) well(addr string) {
	if ps := r.policies.Load(); ps != nil && ps.Feedback != nil {
		if f := ps.Feedback(addr); f != nil {
			f.Success()
		}
	}
}

// refused ends a call whose answer has no reason, unless the user's hook has one. The hook is asked only where sending
// the request again is safe: the operation is idempotent, or the status is known to leave the document as it was. It is
// not asked about a call whose context has ended, which is not sent again.
func (r *Router) refused(c *call.Call, d *call.Disposition, err *call.Error) {
	safe := c.State.Idempotent || d.NotApplied && !d.Ambiguous
	if r.o.Classify == nil || !safe || c.Over() != nil || c.Spec().Has(call.NoRetry) || c.Req.Retry() == call.Strict {
		r.well(err.Endpoint)
		c.Refuse(err)
		return
	}
	r.hold(c)
	r.work.run(func() { // it is user code: never on a reader
		why := r.classify(c, err)
		switch cause := c.Over(); { // the call may not have been told of its end yet
		case cause != nil:
			r.Cancel(c, cause)
		case r.now() >= c.Deadline:
			r.expire(c)
		case why == retry.Unknown:
			r.well(err.Endpoint)
			c.Fail(err)
		default:
			r.judge(c, why, err, retry.Hint{Code: uint32(err.Status)})
		}
	})
}

// classify asks the user's hook. One that panics, or ends its goroutine, has named no reason.
func (r *Router) classify(c *call.Call, answer *call.Error) (why retry.Reason) {
	err := observe.Apart("Classify", func() error {
		why = r.o.Classify(c.Spec().Name, answer)
		return nil
	})
	if err != nil {
		observe.LogFailed(r.o.Log, err)
		return retry.Unknown
	}
	return why
}
