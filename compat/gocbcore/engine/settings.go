//go:build ignore

package gocbcore

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
)

// clusterConfig is a configuration as couchcore has it.
func clusterConfig(config *AgentConfig) (core.Config, *access, error) {
	if config.SecurityConfig.Auth == nil {
		return core.Config{}, nil, wrapError(errInvalidArgument, "an AuthProvider is needed")
	}
	if config.SecurityConfig.NoTLSSeedNode {
		return core.Config{}, nil, wrapError(errUnsupportedOperation, "the ns_server scheme is not supported")
	}
	acc := newAccess(config.SecurityConfig, config.SeedConfig.MemdAddrs)
	agent := agentName(config.UserAgent)
	cfg := core.Config{
		Seeds: seeds(config.SeedConfig),
		Net:   core.NetConfig{Network: config.IoConfig.NetworkType, ConnectTimeout: 7 * time.Second},
		Auth:  acc.config(),
		KV:    kvConfig(config),
		HTTP: core.HTTPConfig{
			MaxConnections: config.HTTPConfig.MaxConnsPerHost, MaxIdle: config.HTTPConfig.MaxIdleConnsPerHost,
			MaxIdleTotal: config.HTTPConfig.MaxIdleConns, IdleTimeout: config.HTTPConfig.IdleConnectionTimeout,
			ConnectTimeout:           config.HTTPConfig.ConnectTimeout,
			AllowEnterpriseAnalytics: config.InternalConfig.AllowEnterpriseAnalytics,
		},
		Maps:   mapConfig(config),
		Limits: core.LimitConfig{Queue: config.KVConfig.MaxQueueSize},
		Observe: core.ObserveConfig{
			Log: newLog(), NoThresholdReport: true, // gocb makes one of its own, of spans
			NoOrphanReport: !config.OrphanReporterConfig.Enabled,
			AppTelemetry:   config.TelemetryConfig.TelemetryReporter.settings(),
			OrphanInterval: config.OrphanReporterConfig.ReportInterval,
			OrphanSample:   config.OrphanReporterConfig.SampleSize,
		},
		Agent: agent[:min(len(agent), 200)],
	}
	if config.TracerConfig.Tracer != nil {
		cfg.Observe.Retry = observer{}
	}
	if t := config.KVConfig.ConnectTimeout; t > 0 {
		cfg.Net.ConnectTimeout = t
	}
	if config.SecurityConfig.UseTLS {
		cfg.TLS = core.TLSConfig{Enabled: true, Config: acc.tlsConfig()}
	}
	if b := config.CircuitBreakerConfig; b.Enabled {
		cfg.Retry.CircuitBreaker = &core.CircuitBreaker{
			Volume: int(b.VolumeThreshold), Percentage: int(b.ErrorThresholdPercentage),
			RollingWindow: b.RollingWindow, SleepWindow: b.SleepWindow, CanaryTimeout: b.CanaryTimeout,
		}
		if b.CompletionCallback != nil {
			cfg.Retry.CircuitBreaker.Healthy = func(err error) bool { return b.CompletionCallback(brokenError(err)) }
		}
	}
	return cfg, acc, nil
}

func seeds(config SeedConfig) core.SeedConfig {
	s := core.SeedConfig{Hosts: config.MemdAddrs}
	if len(config.MemdAddrs) == 0 {
		s.HTTPHosts = config.HTTPAddrs
	}
	if srv := config.SRVRecord; srv != nil {
		s.SRV = "_" + srv.Scheme + "._" + srv.Proto + "." + srv.Host
	}
	return s
}

func kvConfig(config *AgentConfig) core.KVConfig {
	return core.KVConfig{
		Connections: config.KVConfig.PoolSize,
		ReadBuffer:  readBuffer(config.KVConfig.ConnectionBufferSize),
		Compression: core.Compression{
			Off: !config.CompressionConfig.Enabled, MinSize: config.CompressionConfig.MinSize,
			MinRatio: config.CompressionConfig.MinRatio,
		},
		NoMutationTokens:  !config.IoConfig.UseMutationTokens,
		NoServerDurations: !config.IoConfig.UseDurations,
		NoUnordered:       !config.IoConfig.UseOutOfOrderResponses,
		ResourceUnits:     config.InternalConfig.EnableResourceUnitsTrackingHello,
		WithoutFeatures:   notAskedFor(config.IoConfig),
	}
}

// readBuffer is the size of a connection's read buffer: gocbcore's, unless the program names another one.
func readBuffer(size uint) int {
	if size == 0 {
		return 20 << 20
	}
	return int(min(max(size, 256<<10), 64<<20))
}

// notAskedFor are the features that a program has switched off.
func notAskedFor(config IoConfig) (list []memd.Feature) {
	for f, off := range map[memd.Feature]bool{
		memd.FeatureCollections: !config.UseCollections, memd.FeatureXError: config.DisableXErrorHello,
		memd.FeatureJSON: config.DisableJSONHello, memd.FeatureSyncReplication: config.DisableSyncReplicationHello,
	} {
		if off {
			list = append(list, f)
		}
	}
	return list
}

func mapConfig(config *AgentConfig) core.MapConfig {
	m := core.MapConfig{
		PollInterval: config.ConfigPollerConfig.CccpPollPeriod, PollTimeout: config.ConfigPollerConfig.CccpMaxWait,
		NoNotifications: !config.IoConfig.UseClusterMapNotifications,
		OverHTTP: core.MapsOverHTTP{
			Timeout: config.ConfigPollerConfig.HTTPMaxWait, RedialPeriod: config.ConfigPollerConfig.HTTPRedialPeriod,
			RetryMax: config.ConfigPollerConfig.HTTPRetryDelay,
		},
	}
	period := m.PollInterval
	if period == 0 {
		period = 2500 * time.Millisecond
	}
	m.PollTimeout = min(m.PollTimeout, period)
	if len(config.SeedConfig.MemdAddrs) == 0 {
		m.Bootstrap = core.BootstrapHTTP
	}
	return m
}

// hostOf is the host of an address.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// minTLS is the oldest version of TLS that is spoken.
const minTLS = tls.VersionTLS12
