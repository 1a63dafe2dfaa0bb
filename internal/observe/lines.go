package observe

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of lines that wait for their handler.
const (
	LogLimit = 4096        // lines; further ones are lost
	LogGrace = time.Second // that Log.Close waits
)

// ErrLogStuck is what Log.Close gives when lines were left that the handler has not taken.
var ErrLogStuck = errors.New("the log's handler has not come back in time: lines are lost")

// lines keeps what is logged until the user's handler has taken it, in order. The handler is called on a goroutine of
// its own, which exists while there are lines: the first line starts it, it ends with the last, and close awaits it.
type lines struct {
	handler slog.Handler
	lost    atomic.Int64

	mu      sync.Mutex // never held while the handler runs
	queue   []line
	missed  int // lines that were refused since the last that was taken in
	writing bool
	closed  bool
	idle    chan struct{} // closed when the goroutine ends; made by the waiter
}

// line is one line, after missed others that are lost; or nothing but those.
type line struct {
	ctx    context.Context //nolint:containedctx // the handler's argument, as slog passes it on
	record slog.Record
	missed int
	ask    bool // the handler was not asked yet whether it wants the line
}

// add takes a line in, or counts it as lost. It does not block.
func (l *lines) add(ctx context.Context, r slog.Record, ask bool) {
	l.mu.Lock()
	if l.closed || len(l.queue) >= LogLimit {
		if !l.closed {
			l.missed++
		}
		l.mu.Unlock()
		l.lost.Add(1)
		return
	}
	l.queue = append(l.queue, line{ctx, r, l.missed, ask})
	l.missed = 0
	start := !l.writing
	l.writing = true
	l.mu.Unlock()
	if start {
		go l.write()
	}
}

// write gives lines to the handler until the queue is empty.
func (l *lines) write() {
	done := false
	defer func() {
		if !done { // the handler has ended its goroutine, as a test's FailNow does
			l.lost.Add(1)
			go l.write()
		}
	}()
	for {
		next, ok := l.next()
		if !ok {
			done = true
			return
		}
		if next.missed > 0 && l.enabled(context.Background(), slog.LevelWarn) {
			r := slog.NewRecord(time.Now(), slog.LevelWarn, MsgLinesLost, 0)
			r.AddAttrs(slog.Int(KeyCount, next.missed))
			l.handle(context.Background(), r)
		}
		if next.ctx != nil && (!next.ask || l.enabled(next.ctx, next.record.Level)) {
			l.handle(next.ctx, next.record)
		}
	}
}

// next is what the handler gets next; false when there is nothing: the goroutine ends then.
func (l *lines) next() (line, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		first := l.queue[0]
		l.queue[0] = line{}
		l.queue = l.queue[1:]
		return first, true
	}
	l.queue = nil // what has held a burst is given back
	if l.missed > 0 {
		tail := line{missed: l.missed}
		l.missed = 0
		return tail, true
	}
	l.writing = false
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	return line{}, false
}

func (l *lines) handle(ctx context.Context, r slog.Record) {
	defer contain(&l.lost)
	_ = l.handler.Handle(ctx, r) // as slog.Logger does: the error has no receiver
}

func (l *lines) enabled(ctx context.Context, level slog.Level) bool {
	return l.handler != slog.DiscardHandler && l.ask(ctx, level)
}

// ask asks the handler, which is code of the user's.
func (l *lines) ask(ctx context.Context, level slog.Level) (on bool) {
	err := Apart("the log's handler", func() error {
		on = l.handler.Enabled(ctx, level)
		return nil
	})
	if err != nil {
		l.lost.Add(1)
	}
	return on
}

// close refuses further lines and waits for those that are there, at most for LogGrace or until ctx ends.
func (l *lines) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	if !l.writing {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	grace := time.NewTimer(LogGrace)
	defer grace.Stop()
	select {
	case <-idle:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	left := len(l.queue)
	l.queue, l.missed = nil, 0
	l.mu.Unlock()
	l.lost.Add(int64(left))
	return ErrLogStuck
}
