package kv

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
)

// copyOp is an operation that can be sent to each copy of a document: GetReplica and LookupIn are.
type copyOp[R any] interface {
	// plan says which document it is, which servers may answer, and what the bucket must be able to do.
	plan() copyPlan
	// to sends it to one copy, where 0 is the active one, and has done called with the outcome.
	to(ctx context.Context, d Dispatcher, replica int, done func(R, error)) Future[R]
}

// copyPlan is what finding the copies of a document takes.
type copyPlan struct {
	verb       string
	common     *Common
	key        []byte
	group      string
	capability string
	check      func() error // of arguments that no server needs to be asked about
}

// checkCopies refuses fields that are for one copy alone.
func checkCopies(replica int, wrap bool) error {
	if replica != 0 || wrap {
		return badArgument("replica", "is given, but all copies are asked")
	}
	return nil
}

func (g GetReplica) plan() copyPlan {
	return copyPlan{verb: "get-any-replica", common: &g.Common, key: g.Key, group: g.ServerGroup, check: func() error {
		if g.Into != nil {
			return badArgument("into", "is one memory for the values of all copies")
		}
		if err := checkCopies(g.Replica, g.Wrap); err != nil {
			return err
		}
		return checkOp[GetResult](Get{Common: g.Common, Key: g.Key})
	}}
}

func (g GetReplica) to(ctx context.Context, d Dispatcher, replica int, done func(GetResult, error)) Future[GetResult] {
	if replica == 0 {
		op := Get{Common: g.Common, Key: g.Key, Hedge: &Hedge{}, KeepCompressed: g.KeepCompressed}
		return Go(ctx, d, op, done)
	}
	g.Replica = replica
	return Go(ctx, d, g, done)
}

func (l LookupIn) plan() copyPlan {
	return copyPlan{
		verb: "lookup-in-any-replica", common: &l.Common, key: l.Key, group: l.ServerGroup,
		capability: call.CapabilityReplicaLookup,
		check: func() error {
			if err := checkCopies(l.Replica, l.Wrap); err != nil {
				return err
			}
			return checkOp[LookupInResult](l)
		},
	}
}

func (l LookupIn) to(
	ctx context.Context, d Dispatcher, replica int, done func(LookupInResult, error),
) Future[LookupInResult] {
	if l.Replica = replica; replica == 0 {
		l.ServerGroup = ""
	}
	return Go(ctx, d, l, done)
}

// checkOp says what is wrong with an operation's arguments.
func checkOp[R any, O Op[R]](op O) error {
	var r call.Request
	if _, err := encode[R](&r, &op); err != nil {
		return err
	}
	if s := call.SpecOf(r.Opcode); s != nil {
		return r.Validate(s)
	}
	return nil
}

// fails makes an error of the operation as a whole.
func (p *copyPlan) fails(kind error, cause error) *Error {
	return &Error{Op: p.verb, Scope: p.common.Scope, Collection: p.common.Collection, Err: kind, Cause: cause}
}

// copies finds the copies to ask, in the newest map.
func (p *copyPlan) copies(ctx context.Context, d Dispatcher) ([]int, error) {
	if err := p.check(); err != nil {
		return nil, p.fails(call.KindOf(err, false, nil), err)
	}
	l, err := routable(ctx, d, p.verb, p.common, p.capability)
	if _, lacks := err.(*FeatureError); lacks { //nolint:errorlint // of the whole operation, not of a call
		return nil, p.fails(cberr.FeatureNotAvailable, err)
	}
	if err != nil {
		return nil, err
	}
	var copies []int
	vb := l.VBucket(p.key)
	for i := range l.NumReplicas() + 1 {
		if node := l.NodeIndex(vb, i); node >= 0 && (p.group == "" || l.ServerGroup(node) == p.group) {
			copies = append(copies, i)
		}
	}
	return copies, nil
}

// Replicas are the answers of a document's copies as they come. One goroutine may use it at a time. A caller that does
// not read it to its end calls Close.
type Replicas[R interface{ Endpoint() string }] struct {
	plan    copyPlan
	results chan Outcome[R] // has room for all of them
	pending []Future[R]
	left    int
	nodes   map[string]bool // that have answered
	errs    []error
	err     error
	whole   parts
	leave   func() // ends the operation; may be called more than once
}

// parts are the calls of an operation that is observed as a whole, which ends with the last of them.
type parts struct {
	left atomic.Int32
	good atomic.Bool // one of them has succeeded
	end  func(error)
}

func (p *parts) ended(err error) {
	if err == nil {
		p.good.Store(true)
	}
	if p.left.Add(-1) > 0 {
		return
	}
	if p.good.Load() {
		err = nil
	}
	p.end(err)
}

