package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/couchcore/couchcore/internal/observe"
)

// executor runs callbacks on goroutines of the client. There is always one that is not inside user code, so a callback
// that blocks delays no other, and more where many callbacks wait. A worker ends when there is nothing to do.
type executor struct {
	log observe.Log

	mu     sync.Mutex
	queue  []func()
	active int           // workers
	free   int           // of these, those that will look at the queue before they end
	idle   chan struct{} // closed when there is no worker; made by the waiter
}

func (e *executor) run(f func()) {
	e.mu.Lock()
	e.queue = append(e.queue, f)
	start := e.short()
	if start {
		e.free++
		e.active++
	}
	e.mu.Unlock()
	if start {
		go e.worker()
	}
}

// share is how many callbacks wait for one worker: with more there is another one. A worker gets as much of the
// processors as any other goroutine, so that a single one comes to few callbacks where thousands want them.
const share = 32

// short reports whether one more worker is wanted. The lock is held.
func (e *executor) short() bool { return len(e.queue) > share*e.free }

func (e *executor) worker() {
	over := false
	defer func() {
		if !over { // the callback has ended this goroutine, as a test's FailNow does: another one takes its place
			e.mu.Lock()
			e.free++
			e.mu.Unlock()
			go e.worker()
		}
	}()
	for {
		e.mu.Lock()
		if len(e.queue) == 0 {
			e.free--
			if e.active--; e.active == 0 && e.idle != nil {
				close(e.idle)
				e.idle = nil
			}
			e.mu.Unlock()
			over = true
			return
		}
		f := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		e.free--
		relief := e.short()
		if relief {
			e.free++
			e.active++
		}
		e.mu.Unlock()
		if relief {
			go e.worker()
		}
		e.call(f)
		e.mu.Lock()
		e.free++
		e.mu.Unlock()
	}
}

// call contains a panic: it is the callback's own.
func (e *executor) call(f func()) {
	defer func() {
		if v := recover(); v != nil {
			e.panicked(v)
		}
	}()
	f()
}

func (e *executor) panicked(v any) {
	e.log.Warn(context.Background(), observe.MsgCallbackPanicked,
		slog.String(observe.KeyPanic, fmt.Sprint(v)), slog.String(observe.KeyStack, string(debug.Stack())))
}

// wait blocks until no worker is left or ctx ends.
func (e *executor) wait(ctx context.Context) error {
	e.mu.Lock()
	if e.active == 0 {
		e.mu.Unlock()
		return nil
	}
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	idle := e.idle
	e.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("functions of the program's, as of kv.Go: %w", context.Cause(ctx))
	}
}
