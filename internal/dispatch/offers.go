package dispatch

import (
	"bytes"
	"slices"
	"sync"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
)

// offers is what lies before the config goroutine. Read loops only put bytes here.
type offers struct {
	kick  chan struct{}
	limit int

	mu      sync.Mutex
	queue   []offered
	bytes   int // in the queue
	busy    bool
	closed  bool
	waiters []claimed // calls to be judged, and others to be told, when all that was offered has been considered
	last    []byte    // the newest bytes offered
	version version   // theirs, when it is known
}

type offered struct {
	raw  []byte
	dt   memd.Datatype // says whether raw is compressed
	addr string
	// tooLarge is the size of a map that is larger than the limit; then raw is nil
	tooLarge int
	tell     bool // its giver waits until it was considered, and then wakes parked calls
}

const maxOffers = 16

// init makes it ready for maps of at most limit bytes, each and all that wait together.
func (o *offers) init(limit int) { o.kick, o.limit = make(chan struct{}, 1), limit }

// offer takes a cluster map from a node, with the call that it came with, if any. True means that the map is known and
// has been considered, so the call can be judged at once; otherwise the config goroutine does that. raw is copied,
// unless it is larger than a map may be: then its size alone is handed on.
func (o *offers) offer(raw []byte, dt memd.Datatype, addr string, cl *claimed) (known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return true
	}
	if o.isKnown(raw) {
		if !o.busy && len(o.queue) == 0 {
			return true
		}
	} else {
		of := offered{addr: addr, dt: dt, tell: cl != nil && cl.tell}
		if len(raw) > o.limit {
			of.tooLarge = len(raw)
		} else {
			of.raw = bytes.Clone(raw)
			o.last = of.raw
		}
		o.push(of)
		if !of.tell {
			o.wake()
		}
	}
	if cl != nil {
		o.waiters = append(o.waiters, *cl)
	}
	return false
}

// push adds an offer to the queue. Older ones make room for it: what they say is old.
func (o *offers) push(of offered) {
	for len(o.queue) > 0 && (len(o.queue) == maxOffers || o.bytes+len(of.raw) > o.limit) {
		o.pop()
	}
	o.queue = append(o.queue, of)
	o.bytes += len(of.raw)
}

func (o *offers) pop() (of offered) {
	of = o.queue[0]
	o.queue = slices.Delete(o.queue, 0, 1)
	o.bytes -= len(of.raw)
	return of
}

// latest reports whether raw is the last map that was offered, and has been considered.
func (o *offers) latest(raw []byte) bool {
	o.mu.Lock()
	considered, last := !o.busy && len(o.queue) == 0, o.last
	o.mu.Unlock() // several readers compare at the same time what does not change
	return considered && bytes.Equal(raw, last)
}

// wake has the config goroutine look at what lies before it.
func (o *offers) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// isKnown reports whether raw is the last map offered, or an older one. One whose version cannot be read is not known.
func (o *offers) isKnown(raw []byte) bool {
	if bytes.Equal(raw, o.last) {
		return true
	}
	epoch, rev, ok := topology.ScanVersion(raw)
	if !ok || rev == 0 {
		return false
	}
	if v := (version{epoch, rev}); v.newer(o.version) {
		o.version = v
		return false
	}
	return true
}

// take gives the next offer, or the calls to judge when no offer is left.
func (o *offers) take() (of offered, ok bool, waiters []claimed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 {
		o.busy = true
		return o.pop(), true, nil
	}
	o.busy = false
	waiters, o.waiters = o.waiters, nil
	return offered{}, false, waiters
}

// pending reports whether a map lies here that has not been considered yet.
func (o *offers) pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.busy || len(o.queue) > 0
}

// unversioned forgets the version of a map that is not used, so that it bars no good one: the old map's, which may be
// nil, counts. The same bytes need not be looked at again.
func (o *offers) unversioned(old *topology.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.version = versionOf(old)
}

// forget has every map looked at again.
func (o *offers) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.version = nil, version{}
}

// close ends it, and gives the calls that wait to be judged.
func (o *offers) close() []*call.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var calls []*call.Call
	for _, w := range o.waiters {
		if w.c != nil {
			calls = append(calls, w.c)
		}
	}
	o.waiters = nil
	return calls
}

// version is the version of a map; zero without one.
type version struct {
	epoch int64
	rev   uint64
}

// versionOf gives the version of a map, which may be nil.
func versionOf(s *topology.Snapshot) version {
	if s == nil {
		return version{}
	}
	return version{s.Epoch, s.Rev}
}

func (v version) newer(than version) bool {
	return v.epoch > than.epoch || v.epoch == than.epoch && v.rev > than.rev
}
