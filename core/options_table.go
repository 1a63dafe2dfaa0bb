package core

import "iter"

// optionTable has every option of a connection string that the client knows. Names and defaults: SDK RFC 0059, the
// options of gocbcore and gocb, and libcouchbase's sasl_mech_force.
var optionTable = []OptionInfo{
	// Timeouts.
	{
		Key: "kv_connect_timeout", Does: "time of dialling, TLS and handshake together", Kind: OptionDuration,
		Default: "10s", min: 0.001,
	},
	{Key: "kv_timeout", Does: "time of a key-value call", Kind: OptionDuration, Default: "2.5s", min: 0.001},
	{Key: "kv_durable_timeout", Does: "time of a durable write", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "kv_scan_timeout", Does: "time of each request of a scan", Kind: OptionDuration, Default: "10s", min: 0.001},
	{Key: "view_timeout", Does: "time of a request to views", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "query_timeout", Does: "time of a query", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "analytics_timeout", Does: "time of an analytics query", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "search_timeout", Does: "time of a search", Kind: OptionDuration, Default: "75s", min: 0.001},
	{Key: "management_timeout", Does: "time of a request to the cluster manager, and to services without an option " +
		"of their own", Kind: OptionDuration, Default: "75s", min: 0.001},

	// Connections.
	{Key: "enable_tls", Does: "TLS, as the scheme couchbases", Kind: OptionBool, Default: "false"},
	{Key: "ca_cert_path", Does: "a PEM file of authorities to trust beside the system's", Kind: OptionText},
	{Key: "truststorepath", Name: "ca_cert_path", Kind: OptionText},
	{
		Key: "enable_tcp_keepalives", Does: "whether TCP looks for the other end of an idle connection",
		Kind:    OptionBool,
		Default: "true",
	},
	{Key: "tcp_keepalive_time", Does: "after how long it does", Kind: OptionDuration, Default: "60s", min: 0.001},
	{Key: "force_ipv4", Does: "connects to IPv4 addresses only", Kind: OptionBool, Default: "false"},
	{Key: "network", Does: "which addresses of the nodes to use: auto, default, external or another name; see " +
		"cluster-maps.md", Kind: OptionText, Default: "auto"},
	{Key: "bootstrap_on", Does: "over which protocol cluster maps come; both is over HTTP where connections bring " +
		"none or cannot be made", Kind: OptionText, Default: "both", Values: []string{"http", "cccp", "both"}},
	{Key: "num_kv_connections", Does: "connections to each node and for each bucket; a key's calls always go over " +
		"the same one", Kind: OptionInt, Default: "1", min: 1, max: 1024},
	{Key: "kv_pool_size", Name: "num_kv_connections", Kind: OptionInt, Default: "1", min: 1, max: 1024},
	{
		Key: "max_queue_size", Does: "calls that wait for one connection", Kind: OptionInt, Default: "2048", min: 1,
		max: 1 << 24,
	},
	{
		Key: "kv_buffer_size", Does: "size of a read buffer", Kind: OptionInt, Default: "0", max: 1 << 30,
		Note: noteBuffers,
	},
	{
		Key: "server_wait_backoff", Does: "the longest pause between two attempts to connect to a node",
		Kind: OptionDuration, Default: "4s", min: 0.001,
	},
	{
		Key: "max_http_connections", Does: "connections to one node's service, 0 means no limit", Kind: OptionInt,
		Default: "0", max: 1 << 24,
	},
	{Key: "max_perhost_http_connections", Name: "max_http_connections", Kind: OptionInt, Default: "0", max: 1 << 24},
	{
		Key: "max_idle_http_connections", Does: "unused connections to all nodes' services, 0 means no limit",
		Kind: OptionInt, Default: "0", max: 1 << 24,
	},
	{
		Key: "max_perhost_idle_http_connections", Does: "unused connections to one node's service", Kind: OptionInt,
		Default: "64", max: 1 << 24,
	},
	{
		Key: "idle_http_connection_timeout", Does: "how long they are kept", Kind: OptionDuration, Default: "1s",
		min: 0.001,
	},
	{
		Key: "http_connect_timeout", Does: "time of dialling, and of TLS, for HTTP", Kind: OptionDuration,
		Default: "10s",
		min:     0.001,
	},

	// Cluster maps.
	{
		Key: "config_poll_interval", Does: "time between two looks for a newer map", Kind: OptionDuration,
		Default: "2.5s",
		min:     0.05,
	},
	{
		Key: "config_poll_floor_interval", Does: "the least time between two requests for a map", Kind: OptionDuration,
		Default: "50ms", min: 0.001,
	},
	{
		Key: "config_pool_floor_interval", Name: "config_poll_floor_interval", Kind: OptionDuration, Default: "50ms",
		min: 0.001,
	},
	{
		Key: "config_poll_timeout", Does: "how long a map is waited for", Kind: OptionDuration, Default: "2.5s",
		min: 0.001,
	},
	{
		Key: "config_idle_redial_timeout", Does: "after how long of silence a stream of maps is begun anew",
		Kind: OptionDuration, Default: "5m", min: 0.001,
	},
	{
		Key: "http_redial_period", Does: "the age at which a stream of maps is begun anew, 0 means no limit",
		Kind: OptionDuration, Default: "0s",
	},
	{
		Key: "http_retry_delay", Does: "the longest pause after all nodes were asked over HTTP in vain",
		Kind: OptionDuration, Default: "10s", min: 0.001,
	},
	{
		Key: "http_config_poll_timeout", Does: "time of a request for a map over HTTP, and of a stream's beginning",
		Kind: OptionDuration, Default: "5s", min: 0.001,
	},
	{
		Key: "enable_cluster_config_notifications", Does: "whether nodes tell of newer maps by themselves",
		Kind: OptionBool, Default: "true",
	},

	// Features of connections.
	{Key: "enable_mutation_tokens", Does: "whether writes give tokens", Kind: OptionBool, Default: "true"},
	{
		Key: "enable_server_durations", Does: "whether answers say how long the server has worked", Kind: OptionBool,
		Default: "true",
	},
	{Key: "enable_resource_units", Does: "whether answers say what they cost", Kind: OptionBool, Default: "false"},
	{
		Key: "unordered_execution_enabled", Does: "whether nodes may answer in another order", Kind: OptionBool,
		Default: "true",
	},
	{Key: "compression", Does: "whether values are sent compressed", Kind: OptionBool, Default: "true"},
	{
		Key: "compression_min_size", Does: "only values that are larger, in bytes", Kind: OptionInt, Default: "32",
		max: 20 << 20,
	},
	{
		Key: "compression_min_ratio", Does: "only if what is left is at most this part", Kind: OptionFloat,
		Default: "0.83",
	},
	{Key: "allow_plain", Does: "allows PLAIN without TLS, and HTTP requests with the password to nodes that only the " +
		"cluster map names; both show it", Kind: OptionBool, Default: "false"},
	{
		Key: "sasl_mech_force", Does: "the only mechanism to log in with; PLAIN needs TLS or allow_plain",
		Kind: OptionText, Values: []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"},
	},
	{
		Key: "allow_enterprise_analytics", Does: "lets analytics requests through to an Enterprise Analytics cluster",
		Kind: OptionBool, Default: "false",
	},

	// Reports.
	{Key: "orphaned_response_logging", Does: "whether late answers are reported", Kind: OptionBool, Default: "true"},
	{
		Key: "orphaned_response_logging_interval", Does: "the least time between two reports", Kind: OptionDuration,
		Default: "10s", min: 0.001,
	},
	{
		Key: "orphaned_response_logging_sample_size", Does: "late answers that a report describes", Kind: OptionInt,
		Default: "10", min: 1, max: 1 << 16,
	},
	{
		Key: "enable_app_telemetry", Does: "application telemetry", Kind: OptionBool, Default: "true",
		Note: noteTelemetry,
	},
	{
		Key: "disable_app_telemetry", Does: "no application telemetry", Kind: OptionBool, Default: "false",
		Note: noteTelemetry,
	},
	{Key: "app_telemetry_endpoint", Does: "where application telemetry is sent", Kind: OptionText, Note: noteTelemetry},
	{
		Key: "app_telemetry_backoff", Does: "its longest pause between two attempts to connect", Kind: OptionDuration,
		Default: "1h", Note: noteTelemetry,
	},
	{
		Key: "app_telemetry_ping_interval", Does: "time between two of its pings", Kind: OptionDuration, Default: "30s",
		min: 0.001, Note: noteTelemetry,
	},
	{
		Key: "app_telemetry_ping_timeout", Does: "time of one of its pings", Kind: OptionDuration, Default: "2s",
		min: 0.001, Note: noteTelemetry,
	},

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
