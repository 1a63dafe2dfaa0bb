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
// its own, which exists while there are lines: the first line starts it, it ends with the last, and close awaits it.
type lines struct {
	handler slog.Handler
	lost    atomic.Int64
	refused [4]refusal // by level, debug first

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
}

// refusal is when the handler has last said that it does not want lines of a level, in ns; 0 when it wants them or was
// not asked yet.
type refusal struct {
	at    atomic.Int64
	asked bool // a line is there by which the handler is asked again; the lock of lines guards it
}

// old reports whether lines of the level may be wanted.
func (r *refusal) old(now time.Time) bool {
	at := r.at.Load()
	return at == 0 || now.UnixNano()-at >= int64(AskAgain)
}

func indexOf(level slog.Level) int {
	return min(max(int(level-slog.LevelDebug)/int(slog.LevelInfo-slog.LevelDebug), 0), 3)
}

// add takes a line in, or counts it as lost. It does not block. Of a level that was refused one line is taken, by which
// the handler is asked again: while it blocks, lines that it is not likely to want take no room.
func (l *lines) add(ctx context.Context, r slog.Record) {
	refused := &l.refused[indexOf(r.Level)]
	l.mu.Lock()
	if refused.at.Load() != 0 {
		if refused.asked {
			l.mu.Unlock()
			return
		}
		refused.asked = true
	}
	if l.closed || len(l.queue) >= LogLimit {
		if !l.closed {
			l.missed++
		}
		l.mu.Unlock()
		l.lost.Add(1)
		return
	}
	l.queue = append(l.queue, line{ctx, r, l.missed})
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
		if next.missed > 0 && l.wants(context.Background(), slog.LevelWarn) {
			r := slog.NewRecord(time.Now(), slog.LevelWarn, MsgLinesLost, 0)
			r.AddAttrs(slog.Int(KeyCount, next.missed))
			l.handle(context.Background(), r)
		}
		if next.ctx != nil && l.wants(next.ctx, next.record.Level) {
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

// wants asks the handler whether it wants lines of the level, and keeps the answer. One that fails wants none.
func (l *lines) wants(ctx context.Context, level slog.Level) (on bool) {
	defer func() { l.answered(level, on) }() // also when the handler ends its goroutine
	defer contain(&l.lost)
	return l.handler.Enabled(ctx, level)
}

func (l *lines) answered(level slog.Level, on bool) {
	refused := &l.refused[indexOf(level)]
	at := int64(0)
	if !on {
		at = time.Now().UnixNano()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	refused.at.Store(at)
	refused.asked = false
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
