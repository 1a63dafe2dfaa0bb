package call

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Response is a successful answer as the operation reads it. Value belongs to the call's owner: it is memory of its
// exact size, or the caller's buffer when the request named one.
type Response struct {
	Opcode    memd.Opcode
	Datatype  memd.Datatype
	Status    memd.Status
	extrasLen uint8
	frames
	CAS    uint64
	Value  []byte
	extras [24]byte

	long *long // nil for an answer of one packet without a key
	of   *Call // that it answers, nil before its owner wants the answer
}

// long is what an answer has that has a key, or several packets.
type long struct {
	key      []byte
	parts    []Part // the packets before the last
	epoch    uint32 // the attempt that the parts are of
	size     int
	overflow bool // the parts were too long together
}

func (r *Response) more() *long {
	if r.long == nil {
		r.long = &long{}
	}
	return r.long
}

// Key is the key in the answer; nil for an answer without one.
func (r *Response) Key() []byte {
	if r.long == nil {
		return nil
	}
	return r.long.key
}

// Parts are the packets before the last, of an answer that has several.
func (r *Response) Parts() []Part {
	if r.long == nil {
		return nil
	}
	return r.long.parts
}

// Part is one packet of an answer that has several. Its bytes are the call's owner's.
type Part struct {
	Extras     uint32 // the first four bytes of the packet's extras
	Key, Value []byte

	datatype memd.Datatype
}

// MaxParts bounds the memory that one answer of several packets may take; one that has more fails its call.
const MaxParts = 64 << 20

// part keeps what one packet of several says. It runs on the connection's reader. Parts of an earlier attempt are
// forgotten.
func (r *Response) part(p *memd.Packet, epoch uint32) {
	l := r.more()
	if epoch != l.epoch {
		*l = long{key: l.key, epoch: epoch}
	}
	size := len(p.Key) + len(p.Value) + 64 // an empty packet takes memory, too
	if l.overflow || l.size+size > MaxParts {
		l.overflow = true
		return
	}
	l.size += size
	both := make([]byte, len(p.Key)+len(p.Value))
	n := copy(both, p.Key)
	copy(both[n:], p.Value)
	pt := Part{Key: both[:n:n], Value: both[n:], datatype: p.Datatype}
	if len(p.Extras) >= 4 {
		pt.Extras = binary.BigEndian.Uint32(p.Extras)
	}
	l.parts = append(l.parts, pt)
}

// Facts says how the answer came.
func (r *Response) Facts() Facts {
	c := r.of
	f := Facts{
		Via: c.via, Opaque: c.Route.Opaque, CollectionID: c.Route.CollectionID,
		Duration: r.duration, HasDuration: r.hasDuration,
	}
	units := uint64(r.reads)<<32 | uint64(r.writes)
	if c.shared() { // only such a call can have been retried
		f.More = c.State.Kept()
		units += c.units()
	}
	f.setUnits(units)
	return f
}

// ServerTime is how long the server has worked, as the protocol encodes it; 0 when it does not say.
func (r *Response) ServerTime() uint16 { return r.duration }

// Absent says that there is no such document, of an answer to a request for which that is one.
func (r *Response) Absent() bool { return r.Status == memd.StatusKeyNotFound }

// VBucket is the vbucket that the request was for.
func (r *Response) VBucket() uint16 { return r.of.Route.VBucket }

// Bucket is the name of the bucket.
func (r *Response) Bucket() string { return r.of.bucket() }

// Prefixed reports whether keys have their collection's id before them.
func (r *Response) Prefixed() bool { return r.of.Route.Prefixed }

// CollectionID is the id that the request has named.
func (r *Response) CollectionID() uint32 { return r.of.Route.CollectionID }

// Extras is the answer's extras, at most 24 bytes; it aliases r.
func (r *Response) Extras() []byte { return r.extras[:r.extrasLen] }

// Flags is the document's flags in the answer of a read, or 0.
func (r *Response) Flags() uint32 {
	if r.extrasLen < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(r.extras[:])
}

