package core

import (
	"cmp"
	"context"
	"errors"
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
func (c *Cluster) resolver() func(ctx context.Context) ([]string, error) {
	if c.cfg.Seeds.SRV == "" {
		return nil
	}
	return func(ctx context.Context) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, srvBudget)
		defer cancel()
		records, err := answerOf(ctx, "the resolver", func(ctx context.Context) (found srvAnswer, err error) {
			_, found.records, found.err = c.cfg.Seeds.Resolver.LookupSRV(ctx, "", "", c.cfg.Seeds.SRV)
			return found, nil
		})
		// net.Resolver gives good records beside an error that says that some were odd
		if err = cmp.Or(err, records.err); err != nil {
			c.log.Debug(ctx, observe.MsgSRVFailed, slog.Any(observe.KeyCause, err))
			err = srvError(c.cfg.Seeds.SRV, observe.Usable("the resolver", err))
		}
		addrs := c.ofKind(srvAddresses(records.records, c.cfg.Limits.SRV))
		c.filter.trust(addrs...)
		return addrs, err
	}
}

// srvError is why the record gives no node; nil where it does not exist, which is no error.
func srvError(name string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil
	case errors.As(err, &dns):
		return fmt.Errorf("the DNS SRV record %s cannot be looked up: %s", name, dns.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the DNS SRV record %s cannot be looked up: no answer within %v", name, srvBudget)
	}
	return fmt.Errorf("the DNS SRV record %s cannot be looked up: %w", name, err)
}

// srvAnswer is what a resolver has given: good records may come beside an error.
type srvAnswer struct {
	records []*net.SRV
	err     error
}

// srvAddresses are the targets of the first SRV records as addresses, each once, in the records' order.
func srvAddresses(records []*net.SRV, most int) []string {
	var addrs []string
	for _, r := range records[:min(len(records), most)] {
		if r == nil {
			continue
		}
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
