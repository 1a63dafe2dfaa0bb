package memnet

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// unlimited stands for the absence of a limit in bytes.
const unlimited = -1

// Link is one connection of a Network, for faults. It stays valid after the connection's end, without effect.
type Link struct {
	n             *Network
	id            uint64
	local, remote address

	// mu guards both directions. It is held for moments only: who waits does so on a flow's channel.
	mu       sync.Mutex
	up, down Flow
	ends     int // how many ends are not closed
}

func newLink(n *Network, id uint64, local, remote address) *Link {
	l := &Link{n: n, id: id, local: local, remote: remote, ends: 2}
	flow := Flow{
		link: l, buffer: n.opts.Buffer, latency: n.opts.Latency, pass: unlimited, accept: unlimited,
		end: unlimited,
	}
	l.up, l.down = flow, flow
	return l
}

// segment is one piece on its way, or what a bandwidth has cut off one.
type segment struct {
	b       []byte
	at      time.Time // when it arrives
	sent    time.Time
	latency time.Duration
	whole   []byte // the piece

	idle, last time.Time // the flow's before this
}

// Flow is one direction of a Link.
type Flow struct {
	link *Link

	segs    []segment
	size    int // bytes in segs
	buffer  int
	last    time.Time     // when the newest piece arrives
	idle    time.Time     // when the last byte has left, with a bandwidth
	writing bool          // a Write is under way: another one waits, so that they do not mix
	changed chan struct{} // closed when something changes; nil without a waiter

	readBy, writeBy time.Time

	closedW, closedR bool      // the writing or the reading end has closed
	eof              bool      // the end of the stream is on its way
	eofAt            time.Time // when it arrives, unless something before it is later
	told             bool      // the news that the reading end has closed is on its way to the writing one
	toldAt           time.Time // when it arrives
	reset            bool

	latency   time.Duration
	latencyOf func() time.Duration
	rate      int
	pieces    func(n int) int
	gap       time.Duration
	packet    func(b []byte) int
	left      int // bytes of the packet that is being written
	before    func(a, b []byte) bool
	route     routeState
	dead      bool  // everything that is written vanishes
	pass      int   // bytes that may still be read before the flow holds
	accept    int   // bytes that may still be written before writes fail
	acceptErr error // with this
	end       int   // bytes that may still be read before the stream ends

	written, delivered int64
	effects            Effects
}

// wake tells everyone who waits that the flow has changed. The caller holds the link's mutex, as for all methods below
// that do not say otherwise.
func (f *Flow) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *Flow) wait() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// drop forgets what is on its way or unread.
func (f *Flow) drop() {
	f.effects.Held += f.kept()
	f.segs, f.size = nil, 0
}

// ended makes the flow one that nothing comes out of any more, once its last byte has been read.
func (f *Flow) ended() {
	if f.end == 0 {
		f.effects.Lost += len(f.segs)
		f.drop()
		f.dead, f.eof = true, false
	}
}

func (f *Flow) held() bool { return f.pass == 0 || f.route == routeHeld }

// lossy reports whether what is sent now vanishes; then it remembers that.
func (f *Flow) lossy() bool {
	f.dead = f.dead || f.route == routeLost
	return f.dead
}

// opposite is the other direction.
func (f *Flow) opposite() *Flow {
	if f == &f.link.up {
		return &f.link.down
	}
	return &f.link.up
}

// waitUntil waits for a change, or for the earliest of the instants that is set.
func waitUntil(ch <-chan struct{}, instants ...time.Time) {
	var first time.Time
	for _, at := range instants {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		<-ch
		return
	}
	t := time.NewTimer(time.Until(first))
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}

func passed(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }

// read waits for something to read. The caller does not hold the mutex.
func (f *Flow) read(b []byte) (int, error) {
	for {
		f.link.mu.Lock()
		n, next, err := f.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			f.link.mu.Unlock()
			return n, err
		}
		ch, by := f.wait(), f.readBy
		f.link.mu.Unlock()
		waitUntil(ch, next, by)
	}
}

