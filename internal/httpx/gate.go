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

// mostQueued bounds the requests that wait at a gate.
const mostQueued = 1024

// gate keeps new requests from a node that has told a request to come back later, while that request waits for its
// retry. Requests of the same path are kept back at once; requests whose paths agree in their first n segments are kept
// back after 5-n refusals. When the delay is over one request goes first, and the others follow when it has succeeded.
// A refusal of one node says nothing about the others, so prefixes are kept by node. The zero value keeps nothing back,
// and asking it costs one atomic load. No method blocks.
type gate struct {
	on     atomic.Bool
	queued atomic.Int32 // requests that wait

	mu       sync.Mutex
	prefixes map[string]*list.Element
	used     list.List     // of *prefix, the latest use first
	changed  chan struct{} // closed when a request may have become free to go; nil while no request waits
}

type prefix struct {
	key   string
	until time.Time      // the latest wait under it
	count int            // refusals since the last success
	leads map[*lead]bool // the requests that are tried first; true for those on their way
	out   int            // how many are on their way
}

// lead says of which prefixes a request is at the head: other requests wait for its success. Its zero value leads none.
type lead struct {
	addr  string
	heads []*prefix
}

// grace is how long the others wait for the refused request after its delay, so that it goes first. Not for longer: its
// strategy may still be running.
const grace = 20 * time.Millisecond

// barred is what keeps a new request back: a delay, or a request that is on its way and goes first. Its zero value is
// nothing.
type barred struct {
	until   time.Time
	led     bool
	changed <-chan struct{} // closed when that may be over
}

// is reports whether the request must wait.
func (b *barred) is(now time.Time) bool { return b.led || b.until.After(now) }

// keys gives the keys of a path in the table: the one of the whole path, and those of its first 1, 2, 3 ... segments.
func keys(addr, path string) (whole string, firsts []string) {
	path, _, _ = strings.Cut(path, "?")
	path = path[:min(len(path), maxPath)] // longer ones count as the same
	whole = addr + "=" + path
	at := 0
	for n := 0; n < depth && at < len(path); n++ {
		tail := path[at+1:]
		size := strings.IndexByte(tail, '/')
		if size < 0 {
			size = len(tail)
		}
		at += 1 + size
		firsts = append(firsts, addr+path[:at])
	}
	return whole, firsts
}

// look gives what keeps a new request back.
func (g *gate) look(addr, path string, now time.Time) barred {
	if !g.on.Load() {
		return barred{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	bar, _ := g.bar(addr, path, now)
	return bar
}

// bar gives what keeps a new request back, and the prefixes under which there were enough refusals; under the mutex.
func (g *gate) bar(addr, path string, now time.Time) (bar barred, over []*prefix) {
	whole, firsts := keys(addr, path)
	look := func(key string, least int) {
		e := g.prefixes[key]
		if e == nil {
			return
		}
		g.used.MoveToFront(e)
		p := value(e)
		if p.count < least {
			return
		}
		over = append(over, p)
		bar.led = bar.led || p.out > 0
		until := p.until
		if len(p.leads) > 0 {
			until = until.Add(grace)
		}
		if until.After(bar.until) {
			bar.until = until
		}
	}
	look(whole, 1)
	for i, key := range firsts {
		look(key, depth-(i+1))
	}
	if bar.is(now) {
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		bar.changed = g.changed
	}
	return bar, over
}

// pass lets a new request go, unless something keeps it back by now. After a delay it is the one that goes first.
func (g *gate) pass(l *lead, addr, path string, now time.Time) bool {
	if !g.on.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	bar, over := g.bar(addr, path, now)
	if bar.is(now) {
		return false
	}
	for _, p := range over {
		l.take(addr, p, true)
	}
	return true
}

// again says that a request which was refused is on its way again.
func (g *gate) again(l *lead) {
	if len(l.heads) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range l.heads {
		l.take(l.addr, p, true)
	}
}

// take puts the request at the head of a prefix's queue; under the mutex.
func (l *lead) take(addr string, p *prefix, out bool) {
	was, has := p.leads[l]
	if p.leads == nil {
		p.leads = map[*lead]bool{}
	}
	if !has {
		l.heads = append(l.heads, p)
	}
	l.addr, p.leads[l] = addr, out
	p.out += toInt(out) - toInt(was)
}

// leave takes the request from the heads of all queues: it has ended, or goes to another node.
func (g *gate) leave(l *lead) {
	if len(l.heads) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range l.heads {
		p.out -= toInt(p.leads[l])
		delete(p.leads, l)
	}
	l.heads = nil
	g.wake()
}

// wake tells those who wait to look again; under the mutex.
func (g *gate) wake() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

func value(e *list.Element) *prefix {
	p, _ := e.Value.(*prefix)
	return p
}

// refused remembers that a request waits until the given time for its retry, before which no other is tried.
func (g *gate) refused(l *lead, addr, path string, until time.Time) {
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
		l.take(addr, p, false)
	}
	for g.used.Len() > maxPrefixes {
		g.drop(g.used.Back())
	}
	g.on.Store(true)
	g.wake()
}

// answered forgets the refusals of a path that has been answered; waits that are not over yet stay.
func (g *gate) answered(l *lead, addr, path string, now time.Time) {
	if !g.on.Load() {
		return
	}
	g.leave(l)
	whole, firsts := keys(addr, path)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range append(firsts, whole) {
		if e := g.prefixes[key]; e != nil && !value(e).until.After(now) {
			g.drop(e)
		}
	}
	g.on.Store(g.used.Len() > 0)
	g.wake()
}

func (g *gate) drop(e *list.Element) {
	delete(g.prefixes, value(e).key)
	g.used.Remove(e)
}
