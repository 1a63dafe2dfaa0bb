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
	f := Facts{Via: c.via, Opaque: c.Route.Opaque, Duration: r.duration, HasDuration: r.hasDuration}
	f.addUnits(uint64(r.reads)<<32 | uint64(r.writes))
	if c.shared() { // only such a call can have been retried
		f.Retry = c.State.Kept()
		f.addUnits(c.units())
	}
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

// Facts are what an answer, or a failure that is one, says beside its value. Package kv shows them as a Result.
type Facts struct {
	Via         *Via        // nil when no connection brought it
	Retry       *retry.Info // nil when nothing was retried
	Details     *Details    // nil when there is nothing of it
	Opaque      uint32      // of the request that was answered
	Duration    uint16      // of the server's work, as the protocol encodes it
	HasDuration bool
}

// Details is what few answers have.
type Details struct {
	ReadUnits, WriteUnits uint32 // that the servers metered
	Expiry                uint32 // of a document whose read asked for it
}

// details is what few answers have, to be set.
func (f *Facts) details() *Details {
	if f.Details == nil {
		f.Details = new(Details)
	}
	return f.Details
}

// SetExpiry notes when the document expires.
func (f *Facts) SetExpiry(expiry uint32) {
	if expiry != 0 {
		f.details().Expiry = expiry
	}
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

// addUnits adds units as a Slow counts them.
func (f *Facts) addUnits(u uint64) {
	if u != 0 {
		f.details().ReadUnits += uint32(u >> 32)
		f.details().WriteUnits += uint32(u)
	}
}
