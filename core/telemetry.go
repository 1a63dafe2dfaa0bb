package core

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/internal/telemetry"
	"github.com/couchcore/couchcore/internal/topology"
)

// AppTelemetryConfig is about application telemetry (SDK RFC 84): a cluster that has it enabled, as 8.0 can, asks its
// clients about once a minute how many attempts each node was sent, how many have timed out or were canceled, and how
// long the others took. The client tells over a websocket to the management service of one node. Nothing is counted
// before the first such connection is made. What a report has is in docs/observability.md.
type AppTelemetryConfig struct {
	// Disabled counts and tells nothing.
	Disabled bool
	// Endpoint is where to tell instead, as in ws://host:port/path or wss://host:port/path, whatever the cluster says.
	// It is sent Username and Password, if there are some, and never the cluster's. Otherwise a node is sent the
	// cluster's credentials, which without TLS shows the password: then it is told only with Auth.AllowPlain, or where
	// the connection string asks for HTTP.
	Endpoint     string
	Username     string
	Password     Secret
	Backoff      time.Duration // the longest pause between two attempts to connect; 0 means 1 h
	PingInterval time.Duration // 0 means 30 s
	PingTimeout  time.Duration // after which a ping without an answer ends the connection; 0 means 2 s
}

// telemetryEndpoint is an Endpoint that was taken apart.
type telemetryEndpoint struct {
	telemetry.Endpoint
	tls bool
}

const wantedEndpoint = "must be ws://host:port/path or wss://host:port/path"

// parseTelemetryEndpoint takes an Endpoint apart. reason says why it cannot be used, without its text, which may hold a
// password.
func parseTelemetryEndpoint(text string) (e telemetryEndpoint, user *url.Userinfo, reason string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.Fragment != "" {
		return e, nil, wantedEndpoint
	}
	e.tls = u.Scheme == "wss"
	port := u.Port()
	switch {
	case port != "":
	case e.tls:
		port = "443"
	default:
		port = "80"
	}
	e.Addr, e.Path = net.JoinHostPort(u.Hostname(), port), u.RequestURI()
	return e, u.User, ""
}

// setEndpoint takes an endpoint of a connection string, where a user and a password may stand in it.
func (c *AppTelemetryConfig) setEndpoint(text string) error {
	_, user, reason := parseTelemetryEndpoint(text)
	if reason != "" {
		return &ConnStringError{Field: optionTelemetryEndpoint, Reason: reason}
	}
	c.Endpoint = withoutUserinfo(text)
	if user != nil {
		password, _ := user.Password()
		c.Username, c.Password = user.Username(), NewSecret(password)
	}
	return nil
}

// withoutUserinfo is a URL without its user and password; stars for what is no URL.
func withoutUserinfo(text string) string {
	scheme, authority, ok := strings.Cut(text, "://")
	if !ok {
		return "***"
	}
	end := strings.IndexAny(authority, "/?#")
	if end < 0 {
		end = len(authority)
	}
	if at := strings.LastIndexByte(authority[:end], '@'); at >= 0 {
		authority = authority[at+1:]
	}
	return scheme + "://" + authority
}

// check says what is wrong with the endpoint.
func (c *AppTelemetryConfig) check() error {
	if c.Endpoint == "" {
		return nil
	}
	switch _, user, reason := parseTelemetryEndpoint(c.Endpoint); {
	case reason != "":
		return &ConfigError{"Observe.AppTelemetry.Endpoint", reason}
	case user != nil:
		return &ConfigError{"Observe.AppTelemetry.Endpoint", "has a user: set Username and Password"}
	}
	return nil
}

// appTelemetry counts a client's attempts and tells the cluster. Its zero value does nothing.
type appTelemetry struct {
	meter   *telemetry.Meter // nil: disabled
	changed chan struct{}    // has a value when another map is in use
	renewed chan struct{}    // has a value when there are new credentials
	own     *httpx.Client    // for the endpoint of the configuration; nil without one
	secure  bool             // that one is asked over TLS
	stop    context.CancelFunc
	tasks   tasks.Group
}

// open makes what counts.
func (t *appTelemetry) open(c *Cluster) {
	if !c.cfg.Observe.AppTelemetry.Disabled {
		t.meter = telemetry.NewMeter(c.agent(), c.labels)
		t.changed, t.renewed = make(chan struct{}, 1), make(chan struct{}, 1)
	}
}

