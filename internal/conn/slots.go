package conn

import (
	"runtime"
	"sync/atomic"

	"github.com/couchcore/couchcore/kv"
)

// A slot is a request's place in the table of opaques. Its state is generation<<2 | status and changes by
// compare-and-swap alone, but for the step from free to live, which the submit lock guards. Whoever takes a slot out
// of live owns the call's attempt.
type slot struct {
	state    atomic.Uint32
	epoch    atomic.Uint32 // the attempt's number once it was handed to the socket, 0 before
	deadline int64
	call     *kv.Call
	fills    uint32 // what the connection had read when the call was sent
}

const (
	slotFree   = 0
	slotLive   = 1 // a call waits here
	slotHeld   = 2 // the sweeper looks at the call; back to live in an instant
	slotOrphan = 3 // its call is gone, the answer is still to come
)

const (
	chunkBits = 8
	chunkLen  = 1 << chunkBits
	maxChunks = 1 << (16 - chunkBits)
)

// table is grown in chunks that never move, so that the reader needs no lock.
type table struct {
	chunks [maxChunks]atomic.Pointer[[chunkLen]slot]
	free   []uint16 // last in, first out; under the connection's lock
	used   int      // slots ever handed out; under the connection's lock
}

func (t *table) at(i uint16) *slot {
	ch := t.chunks[i>>chunkBits].Load()
	if ch == nil {
		return nil
	}
	return &ch[i&(chunkLen-1)]
}

// take gives a free slot's index; false when the table is full. The connection's lock is held.
func (t *table) take() (uint16, bool) {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i, true
	}
	if t.used == maxChunks*chunkLen {
		return 0, false
	}
	i := uint16(t.used)
	if i&(chunkLen-1) == 0 {
		t.chunks[i>>chunkBits].Store(new([chunkLen]slot))
	}
	t.used++
	return i, true
}

// claim takes the slot out of live into the given status and reports whether this caller did it. gen guards against
// a slot that has been reused.
func (s *slot) claim(gen uint32, to uint32) bool {
	for {
		v := s.state.Load()
		if v>>2 != gen {
			return false
		}
		switch v & 3 {
		case slotLive:
			if s.state.CompareAndSwap(v, gen<<2|to) {
				return true
			}
		case slotHeld:
			runtime.Gosched()
		default:
			return false
		}
	}
}

func opaqueOf(i uint16, gen uint32) uint32 { return uint32(i)<<16 | gen&0xffff }
