package core

import (
	"crypto/tls"
	"crypto/x509"
	"math"
	"os"
	"slices"
)

// optionSetters puts the options of a connection string into a Config, by name. An option without a row here is checked
// and has no effect; its row in the table says why.
var optionSetters = map[string]func(*Config, OptionValue) error{
	"kv_timeout":         set(func(c *Config, v OptionValue) { c.KV.Timeout = v.Duration }),
	"kv_durable_timeout": set(func(c *Config, v OptionValue) { c.KV.DurableTimeout = v.Duration }),
	"kv_scan_timeout":    set(func(c *Config, v OptionValue) { c.KV.ScanTimeout = v.Duration }),
	"query_timeout":      set(func(c *Config, v OptionValue) { c.HTTP.QueryTimeout = v.Duration }),
	"search_timeout":     set(func(c *Config, v OptionValue) { c.HTTP.SearchTimeout = v.Duration }),
	"analytics_timeout": set(func(c *Config,
		v OptionValue,
	) {
		c.HTTP.AnalyticsTimeout = v.Duration
	}),
	"view_timeout": set(func(c *Config, v OptionValue) { c.HTTP.ViewTimeout = v.Duration }),
	"management_timeout": set(func(c *Config,
		v OptionValue,
	) {
		c.HTTP.ManagementTimeout = v.Duration
	}),
	"kv_connect_timeout": set(func(c *Config, v OptionValue) { c.Net.ConnectTimeout = v.Duration }),
	"enable_tls": set(func(c *Config, v OptionValue) {
		c.TLS.Enabled = c.TLS.Enabled ||
			v.Bool
	}),
	"force_ipv4":                        set(func(c *Config, v OptionValue) { c.Net.ForceIPv4 = v.Bool }),
	"network":                           set(func(c *Config, v OptionValue) { c.Net.Network = v.Text }),
	"num_kv_connections":                set(func(c *Config, v OptionValue) { c.KV.Connections = v.Int }),
	"max_queue_size":                    set(func(c *Config, v OptionValue) { c.Limits.Queue = v.Int }),
	"server_wait_backoff":               set(func(c *Config, v OptionValue) { c.Net.ReconnectMax = v.Duration }),
	"max_http_connections":              set(func(c *Config, v OptionValue) { c.HTTP.MaxConnections = v.Int }),
	"max_idle_http_connections":         set(func(c *Config, v OptionValue) { c.HTTP.MaxIdleTotal = v.Int }),
	"max_perhost_idle_http_connections": set(func(c *Config, v OptionValue) { c.HTTP.MaxIdle = v.Int }),
	"idle_http_connection_timeout":      set(func(c *Config, v OptionValue) { c.HTTP.IdleTimeout = v.Duration }),
	"http_connect_timeout":              set(func(c *Config, v OptionValue) { c.HTTP.ConnectTimeout = v.Duration }),
	"config_poll_interval":              set(func(c *Config, v OptionValue) { c.Maps.PollInterval = v.Duration }),
	"config_poll_floor_interval":        set(func(c *Config, v OptionValue) { c.Maps.PollFloor = v.Duration }),
	"config_poll_timeout":               set(func(c *Config, v OptionValue) { c.Maps.PollTimeout = v.Duration }),
	"bootstrap_on": set(func(c *Config,
		v OptionValue,
	) {
		c.Maps.Bootstrap = Bootstrap(v.Text)
	}),
	"config_idle_redial_timeout": set(func(c *Config,
		v OptionValue,
	) {
		c.Maps.OverHTTP.IdleTimeout = v.Duration
	}),
	"http_redial_period": set(func(c *Config,
		v OptionValue,
	) {
		c.Maps.OverHTTP.RedialPeriod = v.Duration
	}),
	"http_retry_delay": set(func(c *Config,
		v OptionValue,
	) {
		c.Maps.OverHTTP.RetryMax = v.Duration
	}),
	"http_config_poll_timeout": set(func(c *Config,
		v OptionValue,
	) {
		c.Maps.OverHTTP.Timeout = v.Duration
	}),
	"enable_cluster_config_notifications": set(func(c *Config, v OptionValue) { c.Maps.NoNotifications = !v.Bool }),
	"enable_mutation_tokens":              set(func(c *Config, v OptionValue) { c.KV.NoMutationTokens = !v.Bool }),
	"enable_server_durations":             set(func(c *Config, v OptionValue) { c.KV.NoServerDurations = !v.Bool }),
	"enable_resource_units":               set(func(c *Config, v OptionValue) { c.KV.ResourceUnits = v.Bool }),
	"unordered_execution_enabled":         set(func(c *Config, v OptionValue) { c.KV.NoUnordered = !v.Bool }),
	"compression":                         set(func(c *Config, v OptionValue) { c.KV.Compression.Off = !v.Bool }),
	"compression_min_size": set(func(c *Config, v OptionValue) {
		c.KV.Compression.MinSize = max(v.Int,
			1)
	}),
	"compression_min_ratio": set(func(c *Config,
		v OptionValue,
	) {
		c.KV.Compression.MinRatio = max(v.Float, math.SmallestNonzeroFloat64)
	}),
	"allow_plain": set(func(c *Config, v OptionValue) { c.Auth.AllowPlain = v.Bool }),
	"sasl_mech_force": set(func(c *Config,
		v OptionValue,
	) {
		c.Auth.Mechanisms = []string{v.Text}
	}),
	"allow_enterprise_analytics": set(func(c *Config, v OptionValue) {
		c.HTTP.AllowEnterpriseAnalytics = v.Bool
	}),
	"orphaned_response_logging": set(func(c *Config, v OptionValue) { c.Observe.NoOrphanReport = !v.Bool }),
	"orphaned_response_logging_interval": set(func(c *Config,
		v OptionValue,
	) {
		c.Observe.OrphanInterval = v.Duration
	}),
	"orphaned_response_logging_sample_size": set(func(c *Config, v OptionValue) { c.Observe.OrphanSample = v.Int }),
	"enable_tcp_keepalives":                 (*Config).keepAlives,
	"tcp_keepalive_time":                    (*Config).keepAliveTime,
	"ca_cert_path":                          func(c *Config, v OptionValue) error { return c.trust(v.Text) },
}

