package mock

import (
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Frame is one request as a node received it, see RecordFrames.
type Frame struct {
	Node    int
	Conn    uint64 // counts up over the cluster's connections
	Opcode  memd.Opcode
	VBucket uint16
	Opaque  uint32
	Key     string // as on the wire
	At      time.Time
}

// Frames returns how many requests with the opcode all nodes have received.
func (c *Cluster) Frames(op memd.Opcode) int { return int(c.frames[op].Load()) }

// FrameLog returns the requests received so far, in order of arrival; nil without RecordFrames.
func (c *Cluster) FrameLog() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frameLog)
}

// watcher is a function that wants to know of every request.
type watcher struct{ f func(Frame) }

// Watch calls f for every request that a node receives from now on, before the request is executed, until stop is
// called. f runs on the goroutines of connections, several at once, and must not block.
func (c *Cluster) Watch(f func(Frame)) (stop func()) {
	w := &watcher{f}
	c.setWatchers(func(list []*watcher) []*watcher { return append(list, w) })
	return func() {
		c.setWatchers(func(list []*watcher) []*watcher {
			return slices.DeleteFunc(list, func(o *watcher) bool { return o == w })
		})
	}
}

func (c *Cluster) setWatchers(change func([]*watcher) []*watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*watcher
	if old := c.watchers.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if list = change(list); len(list) == 0 {
		c.watchers.Store(nil)
		return
	}
	c.watchers.Store(&list)
}

// note counts a request that has arrived, records it if asked, and tells the watchers.
func (c *Cluster) note(k *conn, p *memd.Packet) {
	c.frames[p.Opcode].Add(1)
	watchers := c.watchers.Load()
	if !c.set.frames && watchers == nil {
		return
	}
	f := Frame{
		Node: k.n.index, Conn: k.id, Opcode: p.Opcode, VBucket: p.VBucket, Opaque: p.Opaque, Key: string(p.Key),
		At: time.Now(),
	}
	if c.set.frames {
		c.mu.Lock()
		c.frameLog = append(c.frameLog, f)
		c.mu.Unlock()
	}
	if watchers != nil {
		for _, w := range *watchers {
			w.f(f)
		}
	}
}

// Executes reports whether nodes execute the opcode. They refuse all others as unknown or not supported.
func Executes(op memd.Opcode) bool { return specs[op] != nil }
