package conn_test

import (
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// dispatcherOver makes a connection over nc that has no bootstrap, and serves it.
func dispatcherOver(t *testing.T, nc net.Conn, change ...func(*conn.Options)) *dispatcher {
	d := &dispatcher{base: time.Now(), pool: make(chan *call.Call, 64)}
	o := &conn.Options{
		Options: over(nc), Base: d.base, Handler: ignores{},
	}
	for _, f := range change {
		f(o)
	}
	cn, err := conn.Connect(t.Context(), "peer:1", o)
	require.NoError(t, err)
	d.cn = cn
	served := make(chan struct{})
	go func() {
		_ = cn.Serve()
		close(served)
	}()
	t.Cleanup(func() {
		cn.Close(nil)
		<-served
	})
	return d
}

const (
	smallest = 16 << 10
	resting  = 4 << 10
	largest  = 256 << 10
)

// The read buffer grows while reads fill it, and a connection at rest gives it back. Neither loses anything.
func TestTheReadBufferGrowsAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go canned(far, memd.Packet{CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 40<<10)})
		d := dispatcherOver(t, near)
		get := func() {
			r, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k")})
			require.NoError(t, err)
			require.Len(t, r.Value, 40<<10)
		}
		require.Equal(t, smallest, d.cn.ReadBuffer())
		d.cn.ShrinkIdle()
		for range 3 {
			get()
		}
		synctest.Wait()
		require.Greater(t, d.cn.ReadBuffer(), smallest)
		for range 3 {
			d.cn.ShrinkIdle()
			synctest.Wait()
			require.Equal(t, resting, d.cn.ReadBuffer())
			require.Zero(t, d.cn.LastAnswer(), "it was in the buffer that was given back")
			get()
			synctest.Wait()
			require.Greater(t, d.cn.ReadBuffer(), smallest)
		}
	})
}

// A buffer whose size was named keeps it.
func TestANamedReadBufferStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go canned(far, memd.Packet{CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 40<<10)})
		d := dispatcherOver(t, near, func(o *conn.Options) { o.ReadBuffer = 2 * largest })
		for range 2 {
			require.Equal(t, 2*largest, d.cn.ReadBuffer())
			_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k")})
			require.NoError(t, err)
			d.cn.ShrinkIdle()
			synctest.Wait()
		}
	})
}

// A connection that is told to rest while a large value comes in goes on with it.
func TestShrinkIdleInTheMiddleOfAPacket(t *testing.T) {
	for _, size := range []int{30 << 10, largest, 4 * largest} {
		for _, cut := range []int{1, memd.HeaderLen, memd.HeaderLen + 3, 20 << 10} {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				d := dispatcherOver(t, near)
				ask := func(size int) (f kv.Future[kv.GetResult], answer []byte) {
					f = kv.Start(t.Context(), d, kv.Get{Key: []byte("k")})
					var p memd.Packet
					buf := make([]byte, 64)
					n, err := far.Read(buf)
					require.NoError(t, err)
					_, err = p.Parse(buf[:n], 0)
					require.NoError(t, err)
					p = memd.Packet{
						Magic: memd.MagicRes, Opcode: memd.OpGet, Opaque: p.Opaque, Extras: make([]byte, 4),
						Value: make([]byte, size),
					}
					answer, err = p.AppendTo(nil)
					require.NoError(t, err)
					return f, answer
				}
				f, answer := ask(100 << 10) // the buffer is not at rest
				_, err := far.Write(answer)
				require.NoError(t, err)
				_, err = f.Wait(t.Context())
				require.NoError(t, err)
				synctest.Wait()
				require.Greater(t, d.cn.ReadBuffer(), smallest)
				f, answer = ask(size)
				for _, part := range [][]byte{answer[:cut], answer[cut : len(answer)-1], answer[len(answer)-1:]} {
					_, err = far.Write(part)
					require.NoError(t, err)
					synctest.Wait()
					d.cn.ShrinkIdle()
					synctest.Wait()
				}
				r, err := f.Wait(t.Context())
				require.NoError(t, err)
				require.Len(t, r.Value, size)
			})
		}
	}
}

// What many large requests at once need is made once, and goes when the connection is at rest.
func TestPartsAreUsedAgain(t *testing.T) {
	if conn.RaceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	d := &many{dispatcher: connect(t, memd.Packet{CAS: 7})}
	docs := make([]kv.Upsert, 400)
	for i := range docs {
		docs[i] = kv.Upsert{Key: []byte("k"), Value: make([]byte, 4<<10)}
	}
	const requests = 400 * (4<<10 + 40)
	round := func() (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, o := range kv.UpsertMulti(t.Context(), d, docs) {
			require.NoError(t, o.Err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	first := round()
	require.Greater(t, first, uint64(requests))
	require.Less(t, first, uint64(3*requests), "none is made larger bit by bit but the first")
	least := first
	for range 20 { // a round may find parts on their way
		least = min(least, round())
	}
	require.Less(t, least, uint64(requests/2))
	d.cn.ShrinkIdle()
	require.Greater(t, round(), uint64(requests))
}

// Whatever was written, no more is kept for the next requests than is promised.
func TestSparePartsAreBounded(t *testing.T) {
	d := &many{dispatcher: connect(t, memd.Packet{CAS: 7})}
	docs := make([]kv.Upsert, 400)
	for i := range docs {
		docs[i] = kv.Upsert{Key: []byte("k"), Value: make([]byte, 4<<10)}
		if i%20 == 0 {
			docs[i].Value = make([]byte, 500<<10)
		}
	}
	most := 0
	for range 10 {
		for _, o := range kv.UpsertMulti(t.Context(), d, docs) {
			require.NoError(t, o.Err)
		}
		most = max(most, d.cn.SpareBytes())
	}
	require.Greater(t, most, 256<<10)
	require.LessOrEqual(t, most, 3<<20)
	d.cn.ShrinkIdle()
	require.Zero(t, d.cn.SpareBytes())
}
