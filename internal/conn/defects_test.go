package conn_test

import (
	"context"
	"errors"
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

	"github.com/couchcore/couchcore/internal/call"
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
		ds = append(ds, dispatcherOver(t, near))
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

// D28: a peer that stops reading ends its connection when a write has taken too long. Its calls end then, by the rule
// for writes that fail, and not with their deadlines.
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
			d := &dispatcher{base: time.Now(), pool: make(chan *call.Call, 1)}
			cn, err := conn.Connect(t.Context(), "peer:1", &conn.Options{
				Options: over(nc), Base: d.base, Handler: v, WriteTimeout: time.Second,
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
			require.Equal(t, try, v.unsent["a"]) // without a raw socket it is not known how much of it went out
		})
	}
}

// failing ends with its n-th write. During that one it calls hook.
type failing struct {
	net.Conn
	left atomic.Int64
	hook func()
}

func (f *failing) Write(b []byte) (int, error) {
	left := f.left.Add(-1)
	if left == -1 {
		f.hook()
	}
	if left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

type failingTry struct{ *failing }

func (f failingTry) TryWrite(b []byte) (int, error) { return f.Write(b) }

// D29: a write that fails ends the connection and every call on it: those that were written before, those that it was
// to write, and those that are appended while it fails.
func TestAFailedFlushEndsEveryCall_D29(t *testing.T) {
	for _, try := range []bool{true, false} {
		for n := range int64(25) {
			synctest.Test(t, func(t *testing.T) { failAt(t, try, n) })
		}
	}
}

func failAt(t *testing.T, try bool, n int64) {
	near, far := net.Pipe()
	defer far.Close()
	f := &failing{Conn: near}
	f.left.Store(n)
	var nc net.Conn = f
	if try {
		nc = failingTry{f}
	}
	d := dispatcherOver(t, nc)
	var late []kv.Future[kv.GetResult]
	f.hook = func() {
		for range 3 {
			late = append(late, kv.Start(t.Context(), d, kv.Get{Key: []byte("late")}))
		}
	}
	began := time.Now()
	var wg sync.WaitGroup
	var ended atomic.Int64
	for i := range 100 {
		wg.Go(func() {
			for n := range 1000 {
				if n > 0 && d.cn.Cause() != nil {
					return
				}
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
	for range 100 { // until the write that fails
		if synctest.Wait(); d.cn.Cause() != nil {
			break
		}
		kv.Start(t.Context(), d, kv.Noop{})
	}
	require.ErrorIs(t, d.cn.Cause(), errBroken)
	wg.Wait()
	require.Len(t, late, 3)
	for _, f := range late {
		<-f.Done()
	}
	require.Zero(t, time.Since(began))
	require.GreaterOrEqual(t, ended.Load(), int64(100))
	_, err := kv.Do(t.Context(), d, kv.Noop{})
	require.ErrorIs(t, err, conn.ErrClosed)
}

// peer answers requests, as follows. It keeps the answers to requests for the key "held" until one for "release" comes.
// Those for "wrong" are errors, those for a scan's items have a part before their end.
type peer struct {
	held    []memd.Packet
	numbers map[uint32]int // how often each was used
	twice   int            // requests with the number of one that was not answered
}

func (p *peer) serve(nc net.Conn) {
	p.numbers = map[uint32]int{}
	buf, n := make([]byte, 4096), 0
	for {
		m, err := nc.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		pos := 0
		var out []byte
		var q memd.Packet
		for {
			used, err := q.Parse(buf[pos:n], 0)
			if err != nil {
				break
			}
			pos += used
			out = p.answer(out, &q)
		}
		n = copy(buf, buf[pos:n])
		if len(out) == 0 {
			continue
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

func (p *peer) answer(out []byte, q *memd.Packet) []byte {
	p.numbers[q.Opaque]++
	for _, h := range p.held {
		if h.Opaque == q.Opaque {
			p.twice++
		}
	}
	rep := memd.Packet{
		Magic: memd.MagicRes, Opcode: q.Opcode, Opaque: q.Opaque, Extras: make([]byte, 4),
		Value: []byte(string(q.Key)),
	}
	switch string(q.Key) {
	case "held":
		p.held = append(p.held, rep)
		return out
	case "release":
		for _, h := range p.held {
			out, _ = h.AppendTo(out)
		}
		p.held = nil
	case "wrong":
		rep.Status = memd.StatusTmpFail
	}
	if q.Opcode == memd.OpRangeScanContinue {
		rep.Value = []byte("\x01k")
		out, _ = rep.AppendTo(out)
		rep.Status, rep.Value = memd.StatusTmpFail, nil
	}
	out, _ = rep.AppendTo(out)
	return out
}

// ending fails what it is told of.
type ending struct{ ignores }

var errRefused = errors.New("refused")

func (ending) Answered(_ *conn.Conn, c *call.Call, _ *memd.Packet) { c.Done(errRefused, false) }
func (ending) Expired(calls []*call.Call)                          { failAll(calls, context.DeadlineExceeded) }

// D50: the numbers of requests come around, and none is used again while the answer to its last request is still to
// come, also when its call has ended meanwhile.
func TestNumbersOfRequestsWrap_D50(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		var p peer
		go p.serve(far)
		d := dispatcherOver(t, near, func(o *conn.Options) { o.Handler = ending{} })
		expired := kv.Start(t.Context(), d, kv.Get{Key: []byte("held")})
		time.Sleep(time.Second)
		held := kv.Start(t.Context(), d, kv.Get{Key: []byte("held")})
		_, err := expired.Wait(t.Context())
		require.Error(t, err)
		const rounds = 1<<16 + 100 // every number of the slot that is used, and some again
		for range rounds {
			r, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k")})
			require.NoError(t, err)
			require.Equal(t, "k", string(r.Value))
		}
		select {
		case <-held.Done():
			t.Fatal("the answer to another request")
		default:
		}
		_, err = kv.Do(t.Context(), d, kv.Get{Key: []byte("release")})
		require.NoError(t, err)
		r, err := held.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "held", string(r.Value))
		synctest.Wait()
		require.EqualValues(t, 1, d.cn.Stats.Orphans.Load()) // the answer to the one that had expired
		require.Zero(t, p.twice)
		require.Greater(t, len(p.numbers), 1<<16, "numbers are used again before they have come around")
	})
}

// D50: every way in which an answer is the last one gives the number of its request back.
func TestAnEndGivesTheNumberBack_D50(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		var p peer
		go p.serve(far)
		d := dispatcherOver(t, near, func(o *conn.Options) { o.Handler, o.MaxInFlight = ending{}, 3 })
		for range 10 {
			_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k")})
			require.NoError(t, err)
			_, err = kv.Do(t.Context(), d, kv.Get{Key: []byte("wrong")})
			require.ErrorIs(t, err, errRefused)
			_, err = kv.Do(t.Context(), d, kv.RangeScanContinue{})
			require.ErrorIs(t, err, errRefused)
			f := kv.Start(t.Context(), d, kv.Get{Key: []byte("held")})
			_, err = f.Wait(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = kv.Do(t.Context(), d, kv.Get{Key: []byte("release")})
			require.NoError(t, err)
			synctest.Wait()
			require.Zero(t, d.cn.InFlight())
		}
		require.Zero(t, p.twice)
		slots := map[uint32]bool{}
		for n := range p.numbers {
			slots[n>>16] = true
		}
		require.LessOrEqual(t, len(slots), 2)
	})
}

// D58: nothing keeps a call that has ended alive, neither a timer of its deadline nor its context, its number or a
// buffer: not one that was answered, and not one that was canceled before it was sent.
func TestAnEndedCallIsForgotten_D58(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := dispatcherOver(t, struct{ net.Conn }{near})
		d.pool = nil // ignores keeps them
		var calls []weak.Pointer[call.Call]
		w := watching{d, &calls}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		func() {
			var fs []kv.Future[kv.GetResult]
			for range 100 { // the first is being written, the others are written together
				fs = append(fs, kv.Start(ctx, w, kv.Get{Key: []byte("held")}))
				if len(fs) == 1 {
					synctest.Wait()
				}
			}
			time.Sleep(100 * time.Millisecond) // they are bound to their context now
			for i := 50; i < 100; i++ {
				require.True(t, calls[i].Value().Fail(errRefused))
			}
			var p peer
			go p.serve(far)
			_, err := kv.Do(ctx, d, kv.Get{Key: []byte("release")})
			require.NoError(t, err)
			for _, f := range fs[:50] {
				_, err := f.Wait(ctx)
				require.NoError(t, err)
			}
			_, err = kv.Do(ctx, d, kv.Get{Key: []byte("k")})
			require.NoError(t, err)
		}()
		synctest.Wait()
		left := 100
		for i := 0; i < 10 && left > 0; i++ {
			runtime.GC()
			left = 0
			for _, c := range calls {
				if c.Value() != nil {
					left++
				}
			}
		}
		require.Zero(t, left)
	})
}

// counting is a context that counts who waits for its end.
type counting struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int64
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool {
		c.waiting.Add(-1)
		return true
	}
}

// D58: a call that has lasted long enough to watch its context lets go of it with its answer, in all forms.
func TestAnAnsweredCallLetsGoOfItsContext_D58(t *testing.T) {
	for name, get := range map[string]func(ctx context.Context, d kv.Dispatcher) error{
		"do": func(ctx context.Context, d kv.Dispatcher) error {
			_, err := kv.Do(ctx, d, kv.Get{Key: []byte("held")})
			return err
		},
		"future": func(ctx context.Context, d kv.Dispatcher) error {
			_, err := kv.Start(ctx, d, kv.Get{Key: []byte("held")}).Wait(context.Background())
			return err
		},
		"batch": func(ctx context.Context, d kv.Dispatcher) error {
			return kv.GetMulti(ctx, d, kv.Common{}, [][]byte{[]byte("held")})[0].Err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			d := dispatcherOver(t, struct{ net.Conn }{near})
			var p peer
			go p.serve(far)
			ctx := &counting{Context: t.Context(), done: make(chan struct{})}
			ended := make(chan error, 1)
			go func() { ended <- get(ctx, d) }()
			time.Sleep(100 * time.Millisecond)
			require.EqualValues(t, 1, ctx.waiting.Load(), name)
			_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("release")})
			require.NoError(t, err)
			require.NoError(t, <-ended, name)
			require.Zero(t, ctx.waiting.Load(), name)
		})
	}
}

