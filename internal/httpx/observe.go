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

// begin opens the request's span and takes its time; end closes it, however the request ends.
func (k *call) begin(ctx context.Context) (end func(error)) {
	if k.c.o.Instruments == nil {
		return func(error) {}
	}
	name := strings.ToLower(strings.ReplaceAll(k.operation, "-", "_"))
	t := observe.Target{Service: k.r.Service.String(), Operation: name, Bucket: k.r.Bucket}
	inner, op := k.c.o.Instruments.StartOperation(ctx, t)
	k.span, k.inner = &op, inner
	return func(err error) { op.End(context.WithoutCancel(inner), outcomeOf(err)) }
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

// attemptOf says how an attempt was answered.
func attemptOf(id string, status int) observe.Attempt {
	if status >= 200 && status <= 299 {
		return observe.Attempt{ContextID: id}
	}
	return observe.Attempt{ContextID: id, Status: strconv.Itoa(status)}
}

// retried notes that another attempt begins.
func (k *call) retried() {
	if k.span == nil {
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
	out := observe.Outcome{ErrorName: camel(cberr.Couchbase.Name())}
	if kind := cberr.KindOf(err); kind != nil {
		out.ErrorName = camel(kind.Name())
		out.Answer = !errors.Is(err, cberr.Timeout) && !errors.Is(err, cberr.RequestCanceled) && !errors.Is(err, cberr.InternalServerFailure)
	}
	var e *httpsvc.Error
	if errors.As(err, &e) {
		out.Retries = e.Retry.Retries()
	}
	return out
}

// camel turns document_not_found into DocumentNotFound.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
