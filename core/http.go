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
	Timeout     time.Duration  // headers and body together; 0 means 75 s
	Retry       retry.Strategy // nil inherits the cluster's
}

// HTTPResponse is an answer whose headers are there. The caller reads Body and must close it.
type HTTPResponse struct {
	Status   int
	Header   map[string][]string
	Body     io.ReadCloser
	Endpoint string // the node that answered
}

const httpTimeout = 75 * time.Second

// Do sends a raw request to any service and gives the answer whatever its status. It blocks until the headers are
// there, at most until the deadline. 429, 503 and 504 are retried as the strategy says, as far as that is safe.
func (c *Cluster) Do(ctx context.Context, r *HTTPRequest) (*HTTPResponse, error) {
	if len(r.Path) == 0 || r.Path[0] != '/' {
		return nil, &ConfigError{"Path", fmt.Sprintf("%q does not begin with a slash", r.Path)}
	}
	req := &httpsvc.Request{
		Service: r.Service, Method: r.Method, Path: r.Path, Header: r.Header, ContentType: r.ContentType,
		Idempotent: r.Idempotent, UniqueID: httpsvc.NewUniqueID(), Timeout: r.Timeout, Endpoint: r.Endpoint,
		OnBehalfOf: r.OnBehalfOf,
	}
	if r.Body != nil {
		req.Body = func(time.Duration) ([]byte, error) { return r.Body, nil }
	}
	c.mu.Lock()
	none := len(c.buckets) == 0
	c.mu.Unlock()
	if none {
		c.Bucket("") // a connection without a bucket gives the cluster's map
	}
	resp, err := c.http.DoWith(ctx, req, r.Retry)
	if err != nil {
		return nil, err
	}
	return &HTTPResponse{resp.Status, resp.Header, resp.Body, resp.Endpoint}, nil
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
	return httpx.New(httpx.Options{
		Dial: c.cfg.Dial, TLS: t, Credentials: c.httpCredentials, Endpoints: c.endpoints, Orchestrator: c.orch,
		Health: &c.health, Timeout: httpTimeout, Dice: c.cfg.Dice, Agent: agent,
	})
}

func (c *Cluster) httpCredentials(ctx context.Context) (user, password string, err error) {
	cr, err := c.credentials(ctx)
	return cr.Username, cr.Password, err
}

// endpoints are the addresses of a service by the newest map that any bucket has.
func (c *Cluster) endpoints(svc topology.Service) []string {
	var newest *topology.Snapshot
	var from *Bucket
	for _, b := range c.all() {
		if s := b.router.Snapshot(); s != nil && s.Newer(newest) {
			newest, from = s, b
		}
	}
	if newest == nil {
		return nil
	}
	var addrs []string
	for _, e := range newest.Endpoints(svc, from.router.Network(), c.cfg.UseTLS) {
		addrs = append(addrs, e.Addr)
	}
	return addrs
}
