package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/retry"
)

// Record is a cluster's record of terminal conditions: a refused login or a failed TLS handshake on a connection that
// tracks the topology, a bucket without access. Each of those connections has a Track, which notes what it meets. A
// condition explains a call that cannot be dispatched; a working path never asks. Safe for concurrent use.
type Record struct {
	mu         sync.RWMutex     // many calls ask at the same time
	sick       []*Track         // those with a condition, the oldest first
	working    map[string]int   // key-value connections that work, by bucket
	total      int              // of all connections that work
	generation uint64           // what attempts with older credentials meet does not count
	told       map[subject]bool // conditions that the log tells as set
	// OnSet is called, outside the lock, after a condition was set that the connection did not have: calls that wait
	// for something else may now know better.
	OnSet func()
	// Log gets a line when a node has met a condition for a bucket, and when that node has none any more. Attempts that
	// meet it again add none.
	Log observe.Log
}

// Track is what a Record keeps of one connection that tracks the topology, through all attempts to make it.
type Track struct {
	h            *Record
	bucket, addr string
	maps         bool // it brings cluster maps over HTTP, and no calls go over it

	auth, tls, access error // these and the next under the lock of h
	up, left          bool
}

// Track begins to keep the conditions of a connection to the node at addr for a bucket.
func (h *Record) Track(bucket, addr string) *Track { return &Track{h: h, bucket: bucket, addr: addr} }

// TrackMaps is Track for a service that gives the bucket's maps over HTTP. While it works the credentials do, and
// requests to services have a way; key-value calls have none because of it.
func (h *Record) TrackMaps(bucket, addr string) *Track {
	return &Track{h: h, bucket: bucket, addr: addr, maps: true}
}

// Failed notes what a failed attempt says about the connection. A node that has left the topology has no conditions.
func (t *Track) Failed(err error) {
	var ce *handshake.Error
	if !errors.As(err, &ce) {
		return
	}
	if t.note(ce, err) && t.h.OnSet != nil {
		t.h.OnSet()
	}
}

// note keeps the condition that the error is, and says whether the connection did not have it before.
func (t *Track) note(ce *handshake.Error, cause error) (fresh bool) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	c := t.of(ce.Kind)
	if c == nil || t.left || ce.Generation < t.h.generation {
		return false
	}
	if fresh = *c == nil; fresh && !t.isSick() {
		t.h.sick = append(t.h.sick, t)
	}
	*c = ce
	t.h.set(subject{ce.Kind, t.bucket, t.addr}, cause)
	return fresh
}

// reasonOf is the reason of calls that cannot be dispatched because of a condition of that kind.
func reasonOf(kind *cberr.Kind) retry.Reason {
	switch kind {
	case cberr.TLSFailure:
		return retry.TLSError
	case cberr.AuthenticationFailure:
		return retry.AuthenticationError
	}
	return retry.BucketAccessError
}

func (t *Track) isSick() bool { return t.auth != nil || t.tls != nil || t.access != nil }

// Passed notes that an attempt has done a step, whatever becomes of the rest: a TLS handshake and a login clear what is
// known of the node, a selected bucket what is known of the bucket. A map over HTTP clears only what the same service
// has said of the bucket: the bucket may be refused all the same to those that select it.
func (t *Track) Passed(step handshake.Step) {
	kind := step.Kind()
	switch {
	case step == handshake.StepHTTP:
		same := func(bucket, addr string) bool { return t.bucket == bucket && t.addr == addr }
		t.h.clear(cberr.BucketAccess, same, same)
	case kind == cberr.BucketAccess:
		t.h.clear(kind, func(bucket, _ string) bool { return t.bucket == bucket },
			func(bucket, addr string) bool { return t.bucket == bucket && t.addr == addr })
	case kind != nil:
		same := func(_, addr string) bool { return t.addr == addr }
		t.h.clear(kind, same, same)
	}
}

