package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// A lookup asks one node after another, each for this long, so that one lost answer delays its waiters and no more.
const (
	lookupTry   = 750 * time.Millisecond
	lookupTries = 4
)

// strict is the strategy of the client's own requests: they are repeated by their next turn, not by a retry. It is
// internal on purpose.
type strict struct{}

func (strict) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}
func (strict) Inline() bool { return true }

// Strict is the strategy of the client's own requests. It is not for users: the module keeps it internal.
var Strict retry.Strategy = strict{}

func pathOf(c *kv.Call) collections.Path {
	return collections.Path{Scope: c.Req.Scope, Collection: c.Req.Collection}
}

// collectionWaiter is a call that waits for its collection's id.
type collectionWaiter struct {
	r *Router
	c *kv.Call
}

// waitCollection lets the call wait for the lookup of its collection, which it starts if none is running.
func (r *Router) waitCollection(c *kv.Call) {
	c.SetStage(kv.StageCollection)
	c.Share() // the cache's waiter outlives a call that ends meanwhile
	r.hold(c)
	if err := r.colls.Wait(pathOf(c), &collectionWaiter{r, c}); err != nil {
		r.notSent(c, retry.CollectionMapRefreshInProgress, err)
	}
}

// lookupError is a lookup's failure, when the lookup began, and what Wakes gave before its last try.
type lookupError struct {
	began int64
	wakes uint64
	err   error
}

func (e *lookupError) Error() string { return e.err.Error() }
func (e *lookupError) Unwrap() error { return e.err }

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
	var ke *kv.Error
	errors.As(err, &le)
	definite := errors.As(err, &ke) && ke.Answered
	if definite && le != nil && le.began < w.c.Started {
		// It was asked before this call began: the collection may have been created since. Ask again.
		w.r.waitCollection(w.c)
		return
	}
	switch {
	case definite && errors.Is(err, cberr.ScopeNotFound):
		w.r.notSent(w.c, retry.ScopeNotFound, err)
	case definite && errors.Is(err, cberr.CollectionNotFound):
		w.r.notSent(w.c, retry.CollectionNotFound, err)
	case definite && errors.Is(err, cberr.UnsupportedOperation):
		w.c.Fail(&kv.FeatureError{Feature: collectionsFeature})
	case definite:
		w.c.Fail(err)
	case le != nil:
		w.r.noWay(w.c, le.wakes, retry.CollectionMapRefreshInProgress, err, "")
	default:
		w.r.notSent(w.c, retry.CollectionMapRefreshInProgress, err)
	}
}

// lookup starts one lookup; its outcome goes to the cache.
func (r *Router) lookup(p collections.Path) { r.lookupOn(p, 1, r.now()) }

func (r *Router) lookupOn(p collections.Path, try int, began int64) {
	wakes := r.o.Orchestrator.Wakes()
	op := kv.GetCollectionID{Path: p.String(), Common: kv.Common{Timeout: lookupTry, Retry: Strict}}
	kv.Go(r.ctx, r, op, func(id kv.CollectionID, err error) {
		var ke *kv.Error
		switch {
		case err == nil:
			r.colls.Resolve(p, collections.Entry{ID: id.ID, ManifestUID: id.ManifestUID}, nil)
		case try < lookupTries && r.ctx.Err() == nil && !(errors.As(err, &ke) && ke.Answered):
			r.lookupOn(p, try+1, began)
		default:
			r.colls.Resolve(p, collections.Entry{}, &lookupError{began, wakes, err})
		}
	})
}
