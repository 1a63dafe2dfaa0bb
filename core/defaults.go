package core

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

func (b *CircuitBreaker) options() (*dispatch.BreakerOptions, error) {
	if b == nil {
		return nil, nil
	}
	if b.Percentage < 0 || b.Percentage > 100 {
		return nil, &ConfigError{"Retry.CircuitBreaker.Percentage", "is not between 0 and 100"}
	}
	for name, v := range map[string]int64{
		"Volume": int64(b.Volume), "RollingWindow": int64(b.RollingWindow), "SleepWindow": int64(b.SleepWindow),
		"CanaryTimeout": int64(b.CanaryTimeout),
	} {
		if v < 0 {
			return nil, &ConfigError{"Retry.CircuitBreaker." + name, "is negative"}
		}
	}
	return &dispatch.BreakerOptions{
		Volume: cmp.Or(b.Volume, 20), Percentage: cmp.Or(b.Percentage, 50),
		RollingWindow: cmp.Or(b.RollingWindow, time.Minute), SleepWindow: cmp.Or(b.SleepWindow, 5*time.Second),
		CanaryTimeout: cmp.Or(b.CanaryTimeout, 5*time.Second), Healthy: b.Healthy,
	}, nil
}

const maxAgent = 200

// ConfigError names the field of a Config that cannot be used.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return "configuration: " + e.Field + " " + e.Reason }

// Unwrap gives the kind.
func (e *ConfigError) Unwrap() error { return cberr.InvalidArgument }

// withDefaults checks the configuration and fills in what is left out.
func (c Config) withDefaults() (Config, error) {
	for _, check := range []func() error{c.timeDefaults, c.limitDefaults, c.tlsDefaults, c.check} {
		if err := check(); err != nil {
			return c, err
		}
	}
	if c.Retry.Strategy == nil {
		c.Retry.Strategy = retry.FastFailOnTerminalError{}
	}
	if c.Seeds.Resolver == nil {
		c.Seeds.Resolver = net.DefaultResolver
	}
	c.ownDial = c.Net.Dial == nil
	c.Net.Dial = c.dialer()
	if c.Retry.JitterSource == nil {
		c.Retry.JitterSource = rand.Float64
	} else {
		c.Retry.JitterSource = fairSource(c.Retry.JitterSource)
	}
	if c.port == 0 {
		c.port = portKV
		if c.TLS.Enabled {
			c.port = portKVTLS
		}
	}
	c.seeds()
	return c, nil
}

// timeDefaults checks the times and fills in those that are left out.
func (c *Config) timeDefaults() error {
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"KV.Timeout", &c.KV.Timeout, 2500 * time.Millisecond},
		{"KV.DurableTimeout", &c.KV.DurableTimeout, 10 * time.Second},
		{"HTTP.QueryTimeout", &c.HTTP.QueryTimeout, httpTimeout},
		{"HTTP.SearchTimeout", &c.HTTP.SearchTimeout, httpTimeout},
		{"HTTP.AnalyticsTimeout", &c.HTTP.AnalyticsTimeout, httpTimeout},
		{"HTTP.ViewTimeout", &c.HTTP.ViewTimeout, httpTimeout},
		{"HTTP.ManagementTimeout", &c.HTTP.ManagementTimeout, httpTimeout},
		{"HTTP.IdleTimeout", &c.HTTP.IdleTimeout, time.Second},
		{"Net.ConnectTimeout", &c.Net.ConnectTimeout, 10 * time.Second},
		{"Auth.Timeout", &c.Auth.Timeout, 5 * time.Second},
		{"Net.ReconnectMax", &c.Net.ReconnectMax, 4 * time.Second},
		{"KV.ScanTimeout", &c.KV.ScanTimeout, 10 * time.Second},
		{"Maps.PollInterval", &c.Maps.PollInterval, 2500 * time.Millisecond},
		{"Maps.PollFloor", &c.Maps.PollFloor, 50 * time.Millisecond},
		{"Maps.PollTimeout", &c.Maps.PollTimeout, 2500 * time.Millisecond},
		{"Maps.OverHTTP.Timeout", &c.Maps.OverHTTP.Timeout, 5 * time.Second},
		{"Maps.OverHTTP.IdleTimeout", &c.Maps.OverHTTP.IdleTimeout, 5 * time.Minute},
		{"Maps.OverHTTP.RedialPeriod", &c.Maps.OverHTTP.RedialPeriod, 0},
		{"Maps.OverHTTP.RetryMax", &c.Maps.OverHTTP.RetryMax, 10 * time.Second},
		{"Observe.OrphanInterval", &c.Observe.OrphanInterval, observe.ReportInterval},
		{"Observe.ThresholdInterval", &c.Observe.ThresholdInterval, observe.ReportInterval},
		{"Observe.Thresholds.KV", &c.Observe.Thresholds.KV, 500 * time.Millisecond},
		{"Observe.Thresholds.Scan", &c.Observe.Thresholds.Scan, time.Second},
		{"Observe.Thresholds.Query", &c.Observe.Thresholds.Query, time.Second},
		{"Observe.Thresholds.Search", &c.Observe.Thresholds.Search, time.Second},
		{"Observe.Thresholds.Views", &c.Observe.Thresholds.Views, time.Second},
		{"Observe.Thresholds.Analytics", &c.Observe.Thresholds.Analytics, time.Second},
		{"Observe.Thresholds.Management", &c.Observe.Thresholds.Management, time.Second},
		{"Observe.Thresholds.Eventing", &c.Observe.Thresholds.Eventing, time.Second},
		{"Observe.AppTelemetry.Backoff", &c.Observe.AppTelemetry.Backoff, time.Hour},
		{"Observe.AppTelemetry.PingInterval", &c.Observe.AppTelemetry.PingInterval, 30 * time.Second},
		{"Observe.AppTelemetry.PingTimeout", &c.Observe.AppTelemetry.PingTimeout, 2 * time.Second},
		{"HTTP.ConnectTimeout", &c.HTTP.ConnectTimeout, cmp.Or(max(c.Net.ConnectTimeout, 0), 10*time.Second)},
		{"CloseTimeout", &c.CloseTimeout, 5 * time.Second},
	} {
		if *d.v < 0 {
			return &ConfigError{d.name, "is negative"}
		}
		*d.v = cmp.Or(*d.v, d.def)
	}
	return nil
}

