//go:build ignore

package gocbcore

import (
	"errors"
	"sync"

	"github.com/couchcore/couchcore/core"
)

// TelemetryReporter lets the clients whose configuration has it report to the cluster, where that asks for it, or to
// the endpoint of its own. Each client counts its own attempts, and has a connection of its own to report them over.
type TelemetryReporter struct {
	config core.AppTelemetryConfig

	lock    sync.Mutex
	closed  bool
	clients map[*core.Cluster]struct{}
}

// CreateTelemetryReporter makes a reporter. It connects when a client is made with it.
func CreateTelemetryReporter(cfg TelemetryReporterConfig) *TelemetryReporter {
	return &TelemetryReporter{
		config: core.AppTelemetryConfig{
			Endpoint: cfg.ExternalEndpoint, Backoff: max(cfg.Backoff, 0), PingInterval: max(cfg.PingInterval, 0),
			PingTimeout: max(cfg.PingTimeout, 0),
		},
		clients: map[*core.Cluster]struct{}{},
	}
}

// Close ends the reports of all clients.
func (t *TelemetryReporter) Close() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.closed = true
	for c := range t.clients {
		c.EndAppTelemetry()
	}
	clear(t.clients)
}

// settings are what a client is made with. Without a reporter it tells nothing.
func (t *TelemetryReporter) settings() core.AppTelemetryConfig {
	if t == nil {
		return core.AppTelemetryConfig{Disabled: true}
	}
	return t.config
}

// take ends the reports of a client with the reporter.
func (t *TelemetryReporter) take(c *core.Cluster) {
	if t == nil {
		return
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.closed {
		c.EndAppTelemetry()
		return
	}
	t.clients[c] = struct{}{}
}

// leave forgets a client, which closes.
func (t *TelemetryReporter) leave(c *core.Cluster) {
	if t == nil {
		return
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.clients, c)
}

// unusable reports whether a configuration is refused for the endpoint of its reporter. gocbcore goes on without
// reports then.
func unusable(err error) bool {
	var e *core.ConfigError
	return errors.As(err, &e) && e.Field == "Observe.AppTelemetry.Endpoint"
}

// newTracer makes what makes spans and durations.
func newTracer(config *AgentConfig, mux *kvMux) *tracerComponent {
	conventions := config.ObservabilityConfig.SemanticConventionOptIn
	tc := &tracerComponent{
		tracer: newTracerWrapper(config.TracerConfig.Tracer, conventions), bucket: config.BucketName,
		noRootTraceSpans: config.TracerConfig.NoRootTraceSpans,
		meter:            newMeterWrapper(config.MeterConfig.Meter, conventions), cfgMgr: mux,
	}
	tc.meter.getClusterLabelsFn = tc.ClusterLabels
	return tc
}

// configManager is what the kept parts of gocbcore's tracing ask of a cluster map.
type configManager interface {
	labels() ClusterLabels
}

// ClusterLabels are the uuid and the name of the cluster.
func (tc *tracerComponent) ClusterLabels() ClusterLabels { return tc.cfgMgr.labels() }
