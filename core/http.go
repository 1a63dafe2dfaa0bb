package core

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/retry"
)

// Service is one of a cluster's HTTP services.
type Service = httpsvc.Service

// The services that HTTPRequest may name.
const (
	Management = httpsvc.Management
	Query      = httpsvc.Query
	Search     = httpsvc.Search
	Views      = httpsvc.Views
	Analytics  = httpsvc.Analytics
	Eventing   = httpsvc.Eventing
	Backup     = httpsvc.Backup
	Index      = httpsvc.Index
)

// HTTPRequest is a raw request to a service of the cluster.
type HTTPRequest struct {
	Service Service
	Method  string // GET and HEAD are idempotent by themselves
	// Path is escaped, begins with a slash, and has the query string if there is one. Each "{}" in it stands for one of
	// Args, which are escaped.
	Path        string
	Args        []string
	Query       url.Values // added to what Path has
	Header      map[string]string
	ContentType string
	Body        []byte // lent until Do returns
	// Stream is a body that is read while it is sent, instead of Body; Do closes it. Again makes the same bytes once
	// more: without it the request is sent once. Length is its size, 0 or less when that is unknown.
	Stream     io.ReadCloser
	Again      func() (io.ReadCloser, error)
	Length     int64
	Idempotent bool   // sending it twice does no harm
	Endpoint   string // "host:port" of the node that must answer; "" is any
	// OnBehalfOf is the user to act for; empty: the credentials' own. OnBehalfOfDomain is where that user is: "local",
	// which an empty one means, or "external", a directory such as LDAP.
	OnBehalfOf, OnBehalfOfDomain string

	Timeout time.Duration  // headers and body together; 0 means ctx's, or else the service's own
	Retry   retry.Strategy // nil inherits the cluster's
	Hedge   *Hedge         // of a request that is idempotent, and excludes Retry; nil inherits what a policy says
}

// HTTPResponse is an answer whose headers are there. The caller reads Body and must close it.
type HTTPResponse struct {
	Status   int
	Header   map[string][]string
	Body     io.ReadCloser
	Endpoint string     // the node that answered
	Retry    retry.Info // how the request was retried before that
}

// RequestError is a request to a service that failed: the error of Cluster.Do and of the methods for management. Its
// fields:
//
//	Service, Operation string
//	Method, Path       string // without the query string, which may hold keys
//	Endpoint           string // of the last attempt
//	InDoubt            bool   // the service may have executed it
//	Retry              retry.Info
//	Kind               *cberr.Kind
//	Cause              error
//	Response           *ResponseError // the answer, nil without one
type RequestError = httpsvc.Error

// ResponseError is the answer that a failed request got. Every error of a request to a service that was answered has
// one in its tree, those of packages query, search, analytics and views, too. Its fields:
//
//	Status    int
//	Header    map[string][]string
//	Body      []byte // as far as it was kept: at most 64 KiB
//	Truncated bool   // the answer had more
//	Endpoint  string // of the node that answered
type ResponseError = httpsvc.ResponseError

// Do sends a raw request to any service and gives the answer whatever its status, but for 429, 503 and 504: those are
// retried as the strategy says, as far as that is safe, and then the last of them is a *ResponseError in the tree of
// the error, as it is when the request could not be retried. Do blocks until the headers are there, at most until the
// deadline.
func (c *Cluster) Do(ctx context.Context, r *HTTPRequest) (*HTTPResponse, error) {
	req, refused := r.http()
	if refused != nil && r.Stream != nil {
		_ = r.Stream.Close()
	}
	resp, err := hedgeHTTP(ctx, c, hedgedRequest{
		service: r.Service, operation: r.Method, idempotent: httpsvc.Reads(r.Method, r.Idempotent),
		onlyOne: r.Endpoint != "" || r.Stream != nil, own: r.Hedge, strategy: r.Retry,
	}, func(ctx context.Context, d httpsvc.Doer) (*httpsvc.Response, error) {
		if refused != nil {
			return nil, refused
		}
		return d.Do(ctx, req)
	},
		func(r *httpsvc.Response) { _ = r.Body.Close() })
	if err != nil {
		return nil, err
	}
	return &HTTPResponse{resp.Status, resp.Header, resp.Body, resp.Endpoint, resp.Retry}, nil
}

