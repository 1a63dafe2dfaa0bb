package conn

import (
	"runtime"
	"sync/atomic"

	"github.com/couchcore/couchcore/internal/call"
)

// A slot is a request's place in the table of opaques. Its word is epoch<<32 | generation<<2 | status: the epoch is the
// attempt's number once it was handed to the socket, 0 before, and without a live call. It changes by compare-and-swap
// alone, but for the step from free to live, which the submit lock guards. The goroutine that takes a slot out of live
// owns the call's attempt.
type slot struct {
	word atomic.Uint64
	call *call.Call
}

const (
	slotFree   = 0
	slotLive   = 1 // a call waits here
	slotHeld   = 2 // a goroutine looks at the call; back to live in an instant
	slotOrphan = 3 // its call is gone, the answer is still to come

	genMask = 0xffff
)

const (
	chunkBits = 8
	chunkLen  = 1 << chunkBits
	maxChunks = 1 << (16 - chunkBits)
)

type chunk [chunkLen]slot

// table is grown in chunks that never move, so that the reader needs no lock.
type table struct {
	chunks [maxChunks]atomic.Pointer[chunk]
	free   []uint16 // last in, first out; under the connection's lock
	used   int      // slots ever handed out; under the connection's lock
}

// chunk is the one that a slot is in; nil when the slot was never handed out.
func (t *table) chunk(i uint16) *chunk { return t.chunks[i>>chunkBits].Load() }

func (t *table) at(i uint16) *slot {
	ch := t.chunk(i)
	if ch == nil {
		return nil
	}
	return ch.at(i)
}

func (ch *chunk) at(i uint16) *slot { return &ch[i&(chunkLen-1)] }

// take gives a free slot's index; false when the table is full. The connection's lock is held.
func (t *table) take() (uint16, bool) {
	n := len(t.free) - 1
	if n < 0 {
		return t.fresh()
	}
	i := t.free[n]
	t.free = t.free[:n]
	return i, true
}

// fresh is a slot that was never used.
func (t *table) fresh() (uint16, bool) {
	if t.used == maxChunks*chunkLen {
		return 0, false
	}
	i := uint16(t.used)
	if i&(chunkLen-1) == 0 {
		t.chunks[i>>chunkBits].Store(new(chunk))
	}
	t.used++
	return i, true
}

// claim takes the slot out of live into the given status and reports whether this caller did it, and the attempt's
// number. gen guards against a slot that has been reused. With sent an attempt that was not handed to the socket is
// left alone.
func (s *slot) claim(gen uint32, to uint64, sent bool) (epoch uint32, ok bool) {
	for {
		v := s.word.Load()
		epoch = uint32(v >> 32)
		if uint32(v)>>2&genMask != gen || sent && epoch == 0 {
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

// claimNow is claim for an answer, if nothing stands in its way at this moment.
func (s *slot) claimNow(gen uint32) (epoch uint32, ok bool) {
	v := s.word.Load()
	epoch = uint32(v >> 32)
	return epoch, epoch != 0 && uint32(v) == gen<<2|slotLive && s.word.CompareAndSwap(v, uint64(gen)<<2|slotFree)
}

// hold keeps a live call where it is until release. ok is false when there is none.
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

// sent notes the attempt's number, unless the call has gone meanwhile.
func (s *slot) sent(gen, epoch uint32) {
	for {
		v := s.word.Load()
		switch {
		case uint32(v)>>2 != gen:
			return
		case v&3 == slotHeld:
			runtime.Gosched()
		case v&3 != slotLive || s.word.CompareAndSwap(v, uint64(epoch)<<32|uint64(uint32(v))):
			return
		}
	}
}

// sentNow is sent, if nothing stands in its way at this moment; then it says so.
func (s *slot) sentNow(gen, epoch uint32) bool {
	v := uint64(gen<<2 | slotLive)
	return s.word.CompareAndSwap(v, uint64(epoch)<<32|v)
}

// next is the opaque of the slot's next use.
func (s *slot) next(i uint16) uint32 { return opaqueOf(i, uint32(s.word.Load())>>2+1) }

func opaqueOf(i uint16, gen uint32) uint32 { return uint32(i)<<16 | gen&genMask }
