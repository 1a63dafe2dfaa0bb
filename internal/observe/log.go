package observe

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"
)

// Log is a logger that may be absent: the zero Log discards, and costs a nil check. It may be copied, and its methods
// may be used by several goroutines at once, also under a lock; none of them but Close blocks. A line is stamped and
// kept where it is written. On a goroutine of the Log's, in order, the handler is asked whether it wants the line, and
// gets it: one that blocks holds up the lines behind it and nothing else. A handler that panics is contained. Lines
// that it loses are counted, and so are those beyond LogLimit while it blocks, of which a line tells as soon as it goes
// on.
//
// Lines of a level that the handler has refused are not kept, whatever their contexts. After AskAgain one is, and the
// handler is asked again by it; until it has answered, the others are not kept.
//
// What the attributes of a line refer to must not change any more.
//
// Debug and Info build nothing themselves, but a call with attributes makes them before it is entered. On the path of
// an operation ask Enabled first.
type Log struct{ lines *lines }

// NewLog returns a Log over l; nil and slog.DiscardHandler discard everything. The handler is asked first which levels
// it wants. Close ends the Log.
func NewLog(l *slog.Logger) Log {
	if l == nil || l.Handler() == slog.DiscardHandler {
		return Log{}
	}
	lines := &lines{handler: l.Handler(), base: time.Now()}
	lines.begin()
	return Log{lines: lines}
}

// Close discards lines that come later, and waits until those that came before are written, at most for LogGrace or
// until ctx ends. What is left then is lost, the handler's goroutine ends when the handler comes back, and the error is
// ErrLogStuck.
func (l Log) Close(ctx context.Context) error {
	if l.lines == nil {
		return nil
	}
	return l.lines.close(ctx)
}

// Lost returns how many lines were lost: to a panic of the handler, to the limit, or to Close.
func (l Log) Lost() int64 {
	if l.lines == nil {
		return 0
	}
	return l.lines.lost.Load()
}

// Enabled reports whether a line of that level may be wanted: the handler has not refused the level, or it is time to
// ask it again. It does not ask the handler.
func (l Log) Enabled(level slog.Level) bool {
	return l.lines != nil && l.lines.of(level).may(l.lines.now())
}

// Debug writes one line with what happens to single operations.
func (l Log) Debug(ctx context.Context, msg string, attrs ...slog.Attr) {
	l.write(ctx, slog.LevelDebug, msg, attrs)
}

// Info writes one line about a change of state.
func (l Log) Info(ctx context.Context, msg string, attrs ...slog.Attr) {
	l.write(ctx, slog.LevelInfo, msg, attrs)
}

// Warn writes one line about something that its reader should look at.
func (l Log) Warn(ctx context.Context, msg string, attrs ...slog.Attr) {
	l.write(ctx, slog.LevelWarn, msg, attrs)
}

// Error writes one line about a broken invariant of this module, and is used for nothing else.
func (l Log) Error(ctx context.Context, msg string, attrs ...slog.Attr) {
	l.write(ctx, slog.LevelError, msg, attrs)
}

func (l Log) write(ctx context.Context, level slog.Level, msg string, attrs []slog.Attr) {
	if !l.Enabled(level) {
		return
	}
	var pc [1]uintptr
	runtime.Callers(3, pc[:]) // the caller of Debug and so on
	r := slog.NewRecord(time.Now(), level, msg, pc[0])
	r.AddAttrs(attrs...)
	l.lines.add(ctx, r)
}

// contain is deferred around code of the user's that runs inside ours: telemetry never changes an outcome.
func contain(count *atomic.Int64) {
	if recover() != nil {
		count.Add(1)
	}
}
