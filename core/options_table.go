package core

import (
	"cmp"
	"iter"
	"math"
	"time"
)

// optionTable has every option of a connection string that the client knows. Names and defaults: SDK RFC 0059, the
// options of gocbcore and gocb, and libcouchbase's sasl_mech_force.
// Its order is that of KnownOptions. An option without a set function is checked and has no effect; its note says why.
var optionTable = []OptionInfo{
	// Timeouts.
	durationOption("kv_connect_timeout", "time of dialling, TLS and handshake together", "10s", 0.001,
		func(c *Config) *time.Duration { return &c.Net.ConnectTimeout }),
	durationOption("kv_timeout", "time of a key-value call", "2.5s", 0.001,
		func(c *Config) *time.Duration { return &c.KV.Timeout }),
	durationOption("kv_durable_timeout", "time of a durable write", "10s", 0.001,
		func(c *Config) *time.Duration { return &c.KV.DurableTimeout }),
	durationOption("kv_scan_timeout", "time of each request of a scan", "10s", 0.001,
		func(c *Config) *time.Duration { return &c.KV.ScanTimeout }),
	durationOption("view_timeout", "time of a request to views", "75s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.ViewTimeout }),
	durationOption("query_timeout", "time of a query", "75s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.QueryTimeout }),
	durationOption("analytics_timeout", "time of an analytics query", "75s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.AnalyticsTimeout }),
	durationOption("search_timeout", "time of a search", "75s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.SearchTimeout }),
	durationOption("management_timeout",
		"time of a request to the cluster manager, and to services without an option of their own", "75s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.ManagementTimeout }),

	// Connections.
	boolOption("enable_tls", "TLS, as the scheme couchbases", "false",
		func(c *Config, on bool) { c.TLS.Enabled = c.TLS.Enabled || on }),
	{
		Key: "ca_cert_path", Does: "a PEM file of authorities to trust beside the system's", Kind: OptionText,
		set: setter(func(c *Config, v OptionValue) error { return c.trust(v.Text) }),
	},
	{Key: "truststorepath", Name: "ca_cert_path"},
	// These two are of one setting, in either order: without probes their time means nothing.
	boolOption("enable_tcp_keepalives", "whether TCP looks for the other end of an idle connection", "true",
		func(c *Config, on bool) {
			if !on {
				c.Net.KeepAlive = -1
			}
		}),
	{
		Key: "tcp_keepalive_time", Does: "after how long it does", Kind: OptionDuration, Default: "60s", min: 0.001,
		set: setter(func(c *Config, v OptionValue) error {
			if c.Net.KeepAlive >= 0 {
				c.Net.KeepAlive = v.Duration
			}
			return nil
		}),
	},
	boolOption("force_ipv4", "connects to IPv4 addresses only", "false",
		func(c *Config, on bool) { c.Net.ForceIPv4 = on }),
	textOption("network", "which addresses of the nodes to use: auto, default, external or another name; see "+
		"cluster-maps.md", "auto", nil, func(c *Config, v string) { c.Net.Network = v }),
	textOption("bootstrap_on", "over which protocol cluster maps come; both is over HTTP where connections bring none "+
		"or cannot be made", "both", []string{"http", "cccp", "both"},
		func(c *Config, v string) { c.Maps.Bootstrap = Bootstrap(v) }),
	intOption("num_kv_connections", "connections to each node and for each bucket; a key's calls always go over the "+
		"same one", "1", 1, 1024, func(c *Config) *int { return &c.KV.Connections }),
	{Key: "kv_pool_size", Name: "num_kv_connections"},
	intOption("max_queue_size", "calls that wait for one connection", "2048", 1, 1<<24,
		func(c *Config) *int { return &c.Limits.Queue }),
	{
		Key: "kv_buffer_size", Does: "size of a read buffer", Kind: OptionInt, Default: "0", max: 1 << 30,
		Note: noteBuffers,
	},
	durationOption("server_wait_backoff", "the longest pause between two attempts to connect to a node", "4s", 0.001,
		func(c *Config) *time.Duration { return &c.Net.ReconnectMax }),
	intOption("max_http_connections", "connections to one node's service, 0 means no limit", "0", 0, 1<<24,
		func(c *Config) *int { return &c.HTTP.MaxConnections }),
	{Key: "max_perhost_http_connections", Name: "max_http_connections"},
	intOption("max_idle_http_connections", "unused connections to all nodes' services, 0 means no limit", "0", 0,
		1<<24, func(c *Config) *int { return &c.HTTP.MaxIdleTotal }),
	intOption("max_perhost_idle_http_connections", "unused connections to one node's service", "64", 0, 1<<24,
		func(c *Config) *int { return &c.HTTP.MaxIdle }),
	durationOption("idle_http_connection_timeout", "how long they are kept", "1s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.IdleTimeout }),
	durationOption("http_connect_timeout", "time of dialling, and of TLS, for HTTP", "10s", 0.001,
		func(c *Config) *time.Duration { return &c.HTTP.ConnectTimeout }),

	// Cluster maps.
	durationOption("config_poll_interval", "time between two looks for a newer map", "2.5s", 0.05,
		func(c *Config) *time.Duration { return &c.Maps.PollInterval }),
	durationOption("config_poll_floor_interval", "the least time between two requests for a map", "50ms", 0.001,
		func(c *Config) *time.Duration { return &c.Maps.PollFloor }),
	{Key: "config_pool_floor_interval", Name: "config_poll_floor_interval"},
	durationOption("config_poll_timeout", "how long a map is waited for", "2.5s", 0.001,
		func(c *Config) *time.Duration { return &c.Maps.PollTimeout }),
	durationOption("config_idle_redial_timeout", "after how long of silence a stream of maps is begun anew", "5m",
		0.001, func(c *Config) *time.Duration { return &c.Maps.OverHTTP.IdleTimeout }),
	durationOption("http_redial_period", "the age at which a stream of maps is begun anew, 0 means no limit", "0s", 0,
		func(c *Config) *time.Duration { return &c.Maps.OverHTTP.RedialPeriod }),
	durationOption("http_retry_delay", "the longest pause after all nodes were asked over HTTP in vain", "10s", 0.001,
		func(c *Config) *time.Duration { return &c.Maps.OverHTTP.RetryMax }),
	durationOption("http_config_poll_timeout", "time of a request for a map over HTTP, and of a stream's beginning",
		"5s", 0.001, func(c *Config) *time.Duration { return &c.Maps.OverHTTP.Timeout }),
	boolOption("enable_cluster_config_notifications", "whether nodes tell of newer maps by themselves", "true",
		func(c *Config, on bool) { c.Maps.NoNotifications = !on }),

	// Features of connections.
	boolOption("enable_mutation_tokens", "whether writes give tokens", "true",
		func(c *Config, on bool) { c.KV.NoMutationTokens = !on }),
	boolOption("enable_server_durations", "whether answers say how long the server has worked", "true",
		func(c *Config, on bool) { c.KV.NoServerDurations = !on }),
	boolOption("enable_resource_units", "whether answers say what they cost", "false",
		func(c *Config, on bool) { c.KV.ResourceUnits = on }),
	boolOption("unordered_execution_enabled", "whether nodes may answer in another order", "true",
		func(c *Config, on bool) { c.KV.NoUnordered = !on }),
	boolOption("compression", "whether values are sent compressed", "true",
		func(c *Config, on bool) { c.KV.Compression.Off = !on }),
	{
		Key: "compression_min_size", Does: "only values that are larger, in bytes", Kind: OptionInt, Default: "32",
		max: 20 << 20, set: setter(func(c *Config, v OptionValue) error {
			c.KV.Compression.MinSize = max(v.Int, 1)
			return nil
		}),
	},
	{
		Key: "compression_min_ratio", Does: "only if what is left is at most this part", Kind: OptionFloat,
		Default: "0.83", set: setter(func(c *Config, v OptionValue) error {
			c.KV.Compression.MinRatio = max(v.Float, math.SmallestNonzeroFloat64)
			return nil
		}),
	},
	boolOption("allow_plain", "allows PLAIN without TLS, and HTTP requests with the password to nodes that only the "+
		"cluster map names; both show it", "false", func(c *Config, on bool) { c.Auth.AllowPlain = on }),
	textOption("sasl_mech_force", "the only mechanism to log in with; PLAIN needs TLS or allow_plain", "",
		[]string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"},
		func(c *Config, v string) { c.Auth.Mechanisms = []string{v} }),
	boolOption("allow_enterprise_analytics", "lets analytics requests through to an Enterprise Analytics cluster",
		"false", func(c *Config, on bool) { c.HTTP.AllowEnterpriseAnalytics = on }),

	// Reports.
	boolOption("orphaned_response_logging", "whether late answers are reported", "true",
		func(c *Config, on bool) { c.Observe.NoOrphanReport = !on }),
	durationOption("orphaned_response_logging_interval", "the least time between two reports", "10s", 0.001,
		func(c *Config) *time.Duration { return &c.Observe.OrphanInterval }),
	intOption("orphaned_response_logging_sample_size", "late answers that a report describes", "10", 1, 1<<16,
		func(c *Config) *int { return &c.Observe.OrphanSample }),
	textOption("observability_semantic_convention_opt_in", "names of spans and metrics: DATABASE for the stable ones, "+
		"DATABASE_DUP for both; it goes before OTEL_SEMCONV_STABILITY_OPT_IN", "", nil,
		func(c *Config, v string) { c.Observe.Conventions = optedInto(v) }),
	boolOption("enable_app_telemetry", "application telemetry, for a cluster that asks for it", "true",
		func(c *Config, on bool) { c.Observe.AppTelemetry.Disabled = c.Observe.AppTelemetry.Disabled || !on }),
	boolOption("disable_app_telemetry", "no application telemetry", "false",
		func(c *Config, off bool) { c.Observe.AppTelemetry.Disabled = c.Observe.AppTelemetry.Disabled || off }),
	{
		Key: optionTelemetryEndpoint,
		Does: "where application telemetry is sent instead, as ws://host:port/path or wss://host:port/path; it gets " +
			"no credentials but those that stand in it",
		Kind: OptionText,
		set:  setter(func(c *Config, v OptionValue) error { return c.Observe.AppTelemetry.setEndpoint(v.Text) }),
	},
	durationOption("app_telemetry_backoff", "its longest pause between two attempts to connect", "1h", 0.001,
		func(c *Config) *time.Duration { return &c.Observe.AppTelemetry.Backoff }),
	durationOption("app_telemetry_ping_interval", "time between two of its pings", "30s", 0.001,
		func(c *Config) *time.Duration { return &c.Observe.AppTelemetry.PingInterval }),
	durationOption("app_telemetry_ping_timeout", "time of one of its pings", "2s", 0.001,
		func(c *Config) *time.Duration { return &c.Observe.AppTelemetry.PingTimeout }),

	// What other clients know and this one does not do.
	{Key: "dcp_priority", Refused: refusedDCP},
	{Key: "dcp_buffer_size", Refused: refusedDCP},
	{Key: "enable_dcp_expiry", Refused: refusedDCP},
	{Key: "enable_dcp_change_streams", Refused: refusedDCP},
	{Key: "max_dcp_snapshot_marker_version", Refused: refusedDCP},
	{Key: "username", Refused: refusedCredentials},
	{Key: "password", Refused: refusedCredentials},
	{Key: "certpath", Refused: refusedCredentials},
	{Key: "keypath", Refused: refusedCredentials},
	{Key: "ssl", Refused: "use couchbases:// for TLS"},
	{Key: "tls_verify", Refused: "verification is a matter of the configuration"},
	{Key: "operation_timeout", Refused: "use kv_timeout"},
}

const (
	noteBuffers = "accepted for other clients: read buffers follow the size of what is read by themselves"

	// Its value may hold a password, which Redacted leaves out.
	optionTelemetryEndpoint = "app_telemetry_endpoint"

	refusedDCP         = "this client has no change streams"
	refusedCredentials = "credentials belong in the configuration"
)

// optionSetter puts the value of an option into a configuration.
type optionSetter func(*Config, OptionValue) error

func setter(f optionSetter) *optionSetter { return &f }

// durationOption is an option that is one duration of the configuration.
func durationOption(key, does, def string, least float64, field func(*Config) *time.Duration) OptionInfo {
	return OptionInfo{
		Key: key, Does: does, Kind: OptionDuration, Default: def, min: least,
		set: setter(func(c *Config, v OptionValue) error { *field(c) = v.Duration; return nil }),
	}
}

// intOption is an option that is one number of the configuration.
func intOption(key, does, def string, least, most float64, field func(*Config) *int) OptionInfo {
	return OptionInfo{
		Key: key, Does: does, Kind: OptionInt, Default: def, min: least, max: most,
		set: setter(func(c *Config, v OptionValue) error { *field(c) = v.Int; return nil }),
	}
}

func boolOption(key, does, def string, set func(c *Config, on bool)) OptionInfo {
	return OptionInfo{
		Key: key, Does: does, Kind: OptionBool, Default: def,
		set: setter(func(c *Config, v OptionValue) error { set(c, v.Bool); return nil }),
	}
}

func textOption(key, does, def string, values []string, set func(c *Config, v string)) OptionInfo {
	return OptionInfo{
		Key: key, Does: does, Kind: OptionText, Default: def, Values: values,
		set: setter(func(c *Config, v OptionValue) error { set(c, v.Text); return nil }),
	}
}

// options has the rows of optionTable by key, completed: another name of an option has that option's row.
var options = func() map[string]OptionInfo {
	m := make(map[string]OptionInfo, len(optionTable))
	for _, o := range optionTable {
		if of, ok := m[o.Name]; ok { // which is before its other names
			of.Key, of.Does = o.Key, ""
			o = of
		}
		o.Name = cmp.Or(o.Name, o.Key)
		o.Applied = o.set != nil
		m[o.Key] = o
	}
	return m
}()

// LookupOption finds what the client knows of an option; false for an unknown key.
func LookupOption(key string) (OptionInfo, bool) {
	o, ok := options[key]
	return o, ok
}

// KnownOptions yields every option, in the table's order.
func KnownOptions() iter.Seq[OptionInfo] {
	return func(yield func(OptionInfo) bool) {
		for i := range optionTable {
			if !yield(options[optionTable[i].Key]) {
				return
			}
		}
	}
}
