package viewjs

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"time"

	"github.com/dop251/goja"

	"github.com/couchcore/couchcore/mock"
)

// glance is how often a running function is looked at.
const glance = 5 * time.Millisecond

var (
	errTime   = errors.New("too much time")
	errMemory = errors.New("too much memory")
)

// guard looks at a call from the outside, on the goroutine of its timer, and interrupts it.
type guard struct {
	vm    *goja.Runtime
	opts  Options
	ctx   context.Context
	until time.Time
	heap  uint64 // when the call was first looked at; 0 before that
	over  chan struct{}
}

func (g *guard) run() {
	defer close(g.over)
	t := time.NewTicker(glance)
	defer t.Stop()
	for {
		select {
		case <-g.ctx.Done():
			if err := context.Cause(g.ctx); !errors.Is(err, errDone) {
				g.vm.Interrupt(err)
			}
			return
		case now := <-t.C:
			size := heapSize()
			if g.heap == 0 {
				g.heap = size
			}
			switch {
			case now.After(g.until):
				g.vm.Interrupt(errTime)
				return
			case size > g.heap && size-g.heap > uint64(g.opts.Memory):
				g.vm.Interrupt(errMemory)
				return
			}
		}
	}
}

var errDone = errors.New("done")

// guarded runs a call while a watcher looks at it, and waits for the watcher's end.
func (f *functions) guarded(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{vm: f.vm, opts: f.opts, ctx: ctx, until: time.Now().Add(f.opts.Time), over: make(chan struct{})}
	go g.run() // ends with the call
	err := call()
	cancel(errDone)
	<-g.over
	f.vm.ClearInterrupt()
	var interrupted *goja.InterruptedError
	var deep *goja.StackOverflowError
	switch {
	case errors.As(err, &interrupted):
		return fmt.Errorf("%w: %v", mock.ErrViewLimit, interrupted.Value())
	case errors.As(err, &deep):
		return fmt.Errorf("%w: too many calls within calls", mock.ErrViewLimit)
	}
	return err
}

// heapSize is how many bytes the objects of the process take.
func heapSize() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
