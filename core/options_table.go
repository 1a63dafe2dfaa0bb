package core

import "iter"

// optionTable has every option of a connection string that the client knows. Names and defaults: SDK RFC 0059 and, for
// those marked so, the options of gocbcore and gocb.
var optionTable = []OptionInfo{
	// Timeouts.
	{Key: "kv_connect_timeout", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "kv_timeout", Kind: OptionDuration, Default: "2.5s", min: 0.001},
	{Key: "kv_durable_timeout", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "kv_scan_timeout", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "view_timeout", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "query_timeout", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "analytics_timeout", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "search_timeout", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "management_timeout", Kind: OptionDuration, Default: "75s", min: 0.001},

	// Connections.
	{Key: "enable_tls", Kind: OptionBool, Default: "false"},
	{Key: "ca_cert_path", Kind: OptionText},
	{Key: "truststorepath", Name: "ca_cert_path", Kind: OptionText},
	{Key: "enable_tcp_keepalives", Kind: OptionBool, Default: "true"},
	{Key: "tcp_keepalive_time", Kind: OptionDuration, Default: "60s", min: 0.001},
	{Key: "force_ipv4", Kind: OptionBool, Default: "false"},
	{Key: "network", Kind: OptionText, Default: "auto"},
	{Key: "bootstrap_on", Kind: OptionText, Default: "both", Values: []string{"http", "cccp", "both"}},
	{Key: "num_kv_connections", Kind: OptionInt, Default: "1", min: 1, max: 1024},
	{Key: "kv_pool_size", Name: "num_kv_connections", Kind: OptionInt, Default: "1", min: 1, max: 1024},
	{Key: "max_queue_size", Kind: OptionInt, Default: "2048", min: 1, max: 1 << 24},
	{Key: "kv_buffer_size", Kind: OptionInt, Default: "0", max: 1 << 30, Note: noteBuffers},
	{Key: "server_wait_backoff", Kind: OptionDuration, Default: "4s", min: 0.001},
	{Key: "max_http_connections", Kind: OptionInt, Default: "0", max: 1 << 24},
	{Key: "max_perhost_http_connections", Name: "max_http_connections", Kind: OptionInt, Default: "0", max: 1 << 24},
	{Key: "max_idle_http_connections", Kind: OptionInt, Default: "0", max: 1 << 24},
	{Key: "max_perhost_idle_http_connections", Kind: OptionInt, Default: "64", max: 1 << 24},
	{Key: "idle_http_connection_timeout", Kind: OptionDuration, Default: "1s", min: 0.001},
	{Key: "http_connect_timeout", Kind: OptionDuration, Default: "10s", min: 0.001},

	// Cluster maps.
	{Key: "config_poll_interval", Kind: OptionDuration, Default: "2.5s", min: 0.05},
	{Key: "config_poll_floor_interval", Kind: OptionDuration, Default: "50ms", min: 0.001},
	{Key: "config_pool_floor_interval", Name: "config_poll_floor_interval", Kind: OptionDuration, Default: "50ms", min: 0.001},
	{Key: "config_poll_timeout", Kind: OptionDuration, Default: "2.5s", min: 0.001},
	{Key: "config_idle_redial_timeout", Kind: OptionDuration, Default: "5m", min: 0.001},
	{Key: "http_redial_period", Kind: OptionDuration, Default: "0s"},
	{Key: "http_retry_delay", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "http_config_poll_timeout", Kind: OptionDuration, Default: "5s", min: 0.001},
	{Key: "enable_cluster_config_notifications", Kind: OptionBool, Default: "true"},

	// Features of connections.
	{Key: "enable_mutation_tokens", Kind: OptionBool, Default: "true"},
	{Key: "enable_server_durations", Kind: OptionBool, Default: "true"},
	{Key: "enable_resource_units", Kind: OptionBool, Default: "false"},
	{Key: "unordered_execution_enabled", Kind: OptionBool, Default: "true"},
	{Key: "compression", Kind: OptionBool, Default: "true"},
	{Key: "compression_min_size", Kind: OptionInt, Default: "32", max: 20 << 20},
	{Key: "compression_min_ratio", Kind: OptionFloat, Default: "0.83"},
	{Key: "allow_plain", Kind: OptionBool, Default: "false"},
	{Key: "allow_enterprise_analytics", Kind: OptionBool, Default: "false"},

	// Reports.
	{Key: "orphaned_response_logging", Kind: OptionBool, Default: "true"},
	{Key: "orphaned_response_logging_interval", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "orphaned_response_logging_sample_size", Kind: OptionInt, Default: "10", min: 1, max: 1 << 16},
	{Key: "enable_app_telemetry", Kind: OptionBool, Default: "true", Note: noteTelemetry},
	{Key: "disable_app_telemetry", Kind: OptionBool, Default: "false", Note: noteTelemetry},
	{Key: "app_telemetry_endpoint", Kind: OptionText, Note: noteTelemetry},
	{Key: "app_telemetry_backoff", Kind: OptionDuration, Default: "1h", Note: noteTelemetry},
	{Key: "app_telemetry_ping_interval", Kind: OptionDuration, Default: "30s", min: 0.001, Note: noteTelemetry},
	{Key: "app_telemetry_ping_timeout", Kind: OptionDuration, Default: "2s", min: 0.001, Note: noteTelemetry},

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
	{Key: "sasl_mech_force", Refused: "choose mechanisms in the configuration"},
	{Key: "ssl", Refused: "use couchbases:// for TLS"},
	{Key: "tls_verify", Refused: "verification is a matter of the configuration"},
	{Key: "operation_timeout", Refused: "use kv_timeout"},
}

const (
	noteBuffers   = "accepted for other clients: read buffers follow the size of what is read by themselves"
	noteTelemetry = "accepted for other clients: no application telemetry is sent"

	refusedDCP         = "this client has no change streams"
	refusedCredentials = "credentials belong in the configuration"
)

// options has the rows of optionTable by key, completed.
var options = func() map[string]OptionInfo {
	m := make(map[string]OptionInfo, len(optionTable))
	for _, o := range optionTable {
		if o.Name == "" {
			o.Name = o.Key
		}
		_, o.Applied = optionSetters[o.Name]
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
