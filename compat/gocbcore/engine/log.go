//go:build ignore

package gocbcore

import (
	"context"
	"log/slog"
	"strings"
)

// newLog is a log whose lines go to the program's logger.
func newLog() *slog.Logger { return slog.New(logHandler{}) }

type logHandler struct {
	prefix string // of groups
	attrs  string
}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return globalLogger != nil && level >= slog.LevelDebug
}

// Handle implements slog.Handler.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message + h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + h.prefix + a.Key + "=" + a.Value.Resolve().String())
		return true
	})
	logExf(levelOf(r.Level), 1, "%s", b.String())
	return nil
}

func levelOf(l slog.Level) LogLevel {
	switch {
	case l >= slog.LevelError:
		return LogError
	case l >= slog.LevelWarn:
		return LogWarn
	case l >= slog.LevelInfo:
		return LogInfo
	}
	return LogDebug
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += " " + h.prefix + a.Key + "=" + a.Value.Resolve().String()
	}
	return h
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	h.prefix += name + "."
	return h
}
