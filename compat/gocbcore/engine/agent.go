//go:build ignore

package gocbcore

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/couchcore/couchcore/core"
)

// Agent is one bucket of a cluster. The agents of a group share one client of couchcore's.
type Agent struct {
	clientID   string
	bucketName string
	client     *client
	owned      bool // Close ends the client too

	kvMux       *kvMux
	crud        *crudComponent
	observe     *observeComponent
	stats       *statsComponent
	collections *collectionsComponent
	diagnostics *diagnosticsComponent
	n1ql        *n1qlQueryComponent
	analytics   *analyticsQueryComponent
	search      *searchQueryComponent
	views       *viewQueryComponent
	http        *httpComponent
	tracer      *tracerComponent
}

// client is what the agents of a group share.
type client struct {
	cluster  *core.Cluster
	reporter *TelemetryReporter
	access   *access
	strategy *strategies
	httpOnce sync.Once
	http     *http.Client
}

// CreateAgent makes an agent and its own client. It does not wait for the cluster.
func CreateAgent(config *AgentConfig) (*Agent, error) {
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	a := newAgent(config, c)
	a.owned = true
	return a, nil
}

func newClient(config *AgentConfig) (*client, error) {
	logInfof("SDK Version: gocbcore/%s on couchcore", goCbCoreVersionStr)
	cfg, acc, err := clusterConfig(config)
	if err != nil {
		return nil, err
	}
	strategies := newStrategies(config.DefaultRetryStrategy)
	cluster, err := core.Open(context.Background(), cfg)
	if unusable(err) {
		logWarnf("There are no reports of application telemetry: %v", err)
		cfg.Observe.AppTelemetry = core.AppTelemetryConfig{Disabled: true}
		cluster, err = core.Open(context.Background(), cfg)
	}
	if err != nil {
		return nil, wrapError(errInvalidArgument, err.Error())
	}
	c := &client{
		cluster: cluster, reporter: config.TelemetryConfig.TelemetryReporter, access: acc, strategy: strategies,
	}
	c.reporter.take(cluster)
	return c, nil
}

// newAgent makes an agent of a client that is there.
func newAgent(config *AgentConfig, c *client) *Agent {
	a := &Agent{clientID: formatCbUID(randomCbUID()), bucketName: config.BucketName, client: c}
	bucket := c.cluster.Bucket(config.BucketName)
	a.kvMux = &kvMux{bucket: bucket}
	a.tracer = newTracer(config, a.kvMux)
	a.crud = &crudComponent{
		client: c, bucket: bucket, mux: a.kvMux, tracer: a.tracer,
		traced: config.TracerConfig.Tracer != nil, metered: config.MeterConfig.Meter != nil,
	}
	a.observe, a.stats = &observeComponent{a.crud}, &statsComponent{a.crud}
	a.collections = &collectionsComponent{a.crud}
	a.diagnostics = &diagnosticsComponent{client: c, mux: a.kvMux, name: config.BucketName}
	s := services{client: c, mux: a.kvMux, tracer: a.tracer}
	a.n1ql, a.analytics = &n1qlQueryComponent{s}, &analyticsQueryComponent{s}
	a.search, a.views = &searchQueryComponent{s}, &viewQueryComponent{services: s, bucket: bucket}
	a.http = &httpComponent{s, config.BucketName}
	return a
}

// Close ends what the agent has of its own: its client, or in a group its bucket. Operations that have not ended fail
// with ErrShutdown.
func (agent *Agent) Close() error {
	switch {
	case agent.kvMux.closed.Swap(true):
		return errShutdown
	case agent.owned:
		return agent.client.close()
	}
	return agent.kvMux.bucket.Close()
}

func (c *client) close() error {
	c.reporter.leave(c.cluster)
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	return c.cluster.Close()
}

// ClientID is the agent's own id.
func (agent *Agent) ClientID() string { return agent.clientID }

// BucketName is the name of the agent's bucket, "" without one.
func (agent *Agent) BucketName() string { return agent.bucketName }

// HTTPClient is a client for requests of the program's own: it uses the agent's TLS settings, and no credentials.
func (agent *Agent) HTTPClient() *http.Client { return agent.client.httpClient() }

