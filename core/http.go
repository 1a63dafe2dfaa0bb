package core

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"time"

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
)

// HTTPRequest is a raw request to a service of the cluster.
type HTTPRequest struct {
	Service     Service
	Method      string // GET and HEAD are idempotent by themselves
	Path        string // escaped, with a leading slash, and the query if there is one
	Header      map[string]string
	ContentType string
	Body        []byte // lent until Do returns
	Idempotent  bool   // sending it twice does no harm
	Endpoint    string // "host:port" of the node that must answer; "" is any
	OnBehalfOf  string
	Timeout     time.Duration  // headers and body together; 0 means ctx's, or else the service's own
	Retry       retry.Strategy // nil inherits the cluster's
	Hedge       *Hedge         // of a request that is idempotent; nil inherits what a policy says
}

// HTTPResponse is an answer whose headers are there. The caller reads Body and must close it.
type HTTPResponse struct {
	Status   int
	Header   map[string][]string
	Body     io.ReadCloser
	Endpoint string     // the node that answered
	Retry    retry.Info // how the request was retried before that
}

// Do sends a raw request to any service and gives the answer whatever its status. It blocks until the headers are
// there, at most until the deadline. 429, 503 and 504 are retried as the strategy says, as far as that is safe.
func (c *Cluster) Do(ctx context.Context, r *HTTPRequest) (*HTTPResponse, error) {
	if len(r.Path) == 0 || r.Path[0] != '/' {
		return nil, &ConfigError{"Path", fmt.Sprintf("%q does not begin with a slash", r.Path)}
	}
	req := &httpsvc.Request{
		Service: r.Service, Method: r.Method, Path: r.Path, Header: r.Header, ContentType: r.ContentType,
		Idempotent: r.Idempotent, Strategy: r.Retry, UniqueID: httpsvc.NewUniqueID(), Timeout: r.Timeout, Endpoint: r.Endpoint,
		OnBehalfOf: r.OnBehalfOf,
	}
	if r.Body != nil {
		req.Body = func(time.Duration) ([]byte, error) { return r.Body, nil }
	}
	resp, err := hedgeHTTP(ctx, c, hedgedRequest{
		service: r.Service, operation: r.Method, idempotent: reads(r.Method, r.Idempotent), onlyOne: r.Endpoint != "",
		own: r.Hedge, strategy: r.Retry,
	}, func(ctx context.Context, d httpsvc.Doer) (*httpsvc.Response, error) { return d.Do(ctx, req) },
		func(r *httpsvc.Response) { _ = r.Body.Close() })
	if err != nil {
		return nil, err
	}
	return &HTTPResponse{resp.Status, resp.Header, resp.Body, resp.Endpoint, resp.Retry}, nil
}

// doer sends requests to the services. Somebody has to get the cluster's map: if no bucket does, a connection without
// a bucket is made for it.
func (c *Cluster) doer() httpsvc.Doer {
	c.mu.Lock()
	none := len(c.buckets) == 0
	c.mu.Unlock()
	if none {
		c.Bucket("")
	}
	return c.http
}

func (c *Cluster) newHTTP() *httpx.Client {
	var t *tls.Config
	if c.cfg.UseTLS {
		t = c.cfg.TLS.Clone()
	}
	agent := "couchcore"
	if c.cfg.Agent != "" {
		agent += " " + c.cfg.Agent
	}
	instruments := c.instr
	if c.cfg.TracerProvider == nil && c.cfg.MeterProvider == nil {
		instruments = nil
	}
	return httpx.New(httpx.Options{
		Dial: c.cfg.Dial, TLS: t, Credentials: c.httpCredentials, Endpoints: c.endpoints, Orchestrator: c.orch,
		Health: &c.health, Dice: c.cfg.Dice, Agent: agent, ConnectTimeout: c.cfg.ConnectTimeout,
		Policy: c.httpPolicy, Timeout: c.cfg.httpTimeout, IdleTimeout: c.cfg.HTTPIdleTimeout,
		MaxConns: c.cfg.MaxHTTPConnections, MaxIdle: c.cfg.MaxIdleHTTPConnections,
		Instruments: instruments,
	})
}

const httpTimeout = 75 * time.Second

// httpTimeout is a service's default.
func (c *Config) httpTimeout(svc httpsvc.Service) time.Duration {
	switch svc { //nolint:exhaustive // the others have the manager's
	case Query:
		return c.QueryTimeout
	case Search:
		return c.SearchTimeout
	case Analytics:
		return c.AnalyticsTimeout
	case Views:
		return c.ViewTimeout
	}
	return c.ManagementTimeout
}

func (c *Cluster) httpCredentials(ctx context.Context) (httpx.Credentials, error) {
	cr, err := c.credentials(ctx)
	return httpx.Credentials{Username: cr.Username, Password: cr.Password, Token: cr.Token}, err
}

// newestMap is the newest map that any bucket has, or that of the named one, with the name of the network that it is
// reached on; nil while there is none.
func (c *Cluster) newestMap(bucket string) (newest *topology.Snapshot, network string) {
	var from *Bucket
	for _, b := range c.all() {
		if s := b.router.Snapshot(); s != nil && (bucket == "" || b.name == bucket) && s.Newer(newest) {
			newest, from = s, b
		}
	}
	if newest == nil {
		return nil, ""
	}
	return newest, from.router.Network()
}

// endpoints are the addresses of a service by the newest map. With a bucket they are those of the nodes that hold active
// data of it, by its own map.
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
	for _, e := range s.Endpoints(svc, network, c.cfg.UseTLS) {
		if active == nil || active[e.Node] {
			addrs = append(addrs, e.Addr)
		}
	}
	return addrs, true
}
