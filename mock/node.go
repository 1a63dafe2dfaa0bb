package mock

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/mock/internal/management"
)

// membership is what the cluster's map says about a node.
type membership uint8

const (
	memberActive membership = iota // has a place in the vbucket maps
	memberAdded                    // listed, but without vbuckets until the next rebalance
	memberOut                      // not listed
)

// Node is one node of a cluster.
type Node struct {
	c       *Cluster
	index   int
	uuid    string
	profile *profile

	// Constant once the node has started. Addresses of services that the node does not run are empty, and so are the
	// TLS ones without TLS.
	host                     string
	runs                     [serviceCount]bool
	addrs                    [serviceCount][2]string // plain, TLS
	kv, kvTLS, mgmt, mgmtTLS string                  // of addrs

	wire      atomic.Pointer[ConnFaults] // what its KV connections do on purpose
	suspended atomic.Bool                // it takes requests and does nothing

	certificate atomic.Pointer[tls.Certificate] // instead of the usual one

	// Guarded by the cluster's mutex.
	up     bool
	member membership
	group  string // its server group
	ports  *ports
	held   []net.Conn // the ports of a node that is down
	http   []*http.Server
	conns  map[*conn]struct{}
	// clients of application telemetry
	sockets map[*telemetrySocket]struct{}

	failed   bool                 // failed over over HTTP, and not ejected or recovered since
	recovery string               // how a failed node comes back with the next rebalance; empty when it does not
	external *management.External // its address outside of its network, nil without one
}

// Index is the node's number, counted from 0.
func (n *Node) Index() int { return n.index }

// Addr is host and port of the node's KV service; empty when it runs none.
func (n *Node) Addr() string { return n.kv }

// TLSAddr is host and port of the node's KV service over TLS; empty without TLS.
func (n *Node) TLSAddr() string { return n.kvTLS }

// ManagementAddr is host and port of the node's management service.
func (n *Node) ManagementAddr() string { return n.mgmt }

// ManagementTLSAddr is host and port of the node's management service over TLS; empty without TLS.
func (n *Node) ManagementTLSAddr() string { return n.mgmtTLS }

// Up reports whether the node is running.
func (n *Node) Up() bool {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.up
}

// Membership is what the cluster's map says about the node: "active", "added" (without vbuckets until the next
// rebalance) or "out".
func (n *Node) Membership() string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return [...]string{memberActive: "active", memberAdded: "added", memberOut: "out"}[n.member]
}

// Connections returns how many KV connections the node has at present.
func (n *Node) Connections() int {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return len(n.conns)
}

// Suspended reports whether SetSuspended has made the node silent.
func (n *Node) Suspended() bool { return n.suspended.Load() }

// ConnFaults are what the node's KV connections do on purpose, see SetConnFaults.
func (n *Node) ConnFaults() ConnFaults {
	if f := n.wire.Load(); f != nil {
		return *f
	}
	return ConnFaults{}
}

// startNode adds a node and opens its ports. The cluster's map is not touched. Only one may run at a time.
func (c *Cluster) startNode(m membership) error { return c.startNodeAs(m, nil, "") }

// startNodeAs is startNode for a node with services and a server group that may differ from the options.
func (c *Cluster) startNodeAs(m membership, runs *[serviceCount]bool, group string) error {
	c.mu.Lock()
	i := len(c.nodes)
	n := &Node{
		c: c, index: i, uuid: c.set.newUUID(),
		group: c.set.group(i), member: m, profile: c.profiles[c.set.releaseOf(i)],
		conns: map[*conn]struct{}{}, sockets: map[*telemetrySocket]struct{}{},
	}
	c.mu.Unlock()
	if n.index >= maxNodes {
		return fmt.Errorf("mock: more than %d nodes", maxNodes)
	}
	if group != "" {
		n.group = group
	}
	if n.host, n.runs = "127.0.0.1", c.set.servicesOf(n.index); runs != nil {
		n.runs = *runs
	}
	if c.net != nil {
		n.host = fmt.Sprintf("10.0.0.%d", n.index+1)
	}
	for s, spec := range serviceSpecs {
		if !n.runs[s] {
			continue
		}
		for secure := range 2 {
			if secure == 1 && c.ca == nil {
				continue
			}
			n.addrs[s][secure] = net.JoinHostPort(n.host, spec.ports[secure])
			if c.net == nil {
				n.addrs[s][secure] = c.set.ask(n.host, n.index, Service(s), secure == 1)
			}
		}
	}
	p, err := n.open()
	if err != nil {
		return err
	}
	for s := range n.addrs {
		n.addrs[s] = [2]string{p.addr(2 * s), p.addr(2*s + 1)}
	}
	n.kv, n.kvTLS = n.addrs[KVService][0], n.addrs[KVService][1]
	n.mgmt, n.mgmtTLS = n.addrs[ManagementService][0], n.addrs[ManagementService][1]
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	return n.serve(p)
}

