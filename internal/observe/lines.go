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
	LogLimit = 4096                   // lines; further ones are lost
	LogGrace = time.Second            // that Log.Close waits
	AskAgain = 100 * time.Millisecond // that a level's lines are left out after the handler has refused one
)

// ErrLogStuck is what Log.Close gives when lines were left that the handler has not taken.
var ErrLogStuck = errors.New("the log's handler has not come back in time: lines are lost")

// lines keeps what is logged until the user's handler has taken it, in order. The handler is called on a goroutine of
// its own, which exists while there are lines: begin and a line without it start it, it ends with the last, and close
// awaits it.
type lines struct {
	handler slog.Handler
	base    time.Time
	levels  [4]interest // debug first
	lost    atomic.Int64

	mu      sync.Mutex // never held while the handler runs
	queue   []line
	missed  int // lines that were refused since the last that was taken in
	writing bool
	closed  bool
	idle    chan struct{} // closed when the goroutine ends; made by the waiter
}

// line is one line, after missed others that are lost.
type line struct {
	ctx    context.Context //nolint:containedctx // the handler's argument, as slog passes it on
	record slog.Record
	missed int
	asks   bool // by it the handler is asked although it has refused the level
	only   bool // by it the handler is asked alone
}

// interest is what the handler has last said about the lines of a level. They are wanted until it says otherwise.
type interest struct {
	refused atomic.Bool
	askAt   atomic.Int64 // when a line of a refused level asks again, since base
	asking  atomic.Bool  // such a line is in the queue
}

// may reports whether a line of the level may be wanted.
func (i *interest) may(now time.Duration) bool {
	return !i.refused.Load() || !i.asking.Load() && int64(now) >= i.askAt.Load()
}

func (l *lines) now() time.Duration { return time.Since(l.base) }

func (l *lines) of(level slog.Level) *interest {
	const step = int(slog.LevelInfo - slog.LevelDebug)
	return &l.levels[min(max(int(level-slog.LevelDebug)/step, 0), len(l.levels)-1)]
}

// begin has the handler asked which levels it wants, before there are lines.
func (l *lines) begin() {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		question := line{ctx: context.Background(), record: slog.Record{Level: level}, asks: true, only: true}
		l.queue = append(l.queue, question)
	}
	l.writing = true
	go l.write()
}

// add takes a line in, or counts it as lost. It does not block. Of a refused level one line is taken at a time, by
// which the handler is asked again.
func (l *lines) add(ctx context.Context, r slog.Record) {
	level := l.of(r.Level)
	l.mu.Lock()
	asks, full := level.refused.Load(), l.closed || len(l.queue) >= LogLimit
	switch {
	case asks && (full || !level.may(l.now())): // it is not wanted, as far as is known: it is not lost
		if full {
			level.askAt.Store(int64(l.now() + AskAgain))
		}
		l.mu.Unlock()
		return
	case full:
		if !l.closed {
			l.missed++
		}
		l.mu.Unlock()
		l.lost.Add(1)
		return
	}
	level.asking.Store(asks)
	l.queue = append(l.queue, line{ctx, r, l.missed, asks, false})
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
	next, more := l.next()
	defer func() {
		if more { // the handler has ended its goroutine, as a test's FailNow does
			l.loses(next)
			go l.write()
		}
	}()
	for more {
		l.give(next)
		next, more = l.next()
	}
}

// next is what the handler gets next; false when there is nothing: the goroutine ends then.
func (l *lines) next() (line, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.queue) > 0 && l.queue[0].missed > 0:
		missed := l.queue[0].missed
		l.queue[0].missed = 0
		return missing(missed), true
	case len(l.queue) > 0:
		first := l.queue[0]
		l.queue[0] = line{}
		l.queue = l.queue[1:]
		if level := l.of(first.record.Level); first.asks {
			level.askAt.Store(int64(l.now() + AskAgain)) // before the handler comes back, no other line asks
			level.asking.Store(false)
		}
		return first, true
	}
	l.queue = nil // what has held a burst is given back
	if l.missed > 0 {
		missed := l.missed
		l.missed = 0
		return missing(missed), true
	}
	l.writing = false
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	return line{}, false
}

// missing is a line about lines that are lost.
func missing(n int) line {
	r := slog.NewRecord(time.Now(), slog.LevelWarn, MsgLinesLost, 0)
	r.AddAttrs(slog.Int(KeyCount, n))
	return line{ctx: context.Background(), record: r, asks: true}
}

// give gives the handler a line that it wants. A line whose level was refused since it was kept is not asked about.
func (l *lines) give(n line) {
	level := l.of(n.record.Level)
	if level.refused.Load() && !n.asks {
		return
	}
	wants, answered := l.ask(n.ctx, n.record.Level)
	if !answered { // that says nothing about the next line
		l.loses(n)
		return
	}
	level.askAt.Store(int64(l.now() + AskAgain))
	level.refused.Store(!wants)
	if wants && !n.only {
		l.handle(n.ctx, n.record)
	}
}

// loses counts a line that is lost.
func (l *lines) loses(n line) {
	if !n.only {
		l.lost.Add(1)
	}
}

func (l *lines) handle(ctx context.Context, r slog.Record) {
	defer contain(&l.lost)
	_ = l.handler.Handle(ctx, r) // as slog.Logger does: the error has no receiver
}

// ask asks the handler, which may fail to answer.
func (l *lines) ask(ctx context.Context, level slog.Level) (wants, answered bool) {
	defer func() { _ = recover() }()
	return l.handler.Enabled(ctx, level), true
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
	left := 0
	for _, n := range l.queue {
		if !n.asks {
			left++
		}
	}
	l.queue, l.missed = nil, 0
	l.mu.Unlock()
	l.lost.Add(int64(left))
	return ErrLogStuck
}