// take reads what has arrived. With nothing to read it says when there may be something, if that is known.
func (f *Flow) take(b []byte) (n int, next time.Time, err error) {
	switch {
	case f.closedR:
		return 0, next, net.ErrClosed
	case f.reset:
		f.effects.Broken++
		return 0, next, syscall.ECONNRESET
	case passed(f.readBy):
		return 0, next, os.ErrDeadlineExceeded
	case len(b) == 0:
		return 0, next, nil
	case f.end == 0:
		f.effects.Ended++
		return 0, next, io.EOF
	case f.held():
		return 0, next, nil
	case len(f.segs) > 0:
		if now := time.Now(); now.Before(f.segs[0].at) {
			return 0, f.segs[0].at, nil
		}
		return f.copyTo(b), next, nil
	case f.eof && passed(f.eofAt):
		return 0, next, io.EOF
	case f.eof:
		return 0, f.eofAt, nil
	}
	return 0, next, nil
}

// copyTo hands out what has arrived, one piece only where pieces are wanted. There is at least one.
func (f *Flow) copyTo(b []byte) int {
	for _, limit := range []int{f.pass, f.end} {
		if limit != unlimited {
			b = b[:min(len(b), limit)]
		}
	}
	n, now := 0, time.Now()
	for len(f.segs) > 0 && n < len(b) && !now.Before(f.segs[0].at) {
		m := copy(b[n:], f.segs[0].b)
		n += m
		f.segs[0].b = f.segs[0].b[m:]
		if len(f.segs[0].b) == 0 {
			f.segs[0] = segment{}
			f.segs = f.segs[1:]
		}
		if f.pieces != nil {
			break
		}
	}
	f.size -= n
	f.delivered += int64(n)
	if f.pass != unlimited {
		f.pass -= n
	}
	if f.end != unlimited {
		f.end -= n
		f.ended()
	}
	f.wake()
	return n
}

// write accepts b, piece by piece when the buffer is full; with try it never waits and accepts what fits. The caller
// does not hold the mutex.
func (f *Flow) write(b []byte, try bool) (n int, err error) {
	l := f.link
	l.mu.Lock()
	for f.writing && !try && f.writeErr(try) == nil {
		ch, by := f.wait(), f.writeBy
		l.mu.Unlock()
		waitUntil(ch, by)
		l.mu.Lock()
	}
	if err := f.writeErr(try); err != nil || f.writing {
		l.mu.Unlock()
		return 0, err
	}
	f.writing = true
	l.mu.Unlock()
	n, err = f.push(b, try)
	l.mu.Lock()
	f.writing = false
	f.wake()
	l.mu.Unlock()
	return n, err
}

