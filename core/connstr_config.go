package core

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// optionSetters puts the options of a connection string into a Config, by name. An option without a row here is checked
// and has no effect.
var optionSetters = map[string]func(*Config, OptionValue) error{
	"compression":                         func(c *Config, v OptionValue) error { c.Compression.Off = !v.Bool; return nil },
	"compression_min_size":                func(c *Config, v OptionValue) error { c.Compression.MinSize = v.Int; return nil },
	"compression_min_ratio":               func(c *Config, v OptionValue) error { c.Compression.MinRatio = v.Float; return nil },
	"num_kv_connections":                  func(c *Config, v OptionValue) error { c.Connections = v.Int; return nil },
	"enable_cluster_config_notifications": func(c *Config, v OptionValue) error { c.NoNotifications = !v.Bool; return nil },
	"kv_timeout":                          func(c *Config, v OptionValue) error { c.KVTimeout = v.Duration; return nil },
	"kv_durable_timeout":                  func(c *Config, v OptionValue) error { c.KVDurableTimeout = v.Duration; return nil },
	"query_timeout":                       func(c *Config, v OptionValue) error { c.QueryTimeout = v.Duration; return nil },
	"search_timeout":                      func(c *Config, v OptionValue) error { c.SearchTimeout = v.Duration; return nil },
	"analytics_timeout":                   func(c *Config, v OptionValue) error { c.AnalyticsTimeout = v.Duration; return nil },
	"view_timeout":                        func(c *Config, v OptionValue) error { c.ViewTimeout = v.Duration; return nil },
	"management_timeout":                  func(c *Config, v OptionValue) error { c.ManagementTimeout = v.Duration; return nil },
	"max_http_connections":                func(c *Config, v OptionValue) error { c.MaxHTTPConnections = v.Int; return nil },
	"max_perhost_idle_http_connections":   func(c *Config, v OptionValue) error { c.MaxIdleHTTPConnections = v.Int; return nil },
	"idle_http_connection_timeout":        func(c *Config, v OptionValue) error { c.HTTPIdleTimeout = v.Duration; return nil },
	"kv_connect_timeout":                  func(c *Config, v OptionValue) error { c.ConnectTimeout = v.Duration; return nil },
	"config_poll_interval":                func(c *Config, v OptionValue) error { c.PollInterval = v.Duration; return nil },
	"max_queue_size":                      func(c *Config, v OptionValue) error { c.QueueLimit = v.Int; return nil },
	"allow_plain":                         func(c *Config, v OptionValue) error { c.AllowPlain = v.Bool; return nil },
	"network":                             func(c *Config, v OptionValue) error { c.Network = v.Text; return nil },
	"enable_tls":                          func(c *Config, v OptionValue) error { c.UseTLS = c.UseTLS || v.Bool; return nil },
	"ca_cert_path":                        func(c *Config, v OptionValue) error { return c.trust(v.Text) },
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
	cfg := Config{UseTLS: c.TLS(), Bucket: c.Bucket}
	for _, h := range c.Hosts {
		if c.Scheme == schemeHTTP && h.Port != 0 && h.Port != portMgmt {
			return Config{}, &ConnStringError{len(schemeHTTP), "port", "of an http host asks for a first cluster map over HTTP, which is not supported: use couchbase://"}
		}
		if h.Port == portMgmt {
			h.Port = 0
		}
		cfg.Hosts = append(cfg.Hosts, h.String())
	}
	if c.SRVEligible() {
		cfg.SRV = "_" + c.Scheme + "._tcp." + c.Hosts[0].Host
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

// trust makes the certificates of a file the only roots.
func (c *Config) trust(path string) error {
	if !c.UseTLS {
		return &ConnStringError{Field: "ca_cert_path", Reason: "needs TLS: use couchbases://"}
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return &ConfigError{Field: "ca_cert_path", Reason: "cannot be read: " + err.Error()}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return &ConfigError{Field: "ca_cert_path", Reason: "names a file without a PEM certificate"}
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	return nil
}
