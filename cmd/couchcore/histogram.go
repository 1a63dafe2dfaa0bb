package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	histogramBits  = 5 // 32 steps for each power of two, so that a step is at most 3.2 % wide
	histogramSteps = 1 << histogramBits
)

// histogram counts durations, each to a step of at most 3.2 percent. Any number of goroutines may use it at once.
type histogram struct {
	counts [(64 - histogramBits) * histogramSteps]atomic.Int64
	most   atomic.Int64
}

// add counts a duration, as nanoseconds.
func (h *histogram) add(d time.Duration) {
	n := max(0, int64(d))
	h.counts[stepOf(n)].Add(1)
	for {
		most := h.most.Load()
		if n <= most || h.most.CompareAndSwap(most, n) {
			return
		}
	}
}

// stepOf is the step that a number belongs to.
func stepOf(n int64) int {
	shift := bits.Len64(uint64(n)) - histogramBits - 1
	if shift <= 0 {
		return int(n)
	}
	return shift*histogramSteps + int(n>>shift)
}

// startOf is the least number of a step.
func startOf(step int) int64 {
	if step < 2*histogramSteps {
		return int64(step)
	}
	shift := step/histogramSteps - 1
	return int64(step%histogramSteps+histogramSteps) << shift
}

// total is how many were counted.
func (h *histogram) total() (n int64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// longest is the longest of all, exactly.
func (h *histogram) longest() time.Duration { return time.Duration(h.most.Load()) }

// below gives for each share, which must ascend, the duration that so much of all does not exceed: the middle of its
// step, or the longest if that is less; 0 when nothing was counted.
func (h *histogram) below(shares ...float64) []time.Duration {
	out := make([]time.Duration, len(shares))
	total := h.total()
	if total == 0 {
		return out
	}
	seen, next := int64(0), 0
	for i := range h.counts {
		seen += h.counts[i].Load()
		for next < len(shares) && float64(seen) >= shares[next]*float64(total) && seen > 0 {
			out[next] = min(time.Duration((startOf(i)+startOf(i+1))/2), h.longest())
			next++
		}
	}
	for ; next < len(shares); next++ { // calls that were counted meanwhile
		out[next] = h.longest()
	}
	return out
}

// bar is one line of a histogram: how many took from this to less than the double.
type bar struct {
	from  time.Duration
	count int64
}

// bars sums up by powers of two of a microsecond, from the first that has any to the last. A step that two of them
// share counts where its middle is.
func (h *histogram) bars() []bar {
	var all []bar
	for i := range h.counts {
		n := h.counts[i].Load()
		if n == 0 {
			continue
		}
		from := time.Duration(0)
		if us := (startOf(i) + startOf(i+1)) / 2000; us > 0 {
			from = time.Microsecond << (bits.Len64(uint64(us)) - 1)
		}
		for len(all) > 0 && all[len(all)-1].from < from {
			next := max(all[len(all)-1].from*2, time.Microsecond)
			all = append(all, bar{from: next})
		}
		if len(all) == 0 {
			all = append(all, bar{from: from})
		}
		all[len(all)-1].count += n
	}
	return all
}