// GetAllReplicas asks the active copy and every replica of a document, all at once, and gives what they answer as it
// comes, at most one answer of a node. A copy that fails or does not have the document is left out; Errors has the
// reasons. It waits for the first cluster map with vbuckets, if it has not come yet, and for nothing else. The fields
// Replica, Wrap and Into of op are left out. Its ServerGroup is the only group of nodes that is asked, "" means all: a
// filter, not a preference.
func GetAllReplicas(ctx context.Context, d Dispatcher, op GetReplica) (*Replicas[GetResult], error) {
	return allReplicas[GetResult](ctx, d, op, "get_all_replicas")
}

// LookupInAllReplicas is GetAllReplicas for paths of the document.
func LookupInAllReplicas(ctx context.Context, d Dispatcher, op LookupIn) (*Replicas[LookupInResult], error) {
	return allReplicas[LookupInResult](ctx, d, op, "lookup_in_all_replicas")
}

func allReplicas[R interface{ Endpoint() string }, O copyOp[R]](
	ctx context.Context, d Dispatcher, op O, whole string,
) (*Replicas[R], error) {
	p := op.plan()
	d, leave := compound(d)
	ctx, end := call.Compose(ctx, d.Runner(), whole, p.common.Scope, p.common.Collection)
	copies, err := p.copies(ctx, d)
	if err != nil || len(copies) == 0 {
		end(err)
	}
	if err != nil {
		leave()
		return nil, err
	}
	c := &Replicas[R]{
		plan: p, results: make(chan Outcome[R], len(copies)), left: len(copies), nodes: map[string]bool{},
		leave: sync.OnceFunc(leave),
	}
	c.whole.end = end
	c.whole.left.Store(int32(len(copies)))
	for _, n := range copies {
		c.pending = append(c.pending, op.to(ctx, d, n, func(r R, err error) {
			c.results <- Outcome[R]{r, err}
			c.whole.ended(err)
		}))
	}
	return c, nil
}

// Next waits for the next answer; false says that there are no more, or that ctx has ended. Every copy answers or fails
// by the deadline of the operation, so Next ends by then, too.
func (c *Replicas[R]) Next(ctx context.Context) (R, bool) {
	var zero R
	for c.left > 0 && c.err == nil {
		var x Outcome[R]
		select {
		case x = <-c.results:
		case <-ctx.Done():
			c.Close()
			c.err = c.plan.fails(endKind(ctx), context.Cause(ctx))
			return zero, false
		}
		c.left--
		if x.Err != nil {
			c.errs = append(c.errs, x.Err)
			continue
		}
		// While the map changes two numbers of replicas can mean the same node.
		if e := x.Result.Endpoint(); e == "" || !c.nodes[e] {
			c.nodes[e] = true
			return x.Result, true
		}
	}
	c.leave()
	return zero, false
}

// Err is why the stream ended early, as a *Error: nil unless the context of Next has ended, or every copy that was
// asked has run into the deadline.
func (c *Replicas[R]) Err() error {
	if c.err != nil || c.left > 0 || len(c.nodes) > 0 || len(c.errs) == 0 {
		return c.err
	}
	for _, err := range c.errs {
		if !errors.Is(err, cberr.Timeout) {
			return nil
		}
	}
	return c.plan.fails(cberr.UnambiguousTimeout, c.errs[len(c.errs)-1])
}

// Errors are why copies have been left out so far.
func (c *Replicas[R]) Errors() []error { return c.errs }

// Close ends the reads that are still under way. It does not block and may be called more than once.
func (c *Replicas[R]) Close() {
	for _, p := range c.pending {
		p.Cancel()
	}
	c.pending = nil
	c.leave()
}

// GetAnyReplica asks the active copy and every replica of a document, all at once, and gives the first good answer; the
// other reads are cancelled. When no copy gives one the error is cberr.DocumentUnretrievable, or cberr.Timeout when a
// copy may still have given one. Its cause has the reasons.
func GetAnyReplica(ctx context.Context, d Dispatcher, op GetReplica) (GetResult, error) {
	return anyReplica[GetResult](ctx, d, op, "get_any_replica")
}

// LookupInAnyReplica is GetAnyReplica for paths of the document.
func LookupInAnyReplica(ctx context.Context, d Dispatcher, op LookupIn) (LookupInResult, error) {
	return anyReplica[LookupInResult](ctx, d, op, "lookup_in_any_replica")
}

func anyReplica[R interface{ Endpoint() string }, O copyOp[R]](
	ctx context.Context, d Dispatcher, op O, whole string,
) (R, error) {
	var zero R
	c, err := allReplicas[R](ctx, d, op, whole)
	if err != nil {
		return zero, err
	}
	defer c.Close()
	if r, ok := c.Next(ctx); ok {
		return r, nil
	}
	if c.err != nil {
		return zero, c.err
	}
	cause := errors.Join(c.errs...)
	for _, err := range c.errs {
		switch {
		case errors.Is(err, cberr.Timeout):
			return zero, c.plan.fails(cberr.UnambiguousTimeout, cause)
		case errors.Is(err, cberr.RequestCanceled) && ctx.Err() != nil:
			return zero, c.plan.fails(cberr.RequestCanceled, cause)
		}
	}
	return zero, c.plan.fails(cberr.DocumentUnretrievable, cause)
}