func (c *client) httpClient() *http.Client {
	c.httpOnce.Do(func() {
		c.http = &http.Client{Transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				t := c.access.tlsConfig() // as it is now
				t.NextProtos = []string{"h2", "http/1.1"}
				return (&tls.Dialer{Config: t}).DialContext(ctx, network, addr)
			},
			ForceAttemptHTTP2: true, IdleConnTimeout: time.Second,
		}}
	})
	return c.http
}

// IsSecure reports whether connections are encrypted.
func (agent *Agent) IsSecure() bool { return agent.client.access.tls.Load() }

// UsingGCCCP reports whether the cluster's own map is read over key-value connections.
func (agent *Agent) UsingGCCCP() bool { return agent.bucketName == "" && agent.kvMux.seen() }

// HasSeenConfig reports whether there has been a cluster map.
func (agent *Agent) HasSeenConfig() (bool, error) {
	if agent.kvMux.closed.Load() {
		return false, errShutdown
	}
	return agent.kvMux.seen(), nil
}

// HasCollectionsSupport reports whether the bucket has collections.
func (agent *Agent) HasCollectionsSupport() bool {
	return agent.kvMux.capable("collections") == CapabilityStatusSupported
}

// MemdEps are the addresses of the key-value service.
func (agent *Agent) MemdEps() []string {
	scheme := "couchbase://"
	if agent.IsSecure() {
		scheme = "couchbases://"
	}
	eps := []string{}
	if m, ok := agent.kvMux.bucket.Map(); ok {
		for _, addr := range m.Nodes {
			eps = append(eps, scheme+addr)
		}
	}
	return eps
}

// CapiEps are the addresses of the view service.
func (agent *Agent) CapiEps() []string {
	eps := agent.client.endpoints(core.Views)
	for i := range eps {
		eps[i] += "/" + agent.bucketName
	}
	return eps
}

// MgmtEps are the addresses of the management service.
func (agent *Agent) MgmtEps() []string { return agent.client.endpoints(core.Management) }

// N1qlEps are the addresses of the query service.
func (agent *Agent) N1qlEps() []string { return agent.client.endpoints(core.Query) }

// FtsEps are the addresses of the search service.
func (agent *Agent) FtsEps() []string { return agent.client.endpoints(core.Search) }

// CbasEps are the addresses of the analytics service.
func (agent *Agent) CbasEps() []string { return agent.client.endpoints(core.Analytics) }

// EventingEps are the addresses of the eventing service.
func (agent *Agent) EventingEps() []string { return agent.client.endpoints(core.Eventing) }

// BackupEps are the addresses of the backup service.
func (agent *Agent) BackupEps() []string { return agent.client.endpoints(core.Backup) }

// GSIEps are the addresses of the index service.
func (agent *Agent) GSIEps() []string { return agent.client.endpoints(core.Index) }

// endpoints are the addresses of a service, each with its scheme.
func (c *client) endpoints(service core.Service) []string {
	eps := []string{}
	for _, addr := range c.cluster.Endpoints(service) {
		eps = append(eps, c.scheme()+addr)
	}
	return eps
}

func (c *client) scheme() string { return scheme(c.access.tls.Load()) }

func scheme(tls bool) string {
	if tls {
		return "https://"
	}
	return "http://"
}

// WaitUntilReady calls cb when the agent can reach what the options name.
func (agent *Agent) WaitUntilReady(deadline time.Time, opts WaitUntilReadyOptions, cb WaitUntilReadyCallback) (
	PendingOp, error,
) {
	return agent.diagnostics.WaitUntilReady(deadline, opts, cb)
}

// ConfigSnapshot is the newest cluster map.
func (agent *Agent) ConfigSnapshot() (*ConfigSnapshot, error) { return agent.kvMux.ConfigSnapshot() }

// WaitForConfigSnapshot calls cb with the newest cluster map, once there is one.
func (agent *Agent) WaitForConfigSnapshot(deadline time.Time, _ WaitForConfigSnapshotOptions,
	cb WaitForConfigSnapshotCallback,
) (PendingOp, error) {
	return agent.kvMux.WaitForConfigSnapshot(deadline, cb)
}

// BucketCapabilityStatus says whether the bucket has a capability.
func (ai *AgentInternal) BucketCapabilityStatus(c BucketCapability) CapabilityStatus {
	return ai.agent.kvMux.BucketCapabilityStatus(c)
}
