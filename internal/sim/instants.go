package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Instants: the scheduler runs goroutines that become ready at the same instant in any order, so a seed alone repeats
// nothing. Therefore every event that the simulation causes has a nanosecond of its own: whatever waits, waits for a
// time with random nanoseconds; two packets that arrive together are handed over one nanosecond apart; and what is done
// to several connections is done to one after the other. The client needs no sequence of random numbers either: each
// throw depends on the seed and the instant alone, not on who threw before.
//
// What is left is that one event has several goroutines of the client do something at its instant: an answer with a
// newer map, say, has one ask for the map and another one look up a collection. Which of them is first is not
// promised, and it must not be seen: requests that leave over one connection at one instant arrive in the order of what
// they ask for, see before; each packet is delivered alone, whatever others were written with it, see link; and the
// trace does not name them by their opaques, see requestNames.
//
// With small limits the first of them may also find a place where the others do not. Then each is given an instant of
// its own: the calls of a burst, those that ask their strategy on goroutines of their own, and the requests of a scan.
// In a burst so much happens within a millisecond that random instants are not enough: answers come at even
// nanoseconds, calls begin and strategies answer at two kinds of odd ones, and each call has lanes of its own for that.
// The client's own requests take no places.

// random gives seeded numbers without a state: the same arguments always give the same number.
type random uint64

// roll gives 64 bits for the arguments.
func (d random) roll(args ...uint64) uint64 {
	h := mix(uint64(d))
	for _, a := range args {
		h = mix(h ^ a)
	}
	return h
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below gives a number in [0,n).
func (d random) below(n int, args ...uint64) int { return int(d.roll(args...) % uint64(n)) }

// between gives a duration in [lo,hi), to the nanosecond.
func (d random) between(lo, hi time.Duration, args ...uint64) time.Duration {
	return lo + time.Duration(d.roll(args...)%uint64(hi-lo))
}

// now is a throw in [0,1) for the present instant.
func (d random) now() float64 {
	return float64(d.roll(uint64(time.Now().UnixNano()))>>11) / (1 << 53)
}

// text makes an argument of a string.
func text(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// source is a sequence of throws for one goroutine.
type source struct {
	d random
	n uint64
}

func newSource(d random, args ...uint64) *source { return &source{d: random(d.roll(args...))} }

func (s *source) next() uint64 {
	s.n++
	return s.d.roll(s.n)
}

func (s *source) below(n int) int { return int(s.next() % uint64(n)) }

func (s *source) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(s.next()%uint64(hi-lo))
}

// sleep waits, or less when the context ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// until is d, or up to m ns more, so that it ends at an instant whose nanoseconds divided by m leave left.
func until(d time.Duration, m, left int64) time.Duration {
	at := time.Now().UnixNano() + int64(d)
	return d + time.Duration(((left-at)%m+m)%m)
}

// lanes is how many calls have instants that are not another one's.
const lanes = 8192

// inLane is until for what the strategy of a call does, in a run with small limits; otherwise it is d.
func (w *world) inLane(e *entry, d time.Duration) time.Duration {
	if !w.tight || e == nil {
		return d
	}
	return until(d, 4*lanes, 4*int64((e.number*33+e.worker)%lanes)+1) // there are at most 33 workers
}

// before orders requests that goroutines of the client have sent over one connection at one instant, by what they ask
// for. It leaves alone what belongs to a handshake, where one request follows from another, and what is no whole
// packet.
func before(b, a []byte) bool {
	return free(b) && free(a) && cmp.Or(cmp.Compare(b[1], a[1]), bytes.Compare(b[header:], a[header:])) < 0
}

// free reports whether b is one whole request that depends on no other.
func free(b []byte) bool {
	if len(b) < header || len(b) != size(b) {
		return false
	}
	op := memd.Opcode(b[1])
	return slices.Contains(documentOps(), op) || op == memd.OpGetClusterConfig || op == memd.OpCollectionsGetID ||
		slices.Contains(nodeOps(), op) ||
		op == memd.OpRangeScanCreate || op == memd.OpRangeScanContinue || op == memd.OpRangeScanCancel
}

// size is how long the packet is that b begins with.
func size(b []byte) int {
	if len(b) < header {
		return header
	}
	return header + int(binary.BigEndian.Uint32(b[8:]))
}
