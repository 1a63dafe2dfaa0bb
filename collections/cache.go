package collections

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
)

// Entry is a collection's id and the manifest that it came from.
type Entry struct {
	ID          uint32
	ManifestUID uint64
}

// Waiter is told the outcome of a lookup: once, outside of the cache's lock, perhaps before Wait has returned. Its type
// must be comparable, as pointers are.
type Waiter interface {
	CollectionResolved(e Entry, err error)
}

// Options of a Cache. Lookup starts a lookup and must not block; its outcome comes back by Resolve, perhaps before
// Lookup has returned.
type Options struct {
	MaxWaiters int // over all collections; 0 means 32768
	Lookup     func(p Path)
}

// ErrTooManyWaiters means that Wait would pass the limit of waiters.
var ErrTooManyWaiters = errors.New("collections: too many calls wait for a collection's id")

const defaultMaxWaiters = 32768

// Cache is one bucket's. It is safe for concurrent use.
type Cache struct {
	o     Options
	known atomic.Pointer[map[Path]Entry] // never changed in place
	// doubted says that a node does not know the default collection, which has no entry: it may have been dropped.
	doubted atomic.Bool

	mu      sync.Mutex
	running map[Path]*lookup
	waiters int
	refused map[Path]uint64 // the newest manifest by which a node has refused an id, until a lookup succeeds
}

// mostRefused is how many collections are kept in mind of which an id was refused.
const mostRefused = 1024

// lookup is one that runs, and who waits for it, in the order in which they came.
type lookup struct {
	order *list.List
	place map[Waiter]*list.Element
	// stale means that the bucket has become another one since the lookup began, so that its outcome says nothing.
	stale bool
}

// New makes an empty cache.
func New(o Options) *Cache {
	if o.MaxWaiters <= 0 {
		o.MaxWaiters = defaultMaxWaiters
	}
	c := &Cache{o: o, running: map[Path]*lookup{}, refused: map[Path]uint64{}}
	c.known.Store(&map[Path]Entry{})
	return c
}

// Get finds an id that is known. It takes no lock and allocates nothing. That of the default collection is known from
// the beginning, as long as no node does not know it.
func (c *Cache) Get(p Path) (Entry, bool) {
	p = p.clean()
	if p.Scope == defaultName && p.Collection == defaultName {
		return Entry{}, !c.doubted.Load()
	}
	e, ok := (*c.known.Load())[p]
	return e, ok
}

// Wait lets w wait for the lookup of p, which it starts when none is running. If the id has become known meanwhile, w
// is told at once. A waiter that waits for p already goes on doing so, and is told once. The error is
// ErrTooManyWaiters; then w is told nothing.
func (c *Cache) Wait(p Path, w Waiter) error {
	p = p.clean()
	c.mu.Lock()
	if e, ok := c.Get(p); ok {
		c.mu.Unlock()
		w.CollectionResolved(e, nil)
		return nil
	}
	l := c.running[p]
	if l != nil && l.place[w] != nil {
		c.mu.Unlock()
		return nil
	}
	if c.waiters >= c.o.MaxWaiters {
		c.mu.Unlock()
		return fmt.Errorf("%w: limit %d", ErrTooManyWaiters, c.o.MaxWaiters)
	}
	start := l == nil
	if start {
		l = &lookup{order: list.New(), place: map[Waiter]*list.Element{}}
		c.running[p] = l
	}
	l.place[w] = l.order.PushBack(w)
	c.waiters++
	c.mu.Unlock()
	if start {
		c.o.Lookup(p)
	}
	return nil
}

// Remove lets a waiter go that does not want to wait any longer, and reports whether it was still waiting. The lookup
// and the other waiters are not disturbed.
func (c *Cache) Remove(p Path, w Waiter) bool {
	p = p.clean()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.running[p]
	if l == nil || l.place[w] == nil {
		return false
	}
	l.order.Remove(l.place[w])
	delete(l.place, w)
	c.waiters--
	return true
}

// Resolve is the outcome of the lookup of p: all who wait are told, in the order in which they came. After a failure
// the next Wait looks up anew. An outcome from before Clear counts for nothing: if a call waits, the lookup begins
// again.
func (c *Cache) Resolve(p Path, e Entry, err error) {
	p = p.clean()
	c.mu.Lock()
	l := c.running[p]
	if l != nil && l.stale && l.order.Len() > 0 {
		l.stale = false
		c.mu.Unlock()
		c.o.Lookup(p)
		return
	}
	delete(c.running, p)
	if err == nil && (l == nil || !l.stale) {
		e = c.learn(p, e)
	}
	if l == nil {
		c.mu.Unlock()
		return
	}
	c.waiters -= l.order.Len()
	c.mu.Unlock()
	for w := l.order.Front(); w != nil; w = w.Next() {
		w.Value.(Waiter).CollectionResolved(e, err)
	}
}

// learn stores an id unless a newer manifest's is there, and gives the one that holds. The lock is held.
func (c *Cache) learn(p Path, e Entry) Entry {
	delete(c.refused, p)
	if p.IsDefault() {
		c.doubted.Store(false)
		return Entry{ManifestUID: e.ManifestUID}
	}
	old := *c.known.Load()
	if o, ok := old[p]; ok && o.ManifestUID > e.ManifestUID {
		return o
	}
	next := maps.Clone(old)
	next[p] = e
	c.known.Store(&next)
	return e
}

// Invalidate forgets the id of p if it is still that one, and reports whether it was: of many calls that failed with
// the same id one makes a lookup necessary, and none undoes a newer id.
func (c *Cache) Invalidate(p Path, id uint32) bool {
	p = p.clean()
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.IsDefault() {
		return id == 0 && !c.doubted.Swap(true)
	}
	old := *c.known.Load()
	if e, ok := old[p]; !ok || e.ID != id {
		return false
	}
	next := maps.Clone(old)
	delete(next, p)
	c.known.Store(&next)
	return true
}

// Refuse keeps in mind that a node has refused an id of p by the manifest of that number, until a lookup of p succeeds.
func (c *Cache) Refuse(p Path, manifestUID uint64) {
	p = p.clean()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) >= mostRefused {
		clear(c.refused)
	}
	c.refused[p] = max(c.refused[p], manifestUID)
}

// Refused reports whether a node has refused an id of p by a newer manifest than e came from: e may be the refused id,
// which a node that lags behind still knows, with the documents of a collection that is gone for all others.
func (c *Cache) Refused(p Path, e Entry) bool {
	p = p.clean()
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.ManifestUID < c.refused[p]
}

// Doubted reports whether calls that were refused have the default collection looked up, as other collections are.
func (c *Cache) Doubted() bool { return c.doubted.Load() }

// Stale reports whether a node whose manifest has that number lags behind the one that our id of p came from: then the
// id is right and the node has to catch up.
func (c *Cache) Stale(manifestUID uint64, p Path) bool {
	e, ok := (*c.known.Load())[p.clean()]
	return ok && manifestUID < e.ManifestUID
}

// Clear forgets every id: the bucket has become another one. What a lookup finds that runs now is not kept.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Store(&map[Path]Entry{})
	c.doubted.Store(false)
	clear(c.refused)
	for _, l := range c.running {
		l.stale = true
	}
}

// Waiting is the number of calls that wait.
func (c *Cache) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiters
}
