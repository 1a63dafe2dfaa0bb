package conn_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// canned is a peer that grants HELLO and answers every request from a prepared packet, without an allocation.
func canned(nc net.Conn, template memd.Packet) {
	buf := make([]byte, 1<<20)
	out := make([]byte, 0, 64<<10)
	n := 0
	for {
		m, err := nc.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		pos := 0
		out = out[:0]
		var p memd.Packet
		for {
			used, err := p.Parse(buf[pos:n], 0)
			if err != nil {
				break
			}
			pos += used
			rep := template
			rep.Magic, rep.Opcode, rep.Opaque = memd.MagicRes, p.Opcode, p.Opaque
			switch p.Opcode {
			case memd.OpHello:
				rep = memd.Packet{Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, Value: p.Value}
			case memd.OpGetErrorMap:
				rep = memd.Packet{
					Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque,
					Status: memd.StatusUnknownCommand,
				}
			}
			out, _ = rep.AppendTo(out)
		}
		n = copy(buf, buf[pos:n])
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

// dispatcher hands calls to one connection, with a pool of its own.
type dispatcher struct {
	cn   *conn.Conn
	base time.Time
	pool chan *call.Call
	once sync.Once
	home *call.Home
	end  func() // of the connection; may be called again
}

// settle waits until the reader and the writer have counted what callers have been told of.
func (d *dispatcher) settle() {
	for !d.cn.Settled() {
		runtime.Gosched()
	}
}

// Runner implements kv.Dispatcher.
func (d *dispatcher) Runner() call.Runner { return d }

func (d *dispatcher) NewCall() *call.Call {
	select {
	case c := <-d.pool:
		return c
	default:
		return call.NewCall()
	}
}

func (d *dispatcher) Dispatch(c *call.Call) {
	d.admit(c)
	d.submit(c)
}

func (d *dispatcher) admit(c *call.Call) {
	now := time.Now()
	d.once.Do(func() { d.home = &call.Home{Owner: d, Bucket: "b", Base: d.base} })
	c.Bind(d.home)
	c.State.Deadline = now.Add(2500 * time.Millisecond)
	c.Deadline = int64(c.State.Deadline.Sub(d.base))
}

func (d *dispatcher) submit(c *call.Call) {
	if err := d.cn.Submit(c); err != nil {
		c.Fail(err)
	}
}

func (d *dispatcher) Release(c *call.Call) {
	if c.Pooled() {
		c.Reset()
		select {
		case d.pool <- c:
		default:
		}
	}
}

func (d *dispatcher) Redispatch(*call.Call)         {}
func (d *dispatcher) Cancel(*call.Call, error) bool { return false }
func (d *dispatcher) Complete(f func())             { f() }

func failAll(calls []*call.Call, cause error) {
	for _, c := range calls {
		c.Fail(cause)
	}
}

type ignores struct{}

func (ignores) Answered(*conn.Conn, *call.Call, *memd.Packet) {}
func (ignores) Unanswered(int, error)                         {}
func (ignores) Lost(c *call.Call, _ uint32, cause error)      { c.Fail(cause) }
func (ignores) Unsent(c *call.Call, _ bool, cause error)      { c.Fail(cause) }
func (ignores) Expired(calls []*call.Call)                    { failAll(calls, cberr.UnambiguousTimeout) }
func (ignores) Silent(*conn.Conn)                             {}
func (ignores) Orphan(*conn.Conn, *memd.Packet, call.Late)    {}
func (ignores) Room(*conn.Conn)                               {}
func (ignores) Push(*conn.Conn, *memd.Packet)                 {}

// noLogin are the credentials of a server that asks for none.
func noLogin(context.Context, string) (handshake.Credentials, error) {
	return handshake.Credentials{}, nil
}

// over are the options for a server that is at the other end of nc and knows no HELLO.
func over(nc net.Conn) handshake.Options {
	return handshake.Options{
		Memcached: true, Credentials: noLogin,
		Dial: func(context.Context, string, string) (net.Conn, error) { return nc, nil },
	}
}

// connect makes a connection over loopback to a canned peer.
func connect(t testing.TB, template memd.Packet, change ...func(*conn.Options)) *dispatcher {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		nc, err := l.Accept()
		if err == nil {
			canned(nc, template)
			_ = nc.Close()
		}
	}()
	d := &dispatcher{base: time.Now(), pool: make(chan *call.Call, 512)}
	o := conn.Options{
		Options: handshake.Options{
			Dial:        (&net.Dialer{}).DialContext,
			Features:    []memd.Feature{memd.FeatureCollections},
			Credentials: noLogin,
		},
		Base: d.base, Handler: ignores{},
	}
	for _, f := range change {
		f(&o)
	}
	cn, err := conn.Connect(t.Context(), l.Addr().String(), &o)
	require.NoError(t, err)
	d.cn = cn
	served := make(chan struct{})
	go func() {
		_ = cn.Serve()
		close(served)
	}()
	d.end = func() {
		cn.Close(nil)
		<-served
		_ = l.Close()
	}
	t.Cleanup(d.end)
	return d
}

var document = memd.Packet{CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 256)}

// A Get costs its value, and the operation when it is given by pointer: the budget is 3, ours 2.
func TestAllocationsOfASuccessfulGet(t *testing.T) {
	if conn.RaceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	d := connect(t, document)
	key := []byte("airline_10")
	byPointer := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(t.Context(), d, &kv.Get{Key: key}); err != nil {
			t.Fatal(err)
		}
	})
	ctx := context.Background()
	byValue := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(ctx, d, kv.Get{Key: key}); err != nil {
			t.Fatal(err)
		}
	})
	buf := make([]byte, 0, 512)
	into := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(ctx, d, kv.Get{Key: key, Into: buf}); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, byPointer, 2.0)
	require.LessOrEqual(t, byValue, 1.0)
	require.Zero(t, into)
}

func TestAllocationsOfASuccessfulUpsert(t *testing.T) {
	if conn.RaceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	d := connect(t, memd.Packet{CAS: 7, Extras: make([]byte, 16)})
	key, value, ctx := []byte("airline_10"), make([]byte, 256), context.Background()
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(ctx, d, kv.Upsert{Key: key, Value: value}); err != nil {
			t.Fatal(err)
		}
	}))
}

// D27: requests of many callers leave in few writes, a lone one in exactly one.
func TestD27RequestsAreBatched(t *testing.T) {
	each := 2000
	for workers, least := range map[int]float64{1: 1, 16: 3, 128: 10, 1024: 16} {
		if conn.RaceEnabled { // a caller takes much longer to append, so that fewer do so in time
			each, least = 200, max(1, least/3)
		}
		d := connect(t, document)
		done := make(chan error, workers)
		for range workers {
			go func() {
				for range each {
					if _, err := kv.Do(context.Background(), d, kv.Get{Key: []byte("k")}); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range workers {
			require.NoError(t, <-done)
		}
		d.settle()
		perWrite := float64(d.cn.Stats.Requests.Load()) / float64(d.cn.Stats.Writes.Load())
		t.Logf("%d workers: %.1f requests per write", workers, perWrite)
		require.GreaterOrEqual(t, perWrite, least)
		if workers == 1 {
			require.InDelta(t, 1, perWrite, 0)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	d := connect(b, document)
	key := []byte("airline_10")
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := kv.Do(context.Background(), d, kv.Get{Key: key}); err != nil {
				b.Error(err)
			}
		}
	})
}
