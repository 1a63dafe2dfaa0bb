package core

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"slices"
)

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
		if info.set == nil {
			continue
		}
		v, err := info.Parse(o.Value)
		if err == nil {
			err = (*info.set)(&cfg, v)
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