// http is the request as it is sent, or an error that names the field that cannot be.
func (r *HTTPRequest) http() (*httpsvc.Request, error) {
	path, err := fill(r.Path, r.Args)
	if err != nil {
		return nil, err
	}
	req := &httpsvc.Request{
		Service: r.Service, Method: r.Method, Path: path, Query: r.Query, Header: r.Header, ContentType: r.ContentType,
		Idempotent: r.Idempotent, Strategy: r.Retry, UniqueID: httpsvc.NewUniqueID(), Timeout: r.Timeout,
		Endpoint: r.Endpoint, OnBehalfOf: r.OnBehalfOf, OnBehalfOfDomain: r.OnBehalfOfDomain,
	}
	if err := r.Hedge.Check(httpsvc.Reads(r.Method, r.Idempotent), r.Endpoint); err != nil {
		return nil, err
	}
	switch {
	case r.Stream != nil && r.Body != nil:
		return nil, fmt.Errorf("%w: Stream is set beside Body", cberr.InvalidArgument)
	case r.Stream != nil:
		req.Stream = &httpsvc.Stream{Body: r.Stream, Again: r.Again, Length: r.Length}
		if r.Length <= 0 {
			req.Stream.Length = -1
		}
	case r.Body != nil:
		req.Body = func(time.Duration) ([]byte, error) { return r.Body, nil }
	}
	return req, nil
}

// fill puts the arguments into a path, each as one segment.
func fill(path string, args []string) (string, error) {
	if path == "" || path[0] != '/' {
		return "", fmt.Errorf("%w: Path %q does not begin with a slash", cberr.InvalidArgument, path)
	}
	if len(args) == 0 {
		return path, nil
	}
	parts := strings.Split(path, "{}")
	if len(parts)-1 != len(args) {
		return "", fmt.Errorf("%w: Args are %d, and %q has room for %d", cberr.InvalidArgument, len(args), path,
			len(parts)-1)
	}
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i < len(args) {
			b.WriteString(httpsvc.Path(args[i])[1:])
		}
	}
	return b.String(), nil
}

