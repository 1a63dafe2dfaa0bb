package memnet

import (
	"syscall"
	"time"
)

// dialFault is what happens to dials to one address.
type dialFault struct {
	err    error
	silent bool
}

// routeState is what happens to bytes from one host to another.
type routeState uint8

const (
	routeFree routeState = iota
	routeHeld            // wait for better times
	routeLost            // vanish
)

// routeFault is one rule of the network; an empty host stands for every host.
type routeFault struct {
	from, to string
	state    routeState
}

func (r routeFault) covers(from, to string) bool {
	return (r.from == "" || r.from == from) && (r.to == "" || r.to == to)
}

// Refuse makes dials to an address fail as if nothing listened there, until Restore.
func (n *Network) Refuse(addr string) { n.setDial(addr, dialFault{err: syscall.ECONNREFUSED}) }

// FailDial makes dials to an address fail with err, until Restore. A nil err is Restore.
func (n *Network) FailDial(addr string, err error) { n.setDial(addr, dialFault{err: err}) }

// Silence makes dials to an address succeed without anyone at the other end, who would never read and never answer,
// until Restore. It needs no listener.
func (n *Network) Silence(addr string) { n.setDial(addr, dialFault{silent: true}) }

// Restore ends what Refuse, FailDial and Silence did to an address. Connections that Silence let through stay silent.
func (n *Network) Restore(addr string) { n.setDial(addr, dialFault{}) }

func (n *Network) setDial(addr string, f dialFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[addr] = f
	if f == (dialFault{}) {
		delete(n.dials, addr)
	}
	n.wake()
}

// Partition cuts two hosts off from each other; an empty name stands for every host. What they send waits, and what is
// on its way too, as with TCP's retransmission; dials wait as well. Nothing is lost by it.
func (n *Network) Partition(a, b string) {
	n.setRoutes(func(rs []routeFault) []routeFault {
		return append(rs, routeFault{a, b, routeHeld}, routeFault{b, a, routeHeld})
	})
}

// Blackhole lets everything that is sent from one host to another vanish; an empty name stands for every host. Bytes
// that are on their way still arrive, those of the opposite direction too. A connection that has lost a byte by it
// stays dead in that direction, since a stream has no holes. New dials between the hosts wait.
func (n *Network) Blackhole(from, to string) {
	n.setRoutes(func(rs []routeFault) []routeFault { return append(rs, routeFault{from, to, routeLost}) })
}

// Heal ends Partition and Blackhole between two hosts, named as they were then, in both directions. What waited arrives
// at once, as far as its latency is over.
func (n *Network) Heal(a, b string) {
	n.setRoutes(func(rs []routeFault) []routeFault {
		var left []routeFault
		for _, r := range rs {
			if (r.from != a || r.to != b) && (r.from != b || r.to != a) {
				left = append(left, r)
			}
		}
		return left
	})
}

// HealAll is Heal for all hosts.
func (n *Network) HealAll() { n.setRoutes(func([]routeFault) []routeFault { return nil }) }

// ResetAll resets every connection.
func (n *Network) ResetAll() {
	for _, l := range n.Links() {
		l.Reset()
	}
}

func (n *Network) setRoutes(f func([]routeFault) []routeFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routes = f(n.routes)
	for _, l := range n.links {
		l.set(func() {
			l.up.route = n.route(l.local.host(), l.remote.host())
			l.down.route = n.route(l.remote.host(), l.local.host())
		})
	}
	n.wake()
}

// route is what happens to bytes from one host to another. The caller holds the mutex.
func (n *Network) route(from, to string) routeState {
	state := routeFree
	for _, r := range n.routes {
		if r.covers(from, to) {
			state = max(state, r.state)
		}
	}
	return state
}

// Up is the direction from the dialling end to the listening one.
func (l *Link) Up() *Flow { return &l.up }

// Down is the direction from the listening end to the dialling one.
func (l *Link) Down() *Flow { return &l.down }

// ID counts up over the network's connections, from 1.
func (l *Link) ID() uint64 { return l.id }

// LocalAddr is the dialling end's address.
func (l *Link) LocalAddr() string { return string(l.local) }

// RemoteAddr is the listening end's address.
func (l *Link) RemoteAddr() string { return string(l.remote) }

