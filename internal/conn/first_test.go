package conn_test

import (
	"context"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
)

// firsts notes how what it has dispatched was written.
type firsts struct {
	*dispatcher
	other  chan struct{} // closed by another goroutine, which became runnable just before the dispatch
	wrote  bool
	yields bool // to the other goroutine, before the write
}

// Runner implements kv.Dispatcher.
func (d *firsts) Runner() call.Runner { return d }

func (d *firsts) Dispatch(c *call.Call) {
	d.other, d.wrote, d.yields = make(chan struct{}), false, false
	go close(d.other)
	d.dispatcher.Dispatch(c)
}

// watched is a socket that looks, when a write begins, whether the other goroutine has run.
type watched struct {
	net.Conn
	by *firsts
}

func (w watched) TryWrite(b []byte) (int, error) {
	if w.by.other != nil {
		w.by.wrote = true
		select {
		case <-w.by.other:
			w.by.yields = true
		default:
		}
	}
	return w.Conn.Write(b)
}

// A caller that is alone in flight writes at once, and does not yield before.
func TestASingleRequestIsWrittenAtOnce(t *testing.T) {
	// With one processor the other goroutine runs only when the caller yields: it cannot be taken by an idle one.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := &firsts{}
	d.dispatcher = connect(t, document, func(o *conn.Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := dial(ctx, network, address)
			return watched{nc, d}, err
		}
	})
	defer d.end()
	for name, do := range map[string]func(){
		"a read":  func() { _, _ = kv.Do(t.Context(), d, kv.Get{Key: []byte("k")}) },
		"a write": func() { _, _ = kv.Do(t.Context(), d, kv.Upsert{Key: []byte("k"), Value: []byte("v")}) },
	} {
		stayed := false
		for range 10 { // a caller whose thread is paused for 10 ms is preempted
			d.settle()
			do()
			require.True(t, d.wrote, name)
			stayed = stayed || !d.yields
		}
		require.True(t, stayed, name)
	}
}
