package conn

import (
	"sync"
	"sync/atomic"
	"time"
)

// quietCalls are so many calls in flight that the runtime is not told of a connection's system calls, which do not block. The
// first one that it is told of after all processors were idle wakes its monitor, which looks each 20 us from then on, at least
// fifty times if they are not idle again: where calls come in bursts, as those do that are retried after the same time, that is
// almost half of all switches of threads. A few calls are better off with it: it keeps a virtual machine's cores from sleeping, so
// that their answers come sooner.
//
// A write that is longer than quietWrite had better let the runtime stop the world meanwhile.
const (
	quietCalls = 8
	quietWrite = 64 << 10
	quietTime  = 10 * time.Millisecond // after which the monitor takes the processor from whoever does not give it back
)

// Quiet keeps the runtime's monitor from sleeping for long while connections make system calls that it is not told of. It sleeps
// until the next timer: without one a goroutine that does not stop would keep its processor to itself for as long as it likes. So
// there is a timer for as long as there are such calls, and quietTime longer. One is for all connections of a Router; nil is for
// those that tell of all calls. Its zero value is ready.
type Quiet struct {
	used atomic.Bool // since the timer was set

	mu    sync.Mutex
	timer *time.Timer
	armed bool
}

// use is called before each such call.
func (q *Quiet) use() {
	if q.used.Load() || q.used.Swap(true) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.armed:
		return
	case q.timer == nil:
		q.timer = time.AfterFunc(quietTime, q.over)
	default:
		q.timer.Reset(quietTime)
	}
	q.armed = true
}

func (q *Quiet) over() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.armed = q.used.Swap(false); q.armed {
		q.timer.Reset(quietTime)
	}
}

// quietly reports whether the next system call is to be without word to the runtime, and provides for that. Where a connection has
// no linger there are no such calls.
func (c *Conn) quietly() bool {
	if c.quiet == nil || c.linger == nil || c.Load() < quietCalls {
		return false
	}
	c.quiet.use()
	return true
}
