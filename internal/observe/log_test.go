package observe_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/observe"
)

// brokenHandler panics in the method that is named.
type brokenHandler struct {
	slog.Handler
	inEnabled bool
}

func (h brokenHandler) Enabled(context.Context, slog.Level) bool {
	if h.inEnabled {
		panic("enabled")
	}
	return true
}

func (h brokenHandler) Handle(context.Context, slog.Record) error { panic("handle") }

func TestLogWithoutALoggerDiscards(t *testing.T) {
	for _, l := range []observe.Log{{}, observe.NewLog(nil)} {
		require.False(t, l.Enabled(slog.LevelError))
		l.Error(t.Context(), observe.MsgCallbackPanicked)
		require.NoError(t, l.Close(t.Context()))
		require.Zero(t, l.Lost())
	}
}

func TestLogWritesFixedMessagesAtTheirLevel(t *testing.T) {
	var out bytes.Buffer
	l := observe.NewLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	l.Debug(t.Context(), observe.MsgRetrying, slog.String(observe.KeyReason, "KV_LOCKED"))
	l.Info(t.Context(), observe.MsgConnected, slog.String(observe.KeyEndpoint, "h:1"))
	l.Warn(t.Context(), observe.MsgTerminalSet, slog.String("user", "joe"))
	l.Error(t.Context(), observe.MsgCallbackPanicked)
	require.NoError(t, l.Close(t.Context()))
	require.NotContains(t, out.String(), observe.MsgRetrying, "the handler's level decides")
	require.Contains(t, out.String(), "level=INFO msg=Connected endpoint=h:1\n")
	require.Contains(t, out.String(), "level=WARN msg=\"Terminal condition set\" user=joe\n")
	require.Contains(t, out.String(), "level=ERROR msg=\"A callback panicked\"\n")
}

func TestLogContainsAHandlerThatPanics(t *testing.T) {
	l := observe.NewLog(slog.New(brokenHandler{}))
	l.Info(t.Context(), observe.MsgConnected)
	l.Info(t.Context(), observe.MsgConnected)
	require.NoError(t, l.Close(t.Context()))
	require.EqualValues(t, 2, l.Lost())

	l = observe.NewLog(slog.New(brokenHandler{inEnabled: true}))
	l.Info(t.Context(), observe.MsgConnected)
	require.NoError(t, l.Close(t.Context()))
	require.EqualValues(t, 1, l.Lost())
	require.True(t, l.Enabled(slog.LevelInfo), "that is no answer")
}

func TestLogOffCostsNothing(t *testing.T) {
	ctx := t.Context()
	off := observe.NewLog(nil)
	discarded := observe.NewLog(slog.New(slog.DiscardHandler))
	for name, l := range map[string]observe.Log{"no logger": off, "level off": discarded} {
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if l.Enabled(slog.LevelDebug) {
				l.Debug(ctx, observe.MsgRetrying, slog.Int(observe.KeyRetries, 1000))
			}
		}), name)
	}
}
