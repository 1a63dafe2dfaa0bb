package dispatch

import (
	"errors"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/retry"
)

// Whether what calls wait for may still come: a first cluster map, a connection. A terminal condition that explains why
// it does not come ends the wait, unless a handshake has just taken a step.

var (
	errNoSeeds = errors.New("no address to connect to")
	errNoMap   = errors.New("no node has given a cluster map yet")
)

// awaitFirstMap lets a call wait for the first cluster map, as long as one may still come.
func (r *Router) awaitFirstMap(c *call.Call) {
	r.first.enter(c, call.StageConfig, r.o.blockLimit(), r.o.Orchestrator.Wakes())
}

// mapDoor is the door of the calls that wait for the first cluster map.
type mapDoor struct{ *Router }

func (d mapDoor) look() (open bool, cause error) {
	if d.picker.Load() != nil {
		return true, nil
	}
	return false, d.noFirstMap()
}

func (d mapDoor) pass(c *call.Call) *pipeline { return d.find(c) }

func (d mapDoor) turnAway(c *call.Call, since uint64, cause error) {
	d.noWay(c, since, reasonOf(cause), cause, "")
}

// noFirstMap is why a call is not to wait for a first cluster map; nil: it is. The lock is held.
func (r *Router) noFirstMap() error {
	cause, hope := r.mayCome()
	known := r.o.Health.Condition(r.o.Bucket, "")
	if known == nil || r.maps.offers.pending() {
		if hope {
			return nil
		}
		return cause
	}
	if left := r.goesOn(callPatience); hope && left > 0 {
		r.lookAgain(left)
		return nil
	}
	return known
}

// mayCome says whether a cluster map may still come from a handshake that has not failed, and if not, the last failure.
// The lock is held.
func (r *Router) mayCome() (cause error, hope bool) {
	cause, hope = errNoSeeds, r.nodes.resolving
	for p := range r.nodes.pipelines() {
		err, trying := p.state()
		hope = hope || trying
		if err != nil {
			cause = err
		} else if cause == errNoSeeds { //nolint:errorlint // its own value
			cause = errNoMap
		}
	}
	if e := r.maps.refusal.Load(); e != nil {
		cause = e
	}
	err, trying := r.sourceState()
	switch {
	case hope || trying || r.maps.offers.pending(): // in this order: what has stopped trying has offered its map before
		return nil, true
	case err == nil:
		return cause, false
	case cause == errNoSeeds || cause == errNoMap: //nolint:errorlint // their own values
		return err, false
	}
	return health.Conditions{cause, err}, false // the first says what it is
}

// reasonOf names a failed connection's reason.
func reasonOf(err error) retry.Reason {
	var ce *handshake.Error
	var me *MapError
	switch {
	case errors.Is(err, errQueueFull):
		return retry.EndpointNotWritable
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

// goesOn is how much longer than now a map may come from a first handshake, or a lookup of the seeds, that must take a
// step within limit. The lock is held.
func (r *Router) goesOn(limit time.Duration) time.Duration {
	last := -int64(limit)
	if r.nodes.resolving {
		last = int64(r.nodes.seeded.Sub(r.o.Base))
	}
	for p := range r.nodes.pipelines() {
		if p.trying() {
			last = max(last, p.progress.Load())
		}
	}
	return limit - time.Duration(r.now()-last)
}

// looking is a look at what calls wait for that is due; Close ends it.
type looking struct {
	mu    sync.Mutex
	timer *time.Timer // nil: no look is due
	over  bool
}

// lookAgain has Explained called after that time, or sooner.
func (r *Router) lookAgain(after time.Duration) {
	l := &r.looking
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil || l.over {
		return
	}
	l.timer = time.AfterFunc(after, func() {
		l.mu.Lock()
		l.timer = nil
		over := l.over
		l.mu.Unlock()
		if !over {
			r.Explained()
		}
	})
}

// end stops the timer, which refers to the router.
func (l *looking) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Explained is called when a terminal condition was met, or a connection has ended: calls that wait for a handshake or
// a map although a condition explains its absence are given to their strategies, unless the handshake has just taken a
// step. A condition may be that of one node, and then of all its connections, or of all nodes.
func (r *Router) Explained() {
	if r.o.Health.Condition(r.o.Bucket, "") != nil {
		r.first.review()
	}
	for _, p := range r.nodes.unconnected() {
		p.waiting.review()
	}
}

// hopeless is the terminal condition that a call need not wait behind for a handshake that is under way; nil: no
// condition. The lock is held.
func (p *pipeline) hopeless() error {
	err := p.r.o.Health.Condition(p.r.o.Bucket, p.explained())
	if left := callPatience - time.Duration(p.r.now()-p.progress.Load()); err != nil && !p.failed && left > 0 {
		p.r.lookAgain(left)
		return nil
	}
	return err
}
