package bench

import "math/bits"

// histogram counts durations in nanoseconds, 16 steps per octave.
type histogram struct {
	counts [64 * 16]uint32
	n      uint64
}

func bucketOf(ns int64) int {
	if ns < 16 {
		return int(max(ns, 0))
	}
	e := bits.Len64(uint64(ns)) - 5 // 0 for 16..31
	return (e+1)*16 + int(uint64(ns)>>e)&15
}

// lowest is the smallest duration of a bucket.
func lowest(bucket int) int64 {
	if bucket < 16 {
		return int64(bucket)
	}
	e := bucket/16 - 1
	return int64(16+bucket%16) << e
}

func (h *histogram) add(ns int64) {
	h.counts[bucketOf(ns)]++
	h.n++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
}

func (h *histogram) reset() { *h = histogram{} }

// quantile is the duration that the q-th part of all do not exceed, in microseconds, or 0. Those of
// one bucket, which lie within 6 percent of each other, count as evenly spread over it: its middle for all would make
// steps of values that are not.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return 0
	}
	want := uint64(q * float64(h.n))
	if want >= h.n {
		want = h.n - 1
	}
	var before uint64
	for i, n := range h.counts {
		if before+uint64(n) <= want {
			before += uint64(n)
			continue
		}
		part := (float64(want-before) + 0.5) / float64(n)
		low, next := float64(lowest(i)), float64(lowest(i+1))
		return (low + part*(next-low)) / 1e3
	}
	return 0
}
