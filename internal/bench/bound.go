package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// bound is the yardstick: a client by hand that does nothing but Get and Upsert, and nothing more than speed needs. One
// mutex and one append buffer per connection, a table of slots, pooled waiters; the reader flushes after it has woken
// the callers and yielded once. It has the feature tax, which a product cannot leave out: a look at the context,
// routing through a snapshot, deadlines and what ends them, a claim by compare-and-swap, a latency histogram. It must
// not grow features.
type bound struct {
	base  time.Time
	view  atomic.Pointer[boundView]
	calls sync.Pool
	hist  histogram
	histM sync.Mutex
	wg    sync.WaitGroup
	quit  chan struct{}
}

// boundView is an immutable map of vbuckets to connections.
type boundView struct {
	conns []*boundConn
	vbs   [vbuckets]uint16
}

// boundCall is one operation. Its channel has room for the one token that its end brings.
type boundCall struct {
	token  chan struct{}
	op     operation
	status memd.Status
	value  []byte
	err    error
}

const boundSlots = 4096

type boundSlot struct {
	live     atomic.Uint32 // generation<<1 | 1 while a call waits here
	deadline int64
	call     *boundCall
}

type boundConn struct {
	b   *bound
	nc  *net.TCPConn
	try *attempt

	mu       sync.Mutex
	pend     []byte
	spare    []byte
	free     []uint16
	inflight int
	flushing bool
	reading  bool
	err      error

	slots [boundSlots]boundSlot
	freed []uint16
}

const boundTimeout = 2500 * time.Millisecond

var (
	errBoundFull    = errors.New("no slot is free")
	errBoundTimeout = errors.New("timed out")
)

func newBound(addrs []string, m mode) (*bound, error) {
	b := &bound{base: time.Now(), quit: make(chan struct{})}
	b.calls.New = func() any { return &boundCall{token: make(chan struct{}, 1)} }
	v := &boundView{}
	for _, a := range addrs {
		nc, err := dialRaw(a, string(m))
		if err != nil {
			return nil, err
		}
		try, err := newAttempt(nc)
		if err != nil {
			return nil, err
		}
		c := &boundConn{b: b, nc: nc, try: try}
		for i := range boundSlots {
			c.free = append(c.free, uint16(boundSlots-1-i))
		}
		v.conns = append(v.conns, c)
	}
	for vb := range v.vbs {
		v.vbs[vb] = uint16(nodeOf(uint16(vb), len(addrs)))
	}
	b.view.Store(v)
	for _, c := range v.conns {
		b.wg.Go(c.read)
	}
	b.wg.Go(b.sweep)
	return b, nil
}

// close ends the readers and the sweeper and waits for them.
func (b *bound) close() {
	close(b.quit)
	for _, c := range b.view.Load().conns {
		_ = c.nc.Close()
	}
	b.wg.Wait()
}

func (b *bound) do(ctx context.Context, op operation, key, val []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := int64(time.Since(b.base))
	deadline := began + int64(boundTimeout)
	if d, ok := ctx.Deadline(); ok {
		deadline = min(deadline, int64(d.Sub(b.base)))
	}
	v := b.view.Load()
	vb := vbucketOf(key)
	c := v.conns[v.vbs[vb]]
	call := b.calls.Get().(*boundCall)
	call.op, call.value, call.err = op, nil, nil
	if err := c.submit(call, key, val, vb, deadline); err != nil {
		return nil, err
	}
	<-call.token
	value, err := call.value, call.err
	if err == nil && call.status != memd.StatusSuccess {
		err = errOutOfStep
	}
	if err == nil {
		b.calls.Put(call) // a timed-out one may still be in a slot
	}
	b.record(int64(time.Since(b.base)) - began)
	return value, err
}

func (b *bound) record(ns int64) {
	b.histM.Lock()
	b.hist.add(ns)
	b.histM.Unlock()
}

func (c *boundConn) submit(call *boundCall, key, val []byte, vb uint16, deadline int64) error {
	c.mu.Lock()
	if c.err != nil || len(c.free) == 0 {
		err := c.err
		c.mu.Unlock()
		if err == nil {
			err = errBoundFull
		}
		return err
	}
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.slots[i]
	gen := (s.live.Load()>>1 + 1) & 0xffff
	s.call, s.deadline = call, deadline
	s.live.Store(gen<<1 | 1)
	c.inflight++
	c.pend = appendRequest(c.pend, call.op, key, val, vb, uint32(i)<<16|gen)
	alone := c.inflight == 1
	mine := !c.flushing && !c.reading
	if mine {
		c.flushing = true
	}
	c.mu.Unlock()
	if mine {
		if !alone {
			runtime.Gosched()
		}
		c.flush()
	}
	return nil
}

