//go:build ignore

package gocbcore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// searchQueryComponent runs searches.
type searchQueryComponent struct{ services }

// SearchRowReader gives the hits of a search.
type SearchRowReader struct{ *rows }

// Err is why there are no more hits.
func (q SearchRowReader) Err() error { return q.failed() }

// SearchQuery runs a search.
func (n *searchQueryComponent) SearchQuery(o SearchQueryOptions, cb SearchQueryCallback) (PendingOp, error) {
	p, err := payloadOf(o.Payload)
	if err != nil {
		return nil, &SearchError{InnerError: err}
	}
	if has, known := n.client.cluster.Capability("search", "vectorSearch"); p["knn"] != nil && known && !has {
		return nil, &SearchError{InnerError: wrapError(errFeatureNotAvailable,
			"vector search is not supported by this cluster version")}
	}
	var said any
	_ = json.Unmarshal(p["query"], &said)
	r := &search.Request{
		Index: o.IndexName, Query: json.RawMessage(`{"match_none":{}}`), Raw: p.remaining(),
		Retry: n.client.strategy.of(o.RetryStrategy), OnBehalfOf: o.User,
	}
	if o.BucketName != "" && o.ScopeName != "" {
		r.Bucket, r.Scope = o.BucketName, o.ScopeName
	}
	c := n.begin(metricValueServiceSearchValue, "SearchQuery", o.TraceContext, o.Deadline)
	ctx, cancel := c.context(o.Deadline)
	go func() {
		answer, err := n.client.cluster.Search(ctx, r)
		if err != nil {
			made, endpoint, retries := c.searchError(ctx, err, o.IndexName, said)
			c.ended("", endpoint, retries)
			cancel()
			cb(nil, made)
			return
		}
		c.ended("", answer.Endpoint(), answer.RetryInfo().Retries())
		cb(&SearchRowReader{&rows{
			source: answer, end: cancel,
			meta: func() ([]byte, error) {
				meta, err := answer.Meta()
				return meta.Raw, err
			},
			wrap: func(err error) error {
				made, _, _ := c.searchError(ctx, err, o.IndexName, said)
				return made
			},
		}}, nil)
	}()
	return canceler(cancel), nil
}

func (c *serviceCall) searchError(ctx context.Context, err error, index string, said any) (made error, endpoint string,
	retries int,
) {
	if e := c.s.canceled(ctx, err); e != nil {
		return e, "", 0
	}
	out := &SearchError{IndexName: index, Query: said}
	var e *search.Error
	if !errors.As(err, &e) {
		out.InnerError = kindError(err)
		return out, "", 0
	}
	out.InnerError = c.inner(failure{e.Kind, e.Endpoint, e.Retry, err, e.Cause}, "search error")
	out.Endpoint, out.HTTPResponseCode, out.ErrorText = c.s.client.scheme()+e.Endpoint, e.Status, e.Text
	out.RetryReasons, out.RetryAttempts = reasonsOf(e.Retry.InOrder()), uint32(e.Retry.Retries())
	return out, e.Endpoint, e.Retry.Retries()
}

// viewQueryComponent queries the views of one bucket.
type viewQueryComponent struct {
	services
	bucket *core.Bucket
}

// ViewQueryRowReader gives the rows of a view.
type ViewQueryRowReader struct{ *rows }

// Err is why there are no more rows.
func (q ViewQueryRowReader) Err() error { return q.failed() }

// ViewQuery queries a view.
func (n *viewQueryComponent) ViewQuery(o ViewQueryOptions, cb ViewQueryCallback) (PendingOp, error) {
	if o.ViewType != "" && o.ViewType != "_view" {
		return nil, wrapError(errUnsupportedOperation, "only views that are called _view are supported")
	}
	r := &views.Request{
		Design: o.DesignDocumentName, View: o.ViewName, Raw: map[string]string{},
		Retry: n.client.strategy.of(o.RetryStrategy), OnBehalfOf: o.User,
	}
	for name := range o.Options {
		r.Raw[name] = o.Options.Get(name)
	}
	c := n.begin(metricValueServiceViewsValue, "ViewQuery", o.TraceContext, o.Deadline)
	ctx, cancel := c.context(o.Deadline)
	go func() {
		answer, err := n.bucket.View(ctx, r)
		if err != nil {
			made, endpoint, retries := c.viewError(ctx, err, r)
			c.ended("", endpoint, retries)
			cancel()
			cb(nil, made)
			return
		}
		c.ended("", answer.Endpoint(), answer.RetryInfo().Retries())
		cb(&ViewQueryRowReader{&rows{
			source: answer, end: cancel,
			meta: func() ([]byte, error) {
				meta, err := answer.Meta()
				return meta.Raw, err
			},
			wrap: func(err error) error {
				made, _, _ := c.viewError(ctx, err, r)
				return made
			},
		}}, nil)
	}()
	return canceler(cancel), nil
}

func (c *serviceCall) viewError(ctx context.Context, err error, r *views.Request) (made error, endpoint string,
	retries int,
) {
	if e := c.s.canceled(ctx, err); e != nil {
		return e, "", 0
	}
	out := &ViewError{DesignDocumentName: r.Design, ViewName: r.View}
	var e *views.Error
	if !errors.As(err, &e) {
		out.InnerError = kindError(err)
		return out, "", 0
	}
	out.InnerError = c.inner(failure{e.Kind, e.Endpoint, e.Retry, err, e.Cause}, "view error")
	out.Endpoint, out.HTTPResponseCode, out.ErrorText = c.s.client.scheme()+e.Endpoint, e.Status, e.Text
	out.RetryReasons, out.RetryAttempts = reasonsOf(e.Retry.InOrder()), uint32(e.Retry.Retries())
	for _, said := range e.Errors {
		out.Errors = append(out.Errors, ViewQueryErrorDesc{SourceNode: said.From, Message: said.Reason})
	}
	return out, e.Endpoint, e.Retry.Retries()
}
