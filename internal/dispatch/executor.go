package dispatch

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// executor runs callbacks on goroutines of the client. There is always one that is not inside user code, so a callback
// that blocks delays no other. A worker ends when there is nothing to do.
type executor struct {
	log *slog.Logger
	wg  sync.WaitGroup

	mu    sync.Mutex
	queue []func()
	free  int // workers that will look at the queue before they end
}

func (e *executor) run(f func()) {
	e.mu.Lock()
	e.queue = append(e.queue, f)
	start := e.free == 0
	if start {
		e.free++
		e.wg.Add(1)
	}
	e.mu.Unlock()
	if start {
		go e.worker()
	}
}

func (e *executor) worker() {
	defer e.wg.Done()
	for {
		e.mu.Lock()
		if len(e.queue) == 0 {
			e.free--
			e.mu.Unlock()
			return
		}
		f := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		e.free--
		relief := e.free == 0 && len(e.queue) > 0
		if relief {
			e.free++
			e.wg.Add(1)
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
		if v := recover(); v != nil && e.log != nil {
			e.log.Error("panic in a callback", slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
}

func (e *executor) wait() { e.wg.Wait() }
