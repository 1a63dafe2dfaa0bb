package trigger

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
)

// Often says which of the matching requests an item acts on. The zero value is for all of them.
type Often struct {
	Skip, Times int     // the first Skip requests pass; it acts on Times of them, or on all with 0
	Probability float64 // of acting on a request that is neither passed over nor too late; 0 is the same as 1
	Seed        uint64  // the same seed and the same requests make the same choices
}

// Trigger controls a fault or a script. Its methods may be called from any goroutine.
type Trigger struct {
	often   Often
	remove  func()
	release chan struct{} // closed by Release

	mu      sync.Mutex
	random  *rand.Rand // nil when every request is acted on
	seen    int
	fired   int
	off     bool
	open    bool
	changed chan struct{} // closed and replaced when fired grows
}

// Fired returns how many requests it has acted on, or is acting on.
func (t *Trigger) Fired() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fired
}

// WaitFired waits until it has met n requests, or ctx ends, whose error it returns then.
func (t *Trigger) WaitFired(ctx context.Context, n int) error {
	for {
		t.mu.Lock()
		fired, ch := t.fired, t.changed
		t.mu.Unlock()
		if fired >= n {
			return nil
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release lets go of every request that is held; those that match later are not held any more.
func (t *Trigger) Release() {
	t.mu.Lock()
	open := t.open
	t.open = true
	t.mu.Unlock()
	if !open {
		close(t.release)
	}
}

// Remove ends it. Requests that it has met already go on as it wanted.
func (t *Trigger) Remove() {
	t.mu.Lock()
	t.off = true
	t.mu.Unlock()
	t.remove()
}

func (t *Trigger) take() (before int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.off {
		return 0, false
	}
	t.seen++
	if t.seen <= t.often.Skip || t.often.Times > 0 && t.fired >= t.often.Times {
		return 0, false
	}
	if t.random != nil && t.random.Float64() >= t.often.Probability {
		return 0, false
	}
	before = t.fired
	t.fired++
	close(t.changed)
	t.changed = make(chan struct{})
	return before, true
}

// Item is one thing in force, and its trigger. The zero Item never acts.
type Item[T any] struct {
	What T
	t    *Trigger
}

// Take counts a request that matches, and reports whether the item acts on it and on how many it has acted before.
func (i *Item[T]) Take() (before int, ok bool) { return i.t.take() }

// Released is closed by the trigger's Release.
func (i *Item[T]) Released() <-chan struct{} {
	if i == nil || i.t == nil {
		return nil
	}
	return i.t.release
}

// List has what is in force. The zero List is empty.
type List[T any] struct {
	mu   sync.Mutex
	list []*Item[T] // replaced, never changed in place
}

// All are the items in the order in which they were added. The slice is to be read only.
func (l *List[T]) All() []*Item[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// Add puts something into force until its trigger's Remove.
func (l *List[T]) Add(what T, often Often) *Trigger {
	t := &Trigger{often: often, release: make(chan struct{}), changed: make(chan struct{})}
	if p := often.Probability; p > 0 && p < 1 {
		t.random = rand.New(rand.NewPCG(often.Seed, 0))
	}
	i := &Item[T]{what, t}
	t.remove = func() {
		l.change(func(list []*Item[T]) []*Item[T] {
			return slices.DeleteFunc(list, func(o *Item[T]) bool { return o == i })
		})
	}
	l.change(func(list []*Item[T]) []*Item[T] { return append(list, i) })
	return t
}

func (l *List[T]) change(f func([]*Item[T]) []*Item[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = f(slices.Clone(l.list))
}