// set copies what p says, its value behind what is in into unless that is nil, or keeps the value when that is memory
// of its own. It runs on the connection's reader, so it does nothing that can fail or block.
func (r *Response) set(p *memd.Packet, into []byte, owned bool) {
	r.Opcode, r.Status, r.CAS, r.Datatype = p.Opcode, p.Status, p.CAS, p.Datatype
	r.extrasLen = uint8(copy(r.extras[:], p.Extras))
	if len(p.Key) > 0 {
		r.more().key = append([]byte(nil), p.Key...)
	}
	switch {
	case owned:
		r.Value = p.Value
	case into != nil:
		into = append(into, p.Value...)
		r.Value = into
	case len(p.Value) > 0:
		r.Value = exact(p.Value)
	}
	if len(p.Frames) > 0 {
		r.frames.set(p.Frames)
	}
}

// exact gives a copy that takes as much memory as b has bytes.
func exact(b []byte) []byte {
	to := make([]byte, len(b)) // in this form the compiler leaves out the zeroing
	copy(to, b)
	return to
}

// Facts are what an answer, or a failure that is one, says beside its value. Package kv shows them as a Result. Each
// result has a copy, so they are 32 bytes; what is rare is in More.
type Facts struct {
	Via          *Via        // nil when no connection brought it
	More         *retry.Kept // how the call was retried, and notes; nil when there is neither
	Opaque       uint32      // of the request that was answered
	CollectionID uint32      // that the request has named, 0 in the default collection
	Duration     uint16      // of the server's work, as the protocol encodes it
	HasDuration  bool
}

// What the notes of Facts are.
const (
	noteReads  = iota // units that the servers metered
	noteWrites        // as well
	noteExpiry        // of a document whose read asked for it
)

// note notes a number, which is not 0 as a rule.
func (f *Facts) note(what int, n uint32) {
	switch {
	case n == 0 && f.More == nil:
		return
	case f.More == nil:
		f.More = new(retry.Kept)
	}
	f.More.Notes[what] = n
}

func (f *Facts) noted(what int) uint32 {
	if f.More == nil {
		return 0
	}
	return f.More.Notes[what]
}

// Retry says how the call was retried; nil when it was not.
func (f *Facts) Retry() *retry.Info {
	if f.More == nil {
		return nil
	}
	return f.More.Info
}

// Units are the read and write units that the servers metered.
func (f *Facts) Units() (reads, writes uint32) { return f.noted(noteReads), f.noted(noteWrites) }

// SetExpiry notes when the document expires, and Expiry tells it.
func (f *Facts) SetExpiry(expiry uint32) { f.note(noteExpiry, expiry) }

// Expiry is when the document expires, 0 for one that does not or was not asked about.
func (f *Facts) Expiry() uint32 { return f.noted(noteExpiry) }

// setUnits notes units as a Slow counts them.
func (f *Facts) setUnits(u uint64) {
	f.note(noteReads, uint32(u>>32))
	f.note(noteWrites, uint32(u))
}

// frames are what the framing extras of an answer say.
type frames struct {
	hasDuration   bool
	duration      uint16
	reads, writes uint32
}

func (f *frames) set(raw []byte) {
	for len(raw) > 0 {
		id, data, left, err := memd.NextFrame(raw)
		if err != nil {
			return
		}
		if len(data) == 2 {
			v := binary.BigEndian.Uint16(data)
			switch id {
			case memd.FrameServerDuration:
				f.duration, f.hasDuration = v, true
			case memd.FrameReadUnits:
				f.reads += uint32(v)
			case memd.FrameWriteUnits:
				f.writes += uint32(v)
			}
		}
		raw = left
	}
}

// units are what the call's attempts without success were metered, as a Slow counts them.
func (c *Call) units() uint64 {
	if s := c.slow.Load(); s != nil {
		return s.units.Load()
	}
	return 0
}
