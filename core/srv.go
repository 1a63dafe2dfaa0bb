package core

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
)

// Resolver looks up DNS SRV records. A *net.Resolver is one.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

const srvBudget = 5 * time.Second // of one lookup; the name's own address is tried beside it

// resolver gives the lookup of the nodes that the SRV record names, nil without such a record.
func (c *Cluster) resolver() func(ctx context.Context) []string {
	if c.cfg.SRV == "" {
		return nil
	}
	return func(ctx context.Context) []string {
		ctx, cancel := context.WithTimeout(ctx, srvBudget)
		defer cancel()
		records, err := c.lookupSRV(ctx)
		if err != nil {
			c.log.Debug(ctx, observe.MsgSRVFailed, slog.Any(observe.KeyCause, err))
			return nil
		}
		addrs := srvAddresses(records, c.cfg.SRVLimit)
		c.filter.trust(addrs...)
		return addrs
	}
}

// lookupSRV asks the resolver, which may be a user's and panic.
func (c *Cluster) lookupSRV(ctx context.Context) (records []*net.SRV, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the resolver: %v", v)
		}
	}()
	_, records, err = c.cfg.Resolver.LookupSRV(ctx, "", "", c.cfg.SRV)
	return records, err
}

// srvAddresses are the targets of the first SRV records as addresses, each once, in the records' order.
func srvAddresses(records []*net.SRV, most int) []string {
	var addrs []string
	for _, r := range records[:min(len(records), most)] {
		host := strings.TrimSuffix(r.Target, ".")
		if r.Port == 0 || topology.CheckHost(host) != nil { // "." says that there is no such service here (RFC 2782)
			continue
		}
		addr := net.JoinHostPort(host, strconv.Itoa(int(r.Port)))
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
