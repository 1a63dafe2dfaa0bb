package conn

import (
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
)

// takes is a socket that takes so many bytes of each write.
type takes int

func (n takes) TryWrite(b []byte) (int, error) { return min(int(n), len(b)), nil }

// Reads that wait for the same write begin with the first of them. Where a write may be long in coming each looks at the clock.
func TestWhenAReadBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{base: time.Now().Add(-time.Hour), maxCalls: 100, armed: never, try: takes(math.MaxInt), timer: time.AfterFunc(time.Hour, func() {})}
		defer c.timer.Stop()
		submit := func() (r *kv.Reads, late time.Duration) {
			time.Sleep(time.Millisecond)
			r = &kv.Reads{}
			r.NotBegun(time.Second)
			require.True(t, c.SubmitRead(r, []byte("k"), 1))
			require.True(t, r.Begun())
			require.Equal(t, r.Started+int64(time.Second), r.Deadline)
			return r, time.Duration(c.now() - r.Started)
		}
		write := func() {
			p := c.swap()
			require.NotNil(t, p)
			c.recycle(p)
		}
		c.flushing = true // somebody else writes
		for want := range 3 {
			_, late := submit()
			require.Equal(t, time.Duration(want)*time.Millisecond, late)
		}
		write()
		_, late := submit()
		require.Zero(t, late, "what came before is being written")
		_, late = submit()
		require.Equal(t, time.Millisecond, late)

		c.last().buf = make([]byte, maxPart)
		_, late = submit()
		require.Equal(t, 2*time.Millisecond, late)
		_, late = submit()
		require.Zero(t, late, "a part that nobody has looked at the clock for")
		_, late = submit()
		require.Equal(t, time.Millisecond, late)

		c.slow = true
		_, late = submit()
		require.Zero(t, late, "the socket is full")
		write()
		write()
		require.Nil(t, c.swap())
		require.False(t, c.slow, "all has been written")

		c.flushing = true
		own := &kv.Reads{Started: 5, Deadline: math.MaxInt64}
		require.True(t, c.SubmitRead(own, []byte("k"), 1))
		require.EqualValues(t, 5, own.Started, "it had begun")
		_, late = submit()
		require.Zero(t, late, "it has not looked for others")

		c.closed = true
		refused := &kv.Reads{}
		refused.NotBegun(math.MaxInt64)
		require.False(t, c.SubmitRead(refused, []byte("k"), 1))
		require.Equal(t, int64(math.MaxInt64), refused.Deadline)
	})
}

// held is a socket that is full, and takes what is written when it is let go.
type held struct {
	net.Conn
	takes
	release chan struct{}
}

func (h held) Write(b []byte) (int, error) {
	<-h.release
	return len(b), nil
}

// A full socket is noted until all has been written, and so is a connection whose writes block.
func TestAConnectionIsSlow(t *testing.T) {
	near, _ := Loopback(t)
	boot := func() *bootstrap { return &bootstrap{buf: make([]byte, minRead)} }
	full := held{near, 5, make(chan struct{})}
	c := newConn(full, &Options{Base: time.Now()}, boot())
	require.False(t, c.slow)
	require.True(t, c.SubmitRead(&kv.Reads{Deadline: never}, []byte("k"), 1))
	c.mu.Lock()
	require.True(t, c.slow)
	c.mu.Unlock()
	close(full.release)
	c.wg.Wait()
	require.False(t, c.slow, "the rest was written")

	require.True(t, newConn(struct{ net.Conn }{near}, &Options{Base: time.Now()}, boot()).slow)
}
