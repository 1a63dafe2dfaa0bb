package conn_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// stuck is a socket that takes a few bytes, and the rest when it is let go.
type stuck struct {
	net.Conn
	release chan struct{}
}

func (s stuck) TryWrite(b []byte) (int, error) { return s.Conn.Write(b[:min(len(b), 10)]) }

func (s stuck) Write(b []byte) (int, error) {
	<-s.release
	return s.Conn.Write(b)
}

// received is what a peer has read whole, by key. It answers each with success.
func received(nc net.Conn) <-chan map[string][]byte {
	out := make(chan map[string][]byte, 1)
	go func() {
		got := map[string][]byte{}
		defer func() { out <- got }()
		var in []byte
		buf := make([]byte, 64<<10)
		for {
			n, err := nc.Read(buf)
			if err != nil {
				return
			}
			in = append(in, buf[:n]...)
			var p memd.Packet
			for {
				used, err := p.Parse(in, 0)
				if err != nil {
					break
				}
				got[string(p.Key)] = bytes.Clone(p.Value)
				in = in[used:]
				rep := memd.Packet{Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque}
				b, _ := rep.AppendTo(nil)
				if _, err := nc.Write(b); err != nil {
					return
				}
			}
		}
	}()
	return out
}

// filled is a value of which every byte is b.
func filled(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

// A large value is copied when its request is written: those that wait for a full socket take no memory for them, and
// of a call that has ended meanwhile nothing is written and nothing read, though others stand before and behind it.
func TestLargeValuesWaitUncopied(t *testing.T) {
	for name, direct := range map[string]bool{"non-blocking": true, "flusher": false} {
		for _, size := range []int{16 << 10, 64 << 10, 1 << 20} { // the last is more than what is kept for the next
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					near, far := net.Pipe()
					got := received(far)
					s := stuck{near, make(chan struct{})}
					var nc net.Conn = s
					if !direct {
						nc = struct{ net.Conn }{s}
					}
					d := dispatcherOver(t, nc)
					first := kv.Start(t.Context(), d, kv.Upsert{Key: []byte("first"), Value: filled('f', 100)})
					synctest.Wait()
					gone := filled('g', size)
					var old, later []kv.Future[kv.MutationResult]
					for i := range 20 {
						old = append(old, kv.Start(t.Context(), d, kv.Upsert{
							Key:   fmt.Appendf(nil, "old-%d", i),
							Value: gone,
						}))
					}
					time.Sleep(2 * time.Second)
					for i := range 20 {
						value := filled(byte('a'+i), size)
						if i%3 == 0 {
							value = value[:100] // a small one between large ones
						}
						later = append(later, kv.Start(t.Context(), d, kv.Upsert{
							Key:   fmt.Appendf(nil, "later-%d", i),
							Value: value,
						}))
					}
					require.Less(t, d.cn.PendingBytes(), size+64<<10)
					time.Sleep(time.Second)
					for _, f := range append(old, first) {
						_, err := f.Wait(t.Context())
						require.Error(t, err)
					}
					close(s.release)
					copy(gone, filled('x', size)) // the race detector sees who still reads it
					for _, f := range later {
						_, err := f.Wait(t.Context())
						require.NoError(t, err)
					}
					require.NoError(t, far.Close())
					seen := <-got
					require.Len(t, seen, 1+len(later), "nothing of what had ended")
					require.Equal(t, filled('f', 100), seen["first"], "it was on its way")
					for i := range later {
						want := filled(byte('a'+i), size)
						if i%3 == 0 {
							want = want[:100]
						}
						require.True(t, bytes.Equal(want, seen[fmt.Sprintf("later-%d", i)]), i)
					}
				})
			})
		}
	}
}

// What a connection lacks for a large request its caller is told at once, and the next one is not the worse for it.
func TestALargeRequestThatCannotBeSent(t *testing.T) {
	d := connect(t, memd.Packet{CAS: 7})
	for range 3 {
		_, err := kv.Do(t.Context(), d, kv.Upsert{
			Common: kv.Common{OnBehalfOf: "somebody"}, Key: []byte("k"),
			Value: make([]byte, 20<<10),
		})
		require.ErrorContains(t, err, "feature")
		_, err = kv.Do(t.Context(), d, kv.Upsert{Key: []byte("k"), Value: make([]byte, 20<<10)})
		require.NoError(t, err)
	}
	d.settle()
	require.Zero(t, d.cn.InFlight())
}

// The memory that a large value is copied into is used again.
func TestLargeValuesCostNoMemory(t *testing.T) {
	if conn.RaceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	d := connect(t, memd.Packet{CAS: 7, Extras: make([]byte, 16)})
	key, value := []byte("airline_10"), make([]byte, 64<<10)
	upsert := func() {
		if _, err := kv.Do(t.Context(), d, kv.Upsert{Key: key, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	require.LessOrEqual(t, testing.AllocsPerRun(1000, upsert), 1.0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		upsert()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/1000, uint64(1<<10))
}
