package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/retry"
)

// observer writes the orchestrator's decisions to the log: both outcomes at debug level.
type observer struct{ log *slog.Logger }

// observer gives nil when nobody listens, so that nothing is built for it.
func (c *Cluster) observer() retry.Observer {
	if c.cfg.Log == nil {
		return nil
	}
	return observer{c.cfg.Log}
}

// Attempt implements retry.Observer.
func (o observer) Attempt(retry.AttemptInfo) {}

// Retry implements retry.Observer.
func (o observer) Retry(r *retry.Request, why retry.Reason, d time.Duration) {
	if !o.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	o.log.LogAttrs(context.Background(), slog.LevelDebug, observe.MsgRetrying, append(attrs(r, why), slog.Duration("delay", d))...)
}

// GaveUp implements retry.Observer.
func (o observer) GaveUp(r *retry.Request, why retry.Reason, err error) {
	if !o.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	o.log.LogAttrs(context.Background(), slog.LevelDebug, observe.MsgNotRetried, append(attrs(r, why), slog.Any("error", err))...)
}

func attrs(r *retry.Request, why retry.Reason) []slog.Attr {
	return []slog.Attr{
		slog.String(observe.KeyReason, why.String()), slog.String("operation", r.Operation), slog.String("id", r.ID),
		slog.String("node", r.Endpoint), slog.Int("attempts", r.Attempts+r.Transparent),
	}
}
