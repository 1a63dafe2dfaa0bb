package memnet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	defaultBuffer  = 256 << 10
	maxBacklog     = 128        // connections that wait for Accept
	defaultFrom    = "10.1.0.1" // the host that Dial comes from
	firstLocalPort = 1025
	firstFreePort  = 20000 // given out for port 0
)

// Options are the properties of a Network. The zero value is a network without latency that records nothing.
type Options struct {
	// Latency is how long each direction of a new connection takes to deliver. See Flow.SetLatency.
	Latency time.Duration
	// Buffer is how many bytes one direction holds, unread or on their way, before writes wait; 256 KiB unless told.
	Buffer int
	// Record keeps every byte that is written, for Network.Records.
	Record bool
}

// Network is a network in memory: an address book of listeners, and connections that behave as TCP does: buffered in
// both directions, in order, with deadlines. Faults can be set per address, per pair of hosts and per direction of a
// connection. It has no goroutines and waits on channels and timers of its own only, so that it works inside a
// testing/synctest bubble. All methods may be called from several goroutines at once.
type Network struct {
	opts Options

	mu      sync.Mutex // taken before a link's mutex, never after it
	open    map[string]*listener
	dials   map[string]dialFault
	routes  []routeFault
	links   map[uint64]*Link
	linked  uint64 // links so far
	began   uint64 // dials so far
	queue   []dialling
	port    int // last port given out for port 0
	onLink  func(*Link)
	changed chan struct{} // closed and replaced when a fault or a backlog changes

	recorder recorder
}

// New returns a network without listeners.
func New(opts Options) *Network {
	if opts.Buffer <= 0 {
		opts.Buffer = defaultBuffer
	}
	return &Network{
		opts: opts, open: map[string]*listener{}, dials: map[string]dialFault{}, links: map[uint64]*Link{},
		port: firstFreePort - 1, changed: make(chan struct{}),
	}
}

// address is "host:port" on the virtual network.
type address string

func (address) Network() string  { return "virtual" }
func (a address) String() string { return string(a) }

func (a address) host() string {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return string(a)
	}
	return host
}

// wake tells everyone who waits for the network that something has changed. The caller holds the mutex.
func (n *Network) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// Listen opens an address, "host:port"; port 0 is replaced by a free one. It never blocks.
func (n *Network) Listen(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "virtual", Addr: address(addr), Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		for addr = ""; addr == "" || n.open[addr] != nil; {
			n.port++
			addr = net.JoinHostPort(host, fmt.Sprint(n.port))
		}
	}
	if n.open[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "virtual", Addr: address(addr), Err: syscall.EADDRINUSE}
	}
	l := &listener{n: n, addr: address(addr)}
	n.open[addr] = l
	return l, nil
}

// Dial connects from the host 10.1.0.1 to an address where someone listens; otherwise the connection is refused. It
// takes one round trip, and ends early with ctx.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return n.DialFrom(ctx, defaultFrom, addr)
}

// DialFrom is Dial from another host, which matters to Partition and Blackhole.
func (n *Network) DialFrom(ctx context.Context, from, addr string) (net.Conn, error) {
	c, err := n.dial(ctx, from, address(addr))
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "virtual", Addr: address(addr), Err: err}
	}
	return c, nil
}

func (n *Network) dial(ctx context.Context, from string, to address) (net.Conn, error) {
	if d := n.opts.Latency; d > 0 {
		t := time.NewTimer(2 * d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	d := n.queueUp(from, to)
	defer n.stepAside(d)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		client, server, ch, err := n.connect(d)
		if err != nil {
			return nil, err
		}
		if client == nil {
			select {
			case <-ch:
			case <-ctx.Done():
			}
			continue
		}
		n.mu.Lock()
		setUp := n.onLink
		n.mu.Unlock()
		if setUp != nil {
			setUp(client.link)
		}
		n.hand(server)
		return client, nil
	}
}

// dialling is a dial under way. They connect one by one, in the order in which they have begun: when something happens
// that several have waited for, it does not depend on who gets the processor which of them is first.
type dialling struct {
	number uint64
	from   string
	to     address
}

func (n *Network) queueUp(from string, to address) dialling {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began++
	d := dialling{n.began, from, to}
	n.queue = append(n.queue, d)
	return d
}

func (n *Network) stepAside(d dialling) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = slices.DeleteFunc(n.queue, func(o dialling) bool { return o == d })
	n.wake()
}

