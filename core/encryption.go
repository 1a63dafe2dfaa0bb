package core

import (
	"crypto/tls"
	"net"
	"strconv"
)

// encrypted reports whether connections that are made now are encrypted.
func (c *Cluster) encrypted() bool { return c.tls.Load() != nil }

// SetTLS replaces the configuration's TLS settings, such as roots and client certificates, for the connections that are
// made from now on. RenewLogins, called next, has the open ones replaced (but those with a token, which log in again
// over themselves) and nodes tried again without a pause.
//
// Where TLS was off SetTLS turns it on, as EndTLS turns it off: nodes are connected to anew at once, by the ports that
// the cluster map has for TLS. Calls under way end on the connections that they have, which are closed then, after
// some seconds at the latest; later ones go over the new connections. Addresses of Seeds with the usual ports get
// those for TLS; others stay as they are, and are of no use any more when their ports speak no TLS. cfg is not kept.
// The error is a *ConfigError: certificates would be verified no more.
func (c *Cluster) SetTLS(cfg *tls.Config) error {
	if cfg == nil {
		return &ConfigError{"TLS.Config", "is missing: EndTLS turns TLS off"}
	}
	c.replacing.Lock()
	defer c.replacing.Unlock()
	old := c.tls.Load()
	if old != nil && cfg.InsecureSkipVerify && !old.InsecureSkipVerify {
		return &ConfigError{"TLS.Config", "would end the verification of certificates"}
	}
	c.exchange(old, ownTLS(cfg))
	return nil
}

// EndTLS turns TLS off for the connections that are made from now on, which are made at once, as SetTLS turns it on:
// what is sent can be read by anyone who listens then. It does nothing where TLS is off. The error is a *ConfigError:
// TLS.Required is set, or the credentials are a token.
func (c *Cluster) EndTLS() error {
	c.replacing.Lock()
	defer c.replacing.Unlock()
	old := c.tls.Load()
	switch {
	case old == nil:
		return nil
	case c.cfg.TLS.Required:
		return &ConfigError{"TLS.Required", "is set"}
	case c.logins.fixedToken():
		return &ConfigError{"Auth.Token", "is sent over TLS only"}
	}
	c.exchange(old, nil)
	return nil
}

// exchange puts the new settings in the place of the old ones; nil is no TLS. The lock of replacing is held.
func (c *Cluster) exchange(old, now *tls.Config) {
	c.tls.Store(now)
	c.http.SetTLS(now.Clone())
	c.telemetry.setTLS(now)
	if (old == nil) == (now == nil) {
		return
	}
	generation := c.logins.rotate(nil) // before connections are made with the new settings
	hosts := c.hosts()
	c.filter.trust(hosts...)
	c.filter.trust(c.ofKind(c.cfg.Seeds.HTTPHosts)...)
	for _, b := range c.every() { // a bucket that is made from now on has the new ones
		b.router.Readdress(hosts)
	}
	c.renewAll(generation)   // what was met on the other ports, or is about to be, says nothing of these
	c.telemetry.mapApplied() // the nodes' endpoints are others
}

// hosts are the data services to begin with.
func (c *Cluster) hosts() []string { return c.ofKind(c.cfg.Seeds.Hosts) }

// ofKind gives addresses of the configuration as they are for the connections that are made now: when TLS was turned on
// or off since, the usual ports are those of the other kind.
func (c *Cluster) ofKind(addrs []string) []string {
	encrypted := c.encrypted()
	if encrypted == c.cfg.TLS.Enabled {
		return addrs
	}
	now := make([]string, len(addrs))
	for i, a := range addrs {
		now[i] = a
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			continue
		}
		for _, kinds := range [][2]int{{portKV, portKVTLS}, {portMgmt, portMgmtTLS}} {
			from, to := kinds[0], kinds[1]
			if !encrypted {
				from, to = to, from
			}
			if port == strconv.Itoa(from) {
				now[i] = net.JoinHostPort(host, strconv.Itoa(to))
			}
		}
	}
	return now
}

// ownTLS makes a configuration of TLS one of the client's own; nil has no settings.
func ownTLS(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	containedTLS(cfg)
	return cfg
}

// management is the management service beside a data service; false when that has a port of its own.
func management(addr string, encrypted bool) (string, bool) {
	data, mgmt := portKV, portMgmt
	if encrypted {
		data, mgmt = portKVTLS, portMgmtTLS
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != strconv.Itoa(data) {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(mgmt)), true
}
