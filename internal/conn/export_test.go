package conn

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// FirstSlot is the opaque of the first slot that counts, without a generation. The next is 1<<16 more.
const FirstSlot = ownSlots << 16

// Loopback is the two ends of a TCP connection, which the test closes.
func Loopback(t *testing.T) (near, far *net.TCPConn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	b, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// ReadBuffer is how long the read buffer is. Its reader waits.
func (c *Conn) ReadBuffer() int { return len(c.reader.buf) }

// SpareBytes is how much memory waits for the next requests.
func (c *Conn) SpareBytes() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.writer.spares {
		n += cap(p.buf)
	}
	return n
}

// PendingBytes is how much memory requests take that wait to be written.
func (c *Conn) PendingBytes() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.writer.pend {
		n += cap(p.buf)
	}
	return n
}

// LastAnswer is how long the value is of the answer that was handled last, as far as the connection still has it. Its
// reader waits.
func (c *Conn) LastAnswer() int { return len(c.reader.pkt.Value) }

// WokeNone reports whether all answers of the last read left their calls waiting for their time. The connection has
// ended.
func (c *Conn) WokeNone() bool { return c.reader.wokeNone() }

// Settled reports whether nothing is in flight and no goroutine writes: the next caller that appends writes.
func (c *Conn) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots.inFlight() == 0 && c.writer.role == unowned
}
