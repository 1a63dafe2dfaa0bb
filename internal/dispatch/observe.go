package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
)

// observe opens the call's span and takes its time. It is called only when a provider was given.
func (r *Router) observe(c *kv.Call) {
	ctx := c.Context()
	t := observe.Target{
		Service: "kv", Operation: strings.ReplaceAll(c.Spec().Name, "-", "_"), Bucket: r.o.Bucket, Scope: c.Req.Scope,
		Collection: c.Req.Collection,
	}
	if c.Req.Durability != 0 {
		t.Durability = c.Req.Durability.String()
	}
	inner, op := r.o.Instruments.StartOperation(ctx, t)
	c.Observe(func(err error) { op.End(context.WithoutCancel(inner), outcomeOf(err)) })
}

// outcomeOf says how a call ended in the words of spans and metrics.
func outcomeOf(err error) observe.Outcome {
	var e *kv.Error
	if !errors.As(err, &e) {
		return observe.Outcome{}
	}
	o := observe.Outcome{ErrorName: camel(e.Kind()), Retries: e.Retry.Retries()}
	if e.Answered {
		o.Status = fmt.Sprintf("0x%02x", uint16(e.Status))
		o.Answer = !errors.Is(err, cberr.Timeout) && !errors.Is(err, cberr.TemporaryFailure) && !errors.Is(err, cberr.InternalServerFailure)
	}
	return o
}

// camel turns document_not_found into DocumentNotFound.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}