// clear drops the condition of that kind from the connections that which takes. The log says that it is over for those
// that over takes.
func (h *Record) clear(kind *cberr.Kind, which, over func(bucket, addr string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sick = slices.DeleteFunc(h.sick, func(t *Track) bool {
		if which(t.bucket, t.addr) {
			*t.of(kind) = nil
		}
		return !t.isSick()
	})
	h.over(func(s subject) bool { return s.kind == kind && over(s.bucket, s.addr) })
}

// of is where the condition of that kind is kept, nil for a kind that is no condition.
func (t *Track) of(kind *cberr.Kind) *error {
	switch kind {
	case cberr.TLSFailure:
		return &t.tls
	case cberr.AuthenticationFailure:
		return &t.auth
	case cberr.BucketAccess:
		return &t.access
	}
	return nil
}

// Up notes that the connection works.
func (t *Track) Up() { t.set(true) }

// Down notes that the connection has ended.
func (t *Track) Down() { t.set(false) }

// Leave drops all that is known of the connection, and all that it may still note: its node has left the topology.
func (t *Track) Leave() {
	t.set(false)
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.left = true
	t.auth, t.tls, t.access = nil, nil, nil
	t.h.sick = slices.DeleteFunc(t.h.sick, func(o *Track) bool { return o == t })
	t.h.over(func(s subject) bool { return s.bucket == t.bucket && s.addr == t.addr && !t.h.hasOne(s) })
}

// hasOne reports whether a connection to the node for the bucket has the condition. The lock is held.
func (h *Record) hasOne(s subject) bool {
	return slices.ContainsFunc(h.sick, func(t *Track) bool {
		return s.bucket == t.bucket && s.addr == t.addr && *t.of(s.kind) != nil
	})
}

func (t *Track) set(up bool) {
	h := t.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if up == t.up || up && t.left {
		return
	}
	t.up = up
	n := 1
	if !up {
		n = -1
	}
	h.total += n
	if t.maps {
		return
	}
	if h.working == nil {
		h.working = map[string]int{}
	}
	if h.working[t.bucket] += n; h.working[t.bucket] == 0 {
		delete(h.working, t.bucket)
	}
}

// NewCredentials forgets what attempts with credentials older than those of that generation have met, and what those
// that are still under way meet: another user may log in and use the bucket, and there may be other roots.
func (h *Record) NewCredentials(generation uint64) {
	h.mu.Lock()
	h.generation = max(h.generation, generation) // two may come in the other order
	h.mu.Unlock()
	all := func(string, string) bool { return true }
	for _, kind := range []*cberr.Kind{cberr.AuthenticationFailure, cberr.TLSFailure, cberr.BucketAccess} {
		h.clear(kind, all, all)
	}
}

// Condition is what keeps a bucket's calls from their node, or requests to services if bucket is AnyService; nil when
// nothing known does. node is the address of the call's own node, "" when that is not known. A condition counts when it
// was met on the call's own node, or when no key-value connection of its bucket works; the login and TLS of another
// bucket's connection count when no connection of the cluster works.
func (h *Record) Condition(bucket, node string) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	_, err := h.named(bucket, func(t *Track) bool { return h.explains(t, bucket, node) })
	return err
}

// AnyService is the bucket of requests to services in Condition, Refine and Known.
const AnyService = "\x00service"

// explains reports whether t's conditions are those of a call. The lock is held.
func (h *Record) explains(t *Track, bucket, node string) bool {
	switch {
	case h.total == 0:
		return true
	case bucket == AnyService:
		return false
	}
	return node != "" && t.addr == node || t.bucket == bucket && h.working[bucket] == 0
}

// Refine gives a better name to a call that cannot be dispatched, in the RFC's order, and what is behind it. Reasons of
// attempts that a server has seen, those that are always retried, and terminal ones come back unchanged. See Condition.
func (h *Record) Refine(why retry.Reason, bucket, node string) (retry.Reason, error) {
	if !why.Unseen() || why.AlwaysRetry() || why.Terminal() {
		return why, nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	better, err := h.named(bucket, func(t *Track) bool { return h.explains(t, bucket, node) })
	if err == nil {
		return why, nil
	}
	return better, err
}

// Known adds to cause all conditions that may concern a call of the bucket, whether they explain it or not; see
// Condition.
func (h *Record) Known(bucket string, cause error) error {
	h.mu.RLock()
	_, known := h.named(bucket, func(*Track) bool { return true })
	h.mu.RUnlock()
	switch {
	case known == nil:
		return cause
	case cause == nil:
		return known
	}
	all := Conditions{cause}
	for _, c := range listOf(known) {
		if !errors.Is(cause, c) {
			all = append(all, c)
		}
	}
	if len(all) == 1 {
		return cause
	}
	return all
}

// named gathers the conditions of the connections that which takes, in the RFC's order, with the reason of the first.
// The lock is held.
func (h *Record) named(bucket string, which func(*Track) bool) (retry.Reason, error) {
	var auth, tls, access Conditions
	for _, t := range h.sick {
		if !which(t) {
			continue
		}
		if t.auth != nil {
			auth = append(auth, t.auth)
		}
		if t.tls != nil {
			tls = append(tls, t.tls)
		}
		if t.access != nil && t.bucket == bucket && h.working[bucket] == 0 {
			access = append(access, t.access)
		}
	}
	why := retry.BucketAccessError
	switch {
	case auth != nil:
		why = retry.AuthenticationError
	case tls != nil:
		why = retry.TLSError
	}
	all := slices.Concat(auth, tls, access)
	if len(all) == 0 {
		return retry.Unknown, nil
	}
	return why, all.Err()
}

// Conditions are several errors that are known at the same time, the most telling first. It unwraps to all of them.
type Conditions []error

// Err is the list as an error: nil without any, and the only one itself.
func (c Conditions) Err() error {
	switch len(c) {
	case 0:
		return nil
	case 1:
		return c[0]
	}
	return c
}

// mostTold is how many of them its text has.
const mostTold = 4

func (c Conditions) Error() string {
	var b strings.Builder
	for i, err := range c {
		switch {
		case i == mostTold:
			fmt.Fprintf(&b, "; and %d more", len(c)-i)
			return b.String()
		case i > 0:
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap gives all of them.
func (c Conditions) Unwrap() []error { return c }

func listOf(err error) []error {
	if all, ok := err.(Conditions); ok { //nolint:errorlint // the list itself
		return all
	}
	return []error{err}
}
