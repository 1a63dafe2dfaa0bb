package core

import (
	"fmt"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// limit is a field of Config that bounds what a peer, or a caller in a hurry, can make the client hold.
type limit struct {
	name     string
	field    func(*Config) *int
	def      int // 0 means that the layer below has it
	min, max int
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// limits has every such field. Least and most are where the client would stop to work, or the limit to be one.
var limits = []limit{
	{"FrameLimit", func(c *Config) *int { return &c.FrameLimit }, memd.DefaultLimit, 64 * kib, gib},
	{"InflateLimit", func(c *Config) *int { return &c.InflateLimit }, kv.MaxInflated, 1, gib},
	{"ConfigLimit", func(c *Config) *int { return &c.ConfigLimit }, 16 * mib, kib, gib},
	{"ConfigDepth", func(c *Config) *int { return &c.ConfigDepth }, 64, 8, 10_000},
	{"ErrorMapLimit", func(c *Config) *int { return &c.ErrorMapLimit }, errormap.DefaultLimit, kib, gib},
	{"RowLimit", func(c *Config) *int { return &c.RowLimit }, 64 * mib, 1, gib},
	{"RowDepth", func(c *Config) *int { return &c.RowDepth }, httpsvc.DefaultDepthLimit, 8, httpsvc.MaxDepthLimit},
	{"SRVLimit", func(c *Config) *int { return &c.SRVLimit }, 64, 1, 4096},
	{"MaxInFlight", func(c *Config) *int { return &c.MaxInFlight }, 32768, 1, 49152}, // of 65536 opaques; late answers need some
	{"QueueLimit", func(c *Config) *int { return &c.QueueLimit }, 2048, 1, 1 << 24},
	{"MaxParked", func(c *Config) *int { return &c.MaxParked }, 32768, 1, 1 << 24},
	{"Connections", func(c *Config) *int { return &c.Connections }, 1, 1, 1024},
	{"MaxHTTPConnections", func(c *Config) *int { return &c.MaxHTTPConnections }, 0, 0, 1 << 24},
	{"MaxIdleHTTPConnections", func(c *Config) *int { return &c.MaxIdleHTTPConnections }, 0, 0, 1 << 24},
	{"MaxIdleHTTPTotal", func(c *Config) *int { return &c.MaxIdleHTTPTotal }, 0, 0, 1 << 24},
	{"OrphanSample", func(c *Config) *int { return &c.OrphanSample }, observe.OrphanSample, 1, 1 << 16},
}

// limitDefaults checks the limits and fills in those that are left out.
func (c *Config) limitDefaults() error {
	for i := range limits {
		l := &limits[i]
		switch v := l.field(c); {
		case *v == 0:
			*v = l.def
		case *v < l.min || *v > l.max:
			return &ConfigError{l.name, fmt.Sprintf("is %d, limits %d and %d", *v, l.min, l.max)}
		}
	}
	return nil
}

func (c *Config) configLimits() topology.Options {
	return topology.Options{MaxBytes: c.ConfigLimit, MaxDepth: c.ConfigDepth, TLS: c.UseTLS}
}

// tuning is what routers get of the limits and the rarer options.
func (c *Config) tuning(b *Bucket) dispatch.Tuning {
	return dispatch.Tuning{
		InflateLimit: c.InflateLimit, ErrorMapLimit: c.ErrorMapLimit, RedialMax: c.ReconnectMax, NoOrphans: c.NoOrphanReport,
		OrphanSample: c.OrphanSample, NoConfig: c.Bootstrap == BootstrapHTTP, Source: b.source,
		Stale: b.renewer.refused,
	}
}