// enter counts an operation of a service until leave, or gives it a context that has ended when the client shuts down.
// An answer that is read after that is counted by the request itself.
func (c *Cluster) enter(ctx context.Context) (_ context.Context, leave func()) {
	if p := c.door.Place(); p.Enter() {
		return ctx, p.Leave
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(retry.ErrClosed)
	return ctx, func() {}
}

// doer sends requests to the services.
func (c *Cluster) doer() httpsvc.Doer {
	c.seeToMap()
	if c.cfg.HTTP.AllowEnterpriseAnalytics {
		return c.http
	}
	return analyticsGuard{c}
}

// enterpriseAnalytics is how the map of an Enterprise Analytics cluster names its product.
const enterpriseAnalytics = "analytics"

// analyticsGuard keeps requests from the analytics service of an Enterprise Analytics cluster.
type analyticsGuard struct{ c *Cluster }

var errEnterpriseAnalytics = fmt.Errorf("%w: this is an Enterprise Analytics cluster, whose language differs: "+
	"HTTP.AllowEnterpriseAnalytics lets requests through", cberr.FeatureNotAvailable)

// Do implements httpsvc.Doer. What kind of cluster it is, its map tells.
func (g analyticsGuard) Do(ctx context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	if r.Service != Analytics {
		return g.c.http.Do(ctx, r)
	}
	guarded := *r
	guarded.Before = func(ctx context.Context) error {
		s, _ := g.c.newestMap("")
		if s == nil {
			g.c.awaitMap(ctx, "")
			s, _ = g.c.newestMap("")
		}
		if s != nil && s.Product == enterpriseAnalytics {
			return errEnterpriseAnalytics
		}
		if r.Before != nil {
			return r.Before(ctx)
		}
		return nil
	}
	return g.c.http.Do(ctx, &guarded)
}

func (c *Cluster) newHTTP() *httpx.Client {
	o := httpx.Options{
		Dial: c.cfg.Net.Dial, LeaveKeepAlive: c.cfg.ownDial, TLS: c.tls.Load().Clone(), Credentials: c.logins.request,
		Shows:     c.shows,
		Endpoints: c.endpoints, AwaitMap: c.awaitMap, WhyNoMap: c.whyNoMap, Agent: c.agent(),
		Instruments: c.instr, Telemetry: c.telemetry.meter, Server: c.canonical, Door: c.door,
		Orchestrator: c.orch, Health: &c.health, JitterSource: c.cfg.Retry.JitterSource, Policy: c.httpPolicy,
		Well: c.httpWell, Timeout: c.cfg.httpTimeout, ConnectTimeout: c.cfg.HTTP.ConnectTimeout,
		IdleTimeout: c.cfg.HTTP.IdleTimeout, MaxConns: c.cfg.HTTP.MaxConnections, MaxIdle: c.cfg.HTTP.MaxIdle,
		MaxIdleTotal: c.cfg.HTTP.MaxIdleTotal, RowLimit: c.cfg.Limits.Row, RowDepth: c.cfg.Limits.RowDepth,
	}
	if c.reports.slow != nil {
		o.Slow, o.SlowAfter = c.reports.slow.Add, c.cfg.Observe.Thresholds.of
	}
	return httpx.New(o)
}

// canonical is the address of a service of a node by the node's name in the cluster map.
func (c *Cluster) canonical(svc Service, addr string) string {
	in, known := httpx.InMap(svc)
	s, network := c.newestMap("")
	if !known || s == nil {
		return addr
	}
	encrypted := c.encrypted()
	for i := range s.Nodes {
		if a, ok := s.Nodes[i].Addr(in, network, encrypted); ok && a == addr {
			if own, ok := s.Nodes[i].Addr(in, "", encrypted); ok {
				return own
			}
		}
	}
	return addr
}

// showsNothing reports whether a request that the client makes by itself over HTTP shows no password that the key-value
// service is not shown, or whether the user has asked for HTTP. Otherwise an attacker who closes the port of the data
// service, or names a page in a cluster map, would have the password sent in the clear.
func (c *Cluster) showsNothing() bool {
	cfg := &c.cfg
	return cfg.preferHTTP || c.encrypted() || cfg.Auth.AllowPlain || cfg.Auth.Username == "" &&
		cfg.Auth.Credentials == nil
}

// shows says why a node must not be sent the password, nil where it may, or where there is no password. Encrypted says
// how the request goes that would have it, whatever the settings are by now.
func (c *Cluster) shows(addr string, encrypted bool) error {
	auth, t := &c.cfg.Auth, c.tls.Load()
	verified := encrypted && t != nil && !t.InsecureSkipVerify
	if verified || auth.AllowPlain || auth.Username == "" && auth.Credentials == nil {
		return nil
	}
	return c.filter.shows(addr)
}

const httpTimeout = 75 * time.Second

// httpTimeout is a service's default.
func (c *Config) httpTimeout(svc httpsvc.Service) time.Duration {
	switch svc { //nolint:exhaustive // the others have the manager's
	case Query:
		return c.HTTP.QueryTimeout
	case Search:
		return c.HTTP.SearchTimeout
	case Analytics:
		return c.HTTP.AnalyticsTimeout
	case Views:
		return c.HTTP.ViewTimeout
	}
	return c.HTTP.ManagementTimeout
}

// endpoints are the addresses of a service by the newest map. With a bucket they are those of the nodes that hold
// active data of it, by its own map.
func (c *Cluster) endpoints(svc topology.Service, bucket string) (addrs []string, known bool) {
	s, network := c.newestMap(bucket)
	if s == nil {
		return nil, false
	}
	var active map[int]bool
	if bucket != "" {
		active = map[int]bool{}
		for vb := range s.NumVBuckets() {
			active[s.NodeIndex(uint16(vb), 0)] = true
		}
	}
	for _, e := range s.Endpoints(svc, network, c.encrypted()) {
		if active == nil || active[e.Node] {
			addrs = append(addrs, e.Addr)
		}
	}
	return addrs, true
}
