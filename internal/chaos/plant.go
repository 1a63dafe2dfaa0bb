package chaos

import (
	"os"
	"slices"
	"time"
)

// Defects of the client process that can be planted, to see that each is noticed.
const (
	plantLost       = "lost"       // a call that has failed counts as applied
	plantTwice      = "twice"      // a document is appended to twice
	plantUntrue     = "untrue"     // a call in doubt counts as not applied
	plantUnended    = "unended"    // the end of a call is not told of
	plantLate       = "late"       // a call ends 200 ms after its deadline
	plantGoroutine  = "goroutine"  // a goroutine is left; in a soak, one with each sample
	plantDescriptor = "descriptor" // the same with a descriptor
	plantHeap       = "heap"       // of a soak, and of a round with little memory: memory is kept
	plantNode       = "node"       // the process of a node says that it has a data race
	plantLatency    = "latency"    // of a soak: calls take longer and longer
	plantFailing    = "failing"    // of a soak: from a moment on all calls fail at once
	plantHanging    = "hanging"    // of a soak: from a moment on no call ends
)

// Plants are the names of the defects that can be planted.
func Plants() []string {
	return []string{
		plantLost, plantTwice, plantUntrue, plantUnended, plantLate, plantGoroutine, plantDescriptor, plantHeap,
		plantNode, plantLatency, plantFailing, plantHanging,
	}
}

// KnownPlant reports whether a defect can be planted, and that "" names no defect.
func KnownPlant(name string) bool { return name == "" || slices.Contains(Plants(), name) }

// plant changes what is told of the end of a call.
func (c *client) plant(how *outcome, id *string) {
	switch {
	case c.o.Plant == "":
	case c.o.Plant == plantLost && *how != applied:
		*how = applied
	case c.o.Plant == plantUntrue && *how == doubtful:
		*how = refused
	case c.o.Plant == plantUnended && c.calls.Load()%64 == 0:
		*id = ""
	}
}

// late holds up the end of a call.
func (c *client) late(until time.Time) {
	if c.o.Plant == plantLate && c.calls.Load()%64 == 0 {
		time.Sleep(time.Until(until.Add(200 * time.Millisecond)))
	}
}

// leakGoroutine and leakDescriptor leave one behind.
func leakGoroutine() {
	never := make(chan struct{})
	go func() { <-never }()
}

func leakDescriptor() []*os.File {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	return []*os.File{r, w}
}
