package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// A lookup asks one node after another, each for this long, so that one lost answer delays its waiters and no more.
const (
	lookupTry   = 750 * time.Millisecond
	lookupTries = 4
)

func pathOf(c *call.Call) collections.Path {
	return collections.Path{Scope: c.Req.Scope(), Collection: c.Req.Collection()}
}

// collectionWaiter is a call that waits for its collection's id.
type collectionWaiter struct {
	r *Router
	c *call.Call
}

// waitCollection lets the call wait for the lookup of its collection, which it starts if none is running.
func (r *Router) waitCollection(c *call.Call) {
	c.SetStage(call.StageCollection)
	c.Share() // the cache's waiter outlives a call that ends meanwhile
	r.hold(c)
	if err := r.colls.Wait(pathOf(c), &collectionWaiter{r, c}); err != nil {
		r.notSent(c, retry.CollectionMapRefreshInProgress, err)
	}
}

// CollectionResolved implements collections.Waiter.
func (w *collectionWaiter) CollectionResolved(_ collections.Entry, err error) {
	if w.c.Ended() {
		return
	}
	if err == nil {
		w.r.route(w.c)
		return
	}
	var le *lookupError
	if !errors.As(err, &le) {
		w.r.notSent(w.c, retry.CollectionMapRefreshInProgress, err)
		return
	}
	switch {
	case !le.answered:
		w.r.noWay(w.c, le.wakes, retry.CollectionMapRefreshInProgress, err, "")
	case le.why != retry.Unknown:
		w.r.lookupRefused(w.c, le)
	case le.began < w.c.Started:
		// It was asked before this call began: the collection may have been created since. Ask again.
		w.r.waitCollection(w.c)
	case errors.Is(err, cberr.ScopeNotFound):
		w.r.notSent(w.c, retry.ScopeNotFound, err)
	case errors.Is(err, cberr.CollectionNotFound):
		w.r.notSent(w.c, retry.CollectionNotFound, err)
	case errors.Is(err, cberr.UnsupportedOperation):
		w.c.Fail(&call.FeatureError{Feature: collectionsFeature})
	default:
		w.c.Fail(err)
	}
}

// lookupRefused asks a call's strategy about what a node has answered to the lookup that the call waits for. The call
// itself was not sent.
func (r *Router) lookupRefused(c *call.Call, le *lookupError) {
	c.Share()
	c.Taken()
	if c.State.NotSent() {
		r.judge(c, le.why, le, retry.Hint{Code: uint32(le.status)})
	}
}

// lookupError is a lookup's failure.
type lookupError struct {
	began    int64  // when the lookup did
	wakes    uint64 // what Wakes gave before its last attempt
	answered bool   // a node has refused it, with the next two
	status   memd.Status
	why      retry.Reason // for a retry; retry.Unknown: not retried
	err      error
}

func (e *lookupError) Error() string { return e.err.Error() }
func (e *lookupError) Unwrap() error { return e.err }

// lookup is the question for the id of one collection: one operation with one history, for all calls that wait for it.
// Each attempt asks another node, as a request of its own. What leaves an attempt without an answer is a reason for the
// next one; what a node answers is for the strategies of the calls that wait. It is a retry.Op and has no goroutine.
type lookup struct {
	r       *Router
	path    collections.Path
	began   int64
	state   retry.State
	tries   int
	epoch   uint32 // of the attempt that is out
	node    string // of the last attempt, "" when it has reached none
	failure lookupError
}

var (
	_ retry.Op       = (*lookup)(nil)
	_ retry.Strategy = anotherNode{}
)

// lookupName is what logs and statistics call a lookup. Its requests are get-collection-id.
const lookupName = "collection-lookup"

// lookup starts one lookup; its outcome goes to the cache.
func (r *Router) lookup(p collections.Path) {
	l := &lookup{r: r, path: p, began: r.now()}
	l.state.Idempotent, l.state.Strategy = true, anotherNode{l}
	l.Dispatch()
}

// Dispatch implements retry.Op: it asks the next node.
func (l *lookup) Dispatch() {
	epoch, ok := l.state.Sent()
	if !ok {
		return
	}
	l.epoch = epoch
	l.tries++
	l.failure = lookupError{began: l.began, wakes: l.r.o.Orchestrator.Wakes()}
	c := l.r.own(memd.OpCollectionsGetID, lookupTry)
	c.Req.Value = []byte(l.path.String())
	l.r.send(c, func(err error) {
		var e collections.Entry
		if err == nil {
			e, err = entryOf(c)
		}
		if err != nil {
			l.failed(err)
			return
		}
		if l.state.Succeeded(l.epoch) {
			l.r.colls.Resolve(l.path, e, nil)
		}
	})
}

// entryOf is what the answer to a lookup's request says.
func entryOf(c *call.Call) (e collections.Entry, err error) {
	answer, err := c.Answer()
	if err == nil {
		e.ManifestUID, e.ID, err = call.IDOf(answer)
	}
	if err != nil {
		err = c.DecodeError(err)
	}
	return e, err
}

// failed has an attempt judged. One that a node has refused is not asked of another one.
func (l *lookup) failed(err error) {
	l.node = ""
	why := retry.CollectionMapRefreshInProgress
	info, _ := retry.InfoOf(err)
	if info.Reason != retry.Unknown {
		why = info.Reason
	}
	var ke *call.Error
	claimed := l.state.Lost
	if errors.As(err, &ke) {
		l.node = ke.Endpoint
		if ke.Answered {
			l.failure.answered, l.failure.status, l.failure.why = true, ke.Status, info.Reason
			why, claimed = info.Reason, l.state.Answered
		}
	}
	l.failure.err = err
	if claimed(l.epoch) {
		l.r.o.Orchestrator.MaybeRetry(l, why, err, retry.Hint{Code: uint32(l.failure.status)})
	}
}

// Retry implements retry.Op.
func (l *lookup) Retry() *retry.State { return &l.state }

// Context implements retry.Op.
func (l *lookup) Context() context.Context { return l.r.ctx }

// Size implements retry.Op.
func (l *lookup) Size() int { return len(l.path.Scope) + len(l.path.Collection) }

// Describe implements retry.Op. The deadline is beyond what all attempts take.
func (l *lookup) Describe(q *retry.Request) {
	q.Service, q.Operation, q.Endpoint, q.Context = retry.KV, lookupName, l.node, l.r.ctx
	q.Bucket, q.Scope, q.Collection = l.r.o.Bucket, l.path.Scope, l.path.Collection
	q.Started = l.r.o.Base.Add(time.Duration(l.began))
	q.Deadline = q.Started.Add((lookupTries + 1) * lookupTry)
}

// Done implements retry.Op.
func (l *lookup) Done(err error, _ bool) {
	failure := l.failure
	failure.err = err
	l.r.colls.Resolve(l.path, collections.Entry{}, &failure)
}

// anotherNode is the strategy of lookups.
type anotherNode struct{ l *lookup }

// RetryAfter implements retry.Strategy.
func (a anotherNode) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	if a.l.failure.answered || a.l.tries >= lookupTries || a.l.r.ctx.Err() != nil {
		return retry.Stop()
	}
	return retry.After(0)
}

// Inline implements retry.Inline.
func (anotherNode) Inline() bool { return true }
