//go:build ignore

package gocbcore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// services is what the components of the HTTP services have in common.
type services struct {
	client *client
	mux    *kvMux
	tracer *tracerComponent
}

// serviceCall is one request to a service under way.
type serviceCall struct {
	s         services
	name      string
	began     time.Time
	telemetry *opTelemetryHandler
	spans     *spans
}

// begin begins spans and durations. A request whose time is over is not sent: it has no span of that.
func (s services) begin(service, name string, parent RequestSpanContext, deadline time.Time) *serviceCall {
	c := &serviceCall{s: s, name: name, began: time.Now()}
	c.telemetry = s.tracer.StartTelemeteryHandler(service, name, parent)
	if root := c.telemetry.RootContext(); root != nil && !silent(root) &&
		(deadline.IsZero() || time.Until(deadline) > 0) {
		c.spans = newSpans(s.tracer, root, "")
	}
	return c
}

// context is what the request is sent with, and what ends it.
func (c *serviceCall) context(deadline time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := contextDeadline(deadline).context()
	return c.spans.context(ctx), cancel
}

// ended ends the spans. id is the request's own id, endpoint the node that answered.
func (c *serviceCall) ended(id, endpoint string, retries int) {
	c.spans.stop(attempt{id: id, endpoint: endpoint, retries: retries}, false, true)
	c.telemetry.Finish()
}

// failure is what all services say of a request that failed.
type failure struct {
	kind     *cberr.Kind
	endpoint string
	retry    retry.Info
	err      error
	cause    error // what the last attempt met, nil where the answer says it all
}

// with is an error of gocbcore's with the cause, of which gocbcore says nothing.
func (f failure) with(err error) error {
	if f.cause == nil {
		return err
	}
	return wrapError(err, f.cause.Error())
}

// inner is the error that a service's error is about; fallback is for a failure that gocbcore has no name for.
func (c *serviceCall) inner(f failure, fallback string) error {
	switch {
	case f.kind == nil, f.kind == cberr.Couchbase:
		return errors.New(fallback)
	case f.kind.Is(cberr.Timeout):
		t := &TimeoutError{
			InnerError: errUnambiguousTimeout, OperationID: c.name, TimeObserved: time.Since(c.began),
			RetryReasons: reasonsOf(f.retry.InOrder()), RetryAttempts: uint32(f.retry.Retries()),
			LastDispatchedTo: f.endpoint,
		}
		if f.kind == cberr.AmbiguousTimeout {
			t.InnerError = errAmbiguousTimeout
		}
		t.InnerError = f.with(t.InnerError)
		return t
	case f.kind == cberr.FeatureNotAvailable:
		return wrapError(errFeatureNotAvailable, f.err.Error())
	}
	if e, ok := kinds[f.kind]; ok {
		return f.with(e)
	}
	return wrapError(errors.New(fallback), f.kind.Error())
}

// canceled says whether the program has canceled the request, or closed the client.
func (s services) canceled(ctx context.Context, err error) error {
	switch {
	case s.mux.closed.Load(), errors.Is(err, retry.ErrClosed):
		return errShutdown
	case errors.Is(ctx.Err(), context.Canceled):
		return errRequestCanceled
	}
	return nil
}

// payload is the JSON object of a request, as gocbcore is given it.
type payload map[string]json.RawMessage

func payloadOf(raw []byte) (payload, error) {
	p := payload{}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, wrapError(err, "expected a JSON payload")
	}
	return p, nil
}

// take removes a text and gives it.
func (p payload) take(name string) (text string) {
	if raw, ok := p[name]; ok && json.Unmarshal(raw, &text) == nil {
		delete(p, name)
	}
	return text
}

// flag removes a truth value and gives it.
func (p payload) flag(name string) (yes bool) {
	if raw, ok := p[name]; ok && json.Unmarshal(raw, &yes) == nil {
		delete(p, name)
	}
	return yes
}

// remaining is what is left, for a request's Raw.
func (p payload) remaining() map[string]any {
	m := make(map[string]any, len(p))
	for name, raw := range p {
		m[name] = raw
	}
	return m
}

var contextNames = regexp.MustCompile("^default:`?([^`.]+)`?\\.`?([^`.]+)`?$")

// scope removes the query context, where it names a bucket and a scope, and gives them.
func (p payload) scope() (bucket, scope string) {
	var text string
	if json.Unmarshal(p["query_context"], &text) != nil {
		return "", ""
	}
	if m := contextNames.FindStringSubmatch(text); m != nil {
		delete(p, "query_context")
		return m[1], m[2]
	}
	return "", ""
}

// source is an answer of rows of couchcore's.
type source interface {
	Next() bool
	Row() []byte
	Err() error
	Close() error
	Endpoint() string
}

// noRows is an answer that has failed before its first row. What a server has answered with success so far is given to
// the program as rows that end with an error.
type noRows struct {
	err      error
	endpoint string
}

func (n noRows) Next() bool       { return false }
func (n noRows) Row() []byte      { return nil }
func (n noRows) Err() error       { return n.err }
func (n noRows) Close() error     { return nil }
func (n noRows) Endpoint() string { return n.endpoint }

// endsWith is an answer without rows that ends with err, which is the program's already.
func endsWith(err error, endpoint string) *rows {
	return &rows{
		source: noRows{err, endpoint}, end: func() {}, wrap: func(error) error { return err },
		meta: func() ([]byte, error) { return nil, err },
	}
}

// rows are an answer's rows as gocbcore has them.
type rows struct {
	source
	meta  func() ([]byte, error)
	wrap  func(error) error
	end   context.CancelFunc
	ended bool
}

// NextRow is the next row, nil at the end. It is the caller's.
func (r *rows) NextRow() []byte {
	if r.source.Next() {
		return bytes.Clone(r.Row())
	}
	r.finish()
	return nil
}

func (r *rows) finish() {
	r.ended = true
	r.end()
}

// failed is why there are no more rows.
func (r *rows) failed() error {
	if err := r.source.Err(); err != nil {
		return r.wrap(err)
	}
	return nil
}

// MetaData is the answer without its rows, once they are read.
func (r *rows) MetaData() ([]byte, error) {
	if !r.ended {
		return nil, errors.New("the rows have not been read to their end")
	}
	raw, err := r.meta()
	if raw == nil && err != nil {
		return nil, errors.New("the answer has ended before its metadata")
	}
	return raw, nil
}

// Close ends the reading.
func (r *rows) Close() error {
	err := r.source.Close()
	r.finish()
	return err
}

// addressOf is an address without its scheme.
func addressOf(endpoint string) string {
	if _, addr, ok := strings.Cut(endpoint, "://"); ok {
		return addr
	}
	return endpoint
}
