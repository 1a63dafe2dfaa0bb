//go:build ignore

package gocbcore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/retry"
)

// httpComponent sends raw requests to services.
type httpComponent struct {
	services
	bucket string
}

// httpServices are the services that a raw request may name.
var httpServices = map[ServiceType]core.Service{
	MgmtService: core.Management, CapiService: core.Views, N1qlService: core.Query, FtsService: core.Search,
	CbasService: core.Analytics, EventingService: core.Eventing, BackupService: core.Backup, GSIService: core.Index,
}

// DoHTTPRequest sends a request to a service.
func (n *httpComponent) DoHTTPRequest(req *HTTPRequest, cb DoHTTPRequestCallback) (PendingOp, error) {
	service, ok := httpServices[req.Service]
	if !ok {
		return nil, errInvalidService
	}
	r := &core.HTTPRequest{
		Service: service, Method: req.Method, Path: req.Path, Header: maps.Clone(req.Headers),
		ContentType: req.ContentType, Body: req.Body, Idempotent: req.IsIdempotent, Endpoint: addressOf(req.Endpoint),
		OnBehalfOf: req.User, Retry: n.client.strategy.of(req.RetryStrategy),
	}
	if r.Path != "" && r.Path[0] != '/' {
		r.Path = "/" + r.Path
	}
	r.Endpoint = n.below(r)
	if req.Username != "" || req.Password != "" {
		if r.Header == nil {
			r.Header = map[string]string{}
		}
		r.Header["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(req.Username+":"+req.Password))
	}
	c := n.begin(metricValueServiceHTTPValue, "http", req.TraceContext, req.Deadline)
	ctx, cancel := c.context(req.Deadline)
	go func() {
		resp, err := n.client.cluster.Do(ctx, r)
		if err != nil {
			n.failed(ctx, cancel, c, req, err, cb)
			return
		}
		c.ended(req.UniqueID, resp.Endpoint, resp.Retry.Retries())
		length := int64(-1)
		if h := http.Header(resp.Header).Get("Content-Length"); h != "" {
			if n, err := strconv.ParseInt(h, 10, 64); err == nil {
				length = n
			}
		}
		cb(&HTTPResponse{
			Endpoint: n.client.scheme() + resp.Endpoint, StatusCode: resp.Status, ContentLength: length,
			Body: tracked(&body{resp.Body, cancel}),
		}, nil)
	}()
	return canceler(cancel), nil
}

// below puts the bucket before the path of a request to the view service, as the addresses of that service have it, and
// gives the address alone.
func (n *httpComponent) below(r *core.HTTPRequest) (addr string) {
	addr, path, has := strings.Cut(r.Endpoint, "/")
	switch {
	case has:
		r.Path = "/" + strings.Trim(path, "/") + r.Path
	case r.Service == core.Views && n.bucket != "":
		r.Path = "/" + n.bucket + r.Path
	}
	return addr
}

// failed gives the error of a request, or the answer that couchcore counts as one.
func (n *httpComponent) failed(ctx context.Context, cancel context.CancelFunc, c *serviceCall, req *HTTPRequest,
	err error, cb DoHTTPRequestCallback,
) {
	defer cancel()
	var said *core.ResponseError
	if errors.As(err, &said) && !errors.Is(err, cberr.Timeout) && ctx.Err() == nil {
		c.ended(req.UniqueID, said.Endpoint, 0)
		cb(&HTTPResponse{
			Endpoint: n.client.scheme() + said.Endpoint, StatusCode: said.Status, ContentLength: int64(len(said.Body)),
			Body: io.NopCloser(bytes.NewReader(said.Body)),
		}, nil)
		return
	}
	info, _ := retry.InfoOf(err)
	endpoint := req.Endpoint
	var e *core.RequestError
	var cause error
	if errors.As(err, &e) {
		cause = e.Cause
		if e.Endpoint != "" {
			endpoint = n.client.scheme() + e.Endpoint
		}
	}
	c.ended(req.UniqueID, addressOf(endpoint), info.Retries())
	if ended := n.canceled(ctx, err); ended != nil {
		cb(nil, ended)
		return
	}
	inner := c.inner(failure{cberr.KindOf(err), addressOf(endpoint), info, err, cause}, err.Error())
	cb(nil, &HTTPError{
		InnerError: inner, UniqueID: req.UniqueID, Endpoint: endpoint, RetryReasons: reasonsOf(info.InOrder()),
		RetryAttempts: uint32(info.Retries()),
	})
}

// body ends its request's context when it is closed.
type body struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// tracked is a body whose leaking is noticed, where the program has asked for that.
func tracked(b io.ReadCloser) io.ReadCloser { return wrapHttpResponse(&http.Response{Body: b}).Body }
