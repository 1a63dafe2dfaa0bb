package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

// Wakes gathers what one reader finishes, one after another: nobody has been told, and of reads without calls nothing has been
// copied, before Flush. Its zero value is ready.
//
// What is gathered is cheaper together. A value goes to memory that no cache has, and the next atomic operation waits until it
// has got there: for each value, if the reader went from one answer to the next, and so for several at once. And the lock that
// the scheduler takes for everybody who is woken passes to and fro between processors less often.
type Wakes struct {
	g     *group
	n     int
	reads int // how many of won there are
	calls int // how many of waiting there are
	won   [maxWakes]wonRead
	// waiting is who waits for calls that nothing else is to be told of.
	waiting [maxWakes]chan baton
}

// maxWakes is how many reads and calls are gathered at most.
const maxWakes = 16

// wonRead is a plain answer to a read without a call.
type wonRead struct {
	r        *Reads
	i        uint32
	flags    uint32
	cas      uint64
	value    []byte // of the packet
	via      *Via
	datatype memd.Datatype
}

// Flush tells whoever waits of what was gathered. Whoever gathers calls it before doing anything that may take time, and before
// the packets' memory is used again.
func (w *Wakes) Flush() {
	if w.reads > 0 {
		w.flushReads()
	}
	if w.calls > 0 {
		w.flushCalls()
	}
	if w.n > 0 {
		w.flushGroup()
	}
}

func (w *Wakes) add(g *group) {
	if g != w.g {
		w.flushGroup()
		w.g = g
	}
	w.n++
}

func (w *Wakes) flushGroup() {
	if w.n > 0 {
		w.g.Add(-w.n)
		w.g, w.n = nil, 0
	}
}

// addCall gathers a call that wake is to be told of, and nobody else.
func (w *Wakes) addCall(wake chan baton) {
	w.waiting[w.calls] = wake
	if w.calls++; w.calls == maxWakes {
		w.flushCalls()
	}
}

//go:noinline
func (w *Wakes) flushCalls() {
	for _, wake := range w.waiting[:w.calls] {
		wake <- baton{}
	}
	w.calls = 0
}

// addRead gathers a read's plain answer.
func (w *Wakes) addRead(r *Reads, i int, p *memd.Packet, via *Via) {
	x := &w.won[w.reads]
	x.r, x.i, x.flags, x.cas, x.value, x.via, x.datatype = r, uint32(i), binary.BigEndian.Uint32(p.Extras), p.CAS, p.Value, via, p.Datatype
	if w.reads++; w.reads == maxWakes {
		w.flushReads()
	}
}

//go:noinline
func (w *Wakes) flushReads() {
	won := w.won[:w.reads]
	for k := range won {
		x := &won[k]
		g, into := &x.r.one, x.r.into
		if !x.r.alone() {
			g, into = &x.r.out[x.i].Result, x.r.intoOf(int(x.i))
		}
		g.CAS, g.via, g.Flags, g.Datatype = x.cas, x.via, x.flags, x.datatype
		if into == nil {
			g.Value = exact(x.value)
		} else {
			into = append(into, x.value...)
			g.Value = into
		}
	}
	for k := range won {
		if r := won[k].r; r.alone() {
			r.wake <- baton{}
		} else {
			w.add(&r.group)
		}
	}
	clear(won) // an idle connection would keep what callers asked for, and the buffer that the answers came in
	w.reads = 0
}