// flush writes until nothing is pending. Its caller has set flushing.
func (c *boundConn) flush() {
	for {
		c.mu.Lock()
		buf := c.pend
		if len(buf) == 0 {
			c.flushing = false
			c.mu.Unlock()
			return
		}
		c.pend, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		n, err := c.try.write(buf)
		switch {
		case err != nil:
			_ = c.nc.Close() // the reader tells the calls
			return
		case n < len(buf):
			c.b.wg.Go(func() {
				if _, err := c.nc.Write(buf[n:]); err != nil {
					_ = c.nc.Close()
					return
				}
				c.keep(buf)
				c.flush()
			})
			return
		}
		c.keep(buf)
	}
}

func (c *boundConn) keep(buf []byte) {
	c.mu.Lock()
	if cap(buf) <= 1<<20 {
		c.spare = buf
	}
	c.mu.Unlock()
}

// read completes all whole answers of one read, gives their slots back, yields, and writes what gathered.
func (c *boundConn) read() {
	in := make([]byte, readSize)
	have := 0
	for {
		n, err := c.nc.Read(in[have:])
		if err != nil {
			c.fail(err)
			return
		}
		have += n
		c.mu.Lock()
		c.reading = !c.flushing
		mine := c.reading
		c.mu.Unlock()
		used := c.complete(in[:have])
		if used < 0 {
			c.fail(errOutOfStep)
			return
		}
		have = copy(in, in[used:have])
		c.mu.Lock()
		c.free = append(c.free, c.freed...)
		c.inflight -= len(c.freed)
		c.mu.Unlock()
		c.freed = c.freed[:0]
		if !mine {
			continue
		}
		runtime.Gosched()
		c.mu.Lock()
		c.reading = false
		mine = len(c.pend) > 0
		c.flushing = mine
		c.mu.Unlock()
		if mine {
			c.flush()
		}
	}
}

// complete wakes the callers of all whole answers and says how many bytes those were, -1 when one makes no sense.
func (c *boundConn) complete(in []byte) int {
	used := 0
	for len(in)-used >= memd.HeaderLen {
		b := in[used:]
		n := memd.HeaderLen + int(binary.BigEndian.Uint32(b[8:]))
		if n > len(b) {
			if n > readSize {
				return -1
			}
			break
		}
		o := binary.BigEndian.Uint32(b[12:])
		i := o >> 16
		if i >= boundSlots || b[0] != byte(memd.MagicRes) {
			return -1
		}
		if s := &c.slots[i]; s.live.CompareAndSwap(o&0xffff<<1|1, o&0xffff<<1) {
			c.answer(s.call, b[:n])
			s.call = nil
		}
		c.freed = append(c.freed, uint16(i)) // now also after a timeout: only the answer gives the slot back
		used += n
	}
	return used
}

func (c *boundConn) answer(call *boundCall, b []byte) {
	call.status = memd.Status(binary.BigEndian.Uint16(b[6:]))
	if call.op == opGet && call.status == memd.StatusSuccess {
		from := memd.HeaderLen + int(b[4]) + int(binary.BigEndian.Uint16(b[2:]))
		call.value = make([]byte, len(b)-from)
		copy(call.value, b[from:])
	}
	call.token <- struct{}{}
}

// sweep ends what is over its deadline, every 5 ms.
func (b *bound) sweep() {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-t.C:
		}
		now := int64(time.Since(b.base))
		for _, c := range b.view.Load().conns {
			c.expire(now)
		}
	}
}

// expire takes the lock, under which slots become live: so a deadline is the one of the call that is seen.
func (c *boundConn) expire(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight == 0 {
		return
	}
	for i := range c.slots {
		s := &c.slots[i]
		if v := s.live.Load(); v&1 == 1 && s.deadline <= now && s.live.CompareAndSwap(v, v&^1) {
			s.call.err = errBoundTimeout
			s.call.token <- struct{}{} // it has room
		}
	}
}

// fail ends all calls of a connection that has ended.
func (c *boundConn) fail(err error) {
	_ = c.nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for i := range c.slots {
		s := &c.slots[i]
		if v := s.live.Load(); v&1 == 1 && s.live.CompareAndSwap(v, v&^1) {
			s.call.err = err
			s.call.token <- struct{}{} // it has room
		}
	}
}
