package core

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/couchcore/couchcore/internal/observe"
)

// NodeRefusedError is a node that a cluster map names and that is not connected to. It is the cause of what calls to
// that node end with.
type NodeRefusedError struct {
	Addr string
	Err  error // what Config.Net.NodeFilter said, or what kind of address it is
}

func (e *NodeRefusedError) Error() string {
	return "the node filter refuses " + e.Addr + ", which a cluster map names: " + e.Err.Error()
}

// Unwrap gives what the filter said.
func (e *NodeRefusedError) Unwrap() error { return e.Err }

// AnyNode is a Config.Net.NodeFilter that refuses none.
func AnyNode(string) error { return nil }

// AllowNodes makes a Config.Net.NodeFilter that refuses all nodes but those that one of the patterns fits: an address
// range ("10.0.0.0/8"), a host's name or address, or "*." and a domain for the names in it. Names are compared as maps
// have them; they are not looked up. The error says which pattern cannot be read.
func AllowNodes(patterns ...string) (func(addr string) error, error) {
	var ranges []netip.Prefix
	names, domains := map[string]bool{}, []string{}
	for _, p := range patterns {
		lower := strings.ToLower(p)
		switch {
		case strings.Contains(p, "/"):
			r, err := netip.ParsePrefix(p)
			if err != nil {
				return nil, &ConfigError{"Net.NodeFilter", fmt.Sprintf("has the pattern %q, not an address range", p)}
			}
			ranges = append(ranges, r.Masked())
		case strings.HasPrefix(lower, "*."):
			domains = append(domains, lower[1:])
		case p == "" || strings.Contains(p, "*"):
			return nil, &ConfigError{
				"Net.NodeFilter", fmt.Sprintf("has the pattern %q: only a first part can be a star", p),
			}
		default:
			names[trimBrackets(lower)] = true
		}
	}
	return func(addr string) error {
		host, ip := hostAndIP(addr)
		host = strings.ToLower(host)
		if names[host] {
			return nil
		}
		for _, r := range ranges {
			if r.Contains(ip) {
				return nil
			}
		}
		for _, d := range domains {
			if !ip.IsValid() && strings.HasSuffix(host, d) {
				return nil
			}
		}
		return errNotAllowed
	}, nil
}

type nodeRefusal string

func (r nodeRefusal) Error() string { return string(r) }

const (
	errNotAllowed  nodeRefusal = "it is not among those allowed"
	errUnspecified nodeRefusal = "an unspecified or multicast address is not the address of a node"
	errLinkLocal   nodeRefusal = "a link-local address, and no host of the configuration has one"
	errLoopback    nodeRefusal = "a loopback address, and no host of the configuration has one"
	errShows       nodeRefusal = "a request would show it the password: use TLS, name it in Hosts or HTTPHosts, or " +
		"set AllowPlain"
)

// hostAndIP is the host of an address, and the IP address that it is; not a valid one for names.
func hostAndIP(addr string) (host string, ip netip.Addr) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = trimBrackets(addr)
	}
	if ip, err = netip.ParseAddr(host); err != nil {
		if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
			return host, netip.IPv6Loopback()
		}
		return host, netip.Addr{}
	}
	return host, ip.Unmap().WithZone("")
}

// nodeFilter stands before every dial. The hosts of the configuration, and those that their SRV record names, are the
// user's own choice; other addresses come from cluster maps, which are input from the network.
type nodeFilter struct {
	user func(addr string) error
	next func(ctx context.Context, network, addr string) (net.Conn, error)

	mu                  sync.Mutex
	own                 map[string]bool // addresses that are the user's choice
	hosts               map[string]bool // the hosts of those, and the IP addresses that they turned out to have
	loopback, linkLocal bool            // one of them is such an address
}

func newNodeFilter(cfg *Config) *nodeFilter {
	f := &nodeFilter{user: cfg.Net.NodeFilter, next: cfg.Net.Dial, own: map[string]bool{}, hosts: map[string]bool{}}
	f.trust(cfg.Seeds.Hosts...)
	f.trust(cfg.Seeds.HTTPHosts...)
	return f
}

// trust adds addresses that are the user's choice.
func (f *nodeFilter) trust(addrs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range addrs {
		f.own[a] = true
		f.learn(a)
	}
}

// learn notes which addresses, and what kind of address, the user's hosts have. The lock is held.
func (f *nodeFilter) learn(addr string) {
	name, ip := hostKey(addr)
	f.hosts[name] = true
	f.loopback = f.loopback || ip.IsLoopback()
	f.linkLocal = f.linkLocal || ip.IsLinkLocalUnicast()
}

// hostKey is a host in the form in which two are compared.
func hostKey(addr string) (name string, ip netip.Addr) {
	host, ip := hostAndIP(addr)
	if _, err := netip.ParseAddr(host); err == nil {
		return ip.String(), ip
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), ip
}

// shows says why a node must not be sent the password over a connection that is not encrypted, or to no matter whom:
// only a cluster map names its host. Key-value connections never show the password either.
func (f *nodeFilter) shows(addr string) error {
	name, _ := hostKey(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts[name] {
		return nil
	}
	return &NodeRefusedError{addr, errShows}
}

// dial is Config.Net.Dial behind the filter. A name is judged again by the address that it turned out to have, before
// anything is sent there.
func (f *nodeFilter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	f.mu.Lock()
	own := f.own[addr]
	f.mu.Unlock()
	if !own {
		if err := f.check(addr); err != nil {
			return nil, &NodeRefusedError{addr, err}
		}
	}
	nc, err := f.next(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	remote := nc.RemoteAddr()
	switch {
	case remote == nil:
	case own:
		f.mu.Lock()
		f.learn(remote.String())
		f.mu.Unlock()
	case f.user == nil:
		if err := f.kind(remote.String()); err != nil {
			_ = nc.Close()
			return nil, &NodeRefusedError{addr, err}
		}
	}
	return nc, nil
}

// check asks the user's filter, which may panic or end its goroutine, or judges by the kind of address.
func (f *nodeFilter) check(addr string) error {
	if f.user == nil {
		return f.kind(addr)
	}
	return observe.Apart("the node filter", func() error { return f.user(addr) })
}

// kind refuses addresses that lead to this machine or to its own network, such as the metadata services of clouds,
// unless the user's hosts are there.
func (f *nodeFilter) kind(addr string) error {
	_, ip := hostAndIP(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ip.IsUnspecified(), ip.IsMulticast():
		return errUnspecified
	case ip.IsLinkLocalUnicast() && !f.linkLocal:
		return errLinkLocal
	case ip.IsLoopback() && !f.loopback:
		return errLoopback
	}
	return nil
}
