package mock

import (
	"bytes"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// MaxFrameValue is how many bytes of a request's value a Frame has.
const MaxFrameValue = 16 << 10

// Frame is one request as a node received it, see RecordFrames.
type Frame struct {
	Node    int
	Conn    uint64 // counts up over the cluster's connections
	Opcode  memd.Opcode
	VBucket uint16
	Opaque  uint32
	Key     string // as on the wire
	At      time.Time

	User       string // who is logged in; empty before that
	Bucket     string // that the connection has selected
	Collection string // "scope.collection"; empty for requests without a document, and for collections that are gone
	Document   string // the document's key, without the collection's prefix; empty for requests without one
	Value      []byte // its first 16 KiB, inflated when it came compressed
	CAS        uint64
	Durability memd.DurabilityLevel
}

// Frames returns how many requests with the opcode all nodes have received.
func (c *Cluster) Frames(op memd.Opcode) int { return int(c.frames[op].Load()) }

// FrameLog returns the requests received so far, in order of arrival; nil without RecordFrames.
func (c *Cluster) FrameLog() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.keptFrames())
}

// keptFrames are the lines that the limit leaves. The caller holds the mutex.
func (c *Cluster) keptFrames() []Frame {
	if c.framesKept == 0 || len(c.frameLog) <= c.framesKept {
		return c.frameLog
	}
	return c.frameLog[len(c.frameLog)-c.framesKept:]
}

// LimitFrameLog makes the cluster forget all but the newest n lines of the frame log, now and from now on; 0 ends that.
func (c *Cluster) LimitFrameLog(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frameLog = slices.Clone(c.keptFrames())
	c.framesKept = max(0, n)
	c.frameLog = slices.Clone(c.keptFrames())
}

// ClearFrameLog forgets the requests received so far.
func (c *Cluster) ClearFrameLog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frameLog = nil
}

// KeyCount is how many requests with one opcode were received for one document.
type KeyCount struct {
	Bucket, Collection, Document string
	Opcode                       memd.Opcode
	Requests                     int
}

// KeyCounts counts the lines of the frame log by document and opcode, in the order of the first of each.
func (c *Cluster) KeyCounts() []KeyCount { return CountFrames(c.FrameLog()) }

// CountFrames is KeyCounts for frames that were chosen from the log.
func CountFrames(frames []Frame) []KeyCount {
	var out []KeyCount
	at := map[KeyCount]int{}
	for _, f := range frames {
		if f.Document == "" {
			continue
		}
		k := KeyCount{Bucket: f.Bucket, Collection: f.Collection, Document: f.Document, Opcode: f.Opcode}
		i, known := at[k]
		if !known {
			i = len(out)
			at[k], out = i, append(out, k)
		}
		out[i].Requests++
	}
	return out
}

// Watch calls f for every request that a node receives from now on, before the request is executed, until stop is
// called. f runs on the goroutines of connections, several at once, and must not block.
func (c *Cluster) Watch(f func(Frame)) (stop func()) { return c.watchers.add(f) }

// note counts a request that has arrived, records it if asked, and tells the watchers.
func (c *Cluster) note(k *conn, p *memd.Packet) {
	c.frames[p.Opcode].Add(1)
	if !c.set.frames && !c.watchers.any() {
		return
	}
	f := k.frame(p)
	if c.set.frames {
		c.mu.Lock()
		if c.framesKept > 0 && len(c.frameLog) >= 2*c.framesKept {
			c.frameLog = slices.Clone(c.keptFrames())
		}
		c.frameLog = append(c.frameLog, f)
		c.mu.Unlock()
	}
	c.watchers.tell(f)
}

// frame describes a request that has arrived.
func (k *conn) frame(p *memd.Packet) Frame {
	rq := k.newRequest(p)
	f := Frame{
		Node: k.n.index, Conn: k.id, Opcode: p.Opcode, VBucket: p.VBucket, Opaque: p.Opaque, Key: string(p.Key),
		At: rq.at, CAS: p.CAS,
	}
	if rq.b != nil {
		f.Bucket = rq.b.name
	}
	if rq.spec != nil && rq.spec.key == keyDocument && rq.keyErr == "" {
		f.Collection, f.Document = rq.path(), string(rq.key)
	}
	if rq.user != nil {
		k.c.mu.Lock()
		f.User = rq.user.name
		k.c.mu.Unlock()
	}
	for frames := p.Frames; len(frames) > 0; {
		id, data, tail, err := memd.NextFrame(frames)
		if err != nil {
			break
		}
		if id == memd.FrameDurability {
			f.Durability, _, _ = memd.ParseDurability(data)
		}
		frames = tail
	}
	if p.Opcode != memd.OpSASLAuth && p.Opcode != memd.OpSASLStep { // secrets stay out of the log
		if p.Datatype&memd.DatatypeSnappy != 0 {
			rq.inflate() // a value that cannot be inflated stays as it is
		}
		f.Value = bytes.Clone(rq.value[:min(len(rq.value), MaxFrameValue)])
	}
	return f
}

// Executes reports whether nodes execute the opcode. They refuse all others as unknown or not supported.
func Executes(op memd.Opcode) bool { return specs[op] != nil }
