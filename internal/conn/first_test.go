package conn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
)

// firsts notes how what it has dispatched was written.
type firsts struct {
	*dispatcher
	atOnce bool
	yields bool // to other goroutines, before
}

// Runner implements kv.Dispatcher.
func (d *firsts) Runner() call.Runner { return d }

func (d *firsts) wrote(dispatch func()) {
	before, answered := d.cn.Stats.Writes.Load(), make(chan struct{})
	go close(answered)
	dispatch()
	d.atOnce = d.cn.Stats.Writes.Load() > before
	select {
	case <-answered:
		d.yields = true
	default:
		d.yields = false
	}
}

func (d *firsts) Dispatch(c *call.Call) { d.wrote(func() { d.dispatcher.Dispatch(c) }) }

// A caller that is alone in flight writes at once, and does not yield before.
func TestASingleRequestIsWrittenAtOnce(t *testing.T) {
	d := &firsts{dispatcher: connect(t, document)}
	defer d.end()
	for name, do := range map[string]func(){
		"a read":  func() { _, _ = kv.Do(t.Context(), d, kv.Get{Key: []byte("k")}) },
		"a write": func() { _, _ = kv.Do(t.Context(), d, kv.Upsert{Key: []byte("k"), Value: []byte("v")}) },
	} {
		stayed := false
		for range 10 { // a busy machine may stop the thread in its system call, and the others run then
			d.settle()
			do()
			require.True(t, d.atOnce, name)
			stayed = stayed || !d.yields
		}
		require.True(t, stayed, name)
	}
}
