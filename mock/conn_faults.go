package mock

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ConnFaults is what a connection over real sockets does on purpose, as the faults of a Link do on the network in
// memory. The zero value changes nothing. What it says of reading and writing is seen from the end that has it.
type ConnFaults struct {
	Slice      int           // writes go out in pieces of this many bytes, each with a system call of its own
	Gap        time.Duration // between the pieces
	ReadAtMost int           // no read returns more bytes
	Latency    time.Duration // before each write
	PauseAt    int           // after so many bytes of each write, and if it has more, comes a pause
	Pause      time.Duration // of this length
	KeepOnly   int           // of each write only so many bytes go out; the rest is lost
	Drop       bool          // writes succeed and nothing goes out: with Deaf the connection is half-open
	Deaf       bool          // reads wait until that is over, or the connection ends
	ResetAfter int           // the connection is reset when so many bytes have been written since the faults began
}

// FaultConn is a connection with faults that can be changed at any time, from any goroutine.
type FaultConn struct {
	net.Conn
	faults *atomic.Pointer[ConnFaults] // nil content: none
	own    atomic.Pointer[ConnFaults]
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	counted *ConnFaults // the faults that sent belongs to
	sent    int
}

// NewFaultConn wraps a connection. It works without faults until Set.
func NewFaultConn(nc net.Conn) *FaultConn {
	c := &FaultConn{Conn: nc, done: make(chan struct{})}
	c.faults = &c.own
	return c
}

// Set replaces the faults.
func (c *FaultConn) Set(f ConnFaults) { c.own.Store(&f) }

// Close ends the connection, and what waits in it.
func (c *FaultConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

// Reset ends the connection so that the other end sees a reset, where the system can do that.
func (c *FaultConn) Reset() {
	nc := c.Conn
	for over, ok := nc.(interface{ NetConn() net.Conn }); ok; over, ok = nc.(interface{ NetConn() net.Conn }) { // TLS
		nc = over.NetConn()
	}
	switch t := nc.(type) {
	case *net.TCPConn:
		_ = t.SetLinger(0) // if that fails it is closed the usual way
		_ = t.Close()
	case interface{ Reset() }: // of the network in memory
		t.Reset()
	}
	_ = c.Close() // it may be closed already
}

// wait waits, and reports false when the connection ended first.
func (c *FaultConn) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.done:
		return false
	}
}

// deafPoll is how often a deaf connection looks whether it still is.
const deafPoll = 10 * time.Millisecond

func (c *FaultConn) Read(b []byte) (int, error) {
	for {
		f := c.faults.Load()
		if f == nil {
			break
		}
		if !f.Deaf {
			if f.ReadAtMost > 0 && len(b) > f.ReadAtMost {
				b = b[:f.ReadAtMost]
			}
			break
		}
		if !c.wait(deafPoll) {
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Read(b)
}

func (c *FaultConn) Write(b []byte) (int, error) {
	f := c.faults.Load()
	if f == nil || *f == (ConnFaults{}) {
		return c.Conn.Write(b)
	}
	if !c.wait(f.Latency) {
		return 0, net.ErrClosed
	}
	if f.Drop {
		return len(b), nil
	}
	out := b
	if f.KeepOnly > 0 {
		out = b[:min(len(b), f.KeepOnly)]
	}
	for at := 0; at < len(out); {
		end := c.pieceEnd(f, out, at)
		left, limited := c.allowance(f)
		if limited {
			end = min(end, at+left)
		}
		n, err := c.Conn.Write(out[at:end])
		at += n
		c.count(n)
		switch {
		case err != nil:
			return at, err
		case limited && n == left:
			c.Reset()
			return at, syscall.ECONNRESET
		case at < len(out) && !c.wait(f.gapAt(at)):
			return at, net.ErrClosed
		}
	}
	return len(b), nil
}

// pieceEnd is where the piece of b that begins at a place ends.
func (c *FaultConn) pieceEnd(f *ConnFaults, b []byte, at int) int {
	end := len(b)
	if f.Slice > 0 {
		end = min(end, at+f.Slice)
	}
	if f.Pause > 0 && at < f.PauseAt {
		end = min(end, f.PauseAt)
	}
	return end
}

// gapAt is the pause behind the piece that ends at a place.
func (f *ConnFaults) gapAt(at int) time.Duration {
	if f.Pause > 0 && at == f.PauseAt {
		return f.Pause
	}
	return f.Gap
}

// allowance is how many bytes may still be written before the reset.
func (c *FaultConn) allowance(f *ConnFaults) (n int, limited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counted != f {
		c.counted, c.sent = f, 0
	}
	return max(0, f.ResetAfter-c.sent), f.ResetAfter > 0
}

func (c *FaultConn) count(n int) {
	c.mu.Lock()
	c.sent += n
	c.mu.Unlock()
}

// SetConnFaults lets the KV connections of nodes, those that exist and those to come, have faults at the nodes' end;
// without node numbers it is all nodes. The zero value ends that. It works on both kinds of networks.
func (c *Cluster) SetConnFaults(f ConnFaults, nodes ...int) error {
	var p *ConnFaults
	if f != (ConnFaults{}) {
		p = &f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(nodes) == 0 {
		for i := range c.nodes {
			nodes = append(nodes, i)
		}
	}
	for _, i := range nodes {
		n, err := c.node(i)
		if err != nil {
			return err
		}
		n.wire.Store(p)
	}
	return nil
}

// ResetConns breaks a node's KV connections so that clients see a reset; it accepts new ones.
func (c *Cluster) ResetConns(node int) error {
	c.mu.Lock()
	n, err := c.node(node)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	ks := n.takeConns()
	c.mu.Unlock()
	for _, k := range ks {
		k.nc.Reset()
	}
	remains{conns: ks}.close()
	return nil
}
