//go:build ignore

package gocbcore

import "time"

// What the kept parts of gocbcore's telemetry ask of a cluster map.
type (
	routeConfig struct {
		appTelemetryEpList routeEndpoints
	}
	routeConfigWatcher interface {
		OnNewRouteConfig(*routeConfig)
	}
	configManager interface {
		AddConfigWatcher(routeConfigWatcher)
		labels() ClusterLabels
	}
)

// newTelemetry reports to the endpoint that the program has named. Those of cluster maps are not used.
func newTelemetry(config *AgentConfig, bucket string, mux *kvMux) *telemetryComponent {
	return newTelemetryComponent(telemetryComponentProps{
		reporter: config.TelemetryConfig.TelemetryReporter, auth: config.SecurityConfig.Auth, cfgMgr: mux,
		agent: agentName(config.UserAgent), bucketName: bucket,
	})
}

// AddConfigWatcher implements configManager. Reports go to the endpoint of the configuration alone.
func (m *kvMux) AddConfigWatcher(routeConfigWatcher) {}

// reports says whether there are reports to the cluster.
func (tc *telemetryComponent) reports() bool { return tc.TelemetryEnabled() && tc.reporter.started() }

// report counts the end of a call.
func (k *kvCall) report(outcome telemetryOutcome, endpoint string) {
	if !k.c.telemetry.reports() || endpoint == "" {
		return
	}
	k.c.telemetry.RecordOp(outcome, telemetryOperationAttributes{
		duration: time.Since(k.began), node: hostOf(endpoint), service: MemdService,
		durable: k.durable, mutation: k.writes,
	})
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

// ClusterLabels are the uuid and the name of the cluster.
func (tc *tracerComponent) ClusterLabels() ClusterLabels { return tc.cfgMgr.labels() }
