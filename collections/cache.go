package collections

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Path names a collection; empty parts mean _default.
type Path struct{ Scope, Collection string }

const defaultName = "_default"

// clean gives the path its full names.
func (p Path) clean() Path {
	if p.Scope == "" {
		p.Scope = defaultName
	}
	if p.Collection == "" {
		p.Collection = defaultName
	}
	return p
}

// IsDefault reports whether p is the default collection, whose id is always 0.
func (p Path) IsDefault() bool { return p.clean() == Path{defaultName, defaultName} }

// String is "scope.collection", as the lookup's request wants it.
func (p Path) String() string {
	p = p.clean()
	return p.Scope + "." + p.Collection
}

// Entry is a collection's id and the manifest that it came from.
type Entry struct {
	ID          uint32
	ManifestUID uint64
}

// Waiter is told the outcome of a lookup: once, outside of the cache's lock, perhaps before Wait has returned.
type Waiter interface {
	CollectionResolved(e Entry, err error)
}

// Options of a Cache. Lookup starts a lookup and must not block; its outcome comes back by Resolve.
type Options struct {
	MaxWaiters int // over all collections; 0 means 32768
	Lookup     func(p Path)
}

// ErrTooManyWaiters means that Wait would pass the limit of waiters.
var ErrTooManyWaiters = errors.New("collections: too many calls wait for a collection's id")

// Cache is one bucket's. It is safe for concurrent use.
type Cache struct {
	o     Options
	known atomic.Pointer[map[Path]Entry] // never changed in place

	mu      sync.Mutex
	pending map[Path]map[Waiter]struct{} // a lookup runs for each
	waiters int
}

// New makes an empty cache.
func New(o Options) *Cache {
	if o.MaxWaiters <= 0 {
		o.MaxWaiters = 32768
	}
	c := &Cache{o: o, pending: map[Path]map[Waiter]struct{}{}}
	c.known.Store(&map[Path]Entry{})
	return c
}

// Get finds an id that is known. It takes no lock and allocates nothing.
func (c *Cache) Get(p Path) (Entry, bool) {
	p = p.clean()
	if p.Scope == defaultName && p.Collection == defaultName {
		return Entry{}, true
	}
	e, ok := (*c.known.Load())[p]
	return e, ok
}

// Wait lets w wait for the lookup of p, which it starts when none is running. If the id has become known meanwhile, w
// is told at once. The error is ErrTooManyWaiters; then w is told nothing.
func (c *Cache) Wait(p Path, w Waiter) error {
	p = p.clean()
	c.mu.Lock()
	if e, ok := c.Get(p); ok {
		c.mu.Unlock()
		w.CollectionResolved(e, nil)
		return nil
	}
	if c.waiters >= c.o.MaxWaiters {
		c.mu.Unlock()
		return fmt.Errorf("%w: limit %d", ErrTooManyWaiters, c.o.MaxWaiters)
	}
	ws, running := c.pending[p]
	if !running {
		ws = map[Waiter]struct{}{}
		c.pending[p] = ws
	}
	ws[w] = struct{}{}
	c.waiters++
	c.mu.Unlock()
	if !running {
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
	if _, ok := c.pending[p][w]; !ok {
		return false
	}
	delete(c.pending[p], w)
	c.waiters--
	return true
}

// Resolve is the outcome of the lookup of p: all who wait are told. After a failure the next Wait looks up anew.
func (c *Cache) Resolve(p Path, e Entry, err error) {
	p = p.clean()
	c.mu.Lock()
	ws := c.pending[p]
	delete(c.pending, p)
	c.waiters -= len(ws)
	if err == nil {
		c.replace(func(m map[Path]Entry) { m[p] = e })
	}
	c.mu.Unlock()
	for w := range ws {
		w.CollectionResolved(e, err)
	}
}

// replace publishes a changed copy of the known ids. The lock is held.
func (c *Cache) replace(change func(map[Path]Entry)) {
	old := *c.known.Load()
	next := make(map[Path]Entry, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	change(next)
	c.known.Store(&next)
}

// Invalidate forgets the id of p if it is still that one, and reports whether it was: of many calls that failed with
// the same id one makes a lookup necessary, and none undoes a newer id.
func (c *Cache) Invalidate(p Path, id uint32) bool {
	p = p.clean()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := (*c.known.Load())[p]; !ok || e.ID != id {
		return false
	}
	c.replace(func(m map[Path]Entry) { delete(m, p) })
	return true
}

// Stale reports whether a node whose manifest has that number lags behind the one that our id of p came from: then the
// id is right and the node has to catch up.
func (c *Cache) Stale(manifestUID uint64, p Path) bool {
	e, ok := (*c.known.Load())[p.clean()]
	return ok && manifestUID < e.ManifestUID
}

// Clear forgets every id: the bucket is another one. Lookups that run go on.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Store(&map[Path]Entry{})
}

// Waiting is the number of calls that wait.
func (c *Cache) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiters
}
