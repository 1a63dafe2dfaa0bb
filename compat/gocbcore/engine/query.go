//go:build ignore

package gocbcore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/query"
)

// n1qlQueryComponent runs statements of the query service.
type n1qlQueryComponent struct{ services }

// N1QLRowReader gives the rows of a statement.
type N1QLRowReader struct {
	*rows
	answer   *query.Rows
	endpoint string
}

// Err is why there are no more rows.
func (q N1QLRowReader) Err() error { return q.failed() }

// PreparedName is the name of the statement's plan: before the rows, unless the service says it behind them alone.
func (q N1QLRowReader) PreparedName() (string, error) {
	if q.answer != nil {
		if name := q.answer.Prepared(); name != "" {
			return name, nil
		}
		if meta, err := q.answer.Meta(); err == nil && meta.Prepared != "" {
			return meta.Prepared, nil
		}
	}
	return "", &N1QLError{InnerError: errors.New("prepared name not found in metadata")}
}

// Endpoint is the node that answers.
func (q *N1QLRowReader) Endpoint() string { return q.endpoint }

// N1QLQuery runs a statement.
func (n *n1qlQueryComponent) N1QLQuery(o N1QLQueryOptions, cb N1QLQueryCallback) (PendingOp, error) {
	return n.run("N1QLQuery", false, o, cb)
}

// PreparedN1QLQuery runs a statement whose plan is kept.
func (n *n1qlQueryComponent) PreparedN1QLQuery(o N1QLQueryOptions, cb N1QLQueryCallback) (PendingOp, error) {
	return n.run("PreparedN1QLQuery", true, o, cb)
}

func (n *n1qlQueryComponent) run(name string, prepare bool, o N1QLQueryOptions, cb N1QLQueryCallback) (PendingOp,
	error,
) {
	p, err := payloadOf(o.Payload)
	if err != nil {
		return nil, &N1QLError{InnerError: err}
	}
	r := &query.Request{
		Statement: p.take("statement"), ClientContextID: p.take("client_context_id"), Readonly: p.flag("readonly"),
		Prepared: p.take("prepared"), Prepare: prepare, Retry: n.client.strategy.of(o.RetryStrategy),
		OnBehalfOf: o.User, Endpoint: addressOf(o.Endpoint),
	}
	if !o.Deadline.IsZero() {
		delete(p, "timeout")
	}
	if r.Prepared != "" {
		r.Prepare = false
	}
	r.Bucket, r.Scope = p.scope()
	r.Raw = p.remaining()
	c := n.begin(metricValueServiceQueryValue, name, o.TraceContext, o.Deadline)
	ctx, cancel := c.context(o.Deadline)
	go func() {
		answer, err := n.client.cluster.Query(ctx, r)
		if err != nil {
			made, endpoint, retries := c.queryError(ctx, err, r)
			c.ended(r.ClientContextID, endpoint, retries)
			cancel()
			var e *N1QLError
			if errors.As(made, &e) && e.HTTPResponseCode == http.StatusOK && !errors.Is(made, ErrTimeout) {
				cb(&N1QLRowReader{rows: endsWith(made, endpoint), endpoint: n.client.scheme() + endpoint}, nil)
				return
			}
			cb(nil, made)
			return
		}
		c.ended(r.ClientContextID, answer.Endpoint(), answer.RetryInfo().Retries())
		cb(&N1QLRowReader{
			answer: answer, endpoint: n.client.scheme() + answer.Endpoint(),
			rows: &rows{
				source: answer, end: cancel,
				meta: func() ([]byte, error) {
					meta, err := answer.Meta()
					return meta.Raw, err
				},
				wrap: func(err error) error {
					made, _, _ := c.queryError(ctx, err, r)
					return made
				},
			},
		}, nil)
	}()
	return canceler(cancel), nil
}

