package sim

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Progress is how far a run has come, for a process that has to end it before there is a report.
type Progress struct {
	calls   atomic.Int64
	virtual atomic.Int64 // ns of the run's own time
	over    atomic.Bool
}

// began notes a call that begins at that time of the run. It is the last one of so many.
func (p *Progress) began(calls int, at time.Duration) {
	if p == nil {
		return
	}
	p.calls.Store(int64(calls))
	p.virtual.Store(int64(at))
}

// ended notes that the run is over, and that its judgement begins.
func (p *Progress) ended() {
	if p != nil {
		p.over.Store(true)
	}
}

// String says it in words.
func (p *Progress) String() string {
	s := fmt.Sprintf("%d calls had begun, the last one %v into the run", p.calls.Load(),
		time.Duration(p.virtual.Load()).Round(time.Millisecond))
	if p.over.Load() {
		s += ", which was over; it was being judged"
	}
	return s
}
