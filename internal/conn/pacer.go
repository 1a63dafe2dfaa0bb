package conn

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pacer writes for the connections to many nodes that the same callers use. A caller that wakes up has its next request for any of
// them, so there are few requests for each, and a write for each few is what costs most. The pacer waits until a processor has nothing
// to run, twice more if it need not wait for long, and then writes for all connections that have something, one after another.
// What nobody else waits for goes at once, as without it, unless many have just had their answers, see startFlush. Where there is no event it is not used, nor while nobody gives way, see Yields.
type Pacer struct {
	base  time.Time
	nodes int32 // from how many on it is used

	yields  *Yields
	off     atomic.Bool // there can be no event
	mu      sync.Mutex
	due     []*Conn // their flushing is set
	spare   []*Conn
	callers int64 // of the connection that came last, see Conn.callers
	running bool
	wg      sync.WaitGroup
	event   event // of whoever runs
}

const (
	// paceNodes is from how many nodes for each processor on a pacer is worth it: with 20 on two it is, with 3 it is a loss.
	paceNodes = 8
	// paceLooks is how often it waits.
	paceLooks = 3
)

// NewPacer makes one for connections with that base, in a program with that many processors. It opens a file when it is used first.
func NewPacer(base time.Time, yields *Yields, processors int) *Pacer {
	return &Pacer{base: base, yields: yields, nodes: int32(min(processors, math.MaxInt16) * paceNodes)}
}

// Close waits until all is written, and lets go of the file. The pacer's connections have ended.
func (p *Pacer) Close() {
	p.wg.Wait()
	p.event.close()
}

// paced reports whether the pacer is to write for the connection now.
func (c *Conn) paced() bool {
	p := c.pacer
	return p != nil && c.serving.Load() >= p.nodes && !p.off.Load()
}

// add has the pacer write what is pending on a connection whose flushing the caller has set.
func (p *Pacer) add(c *Conn) {
	p.mu.Lock()
	p.due = append(p.due, c)
	p.callers = c.callers()
	begin := !p.running
	p.running = true
	p.mu.Unlock()
	if begin {
		p.wg.Go(p.run)
	}
}

// drop reports whether the pacer was to write for the connection, and will not.
func (p *Pacer) drop(c *Conn) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.due, c)
	if i < 0 {
		return false
	}
	p.due = slices.Delete(p.due, i, i+1)
	return true
}

// run lasts for as long as there is something to write.
func (p *Pacer) run() {
	for {
		p.mu.Lock()
		callers := p.callers
		p.mu.Unlock()
		p.gather(callers, p.event.look, runtime.Gosched)
		p.mu.Lock()
		due := p.due
		if len(due) == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.due, p.spare = p.spare[:0], due
		p.mu.Unlock()
		for i, c := range due {
			due[i] = nil
			c.flush()
		}
	}
}

// gather waits until callers have had their turn, if that does not take long.
func (p *Pacer) gather(callers int64, look func() bool, yield func()) {
	began := int64(time.Since(p.base))
	for range paceLooks {
		if !look() {
			p.off.Store(true)
			return
		}
		yield()
		if p.yields.took(began, int64(time.Since(p.base)), callers) {
			return
		}
	}
}