func (c *serviceCall) queryError(ctx context.Context, err error, r *query.Request) (made error, endpoint string,
	retries int,
) {
	if e := c.s.canceled(ctx, err); e != nil {
		return e, "", 0
	}
	out := &N1QLError{Statement: r.Statement, ClientContextID: r.ClientContextID}
	var e *query.Error
	if !errors.As(err, &e) {
		out.InnerError = kindError(err)
		return out, "", 0
	}
	out.InnerError = c.inner(failure{e.Kind, e.Endpoint, e.Retry, err, e.Cause}, "query error")
	out.Endpoint, out.HTTPResponseCode, out.ErrorText = c.s.client.scheme()+e.Endpoint, e.Status, e.Text
	out.RetryReasons, out.RetryAttempts = reasonsOf(e.Retry.InOrder()), uint32(e.Retry.Retries())
	var list []json.RawMessage
	for _, said := range e.Errors {
		d := N1QLErrorDesc{Code: uint32(said.Code), Message: said.Message, Retry: said.Retry}
		var more struct {
			Reason map[string]any `json:"reason"`
		}
		if json.Unmarshal(said.Raw, &more) == nil {
			d.Reason = more.Reason
		}
		out.Errors = append(out.Errors, d)
		list = append(list, said.Raw)
	}
	if _, named := kinds[e.Kind]; !named && len(list) > 0 {
		if text, err := json.Marshal(list); err == nil {
			out.ErrorText = string(text)
		}
	}
	return out, e.Endpoint, e.Retry.Retries()
}

// analyticsQueryComponent runs statements of the analytics service.
type analyticsQueryComponent struct{ services }

// AnalyticsRowReader gives the rows of a statement.
type AnalyticsRowReader struct{ *rows }

// Err is why there are no more rows.
func (q AnalyticsRowReader) Err() error { return q.failed() }

// AnalyticsQuery runs a statement.
func (n *analyticsQueryComponent) AnalyticsQuery(o AnalyticsQueryOptions, cb AnalyticsQueryCallback) (PendingOp,
	error,
) {
	p, err := payloadOf(o.Payload)
	if err != nil {
		return nil, &AnalyticsError{InnerError: err}
	}
	r := &analytics.Request{
		Statement: p.take("statement"), ClientContextID: p.take("client_context_id"), Readonly: p.flag("readonly"),
		Priority: o.Priority != 0, Retry: n.client.strategy.of(o.RetryStrategy), OnBehalfOf: o.User,
	}
	if !o.Deadline.IsZero() {
		delete(p, "timeout")
	}
	r.Raw = p.remaining()
	c := n.begin(metricValueServiceAnalyticsValue, "AnalyticsQuery", o.TraceContext, o.Deadline)
	ctx, cancel := c.context(o.Deadline)
	go func() {
		answer, err := n.client.cluster.Analytics(ctx, r)
		if err != nil {
			made, endpoint, retries := c.analyticsError(ctx, err, r)
			c.ended(r.ClientContextID, endpoint, retries)
			cancel()
			var e *AnalyticsError
			if errors.As(made, &e) && e.HTTPResponseCode == http.StatusOK && !errors.Is(made, ErrTimeout) {
				cb(&AnalyticsRowReader{endsWith(made, endpoint)}, nil)
				return
			}
			cb(nil, made)
			return
		}
		c.ended(r.ClientContextID, answer.Endpoint(), answer.RetryInfo().Retries())
		cb(&AnalyticsRowReader{&rows{
			source: answer, end: cancel,
			meta: func() ([]byte, error) {
				meta, err := answer.Meta()
				return meta.Raw, err
			},
			wrap: func(err error) error {
				made, _, _ := c.analyticsError(ctx, err, r)
				return made
			},
		}}, nil)
	}()
	return canceler(cancel), nil
}

func (c *serviceCall) analyticsError(ctx context.Context, err error, r *analytics.Request) (made error, endpoint string,
	retries int,
) {
	if e := c.s.canceled(ctx, err); e != nil {
		return e, "", 0
	}
	out := &AnalyticsError{Statement: r.Statement, ClientContextID: r.ClientContextID}
	var e *analytics.Error
	if !errors.As(err, &e) {
		out.InnerError = kindError(err)
		return out, "", 0
	}
	out.InnerError = c.inner(failure{e.Kind, e.Endpoint, e.Retry, err, e.Cause}, "analytics error")
	out.Endpoint, out.HTTPResponseCode, out.ErrorText = c.s.client.scheme()+e.Endpoint, e.Status, e.Text
	out.RetryReasons, out.RetryAttempts = reasonsOf(e.Retry.InOrder()), uint32(e.Retry.Retries())
	for _, said := range e.Errors {
		out.Errors = append(out.Errors, AnalyticsErrorDesc{Code: uint32(said.Code), Message: said.Message})
	}
	return out, e.Endpoint, e.Retry.Retries()
}