// Reset ends the connection at once and without any latency: both ends fail with ECONNRESET, and what was unread is
// lost.
func (l *Link) Reset() {
	l.set(func() {
		for _, f := range []*Flow{&l.up, &l.down} {
			f.drop()
			f.reset = true
		}
	})
}

// set changes the link under its mutex and tells everyone who waits for it.
func (l *Link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	up, down := l.up.kept(), l.down.kept()
	f()
	l.up.released(up)
	l.down.released(down)
	l.up.wake()
	l.down.wake()
}

// SetLatency makes the direction deliver what is written from now on d later. Nothing overtakes what is on its way.
func (f *Flow) SetLatency(d time.Duration) { f.link.set(func() { f.latency, f.latencyOf = d, nil }) }

// SetLatencyFunc is SetLatency with a latency that each piece, and the end of the stream, asks for anew. next runs on
// the goroutine that writes or closes, without locks, and must not block.
func (f *Flow) SetLatencyFunc(next func() time.Duration) { f.link.set(func() { f.latencyOf = next }) }

// SetBandwidth limits the direction to a number of bytes per second; 0 ends that. Bytes arrive in pieces of a twentieth
// of a second's worth at most. What has not left yet goes on with the new bandwidth, in the pieces that it has.
func (f *Flow) SetBandwidth(bytesPerSecond int) {
	f.link.set(func() {
		f.rate = bytesPerSecond
		f.reschedule()
	})
}

// SetPieces cuts what is written from now on: size says how long the next piece is when n bytes are left, and no Read
// returns more than one piece. Pieces arrive at least gap apart. A full buffer cuts none: a piece waits until it fits,
// or until the buffer is empty if it is longer. size runs as SetLatencyFunc's next does; a result outside of 1 to n
// counts as the nearest of them. A nil size ends it.
func (f *Flow) SetPieces(size func(n int) int, gap time.Duration) {
	f.link.set(func() { f.pieces, f.gap = size, gap })
}

// SetPackets cuts what is written from now on into packets before anything else does, so that it makes no difference
// how many of them a write has: size says how long the one is that b begins with; it may be longer than b. A full
// buffer cuts none, see SetPieces. Size runs as SetLatencyFunc's next does. A nil size ends it.
func (f *Flow) SetPackets(size func(b []byte) int) {
	f.link.set(func() { f.packet, f.left = size, 0 })
}

// SetOrder makes pieces that are written at one instant of a virtual clock arrive in an order of their own instead of
// that in which goroutines got the processor: before says whether b, which was written later, arrives before a all the
// same. Nothing is cut or lost by it. It is for whole packets that do not depend on each other, and breaks what TCP
// promises for all others. before runs with locks held: it must be fast, and use nothing of the network's. Nil ends it.
func (f *Flow) SetOrder(before func(b, a []byte) bool) { f.link.set(func() { f.before = before }) }

// Hold keeps the direction from delivering anything, the end of the stream included, until Resume.
func (f *Flow) Hold() { f.HoldAfter(0) }

// HoldAfter lets the reading end have n more bytes, those that have arrived already included, and then holds.
func (f *Flow) HoldAfter(n int) { f.link.set(func() { f.pass = max(0, n) }) }

// Resume ends Hold and HoldAfter.
func (f *Flow) Resume() { f.link.set(func() { f.pass = unlimited }) }

// Drop lets everything that is written from now on vanish, for the rest of the connection: writes succeed, and nothing
// arrives. Done to both directions, the connection is half-open, as after the loss of power at the other end.
func (f *Flow) Drop() { f.link.set(func() { f.dead = true }) }

// FailAfter lets the direction accept k more bytes; the write that goes beyond them accepts what is left of the k and
// fails with err, and every later one fails too. What was accepted is delivered. A nil err is ECONNRESET.
func (f *Flow) FailAfter(k int, err error) {
	if err == nil {
		err = syscall.ECONNRESET
	}
	f.link.set(func() { f.accept, f.acceptErr = max(0, k), err })
}

// EndAfter lets the reading end have k more bytes, those that have arrived already included, and then the end of the
// stream. What is written beyond that is lost; the writing end is not told.
func (f *Flow) EndAfter(k int) {
	f.link.set(func() {
		f.end = max(0, k)
		f.ended()
	})
}

// Written is how many bytes the direction has accepted.
func (f *Flow) Written() int64 {
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	return f.written
}

// Delivered is how many bytes the reading end has taken.
func (f *Flow) Delivered() int64 {
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	return f.delivered
}
