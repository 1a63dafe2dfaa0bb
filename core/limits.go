package core

import (
	"fmt"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/observe"
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
	{"Limits.Packet", func(c *Config) *int { return &c.Limits.Packet }, memd.DefaultLimit, 64 * kib, gib},
	{"Limits.Inflated", func(c *Config) *int { return &c.Limits.Inflated }, call.MaxInflated, 1, gib},
	{"Limits.Map", func(c *Config) *int { return &c.Limits.Map }, 16 * mib, kib, gib},
	{"Limits.MapDepth", func(c *Config) *int { return &c.Limits.MapDepth }, 128, 8, 10_000},
	{"Limits.ErrorMap", func(c *Config) *int { return &c.Limits.ErrorMap }, errormap.DefaultLimit, kib, gib},
	{"Limits.Row", func(c *Config) *int { return &c.Limits.Row }, 64 * mib, 1, gib},
	{
		"Limits.RowDepth", func(c *Config) *int { return &c.Limits.RowDepth }, httpsvc.DefaultDepthLimit, 8,
		httpsvc.MaxDepthLimit,
	},
	{"Limits.SRV", func(c *Config) *int { return &c.Limits.SRV }, 64, 1, 4096},
	// of 65536 opaques; late answers need some
	{"Limits.InFlight", func(c *Config) *int { return &c.Limits.InFlight }, 32768, 1, 49152},
	{"Limits.Queue", func(c *Config) *int { return &c.Limits.Queue }, 2048, 1, 1 << 24},
	{"Limits.Parked", func(c *Config) *int { return &c.Limits.Parked }, 32768, 1, 1 << 24},
	{"KV.Connections", func(c *Config) *int { return &c.KV.Connections }, 1, 1, 1024},
	{"KV.ReadBuffer", func(c *Config) *int { return &c.KV.ReadBuffer }, 0, 256 * kib, 64 * mib},
	{"KV.MaxPaths", func(c *Config) *int { return &c.KV.MaxPaths }, call.MaxPaths, call.MaxPaths, call.MostPaths},
	{"HTTP.MaxConnections", func(c *Config) *int { return &c.HTTP.MaxConnections }, 0, 0, 1 << 24},
	{"HTTP.MaxIdle", func(c *Config) *int { return &c.HTTP.MaxIdle }, 0, 0, 1 << 24},
	{"HTTP.MaxIdleTotal", func(c *Config) *int { return &c.HTTP.MaxIdleTotal }, 0, 0, 1 << 24},
	{"Observe.OrphanSample", func(c *Config) *int { return &c.Observe.OrphanSample }, observe.ReportSample, 1, 1 << 16},
	{
		"Observe.ThresholdSample", func(c *Config) *int { return &c.Observe.ThresholdSample }, observe.ReportSample, 1,
		1 << 16,
	},
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
