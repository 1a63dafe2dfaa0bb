package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// The memory that the collector leaves to garbage: this much, or a fifth of what lives if that is more. By its own rule
// the runtime leaves as much as lives, so a mock with a million documents would take twice their memory.
const (
	smallestHeadroom = 64 << 20
	headroomShare    = 5
)

// collectorPercent is the GOGC with which garbage has that headroom beside so many live bytes.
func collectorPercent(live uint64) int {
	return int(100 * max(smallestHeadroom, live/headroomShare) / max(live, smallestHeadroom))
}

// limitGarbage keeps the headroom of the collector small from now on, until stop. It does nothing where the user has
// set GOGC or GOMEMLIMIT. It looks at the heap when a collection has ended: an object that nothing refers to tells it.
func limitGarbage() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	var ended atomic.Bool
	percent := 100
	var watch func()
	watch = func() {
		canary := new([16]byte)
		runtime.AddCleanup(canary, func(struct{}) {
			if ended.Load() {
				return
			}
			live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
			metrics.Read(live)
			if next := collectorPercent(live[0].Value.Uint64()); next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
			watch()
		}, struct{}{})
	}
	watch()
	return func() { ended.Store(true) }
}
