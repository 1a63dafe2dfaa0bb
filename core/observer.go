package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// observer hands the orchestrator's reports on: to the log, which gets both outcomes of a decision at debug level, and
// to the user's own observer.
type observer struct {
	log    observe.Log
	user   retry.Observer // nil: no observer
	gaveUp *tallies
}

// observer gives nil when there is no listener, so that nothing is built for it.
func (c *Cluster) observer() retry.Observer {
	if c.cfg.Observe.Log == nil && c.cfg.Observe.Retry == nil {
		return nil
	}
	return observer{c.log, c.cfg.Observe.Retry, &tallies{}}
}

// Attempt implements retry.Observer.
func (o observer) Attempt(a retry.AttemptInfo) {
	if o.user == nil {
		return
	}
	a.Err = settled(a.Err)
	o.tell(func() { o.user.Attempt(a) })
}

// Retry implements retry.Observer.
func (o observer) Retry(r *retry.Request, why retry.Reason, d time.Duration) {
	ctx := context.Background()
	if o.log.Enabled(slog.LevelDebug) {
		o.log.Debug(ctx, observe.MsgRetrying, append(attrs(r, why), slog.Duration(observe.KeyDelay, d))...)
	}
	if o.user == nil {
		return
	}
	r.Err = settled(r.Err)
	o.tell(func() { o.user.Retry(r, why, d) })
}

// GaveUp implements retry.Observer.
func (o observer) GaveUp(r *retry.Request, why retry.Reason, err error) {
	ctx := context.Background()
	err = settled(err)
	if o.log.Enabled(slog.LevelDebug) {
		o.log.Debug(ctx, observe.MsgNotRetried, append(attrs(r, why), slog.Any(observe.KeyCause, err))...)
	}
	if o.log.Enabled(slog.LevelInfo) {
		if n := o.gaveUp.count(tallied{r.Service, r.Operation, why}, time.Now()); n > 0 {
			info, _ := retry.InfoOf(err)
			o.log.Info(ctx, observe.MsgGaveUp, append(attrs(r, why), slog.Int64(observe.KeyCount, n),
				slog.Duration(observe.KeyElapsed, info.Elapsed))...)
		}
	}
	if o.user == nil {
		return
	}
	r.Err = settled(r.Err)
	o.tell(func() { o.user.GaveUp(r, why, err) })
}

// tell calls the user's observer. One that panics, or ends its goroutine, harms nothing.
func (o observer) tell(f func()) {
	err := observe.Apart("the retry observer", func() error {
		f()
		return nil
	})
	observe.LogFailed(o.log, err)
}

// settled is an ending that does not change any more, as a line needs it that is written later. The answer of a server
// that is in it belongs to the call, whose caller goes on reading the answer's body into it: the line has what is known
// without the body, which it does not keep. What a strategy has made of the answer is left out.
func settled(err error) error {
	var end *retry.Error
	var answer *kv.Error
	switch {
	case !errors.As(err, &answer):
		return err
	case errors.As(err, &end) && errors.As(end.Cause, &answer):
		e := *end
		e.Cause = call.Known(answer)
		return &e
	}
	return call.Known(answer)
}

func attrs(r *retry.Request, why retry.Reason) []slog.Attr {
	return []slog.Attr{
		slog.String(observe.KeyReason, why.String()), slog.String(observe.KeyOperation, r.Operation),
		slog.String(observe.KeyOperationID, r.ID), slog.String(observe.KeyEndpoint, r.Endpoint),
		slog.Int(observe.KeyRetries, r.Retries()),
	}
}
