package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// OpPolicy is what a retry policy has for an operation.
type OpPolicy struct {
	Strategy retry.Strategy // of calls that name none; nil is none
	Pinned   bool           // Strategy also replaces one that the call names
	Timeout  time.Duration  // of calls that name none; 0 is the default
	Hedge    *kv.Hedge      // of reads that name neither hedges nor a strategy; with Pinned also of those
}

// policy gives the call what the policy has for its operation, and says how long it may take; 0 is the default. The
// client's own requests are left alone.
func (r *Router) policy(c *kv.Call, limit time.Duration) time.Duration {
	if c.Req.Retry == Strict {
		return limit
	}
	p := r.o.Policy(c.Req.Opcode)
	switch {
	case p != nil && p.Strategy != nil && (c.Req.Retry == nil || p.Pinned):
		c.SetStrategy(p.Strategy)
	case c.Req.Retry != nil && r.o.Throttled != nil:
		c.SetStrategy(r.o.Throttled(c.Req.Retry))
	}
	if limit == 0 && p != nil {
		limit = p.Timeout
	}
	return limit
}

// hedge is what calls ask for the hedges of their opcode.
func (r *Router) hedge(op memd.Opcode) (*kv.Hedge, bool) {
	if p := r.o.Policy(op); p != nil {
		return p.Hedge, p.Pinned
	}
	return nil, false
}

// refused ends a call whose answer has no reason, unless the user's hook has one. The hook is asked only where sending
// the request again is safe: the operation is idempotent, or the status is known to leave the document as it was.
func (r *Router) refused(c *kv.Call, d *kv.Disposition, err *kv.Error) {
	safe := c.State.Idempotent || d.NotApplied && !d.Ambiguous
	if r.o.Classify == nil || !safe || c.Spec().Has(kv.NoRetry) || c.Req.Retry == Strict {
		c.Refuse(err)
		return
	}
	r.hold(c)
	r.work.run(func() { // it is user code: never on a reader
		why := r.classify(c, err)
		if why == retry.Unknown {
			c.Fail(err)
			return
		}
		r.judge(c, why, err, retry.Hint{Code: uint32(err.Status)})
	})
}

// classify asks the user's hook. One that panics has named no reason.
func (r *Router) classify(c *kv.Call, err *kv.Error) (why retry.Reason) {
	defer func() {
		if v := recover(); v != nil {
			why = retry.Unknown
			r.o.Log.Warn(context.Background(), observe.MsgCallbackPanicked,
				slog.String(observe.KeyPanic, fmt.Sprint(v)), slog.String(observe.KeyStack, string(debug.Stack())))
		}
	}()
	return r.o.Classify(c.Spec().Name, err)
}
