package httpx

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/retry"
)

// Limits of an answer.
const (
	maxHeaders = 64 << 10
	drainLimit = 256 << 10
)

// Options are a client's surroundings.
type Options struct {
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS         *tls.Config // nil means plaintext
	Credentials func(ctx context.Context) (user, password string, err error)
	// Endpoints gives the addresses of a service, from the newest cluster map.
	Endpoints    func(svc topology.Service) []string
	Orchestrator *retry.Orchestrator
	Health       *conn.Health
	Timeout      time.Duration // of a request that names none
	Dice         func() float64
	Agent        string
}

// Client sends requests. It is safe for concurrent use; Close ends its idle connections.
type Client struct {
	o    Options
	hc   *http.Client
	next atomic.Uint32
}

var _ httpsvc.Doer = (*Client)(nil)

// New makes a client. It connects to nothing.
func New(o Options) *Client {
	t := &http.Transport{
		DialContext: o.Dial, TLSClientConfig: o.TLS, MaxResponseHeaderBytes: maxHeaders, ForceAttemptHTTP2: o.TLS != nil,
		IdleConnTimeout: time.Second, DisableCompression: true,
	}
	c := &Client{o: o, hc: &http.Client{
		Transport: t,
		// Credentials must not follow a redirect to another host, and no service redirects on purpose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.next.Store(uint32(o.Dice() * 1024))
	return c
}

// Close ends idle connections. Requests under way end with their contexts.
func (c *Client) Close() { c.hc.CloseIdleConnections() }

// services are the names that a cluster map has for a service.
var services = map[httpsvc.Service]topology.Service{
	httpsvc.Management: topology.Management, httpsvc.Query: topology.Query, httpsvc.Search: topology.Search,
	httpsvc.Views: topology.Views, httpsvc.Analytics: topology.Analytics,
}

// pick chooses a node in turn, avoiding those that this request has failed on while there is another.
func (c *Client) pick(r *httpsvc.Request, avoid map[string]bool) string {
	all := c.o.Endpoints(services[r.Service])
	if r.Endpoint != "" {
		for _, a := range all {
			if a == r.Endpoint {
				return a
			}
		}
		return ""
	}
	start := int(c.next.Add(1))
	for k := range all {
		if a := all[(start+k)%len(all)]; !avoid[a] {
			return a
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[start%len(all)]
}

// authorize adds the credentials.
func (c *Client) authorize(ctx context.Context, h *http.Request) error {
	user, password, err := c.o.Credentials(ctx)
	if err == nil && user != "" {
		h.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	return err
}
