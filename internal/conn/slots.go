package conn

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/couchcore/couchcore/internal/call"
)

// A slot is a request's place in the table of opaques. Its word is epoch<<32 | generation<<2 | status. The epoch is the
// number of the attempt that waits here, from when the socket was given its request; before that, and without a live
// call, it is 0. The connection's lock guards the step from free to live; every other step is a compare-and-swap, or
// the write of the goroutine that holds the slot. The goroutine that takes a slot out of live owns the call's attempt.
type slot struct {
	word atomic.Uint64
	call *call.Call
}

const (
	slotFree   = 0
	slotLive   = 1 // a call waits here
	slotHeld   = 2 // a goroutine looks at the call; back to live in an instant
	slotOrphan = 3 // its call is gone, the answer is still to come

	genMask   = 0xffff
	chunkBits = 8
	chunkLen  = 1 << chunkBits
	maxSlots  = 1 << 16
	ownSlots  = 64 // the first ones, for the client's own requests
)

type chunk [chunkLen]slot

// slots is the table of opaques: an opaque is index<<16 | generation. It grows in chunks that never move, so that at,
// each and the methods of a slot need no lock. Everything else is called with the connection's lock held. The client's
// own requests have slots of their own, which do not count: a connection that is full of a program's calls takes them.
type slots struct {
	chunks  [maxSlots / chunkLen]atomic.Pointer[chunk]
	own     uint64   // which of the own slots are in use
	free    []uint16 // of the others, last in, first out
	used    int      // of the others, slots ever handed out
	orphans orphans
	max     int  // calls in flight
	wanted  bool // the dispatcher waits for room
}

// orphans are the slots that are kept for the answers of calls that have ended: those that count, and own ones.
type orphans struct{ all, own int }

// add notes that the slot of an opaque has become one; with -1 for n, that it no longer is one.
func (o *orphans) add(opaque uint32, n int) {
	if counts(opaque) {
		o.all += n
	} else {
		o.own += n
	}
}

// inFlight is the number of calls that wait for an answer, and of answers that the reader has not settled yet.
func (t *slots) inFlight() int { return t.used - len(t.free) - t.orphans.all }

// withOwn is the same number with the client's own requests.
func (t *slots) withOwn() int { return t.inFlight() + bits.OnesCount64(t.own) - t.orphans.own }

// counts reports whether the slot of an opaque is one of those that count.
func counts(opaque uint32) bool { return opaque>>16 >= ownSlots }

// end is how many slots may be in use, from the first one on.
func (t *slots) end() int { return ownSlots + t.used }

// full reports whether no call is taken: as many as may are in flight, or orphans have the slots.
func (t *slots) full() bool { return t.inFlight() >= t.max || len(t.free) == 0 && t.end() == maxSlots }

// room reports, once, that there is room that the dispatcher waits for.
func (t *slots) room() bool {
	if !t.wanted || t.full() {
		return false
	}
	t.wanted = false
	return true
}

// at is the slot of an opaque; nil when it was never handed out.
func (t *slots) at(opaque uint32) *slot {
	ch := t.chunks[opaque>>(16+chunkBits)].Load()
	if ch == nil {
		return nil
	}
	return &ch[opaque>>16&(chunkLen-1)]
}

// take gives a free slot and the opaque of its next use, nil without one. own is for a request of the client itself.
func (t *slots) take(own bool) (*slot, uint32) {
	i, n := uint32(0), len(t.free)-1
	switch {
	case own && ^t.own != 0:
		i = uint32(bits.TrailingZeros64(^t.own))
		t.own |= 1 << i
	case t.full():
		return nil, 0
	case n >= 0:
		i, t.free = uint32(t.free[n]), t.free[:n]
	default:
		i = uint32(t.end())
		t.used++
	}
	if c := &t.chunks[i>>chunkBits]; c.Load() == nil {
		c.Store(new(chunk))
	}
	s := t.at(i << 16)
	return s, i<<16 | (uint32(s.word.Load())>>2+1)&genMask
}

// give takes back the slot of an opaque.
func (t *slots) give(opaque uint32) {
	if !counts(opaque) {
		t.own &^= 1 << (opaque >> 16)
		return
	}
	t.free = append(t.free, uint16(opaque>>16))
}

// each calls keep with every call that waits in one of the first n slots; sent says that the socket was given its
// request. When keep returns false, the call leaves, and its slot is an orphan from then on: it stays reserved until
// the answer comes. gone are such slots.
func (t *slots) each(n int, keep func(c *call.Call, sent bool) bool) (gone orphans) {
	for i := range uint32(n) {
		s := t.at(i << 16)
		if s == nil {
			continue
		}
		v, ok := s.hold()
		switch {
		case !ok:
		case keep(s.call, v>>32 != 0):
			s.word.Store(v)
		default:
			s.call = nil
			s.word.Store(uint64(uint32(v))&^3 | slotOrphan)
			gone.add(i<<16, 1)
		}
	}
	return gone
}

// live makes the slot the call's, which waits here for the answer with that opaque.
func (s *slot) live(c *call.Call, opaque uint32) {
	s.call = c
	s.word.Store(uint64(opaque&genMask)<<2 | slotLive)
}

// claim takes the slot out of live, into the status to, for one goroutine: the others get ok false. epoch is the number
// of the attempt. A slot that has been used again since has another generation than the opaque, and is not claimed.
// With sent, nor is a slot whose request the socket was not given yet.
func (s *slot) claim(opaque uint32, to uint64, sent bool) (epoch uint32, ok bool) {
	gen := opaque & genMask
	for {
		v := s.word.Load()
		epoch = uint32(v >> 32)
		if uint32(v)>>2 != gen || sent && epoch == 0 {
			return 0, false
		}
		switch v & 3 {
		case slotLive:
			if s.word.CompareAndSwap(v, uint64(gen)<<2|to) {
				return epoch, true
			}
		case slotHeld:
			runtime.Gosched()
		default:
			return 0, false
		}
	}
}

// orphanEnds frees the slot if it is an orphan that waits for the answer to that opaque, and reports whether it was.
func (s *slot) orphanEnds(opaque uint32) bool {
	v := uint64(opaque&genMask) << 2
	return s.word.CompareAndSwap(v|slotOrphan, v|slotFree)
}

// hold stops other goroutines from claiming a live slot, until the caller stores a word again: v, to let the call wait
// on. ok is false when no call waits here.
func (s *slot) hold() (v uint64, ok bool) {
	for {
		switch v = s.word.Load(); v & 3 {
		case slotLive:
			if s.word.CompareAndSwap(v, v&^3|slotHeld) {
				return v, true
			}
		case slotHeld:
			runtime.Gosched() // the reader keeps a packet, or another goroutine looks at the call
		default:
			return 0, false
		}
	}
}

// sent notes the number of the attempt whose request the socket is about to be given, unless the call has left its
// slot.
func (s *slot) sent(opaque, epoch uint32) {
	for {
		v := s.word.Load()
		switch {
		case uint32(v)>>2 != opaque&genMask:
			return
		case v&3 == slotHeld:
			runtime.Gosched()
		case v&3 != slotLive || s.word.CompareAndSwap(v, uint64(epoch)<<32|uint64(uint32(v))):
			return
		}
	}
}
