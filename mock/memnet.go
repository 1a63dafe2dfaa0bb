package mock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memBuffer is how many bytes one direction of a connection in memory holds before writes wait.
const memBuffer = 256 << 10

// Network is a network in memory: an address book of listeners, and connections that are buffered in both directions
// and deliver every write after the same latency. All of it waits on channels of its own, so that it works inside a
// testing/synctest bubble.
type Network struct {
	latency time.Duration
	mu      sync.Mutex
	open    map[string]*memListener
	clients int
}

func newNetwork(latency time.Duration) *Network {
	return &Network{latency: latency, open: map[string]*memListener{}}
}

// memAddr is "host:port" on the virtual network.
type memAddr string

func (memAddr) Network() string  { return "virtual" }
func (a memAddr) String() string { return string(a) }

// Listen opens an address. It never blocks.
func (n *Network) Listen(addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[addr] != nil {
		return nil, fmt.Errorf("mock: listen %s: address in use", addr)
	}
	l := &memListener{n: n, addr: memAddr(addr), backlog: make(chan *memConn, 128), done: make(chan struct{})}
	n.open[addr] = l
	return l, nil
}

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
)

// Dial connects to an address where someone listens; otherwise the connection is refused. It takes one round trip.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "virtual", Addr: memAddr(addr), Err: err}
	}
	if n.latency > 0 {
		t := time.NewTimer(2 * n.latency)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
	n.mu.Lock()
	l := n.open[addr]
	n.clients++
	local := memAddr(fmt.Sprintf("10.1.0.1:%d", 1024+n.clients))
	n.mu.Unlock()
	if l == nil {
		return fail(errRefused)
	}
	up, down := newMemPipe(n.latency), newMemPipe(n.latency)
	client := &memConn{in: down, out: up, local: local, remote: l.addr}
	server := &memConn{in: up, out: down, local: l.addr, remote: local}
	select {
	case l.backlog <- server:
		return client, nil
	case <-l.done:
		return fail(errRefused)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

type memListener struct {
	n       *Network
	addr    memAddr
	backlog chan *memConn
	done    chan struct{}
	once    sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "virtual", Addr: l.addr, Err: net.ErrClosed}
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.open, string(l.addr))
		l.n.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.backlog:
				_ = c.Close() // never fails
				continue
			default:
			}
			return
		}
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return l.addr }

// memSegment is one write on its way.
type memSegment struct {
	b  []byte
	at time.Time // when it arrives
}

// memPipe is one direction of a connection.
type memPipe struct {
	latency time.Duration

	mu       sync.Mutex
	segs     []memSegment
	size     int
	noWriter bool // the writing side has closed: what is left can still be read
	noReader bool
	readBy   time.Time
	writeBy  time.Time
	changed  chan struct{} // closed and replaced at every change
}

func newMemPipe(latency time.Duration) *memPipe {
	return &memPipe{latency: latency, changed: make(chan struct{})}
}

// wake tells everyone who waits that the pipe has changed. The caller holds the mutex.
func (p *memPipe) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *memPipe) set(f func()) {
	p.mu.Lock()
	f()
	p.wake()
	p.mu.Unlock()
}

// waitUntil waits for a change of the pipe, or for the earliest of the instants that is set.
func waitUntil(ch <-chan struct{}, instants ...time.Time) {
	var first time.Time
	for _, at := range instants {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		<-ch
		return
	}
	t := time.NewTimer(time.Until(first))
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}

func passed(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }

func (p *memPipe) read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		var next time.Time
		switch {
		case p.noReader:
			p.mu.Unlock()
			return 0, net.ErrClosed
		case passed(p.readBy):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			p.mu.Unlock()
			return 0, nil
		case len(p.segs) > 0 && !time.Now().Before(p.segs[0].at):
			n := copy(b, p.segs[0].b)
			p.segs[0].b = p.segs[0].b[n:]
			if len(p.segs[0].b) == 0 {
				p.segs = p.segs[1:]
			}
			p.size -= n
			p.wake()
			p.mu.Unlock()
			return n, nil
		case len(p.segs) > 0:
			next = p.segs[0].at
		case p.noWriter:
			p.mu.Unlock()
			return 0, io.EOF
		}
		ch, by := p.changed, p.readBy
		p.mu.Unlock()
		waitUntil(ch, next, by)
	}
}

// write accepts b, piece by piece when the buffer is full; with try it never waits and accepts what fits.
func (p *memPipe) write(b []byte, try bool) (n int, err error) {
	for {
		p.mu.Lock()
		switch {
		case p.noWriter:
			p.mu.Unlock()
			return n, net.ErrClosed
		case p.noReader:
			p.mu.Unlock()
			return n, errReset
		case !try && passed(p.writeBy):
			p.mu.Unlock()
			return n, os.ErrDeadlineExceeded
		}
		if m := min(len(b)-n, memBuffer-p.size); m > 0 {
			p.segs = append(p.segs, memSegment{append([]byte(nil), b[n:n+m]...), time.Now().Add(p.latency)})
			p.size += m
			n += m
			p.wake()
		}
		ch, by := p.changed, p.writeBy
		p.mu.Unlock()
		if n == len(b) || try {
			return n, nil
		}
		waitUntil(ch, by)
	}
}

// memConn is one end of a connection in memory.
type memConn struct {
	in, out       *memPipe
	local, remote memAddr
}

func (c *memConn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "virtual", Source: c.local, Addr: c.remote, Err: err}
}

func (c *memConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

func (c *memConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b, false)
	return n, c.wrap("write", err)
}

// TryWrite accepts as much of b as fits the buffer, without ever waiting.
func (c *memConn) TryWrite(b []byte) (int, error) {
	n, err := c.out.write(b, true)
	return n, c.wrap("write", err)
}

func (c *memConn) Close() error {
	c.in.set(func() { c.in.noReader = true })
	c.out.set(func() { c.out.noWriter = true })
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.set(func() { c.in.readBy = t })
	c.out.set(func() { c.out.writeBy = t })
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.set(func() { c.in.readBy = t })
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.set(func() { c.out.writeBy = t })
	return nil
}
