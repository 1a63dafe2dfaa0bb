package conn_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// D26: a connection at rest keeps little: ten nodes stay far below the megabytes that large buffers would take.
func TestAnIdleConnectionIsSmall_D26(t *testing.T) {
	var before, after runtime.MemStats
	var ds []*dispatcher
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 10 {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		ds = append(ds, bare(t, near))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20))
	for _, d := range ds {
		require.Equal(t, smallest, d.cn.ReadBuffer())
	}
}

// halfTaken accepts so many bytes without blocking, and leaves the rest to blocking writes.
type halfTaken struct{ net.Conn }

func (halfTaken) TryWrite(b []byte) (int, error) { return min(len(b), 10), nil }

// D28: a peer that stops reading ends its connection when a write has taken too long. Its calls end then, by the rule for
// writes that fail, and not with their deadlines.
func TestAPeerThatStopsReading_D28(t *testing.T) {
	for _, try := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			var nc net.Conn = near
			if try {
				nc = halfTaken{near}
			}
			v := newVerdicts()
			d := &dispatcher{base: time.Now(), pool: make(chan *kv.Call, 1)}
			cn, err := conn.Connect(t.Context(), "peer:1", &conn.Options{
				Bare: true, Base: d.base, Handler: v, WriteTimeout: time.Second,
				Dial:        func(context.Context, string, string) (net.Conn, error) { return nc, nil },
				Credentials: func(context.Context) (conn.Credentials, error) { return conn.Credentials{}, nil },
			})
			require.NoError(t, err)
			d.cn = cn
			served := make(chan error, 1)
			go func() { served <- cn.Serve() }()
			began := time.Now()
			f := kv.Start(t.Context(), d, kv.Upsert{Key: []byte("a"), Value: make([]byte, 100)})
			synctest.Wait()
			g := kv.Start(t.Context(), d, kv.Upsert{Key: []byte("b")}) // behind it
			<-f.Done()
			<-g.Done()
			require.ErrorIs(t, <-served, os.ErrDeadlineExceeded)
			require.Equal(t, time.Second, time.Since(began))
			require.True(t, v.unsent["b"])
			require.Equal(t, try, v.unsent["a"]) // without a raw socket nobody knows how much of it went out
		})
	}
}

// failing ends with its n-th write.
type failing struct {
	net.Conn
	left atomic.Int64
}

func (f *failing) Write(b []byte) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

type failingTry struct{ *failing }

func (f failingTry) TryWrite(b []byte) (int, error) { return f.Write(b) }

// D29: a write that fails ends the connection and every call on it, those included that were appended in that moment.
func TestAFailedFlushEndsEveryCall_D29(t *testing.T) {
	for _, try := range []bool{true, false} {
		for n := range int64(25) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				f := &failing{Conn: near}
				f.left.Store(n)
				var nc net.Conn = f
				if try {
					nc = failingTry{f}
				}
				d := bare(t, nc)
				began := time.Now()
				var wg sync.WaitGroup
				var ended atomic.Int64
				for i := range 100 {
					wg.Go(func() {
						for again := true; again; again = d.cn.Cause() == nil {
							f := kv.Start(t.Context(), d, kv.Get{Key: fmt.Appendf(nil, "k%d", i)})
							runtime.Gosched()
							if d.cn.Cause() == nil && i%2 == 0 {
								f.Cancel()
							}
							<-f.Done()
							ended.Add(1)
						}
					})
				}
				for d.cn.Cause() == nil { // until the write that fails
					synctest.Wait()
					kv.Start(t.Context(), d, kv.Noop{})
				}
				wg.Wait()
				require.Zero(t, time.Since(began))
				require.ErrorIs(t, d.cn.Cause(), errBroken)
				require.GreaterOrEqual(t, ended.Load(), int64(100))
				_, err := kv.Do(t.Context(), d, kv.Noop{})
				require.ErrorIs(t, err, conn.ErrClosed)
			})
		}
	}
}

// holding answers everything but requests for the key "held", which it answers after the one for "release".
func holding(nc net.Conn) {
	var held memd.Packet
	buf, n := make([]byte, 4096), 0
	for {
		m, err := nc.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		pos := 0
		var out []byte
		var p memd.Packet
		for {
			used, err := p.Parse(buf[pos:n], 0)
			if err != nil {
				break
			}
			pos += used
			rep := memd.Packet{Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, Extras: make([]byte, 4), Value: []byte(string(p.Key))}
			if string(p.Key) == "held" {
				held = rep
				continue
			}
			if string(p.Key) == "release" {
				out, _ = held.AppendTo(out)
			}
			out, _ = rep.AppendTo(out)
		}
		n = copy(buf, buf[pos:n])
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

// D50: the numbers of requests come around, and never meet a call that still waits: its answer finds it, and no other's does.
func TestNumbersOfRequestsComeAround_D50(t *testing.T) {
	if raceEnabled {
		t.Skip("too many calls for the race detector")
	}
	near, far := net.Pipe()
	defer far.Close()
	go holding(far)
	d := bare(t, near)
	held := kv.Start(t.Context(), d, kv.Get{Key: []byte("held")})
	for range 1<<16 + 100 { // every generation of the slot that is used, and some again
		r, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, "k", string(r.Value))
		select {
		case <-held.Done():
			d.cn.Close(nil)
			t.Fatal("somebody else's answer")
		default:
		}
		if time.Since(d.base) > 2*time.Second {
			break // the deadline is near, on a machine this slow the rest is for others to see
		}
	}
	_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("release")})
	require.NoError(t, err)
	r, err := held.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "held", string(r.Value))
	require.Zero(t, d.cn.Stats.Orphans.Load())
}

// D58: nothing keeps a call that has ended alive: no timer of its deadline, no context, no slot, no buffer.
func TestAnEndedCallIsForgotten_D58(t *testing.T) {
	d := connect(t, document)
	d.pool = nil // nobody keeps them
	var calls []weak.Pointer[kv.Call]
	w := watching{d, &calls}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for range 100 {
		_, err := kv.Do(ctx, w, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: time.Hour}})
		require.NoError(t, err)
	}
	_, err := kv.Do(ctx, d, kv.Get{Key: []byte("k")}) // of the last one the reader may be about to let go
	require.NoError(t, err)
	left := 100
	for i := 0; i < 100 && left > 2; i++ {
		runtime.GC()
		left = 0
		for _, c := range calls {
			if c.Value() != nil {
				left++
			}
		}
	}
	require.LessOrEqual(t, left, 2)
}

// watching sees each call that is made.
type watching struct {
	*dispatcher
	calls *[]weak.Pointer[kv.Call]
}

func (w watching) NewCall() *kv.Call {
	c := w.dispatcher.NewCall()
	*w.calls = append(*w.calls, weak.Make(c))
	return c
}