// waits reports whether nothing answers the dial now. The caller holds the mutex.
func (n *Network) waits(d dialling) bool {
	f := n.dials[string(d.to)]
	if f.err != nil {
		return false
	}
	if n.route(d.from, d.to.host()) != routeFree || n.route(d.to.host(), d.from) != routeFree {
		return true
	}
	l := n.open[string(d.to)]
	return !f.silent && l != nil && len(l.backlog)+l.coming >= maxBacklog
}

// connect makes a connection without telling the listener yet. It returns a channel to wait on instead while nothing
// answers: the hosts are cut off from each other, too many connections wait to be accepted, or it is another dial's
// turn.
func (n *Network) connect(d dialling) (client, server *conn, ch <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	from, to := d.from, d.to
	for _, o := range n.queue {
		if o == d {
			break
		}
		if !n.waits(o) {
			return nil, nil, n.changed, nil
		}
	}
	if n.waits(d) {
		return nil, nil, n.changed, nil
	}
	f := n.dials[string(to)]
	if f.err != nil {
		return nil, nil, nil, f.err
	}
	l := n.open[string(to)]
	if !f.silent {
		if l == nil {
			return nil, nil, nil, syscall.ECONNREFUSED
		}
		l.coming++
	}
	n.linked++
	local := address(net.JoinHostPort(from, fmt.Sprint(firstLocalPort+(n.linked-1)%(1<<16-firstLocalPort))))
	link := newLink(n, n.linked, local, to)
	n.links[link.id] = link
	client = &conn{link: link, in: &link.down, out: &link.up, local: local, remote: to}
	if f.silent {
		link.ends = 1
		return client, nil, nil, nil
	}
	return client, &conn{link: link, in: &link.up, out: &link.down, local: to, remote: local, from: l}, nil, nil
}

// hand gives a new connection to its listener, which may have been closed meanwhile: then the connection is reset.
func (n *Network) hand(server *conn) {
	if server == nil {
		return
	}
	l := server.from
	n.mu.Lock()
	l.coming--
	closed := l.closed
	if !closed {
		l.backlog = append(l.backlog, server)
		n.wake()
	}
	n.mu.Unlock()
	if closed {
		server.Reset()
	}
}

// Links returns the connections that are not closed at both ends, in the order in which they were made.
func (n *Network) Links() []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	ls := make([]*Link, 0, len(n.links))
	for _, l := range n.links {
		ls = append(ls, l)
	}
	slices.SortFunc(ls, func(a, b *Link) int { return cmp.Compare(a.id, b.id) })
	return ls
}

// OnLink makes every dial from now on call f with the new connection before either end can use it, so that faults are
// in force from the first byte. f runs on the dialling goroutine and must not block; nil ends it.
func (n *Network) OnLink(f func(*Link)) {
	n.mu.Lock()
	n.onLink = f
	n.mu.Unlock()
}

// listener is one open address. The network's mutex guards its state.
type listener struct {
	n       *Network
	addr    address
	backlog []*conn
	coming  int // made but not yet in the backlog
	closed  bool
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		l.n.mu.Lock()
		if l.closed {
			l.n.mu.Unlock()
			return nil, &net.OpError{Op: "accept", Net: "virtual", Addr: l.addr, Err: net.ErrClosed}
		}
		if len(l.backlog) > 0 {
			c := l.backlog[0]
			l.backlog = l.backlog[1:]
			l.n.wake()
			l.n.mu.Unlock()
			return c, nil
		}
		ch := l.n.changed
		l.n.mu.Unlock()
		<-ch
	}
}

// Close frees the address. Connections that were not accepted are reset.
func (l *listener) Close() error {
	l.n.mu.Lock()
	if l.closed {
		l.n.mu.Unlock()
		return nil
	}
	left := l.backlog
	l.closed, l.backlog = true, nil
	delete(l.n.open, string(l.addr))
	l.n.wake()
	l.n.mu.Unlock()
	for _, c := range left {
		c.Reset()
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