// tlsDefaults makes the configuration of TLS one of the client's own.
func (c *Config) tlsDefaults() error {
	c.TLS.Enabled = c.TLS.Enabled || c.TLS.Config != nil
	if c.TLS.Required && !c.TLS.Enabled {
		return &ConfigError{"TLS.Required", "is set, and TLS.Enabled is not"}
	}
	if c.TLS.Enabled {
		c.TLS.Config = ownTLS(c.TLS.Config)
	}
	return nil
}

// check refuses other fields that cannot be used.
func (c *Config) check() (err error) {
	if c.breaker, err = c.Retry.CircuitBreaker.options(); err != nil {
		return err
	}
	c.Maps.Bootstrap = cmp.Or(c.Maps.Bootstrap, BootstrapBoth)
	switch {
	case len(c.Agent) > maxAgent:
		return &ConfigError{"Agent", fmt.Sprintf("has %d bytes, limit %d", len(c.Agent), maxAgent)}
	case c.Auth.Username == "" && !c.Auth.Password.Empty() && c.Auth.Credentials == nil:
		return &ConfigError{"Auth.Username", "is empty, and Auth.Password is set"}
	case !slices.Contains([]Bootstrap{BootstrapBoth, BootstrapKV, BootstrapHTTP}, c.Maps.Bootstrap):
		return &ConfigError{"Maps.Bootstrap", "must be cccp or http"}
	}
	return c.Observe.AppTelemetry.check()
}

// seeds completes the addresses to begin with. The management service of a host whose port is not the usual one is not
// known.
func (c *Config) seeds() {
	c.preferHTTP = len(c.Seeds.HTTPHosts) > 0
	if len(c.Seeds.Hosts) == 0 && !c.preferHTTP {
		c.Seeds.Hosts = []string{"127.0.0.1"}
	}
	defaultPort := strconv.Itoa(c.port)
	seeds, http := make([]string, 0, len(c.Seeds.Hosts)), slices.Clone(c.Seeds.HTTPHosts)
	for _, h := range c.Seeds.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = trimBrackets(h), defaultPort
		}
		seed := net.JoinHostPort(host, port)
		if addr, ok := management(seed, c.TLS.Enabled); ok && !slices.Contains(http, addr) {
			http = append(http, addr)
		}
		seeds = append(seeds, seed)
	}
	c.Seeds.Hosts, c.Seeds.HTTPHosts = seeds, http
	if c.Maps.Bootstrap == BootstrapHTTP {
		c.Seeds.Hosts = nil // nodes are connected to once a map has named them
	}
}

func trimBrackets(h string) string {
	if len(h) > 2 && h[0] == '[' && h[len(h)-1] == ']' {
		return h[1 : len(h)-1]
	}
	return h
}

var _ kv.Dispatcher = (*Bucket)(nil)