// D37: a call that is canceled between its turn and the write is left out of the write, and the connection goes on.
func TestACallIsCanceledBeforeItsWrite_D37(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := dispatcherOver(t, struct{ net.Conn }{near})
		var calls []weak.Pointer[call.Call]
		w := watching{d, &calls}
		var fs []kv.Future[kv.GetResult]
		for range 11 { // the first is being written, the others wait for that
			fs = append(fs, kv.Start(t.Context(), w, kv.Get{Key: []byte("k")}))
			synctest.Wait()
		}
		for i := 1; i < 11; i += 2 {
			require.True(t, calls[i].Value().Fail(errRefused))
		}
		var p peer
		go p.serve(far)
		for i, f := range fs {
			_, err := f.Wait(t.Context())
			require.Equal(t, i%2 == 1, err != nil)
		}
		require.NoError(t, d.cn.Cause())
		_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, p.numbers, 7)
	})
}

// watching sees each call that is made.
type watching struct {
	*dispatcher
	calls *[]weak.Pointer[call.Call]
}

// Runner implements kv.Dispatcher.
func (w watching) Runner() call.Runner { return w }

func (w watching) NewCall() *call.Call {
	c := w.dispatcher.NewCall()
	*w.calls = append(*w.calls, weak.Make(c))
	return c
}
