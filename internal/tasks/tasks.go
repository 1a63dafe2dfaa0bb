package tasks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// mostNamed is how many names an error has.
const mostNamed = 8

// Group is what is waited for together. Each task has a name: the address of the node that it is for, or what it does.
// The zero value is empty.
type Group struct {
	mu    sync.Mutex
	n     int
	named map[string]int
	idle  chan struct{} // closed when no task is left; made by the first that waits
}

// Go runs f on a goroutine that is a task. The caller says what ends f.
func (g *Group) Go(name string, f func()) {
	g.Begin(name)
	go func() {
		defer g.End(name)
		f()
	}()
}

// Begin notes a task that End ends.
func (g *Group) Begin(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.named == nil {
		g.named = map[string]int{}
	}
	g.n++
	g.named[name]++
}

// End notes the end of a task of that name.
func (g *Group) End(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.named[name]--; g.named[name] == 0 {
		delete(g.named, name)
	}
	if g.n == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Wait waits until no task is left. When ctx ends before, it gives an *UnfinishedError.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		return nil
	}
	return &UnfinishedError{Tasks: g.n, Names: slices.Sorted(maps.Keys(g.named)), Err: context.Cause(ctx)}
}

// UnfinishedError is a wait that was given up, and the names of the tasks that had not ended then.
type UnfinishedError struct {
	Tasks int
	Names []string // each once, sorted
	Err   error    // why it was given up
}

func (e *UnfinishedError) Error() string {
	return "not ended: " + List(e.Names) + ": " + e.Err.Error()
}

func (e *UnfinishedError) Unwrap() error { return e.Err }

// List is the text of names in an error: the first of them and how many more there are.
func List(names []string) string {
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
