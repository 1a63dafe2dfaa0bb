package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// observer writes the orchestrator's decisions to the log: both outcomes at debug level.
type observer struct{ log observe.Log }

// observer gives nil when nobody listens, so that nothing is built for it.
func (c *Cluster) observer() retry.Observer {
	if c.cfg.Log == nil {
		return nil
	}
	return observer{c.log}
}

// Attempt implements retry.Observer.
func (o observer) Attempt(retry.AttemptInfo) {}

// Retry implements retry.Observer.
func (o observer) Retry(r *retry.Request, why retry.Reason, d time.Duration) {
	ctx := context.Background()
	if o.log.Enabled(ctx, slog.LevelDebug) {
		o.log.Debug(ctx, observe.MsgRetrying, append(attrs(r, why), slog.Duration(observe.KeyDelay, d))...)
	}
}

// GaveUp implements retry.Observer.
func (o observer) GaveUp(r *retry.Request, why retry.Reason, err error) {
	ctx := context.Background()
	if o.log.Enabled(ctx, slog.LevelDebug) {
		o.log.Debug(ctx, observe.MsgNotRetried, append(attrs(r, why), slog.Any(observe.KeyCause, settled(err)))...)
	}
}

// settled is an ending that nobody writes to any more, as a line needs it that is written later. The answer of a server
// that is in it belongs to the call, whose caller goes on reading the answer's body into it: the line has what is known
// without the body, which it does not keep. What a strategy has made of the answer is left out.
func settled(err error) error {
	var end *retry.Error
	var answer *kv.Error
	if !errors.As(err, &end) || !errors.As(end.Cause, &answer) {
		return err
	}
	e, a := *end, answer
	e.Cause = &kv.Error{
		Op: a.Op, Bucket: a.Bucket, Scope: a.Scope, Collection: a.Collection, Answered: a.Answered, Status: a.Status, Name: a.Name,
		Description: a.Description, Context: a.Context, Ref: a.Ref, Endpoint: a.Endpoint, Opaque: a.Opaque, Elapsed: a.Elapsed,
		Stage: a.Stage, InDoubt: a.InDoubt, Retry: a.Retry, Err: a.Err, Cause: a.Cause,
	}
	return &e
}

func attrs(r *retry.Request, why retry.Reason) []slog.Attr {
	return []slog.Attr{
		slog.String(observe.KeyReason, why.String()), slog.String(observe.KeyOperation, r.Operation),
		slog.String(observe.KeyOperationID, r.ID), slog.String(observe.KeyEndpoint, r.Endpoint),
		slog.Int(observe.KeyAttempts, r.Attempts+r.Transparent),
	}
}
