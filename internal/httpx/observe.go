package httpx

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/observe"
)

// begin opens the request's span and takes its time; end closes it, however the request ends. A request that is one of
// several of an operation is a part of that one's.
func (k *call) begin(ctx context.Context) (end func(error)) {
	if k.c.o.Instruments == nil {
		return func(error) {}
	}
	if whole, ok := ctx.Value(wholeKey{}).(*whole); ok && whole.operation == k.operation {
		k.span, k.inner, k.part = &whole.op, whole.inner, true
		return func(error) {}
	}
	w := k.c.start(ctx, k.r.Service, k.operation, k.r.Bucket)
	k.span, k.inner = &w.op, w.inner
	return func(err error) { w.ended(err, k.state.Info().Retries()) }
}

// whole is an operation under observation.
type whole struct {
	operation string
	op        observe.Operation
	inner     context.Context
}

type wholeKey struct{}

func (c *Client) start(ctx context.Context, svc httpsvc.Service, operation, bucket string) *whole {
	name := strings.ToLower(strings.ReplaceAll(operation, "-", "_"))
	w := &whole{operation: operation}
	w.inner, w.op = c.o.Instruments.StartOperation(ctx, observe.Target{
		Service: svc.String(), Operation: name, Bucket: bucket,
	})
	return w
}

func (w *whole) end(err error) { w.ended(err, 0) }

// ended is end with the number of retries of an operation that is one request.
func (w *whole) ended(err error, retries int) {
	out := outcomeOf(err)
	out.Retries = max(out.Retries, retries)
	w.op.End(context.WithoutCancel(w.inner), out)
}

// Observe begins an operation that is sent as several requests: those that are made with the context that it gives, and
// have the operation's name, are its attempts and no operations of their own. end is called once, with what the
// operation has come to.
func (c *Client) Observe(ctx context.Context, svc httpsvc.Service, operation, bucket string) (of context.Context,
	end func(error),
) {
	if c.o.Instruments == nil {
		return ctx, func(error) {}
	}
	w := c.start(ctx, svc, operation, bucket)
	return context.WithValue(ctx, wholeKey{}, w), w.end
}

// attempted opens the span of one attempt.
func (k *call) attempted() observe.DispatchSpan {
	if k.span == nil {
		return observe.DispatchSpan{}
	}
	host, port, _ := net.SplitHostPort(k.endpoint)
	n, _ := strconv.Atoi(port)
	return k.span.Dispatch(k.inner, observe.Dispatch{Server: host, ServerPort: n, Peer: host, PeerPort: n})
}

// attemptOf says how an attempt was answered. Its failure is named by the status, as the conventions for HTTP do.
func attemptOf(id string, status int) observe.Attempt {
	if status >= 200 && status <= 299 {
		return observe.Attempt{ContextID: id}
	}
	text := strconv.Itoa(status)
	return observe.Attempt{ContextID: id, Status: text, ErrorName: text}
}

// lostAttempt is one without an answer.
func lostAttempt(id string) observe.Attempt {
	return observe.Attempt{ContextID: id, ErrorName: observe.ErrorName(cberr.RequestCanceled.Name())}
}

// retried notes that another attempt begins.
func (k *call) retried() {
	if k.span == nil || k.part { // of several at the same time
		return
	}
	info := k.state.Info()
	if n := len(info.Log); n > 0 {
		k.span.Retry(info.Reason.String(), info.Retries(), info.Log[n-1].Delay)
	}
}

// outcomeOf says how a request ended in the words of spans and metrics.
func outcomeOf(err error) observe.Outcome {
	if err == nil {
		return observe.Outcome{}
	}
	out := observe.Outcome{ErrorName: observe.ErrorName(cberr.Couchbase.Name())}
	if kind := cberr.KindOf(err); kind != nil {
		out.ErrorName = observe.ErrorName(kind.Name())
		out.Answer = !errors.Is(err, cberr.Timeout) && !errors.Is(err, cberr.RequestCanceled) &&
			!errors.Is(err, cberr.InternalServerFailure)
	}
	var e *httpsvc.Error
	if errors.As(err, &e) {
		out.Retries = e.Retry.Retries()
	}
	return out
}