// ports are a node's open listeners: two for each service, plain and TLS. Absent ones are nil.
type ports [2 * serviceCount]net.Listener

func (p *ports) addr(i int) string {
	if p[i] == nil {
		return ""
	}
	return p[i].Addr().String()
}

func (p *ports) close() {
	for _, l := range p {
		if l != nil {
			l.Close() // nothing has been accepted from it, or its connections are closed on their own
		}
	}
}

// open opens the node's ports at its addresses.
func (n *Node) open() (*ports, error) {
	p := new(ports)
	for i := range p {
		addr := n.addrs[i/2][i%2]
		if addr == "" {
			continue
		}
		l, err := n.listenAt(addr)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("mock: node %d: %w", n.index, err)
		}
		if i%2 == 1 {
			l = tls.NewListener(l, n.tlsFor(Service(i/2)))
		}
		p[i] = l
	}
	return p, nil
}

// serve starts the goroutines that accept on p, and makes the node one that is up.
func (n *Node) serve(p *ports) error {
	if err := n.listen(p); err != nil {
		return err
	}
	n.c.tell("node started", "node", n.index, "kv", n.kv, "management", n.mgmt)
	return nil
}

func (n *Node) listen(p *ports) error {
	c := n.c
	var hs [serviceCount]*http.Server
	for s := range hs {
		if n.runs[s] && Service(s) != KVService {
			hs[s] = n.httpServer(Service(s))
			if Service(s) == ManagementService {
				hs[s].Handler = c.withHandlers(hs[s].Handler)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || n.up {
		return net.ErrClosed
	}
	n.up, n.ports, n.http = true, p, hs[:]
	for i, l := range p {
		switch h := hs[i/2]; {
		case l == nil:
		case h == nil:
			c.wg.Go(func() { n.accept(l, i%2 == 1) })
		default:
			c.wg.Go(func() { _ = h.Serve(l) }) // always fails in the end, when the node goes down
		}
	}
	return nil
}

// accept takes KV connections until the listener is closed.
func (n *Node) accept(l net.Listener, secure bool) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		k := newConn(n, nc, secure)
		n.c.mu.Lock()
		ok := n.up && !n.c.closed
		if ok {
			n.conns[k] = struct{}{}
			n.c.wg.Go(k.serve)
		}
		n.c.mu.Unlock()
		if !ok {
			k.close()
		}
	}
}

// remains is what is left to close of a node that was taken down.
type remains struct {
	ports   *ports
	held    []net.Conn
	http    []*http.Server
	conns   []*conn
	sockets []*telemetrySocket
}

// detach takes the node down; the caller, who holds the mutex, closes what is returned after letting go of it.
func (n *Node) detach() remains {
	r := remains{n.ports, n.held, n.http, n.takeConns(), slices.Collect(maps.Keys(n.sockets))}
	n.up, n.ports, n.held, n.http = false, nil, nil, nil
	return r
}

// takeConns returns the node's connections for the caller to close without the mutex.
func (n *Node) takeConns() []*conn {
	ks := slices.SortedFunc(maps.Keys(n.conns), func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	clear(n.conns)
	return ks
}

func (r remains) close() {
	if r.ports != nil {
		r.ports.close()
	}
	freeAll(r.held)
	for _, h := range r.http {
		if h != nil {
			h.Close() // its listeners are closed already, which is the error it reports
		}
	}
	for _, k := range r.conns {
		k.close()
	}
	for _, s := range r.sockets {
		s.drop()
	}
}

// listenAt opens one port. A port that the node had before may still be held by the system, so it tries for a while.
func (n *Node) listenAt(addr string) (net.Listener, error) {
	c := n.c
	if c.net != nil {
		return c.net.Listen(addr)
	}
	for try := 0; ; try++ {
		n.letGo()
		l, err := net.Listen("tcp", addr)
		if err == nil || try == 20 {
			return l, err
		}
		t := time.NewTimer(25 * time.Millisecond)
		select {
		case <-t.C:
		case <-c.done:
			t.Stop()
			return nil, net.ErrClosed
		}
	}
}
