package control

import (
	"math/bits"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// ring keeps the newest of what is added.
type ring[T any] struct {
	items []T
	at    int // of the oldest, once it is full
	lost  int
}

func (r *ring[T]) add(v T) {
	if len(r.items) < consoleKept {
		r.items = append(r.items, v)
		return
	}
	r.items[r.at] = v
	r.at = (r.at + 1) % consoleKept
	r.lost++
}

// take empties the ring, and gives what it had, oldest first, and how many it has not kept.
func (r *ring[T]) take() (items []T, lost int) {
	items, lost = append(append([]T{}, r.items[r.at:]...), r.items[:r.at]...), r.lost
	*r = ring[T]{items: r.items[:0]}
	return items, lost
}

// load counts the requests of one node, and how long it had them.
type load struct {
	requests, failures int
	longest            int64
	buckets            [4 * 40]int // by microseconds, four for each doubling
}

func (l *load) add(a *mock.Answered) {
	took := max(0, a.Took.Microseconds())
	l.requests++
	if a.Status != memd.StatusSuccess {
		l.failures++
	}
	l.longest = max(l.longest, took)
	l.buckets[loadBucket(took)]++
}

// loadBucket is the bucket of a duration: 0 to 3 us have one each.
func loadBucket(us int64) int {
	if us < 4 {
		return int(us)
	}
	e := bits.Len64(uint64(us)) - 1 // at least 2
	return min(4*(e-1)+int(us>>(e-2))&3, 4*40-1)
}

// bucketEnd is the longest duration of a bucket.
func bucketEnd(i int) int64 {
	if i < 4 {
		return int64(i)
	}
	e := i/4 + 1
	return int64(4+i%4+1)<<(e-2) - 1
}

// quantile is a duration that so many percent of the requests do not exceed.
func (l *load) quantile(percent int) int64 {
	left := (l.requests*percent + 99) / 100
	for i, n := range l.buckets {
		if left -= n; left <= 0 {
			return min(bucketEnd(i), l.longest)
		}
	}
	return l.longest
}

// nodeLoad is what a console is told of a load.
type nodeLoad struct {
	Node     int   `json:"node"`
	Requests int   `json:"requests"`
	Failures int   `json:"failures"`
	P50      int64 `json:"p50_us"`
	P99      int64 `json:"p99_us"`
	Longest  int64 `json:"longest_us"`
}

func (l *load) describe(node int) nodeLoad {
	return nodeLoad{node, l.requests, l.failures, l.quantile(50), l.quantile(99), l.longest}
}
