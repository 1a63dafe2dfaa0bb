package conn_test

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
)

// firsts notes how what it has dispatched was written.
type firsts struct {
	*reader
	single  bool // reads come one by one
	atOnce  bool
	gaveWay bool // to others, before
}

func (d *firsts) wrote(dispatch func()) {
	before, others := d.cn.Stats.Writes.Load(), make(chan struct{})
	go close(others)
	dispatch()
	d.atOnce = d.cn.Stats.Writes.Load() > before
	select {
	case <-others:
		d.gaveWay = true
	default:
		d.gaveWay = false
	}
}

func (d *firsts) Dispatch(c *kv.Call)       { d.wrote(func() { d.reader.Dispatch(c) }) }
func (d *firsts) DispatchAll(cs []*kv.Call) { d.wrote(func() { d.reader.DispatchAll(cs) }) }
func (d *firsts) DispatchReads(rs *kv.Reads) {
	d.wrote(func() {
		if !d.single {
			d.reader.DispatchReads(rs)
			return
		}
		rs.Started = int64(time.Since(d.base))
		rs.Deadline = rs.Started + int64(d.limit)
		rs.SetCollection(0)
		d.cn.SubmitRead(rs, rs.Key(0), 0)
	})
}

// With a pacer who is alone in flight is the first of many if at least twice as many have just had their answers, of a batch more than
// a few.
func TestTheFirstOfManyIsNotAlone(t *testing.T) {
	before := runtime.GOMAXPROCS(1) // the pacer comes later than whoever looks
	defer runtime.GOMAXPROCS(before)
	var serving atomic.Int32
	serving.Store(math.MaxInt16)
	base := time.Now()
	p := conn.NewPacer(base, &conn.Yields{}, 1)
	d := &firsts{reader: newReader(connect(t, document, func(o *conn.Options) {
		o.Base, o.Serving, o.Pacer, o.Yields = base, &serving, p, &conn.Yields{}
	}))}
	defer p.Close()
	defer d.end()
	write := kv.Upsert{Key: []byte("k"), Value: []byte("v")}
	one := func(int) { _, _ = kv.Do(t.Context(), d, write) }
	read := func(int) { _, _ = kv.Do(t.Context(), d, kv.Get{Key: []byte("k")}) }
	writes := func(n int) {
		ops := make([]kv.Upsert, n)
		for i := range ops {
			ops[i] = write
		}
		kv.Batch(t.Context(), d, ops, 0)
	}
	reads := func(n int) { kv.GetMulti(t.Context(), d, kv.Common{}, manyKeys(n)) }
	for name, c := range map[string]struct {
		do     func(int)
		n, had int
		atOnce bool
	}{
		"a call":                           {one, 0, 1, true},
		"a call, two before":               {one, 0, 2, false},
		"a read":                           {read, 0, 1, true},
		"a read, two before":               {read, 0, 2, false},
		"a read in a batch":                {reads, 1, 7, true},
		"a read in a batch, eight before":  {reads, 1, 8, false},
		"a batch of reads":                 {reads, 5, 9, true},
		"a batch of reads, twice as many":  {reads, 5, 10, false},
		"a batch of writes":                {writes, 5, 9, true},
		"a batch of writes, twice as many": {writes, 5, 10, false},
		"a few writes":                     {writes, 2, 7, true},
		"a few writes, eight before":       {writes, 2, 8, false},
	} {
		d.settle()
		d.cn.HadInFlight(c.had)
		d.single = c.n == 0
		c.do(c.n)
		require.Equal(t, c.atOnce, d.atOnce, name)
	}

	serving.Store(2) // few nodes have no pacer, and whoever is alone gives way to nobody
	stayed := false
	for range 10 { // a busy machine may stop the thread in its system call, and the others come then
		d.settle()
		d.cn.HadInFlight(100)
		d.single = true
		read(0)
		require.True(t, d.atOnce)
		stayed = stayed || !d.gaveWay
	}
	require.True(t, stayed)
}
