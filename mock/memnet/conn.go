package memnet

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is one end of a link.
type conn struct {
	link          *Link
	in, out       *Flow
	local, remote address
	from          *listener // the listener it goes to; nil at the dialling end
	once          sync.Once
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "virtual", Source: c.local, Addr: c.remote, Err: err}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b, false)
	return n, c.wrap("write", err)
}

// TryWrite accepts as much of b as fits the buffer, without ever waiting; deadlines mean nothing to it. It accepts
// nothing while a Write is under way.
func (c *conn) TryWrite(b []byte) (int, error) {
	n, err := c.out.write(b, true)
	return n, c.wrap("write", err)
}

// Close ends both directions. The other end reads what is on its way and then the end of the stream; its writes fail
// once the news has reached it, and go nowhere until then.
func (c *conn) Close() error {
	c.once.Do(func() {
		l := c.link
		l.mu.Lock()
		latency, ask := c.out.latency, c.out.latencyOf
		l.mu.Unlock()
		if ask != nil {
			latency = ask()
		}
		arrives := time.Now().Add(latency)
		l.set(func() {
			c.in.drop()
			c.out.closedW, c.in.closedR = true, true
			if !c.out.lossy() {
				c.out.eof, c.out.eofAt = true, arrives
				c.in.told, c.in.toldAt = true, arrives
			}
			l.ends--
		})
		l.leave()
	})
	return nil
}

// Reset is Close with a reset.
func (c *conn) Reset() {
	c.link.Reset()
	_ = c.Close() // never fails
}

// leave takes the link out of the network's list once both ends are closed.
func (l *Link) leave() {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.mu.Lock()
	ended := l.ends == 0
	l.mu.Unlock()
	if ended {
		delete(l.n.links, l.id)
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) setDeadlines(f func()) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.out.closedW {
		return c.wrap("set", net.ErrClosed)
	}
	f()
	c.in.wake()
	c.out.wake()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(func() { c.in.readBy, c.out.writeBy = t, t })
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(func() { c.in.readBy = t })
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines(func() { c.out.writeBy = t })
}

// Record is a piece that one end of a link has written, see Options.Record.
type Record struct {
	At    time.Time
	Link  uint64
	Up    bool // from the dialling end to the listening one
	Bytes []byte
}

// recorder keeps what was written. Its mutex is taken last.
type recorder struct {
	mu sync.Mutex
	rs []Record
}

func (r *recorder) add(f *Flow, b []byte, now time.Time) {
	if !f.link.n.opts.Record {
		return
	}
	rec := Record{At: now, Link: f.link.id, Up: f == &f.link.up, Bytes: slices.Clone(b)}
	r.mu.Lock()
	r.rs = append(r.rs, rec)
	r.mu.Unlock()
}

// Records returns everything that was written so far, in order, lost bytes included; nil unless the network records.
// The bytes are the caller's to read only.
func (n *Network) Records() []Record {
	n.recorder.mu.Lock()
	defer n.recorder.mu.Unlock()
	return slices.Clone(n.recorder.rs)
}