// writeErr is why writes fail at present.
func (f *Flow) writeErr(try bool) error {
	switch {
	case f.closedW:
		return net.ErrClosed
	case f.reset, f.told && passed(f.toldAt) && !f.opposite().held():
		return syscall.ECONNRESET
	case !try && passed(f.writeBy):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// piece is what is to be written next.
type piece struct {
	size  int
	split bool // SetPieces has made it shorter
	whole bool // it is written at once if the buffer can hold it at all
	left  int  // bytes of its packet, itself included
}

// cut says what the first piece of b is. What the user has for that runs without the mutex.
func (f *Flow) cut(b []byte) piece {
	f.link.mu.Lock()
	size, packet, left := f.pieces, f.packet, f.left
	f.link.mu.Unlock()
	p := piece{size: len(b), whole: size != nil || packet != nil}
	if packet != nil {
		if p.left = left; left == 0 {
			p.left = max(1, packet(b))
		}
		p.size = min(p.size, p.left)
	}
	if size != nil {
		uncut := p.size
		p.size = max(1, min(uncut, size(uncut)))
		p.split = p.size < uncut
	}
	return p
}

// room is how many bytes of a piece can be accepted now. One that is written at once waits until it fits, or the buffer
// is empty: otherwise its end would depend on how much had been read when the writer looked.
func (f *Flow) room(p piece) int {
	n := p.size
	if f.accept != unlimited {
		n = min(n, f.accept)
	}
	free := f.buffer - f.size
	switch {
	case f.lossy(), n <= free:
		return n
	case p.whole && f.size > 0:
		return 0
	}
	return free
}

// push accepts b, piece by piece, when there is room; with try it does not wait for that. The caller is the one who
// writes, and does not hold the mutex.
func (f *Flow) push(b []byte, try bool) (n int, err error) {
	for n < len(b) {
		p := f.cut(b[n:])
		if fits, err := f.fit(p, try); !fits {
			return n, err
		}
		n += f.enter(b[n:], p)
	}
	return n, nil
}

// fit waits until there is room for a piece; with try it only looks.
func (f *Flow) fit(p piece, try bool) (bool, error) {
	l := f.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		err := f.writeErr(try)
		if err == nil && f.accept == 0 {
			err = f.acceptErr
			f.effects.Failed++
		}
		if err != nil || f.room(p) > 0 || try {
			return err == nil && f.room(p) > 0, err
		}
		ch, by := f.wait(), f.writeBy
		l.mu.Unlock()
		waitUntil(ch, by)
		l.mu.Lock()
	}
}

// enter puts the piece that b begins with on its way, or what fits of it. That is nothing if a fault was set since
// there was room.
func (f *Flow) enter(b []byte, p piece) int {
	l := f.link
	l.mu.Lock()
	latency, ask := f.latency, f.latencyOf
	l.mu.Unlock()
	if ask != nil {
		latency = ask() // it is the user's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := f.room(p)
	if f.add(b[:m], latency) && p.split {
		f.effects.Split++
	}
	f.left = max(0, p.left-m)
	return m
}

// add puts bytes on their way; false: they go nowhere.
func (f *Flow) add(b []byte, latency time.Duration) bool {
	now := time.Now()
	f.written += int64(len(b))
	if f.accept != unlimited {
		f.accept -= len(b)
	}
	f.link.n.recorder.add(f, b, now)
	if f.lossy() || f.closedR {
		if f.dead && len(b) > 0 {
			f.effects.Lost++
		}
		return false
	}
	f.size += len(b)
	if latency > 0 && len(b) > 0 {
		f.effects.Delayed++
	}
	whole, first := append([]byte(nil), b...), len(f.segs)
	for left := whole; len(left) > 0; {
		m := len(left)
		if f.rate > 0 {
			m = min(m, max(1, f.rate/20))
			f.effects.Slowed++
		}
		f.segs = append(f.segs, segment{b: left[:m], sent: now, latency: latency, whole: whole})
		left = left[m:]
	}
	f.schedule(f.sort(first))
	f.wake()
	return true
}

// schedule says of the segments from the i-th on when they arrive.
func (f *Flow) schedule(i int) {
	for ; i < len(f.segs); i++ {
		s := &f.segs[i]
		s.idle, s.last = f.idle, f.last
		leaves := s.sent
		if f.rate > 0 {
			if f.idle.After(leaves) {
				leaves = f.idle
			}
			leaves = leaves.Add(time.Duration(len(s.b)) * time.Second / time.Duration(f.rate))
			f.idle = leaves
		}
		s.at = leaves.Add(s.latency)
		if first := f.last.Add(f.gap); !f.last.IsZero() && s.at.Before(first) {
			s.at = first
		}
		f.last = s.at
	}
}

// reschedule says when what has not left yet arrives, because the bandwidth is another one.
func (f *Flow) reschedule() {
	now, i := time.Now(), 0
	for i < len(f.segs) && !f.segs[i].at.Add(-f.segs[i].latency).After(now) {
		i++
	}
	if i < len(f.segs) {
		f.idle, f.last = now, f.segs[i].last
		f.schedule(i)
	}
}

// sort moves the newest piece, whose segments begin with the n-th, before those of the same instant that it belongs
// before. It gives the first segment that is to be scheduled, and the flow the state that it had before that.
func (f *Flow) sort(n int) int {
	to := n
	for f.before != nil && n < len(f.segs) && to > 0 {
		newest, a := &f.segs[n], f.segs[to-1]
		if !a.sent.Equal(newest.sent) || !f.before(newest.whole, a.whole) {
			break
		}
		first := to - 1
		for first > 0 && &f.segs[first-1].whole[0] == &a.whole[0] {
			first--
		}
		if &f.segs[first].b[0] != &a.whole[0] { // part of it has been read
			break
		}
		to = first
	}
	if to < n {
		f.idle, f.last = f.segs[to].idle, f.segs[to].last
		copy(f.segs[to:], append(slices.Clone(f.segs[n:]), f.segs[to:n]...))
	}
	return to
}
