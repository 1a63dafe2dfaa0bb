package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Log is a logger that may be absent: the zero Log discards, and costs a nil check. It may be copied, and its methods
// may be used by several goroutines at once. A handler that panics is contained: the line is lost and counted.
//
// Debug and Info build nothing themselves, but a call with attributes makes them before it is entered. On the path of
// an operation ask Enabled first.
type Log struct {
	logger    *slog.Logger
	lost      *atomic.Int64
	redaction Redaction
}

// NewLog returns a Log over l; nil discards everything.
func NewLog(l *slog.Logger, r Redaction) Log {
	if l == nil {
		return Log{redaction: r}
	}
	return Log{logger: l, lost: new(atomic.Int64), redaction: r}
}

// Redaction is the level to tag attributes with: slog.Any(KeyOption, log.Redaction().User(name)).
func (l Log) Redaction() Redaction { return l.redaction }

// Slog returns the logger that was given to NewLog, or nil.
func (l Log) Slog() *slog.Logger { return l.logger }

// Lost returns how many lines a panicking handler lost.
func (l Log) Lost() int64 {
	if l.lost == nil {
		return 0
	}
	return l.lost.Load()
}

// Enabled reports whether a line of that level would be written.
func (l Log) Enabled(ctx context.Context, level slog.Level) (on bool) {
	if l.logger == nil {
		return false
	}
	defer contain(l.lost)
	return l.logger.Enabled(ctx, level)
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
	if !l.Enabled(ctx, level) {
		return
	}
	defer contain(l.lost)
	l.logger.LogAttrs(ctx, level, msg, attrs...) //nolint:sloglint // msg is one of the constants that the caller names
}

// contain is deferred around code of the user's that runs inside ours: telemetry never changes an outcome.
func contain(count *atomic.Int64) {
	if recover() != nil {
		count.Add(1)
	}
}