// set makes a setter of one that cannot fail.
func set(f func(*Config, OptionValue)) func(*Config, OptionValue) error {
	return func(c *Config, v OptionValue) error { f(c, v); return nil }
}

// keepAlives and keepAliveTime are two options of one setting, in either order: without probes their time means
// nothing.
func (c *Config) keepAlives(v OptionValue) error {
	if !v.Bool {
		c.Net.KeepAlive = -1
	}
	return nil
}

func (c *Config) keepAliveTime(v OptionValue) error {
	if c.Net.KeepAlive >= 0 {
		c.Net.KeepAlive = v.Duration
	}
	return nil
}

// ParseConnString reads a connection string into a Config, which has no credentials then. Nothing is looked up or
// connected to; a file that ca_cert_path names is read. The error is a *ConnStringError, or that of the file.
func ParseConnString(s string) (Config, error) {
	spec, err := ParseSpec(s)
	if err != nil {
		return Config{}, err
	}
	return spec.Config()
}

// Config makes a Config of the connection string, as ParseConnString does.
func (c ConnSpec) Config() (Config, error) {
	cfg := Config{Bucket: c.Bucket, TLS: TLSConfig{Enabled: c.TLS()}}
	data, http := c.Addresses()
	if c.Scheme == schemeHTTP || c.Scheme == "" {
		for _, h := range http {
			cfg.Seeds.HTTPHosts = append(cfg.Seeds.HTTPHosts, h.String())
		}
	}
	for _, h := range data {
		if !slices.Contains(c.Hosts, h) {
			h.Port = 0 // the string names none: the default is the configuration's
		}
		cfg.Seeds.Hosts = append(cfg.Seeds.Hosts, h.String())
	}
	if c.SRVEligible() {
		cfg.Seeds.SRV = "_" + c.Scheme + "._tcp." + c.Hosts[0].Host
	}
	for _, o := range c.Options {
		info, _ := LookupOption(o.Key)
		set, ok := optionSetters[info.Name]
		if !ok {
			continue
		}
		v, err := info.Parse(o.Value)
		if err == nil {
			err = set(&cfg, v)
		}
		if err != nil {
			return Config{}, err
		}
	}
	return cfg, nil
}

// trust adds the certificates of a file to the system's roots.
func (c *Config) trust(path string) error {
	if !c.TLS.Enabled {
		return &ConnStringError{Field: "ca_cert_path", Reason: "needs TLS: use couchbases://"}
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return &ConfigError{Field: "ca_cert_path", Reason: "cannot be read: " + err.Error()}
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // without options
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return &ConfigError{Field: "ca_cert_path", Reason: "names a file without a PEM certificate"}
	}
	c.TLS.Config = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	return nil
}
