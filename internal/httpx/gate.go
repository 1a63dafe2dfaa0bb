package httpx

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxPrefixes bounds what a gate remembers; the least recently used goes first.
const maxPrefixes = 1024

// maxPath bounds what is remembered of a path.
const maxPath = 1 << 10

// depth is the number of segments from which on one refusal is enough: requests that agree in n segments wait after
// depth-n refusals.
const depth = 5

// gate keeps new requests from a node that has said to come back later while the request that it said so to waits:
// those of the same path at once, and those that agree in their first n segments after 5-n refusals. It is a trie by
// segment, kept as a table of the prefixes. Its zero value is open, and asking it then costs one load. It counts per
// node: the refusal of one says nothing about the others.
type gate struct {
	on atomic.Bool

	mu       sync.Mutex
	prefixes map[string]*list.Element
	used     list.List // of *prefix, the latest use first
}

type prefix struct {
	key   string
	until time.Time // the latest wait under it
	count int       // refusals since the last success
}

// keys are what a path is known by: itself, and its first n segments.
func keys(addr, path string) (whole string, firsts []string) {
	path, _, _ = strings.Cut(path, "?")
	path = path[:min(len(path), maxPath)] // longer ones count as the same
	whole = addr + "=" + path
	at := 0
	for n := 0; n < depth && at < len(path); n++ {
		rest := path[at+1:]
		size := strings.IndexByte(rest, '/')
		if size < 0 {
			size = len(rest)
		}
		at += 1 + size
		firsts = append(firsts, addr+path[:at])
	}
	return whole, firsts
}

// wait is how long a new request must wait, 0 when it need not.
func (g *gate) wait(addr, path string, now time.Time) time.Duration {
	if !g.on.Load() {
		return 0
	}
	whole, firsts := keys(addr, path)
	g.mu.Lock()
	defer g.mu.Unlock()
	until := g.find(whole, 1)
	for i, key := range firsts {
		if u := g.find(key, depth-(i+1)); u.After(until) {
			until = u
		}
	}
	return max(until.Sub(now), 0)
}

// find gives the wait of a prefix that was refused often enough.
func (g *gate) find(key string, least int) time.Time {
	e := g.prefixes[key]
	if e == nil {
		return time.Time{}
	}
	g.used.MoveToFront(e)
	if p := value(e); p.count >= least {
		return p.until
	}
	return time.Time{}
}

func value(e *list.Element) *prefix {
	p, _ := e.Value.(*prefix)
	return p
}

// refused remembers that a request waits until the given time.
func (g *gate) refused(addr, path string, until time.Time) {
	whole, firsts := keys(addr, path)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.prefixes == nil {
		g.prefixes = map[string]*list.Element{}
	}
	for _, key := range append(firsts, whole) {
		e := g.prefixes[key]
		if e == nil {
			e = g.used.PushFront(&prefix{key: key})
			g.prefixes[key] = e
		}
		g.used.MoveToFront(e)
		p := value(e)
		p.count++
		if until.After(p.until) {
			p.until = until
		}
	}
	for g.used.Len() > maxPrefixes {
		g.drop(g.used.Back())
	}
	g.on.Store(true)
}

// answered forgets the refusals of a path that has been answered; waits that are not over yet stay.
func (g *gate) answered(addr, path string, now time.Time) {
	if !g.on.Load() {
		return
	}
	whole, firsts := keys(addr, path)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range append(firsts, whole) {
		if e := g.prefixes[key]; e != nil && !value(e).until.After(now) {
			g.drop(e)
		}
	}
	g.on.Store(g.used.Len() > 0)
}

func (g *gate) drop(e *list.Element) {
	delete(g.prefixes, value(e).key)
	g.used.Remove(e)
}
