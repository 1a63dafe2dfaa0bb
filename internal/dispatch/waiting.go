package dispatch

import (
	"errors"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/retry"
)

// waitConfig parks a call until the first cluster map comes, as long as there is hope.
func (r *Router) waitConfig(c *call.Call) {
	c.Share()
	since := r.o.Orchestrator.Wakes()
	r.mu.Lock()
	switch {
	case r.closed:
		r.mu.Unlock()
		r.o.Orchestrator.Cancel(c, retry.ErrClosed)
		return
	case r.picker.Load() != nil: // it came meanwhile
		r.mu.Unlock()
		r.route(c)
		return
	}
	cause, hope := r.seedState()
	full := len(r.waiting) >= 16*r.o.QueueLimit
	if hope && !full {
		c.SetStage(call.StageConfig)
		r.waiting = append(r.waiting, c)
	}
	r.mu.Unlock()
	switch {
	case full:
		r.noWay(c, since, retry.EndpointNotWritable, errQueueFull, "")
	case hope:
		r.hold(c)
	default:
		r.noWay(c, since, reasonOf(cause), cause, "")
	}
}

var (
	errQueueFull = errors.New("too many calls wait for the node's connection")
	errNoSeeds   = errors.New("no address to connect to")
	errNoMap     = errors.New("no node has given a cluster map yet")
)

// seedState says whether a call is to wait for a first cluster map, and if not, why. When a
// terminal condition explains why no map comes, calls do not wait. The lock is held.
func (r *Router) seedState() (cause error, hope bool) {
	cause, hope = r.mayCome()
	known := r.o.Health.Condition(r.o.Bucket, "")
	if known == nil || r.offers.pending() {
		return cause, hope
	}
	if left := r.goesOn(callPatience); hope && left > 0 {
		r.lookAgain(left)
		return nil, true
	}
	return known, false
}

// mayCome says whether a cluster map may still come from a handshake that has not failed, and if not, the last failure.
// The lock is held.
func (r *Router) mayCome() (cause error, hope bool) {
	cause, hope = errNoSeeds, r.resolving
	for p := range r.pipelines() {
		err, trying := p.state()
		hope = hope || trying
		if err != nil {
			cause = err
		} else if cause == errNoSeeds { //nolint:errorlint // its own value
			cause = errNoMap
		}
	}
	if e := r.refusal.Load(); e != nil {
		cause = e
	}
	err, trying := r.sourceState()
	switch {
	case hope || trying || r.offers.pending(): // in this order: who has stopped trying has offered what it had before
		return nil, true
	case err == nil:
		return cause, false
	case cause == errNoSeeds || cause == errNoMap: //nolint:errorlint // their own values
		return err, false
	}
	return &bothFailed{cause, err}, false
}

// bothFailed is why no map came over connections, and why none came from the source. What it is, the first says.
type bothFailed struct{ conn, source error }

func (e *bothFailed) Error() string { return e.conn.Error() + "; " + e.source.Error() }

// Unwrap gives both.
func (e *bothFailed) Unwrap() []error { return []error{e.conn, e.source} }

// reasonOf names a failed connection's reason.
func reasonOf(err error) retry.Reason {
	var ce *handshake.Error
	var me *MapError
	switch {
	case errors.Is(err, errNoMap), errors.As(err, &me):
		return retry.NotReady
	case !errors.As(err, &ce):
	case ce.Step == handshake.StepCredentials:
		return retry.CredentialsFetchFailed
	case ce.Step == handshake.StepSelectBucket, errors.Is(err, cberr.BucketNotFound), ce.Bucket != "" &&
		errors.Is(err, errForeign):
		return retry.BucketNotReady
	}
	return retry.SocketNotAvailable
}

// releaseWaiting judges the calls that wait for a first map when there is no more hope for one.
func (r *Router) releaseWaiting() {
	since := r.o.Orchestrator.Wakes()
	r.mu.Lock()
	cause, hope := r.seedState()
	if hope || r.picker.Load() != nil {
		r.mu.Unlock()
		return
	}
	calls := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	for _, c := range calls {
		r.noWay(c, since, reasonOf(cause), cause, "")
	}
}