// start begins to look for an endpoint. It starts a goroutine, which close ends and wait waits for.
func (t *appTelemetry) start(c *Cluster) {
	if t.meter == nil {
		return
	}
	cfg := &c.cfg.Observe.AppTelemetry
	o := &telemetry.Options{
		Endpoints: c.telemetryEndpoints, Changed: t.changed, Renewed: t.renewed,
		ConnectTimeout: c.cfg.HTTP.ConnectTimeout, Backoff: cfg.Backoff, PingInterval: cfg.PingInterval,
		PingTimeout: cfg.PingTimeout, JitterSource: c.cfg.Retry.JitterSource, Log: c.log,
	}
	client := c.http
	if cfg.Endpoint != "" {
		e, _, _ := parseTelemetryEndpoint(cfg.Endpoint) // was checked
		o.Endpoints = func() []telemetry.Endpoint { return []telemetry.Endpoint{e.Endpoint} }
		t.own, t.secure = c.telemetryClient(), e.tls
		t.setTLS(c.tls.Load())
		client = t.own
	}
	o.Dial = func(ctx context.Context, e telemetry.Endpoint) (*websocket.Conn, error) {
		return client.WebSocket(ctx, e.Addr, e.Path, telemetry.CommandLimit)
	}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(context.Background())
	t.tasks.Go("the reports", func() { t.meter.Run(ctx, o) })
}

// EndAppTelemetry ends application telemetry for good: nothing is counted or told any more. It does not wait, and may
// be called again.
func (c *Cluster) EndAppTelemetry() { c.telemetry.close() }

// close ends it and does not wait.
func (t *appTelemetry) close() {
	if t.stop != nil {
		t.stop()
	}
	if t.own != nil {
		t.own.Close()
	}
}

func (t *appTelemetry) wait(ctx context.Context) error {
	if err := t.tasks.Wait(ctx); err != nil || t.own == nil {
		return err
	}
	return t.own.Wait(ctx)
}

// mapApplied says that another map is in use. It does not block.
func (t *appTelemetry) mapApplied() { signal(t.changed) }

// renew says that there are new credentials. It does not block.
func (t *appTelemetry) renew() { signal(t.renewed) }

// signal gives a channel a value, unless it has one or is nil.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// telemetryClient connects to an endpoint of the configuration, which no map has named: the node filter is not asked.
func (c *Cluster) telemetryClient() *httpx.Client {
	cfg := &c.cfg.Observe.AppTelemetry
	return httpx.New(httpx.Options{
		Dial: c.filter.next, LeaveKeepAlive: c.cfg.ownDial, JitterSource: c.cfg.Retry.JitterSource, Agent: c.agent(),
		ConnectTimeout: c.cfg.HTTP.ConnectTimeout,
		Credentials: func(context.Context, Service, string, bool) (httpx.Credentials, error) {
			return httpx.Credentials{Username: cfg.Username, Password: cfg.Password}, nil
		},
	})
}

// setTLS gives the client for the endpoint of the configuration the cluster's settings, nil where it has none. An
// endpoint says itself whether it is asked over TLS.
func (t *appTelemetry) setTLS(now *tls.Config) {
	switch {
	case t.own == nil || !t.secure:
	case now == nil:
		t.own.SetTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	default:
		t.own.SetTLS(now.Clone())
	}
}

// maxTelemetryPath bounds a path that a map names.
const maxTelemetryPath = 1024

// telemetryEndpoints are the nodes that the newest map says take reports, and that may be sent the credentials.
func (c *Cluster) telemetryEndpoints() (all []telemetry.Endpoint) {
	s, network := c.newestMap("")
	if s == nil || !c.showsNothing() {
		return nil
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		addr, ok := n.Addr(topology.Management, network, c.encrypted())
		if ok && strings.HasPrefix(n.TelemetryPath, "/") && len(n.TelemetryPath) <= maxTelemetryPath &&
			c.shows(addr, c.encrypted()) == nil {
			all = append(all, telemetry.Endpoint{Addr: addr, Path: n.TelemetryPath})
		}
	}
	return all
}

// inMap has the services that are counted as the map names them.
var inMap = map[telemetry.Service]topology.Service{
	telemetry.KV: topology.KV, telemetry.Query: topology.Query, telemetry.Search: topology.Search,
	telemetry.Analytics: topology.Analytics, telemetry.Management: topology.Management,
	telemetry.Eventing: topology.Eventing,
}

// labels finds the node with an address in the newest map, that of the bucket if there is one.
func (c *Cluster) labels(w telemetry.Where) (telemetry.Labels, bool) {
	s, network := c.newestMap(w.Bucket)
	if s == nil {
		return telemetry.Labels{}, false
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if a, ok := n.Addr(inMap[w.Service], network, c.encrypted()); !ok || a != w.Addr {
			continue
		}
		l := telemetry.Labels{Node: n.Host, UUID: n.UUID}
		if host, _, err := net.SplitHostPort(w.Addr); err == nil && host != n.Host {
			l.AltNode = host
		}
		return l, true
	}
	return telemetry.Labels{}, false
}
