package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// A lookup asks one node after another, each for this long, so that one lost answer delays its waiters and no more.
const (
	lookupTry   = 750 * time.Millisecond
	lookupTries = 4
)

// mostAwaitIDs is how many calls may wait for the ids of collections.
const mostAwaitIDs = 32768

func pathOf(c *call.Call) collections.Path {
	return collections.Path{Scope: c.Req.Scope(), Collection: c.Req.Collection()}
}

// awaitCollection lets a call wait for the lookup of its collection, which it starts if none is running.
func (r *Router) awaitCollection(c *call.Call) {
	r.ids.enter(c, call.StageCollection, mostAwaitIDs, r.o.Orchestrator.Wakes())
	asks := idWaiter{r, pathOf(c)} // the same for all calls of a collection
	if err := r.view.ids.Wait(asks.path, asks); err != nil {
		asks.CollectionResolved(collections.Entry{}, err)
	}
}

// idWaiter is all calls that wait for the id of one collection.
type idWaiter struct {
	r    *Router
	path collections.Path
}

// CollectionResolved implements collections.Waiter.
func (w idWaiter) CollectionResolved(_ collections.Entry, err error) {
	since := w.r.o.Orchestrator.Wakes()
	w.r.nodes.mu.Lock()
	calls := w.r.ids.takeIf(func(c *call.Call) bool { return pathOf(c) == w.path })
	w.r.nodes.mu.Unlock()
	w.r.ids.release(calls, since, err)
}

// idDoor is the door of the calls that wait for a collection's id. All of them wait for the outcome of a lookup.
type idDoor struct{ *Router }

func (idDoor) look() (open bool, cause error) { return false, nil }

func (d idDoor) pass(c *call.Call) *pipeline { return d.find(c) }

func (d idDoor) turnAway(c *call.Call, since uint64, cause error) {
	var le *lookupError
	if !errors.As(cause, &le) {
		d.noWay(c, since, retry.CollectionMapRefreshInProgress, cause, "")
		return
	}
	switch {
	case !le.answered:
		d.noWay(c, le.wakes, retry.CollectionMapRefreshInProgress, cause, "")
	case le.why != retry.Unknown:
		d.lookupRefused(c, le)
	case le.began < c.Started:
		// It was asked before this call began: the collection may have been created since. Ask again.
		d.awaitCollection(c)
	case errors.Is(cause, cberr.ScopeNotFound):
		d.notSent(c, retry.ScopeNotFound, cause)
	case errors.Is(cause, cberr.CollectionNotFound):
		d.notSent(c, retry.CollectionNotFound, cause)
	case errors.Is(cause, cberr.UnsupportedOperation):
		c.Fail(&call.FeatureError{Feature: memd.FeatureCollections})
	default:
		c.Fail(cause)
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
		// When all that were asked say the same, it is the cluster that has gone back.
		if err == nil && l.tries < lookupTries && l.r.view.ids.Refused(l.path, e) {
			err = errLags
		}
		if err != nil {
			l.failed(err)
			return
		}
		if l.state.Succeeded(l.epoch) {
			l.r.o.Log.Debug(l.r.ctx, observe.MsgCollectionResolved, slog.String(observe.KeyBucket, l.r.o.Bucket),
				slog.String(observe.KeyCollection, l.path.String()))
			l.r.view.ids.Resolve(l.path, e, nil)
		}
	})
}

var errLags = errors.New("the node's manifest is older than the one by which the collection's id was refused")

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
	l.r.view.ids.Resolve(l.path, collections.Entry{}, &failure)
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
