package call

import (
	"fmt"
	"slices"
	"sync"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/snappy"
	"github.com/couchcore/couchcore/memd"
)

// MaxInflated is how large a compressed value may become unless the call's Owner is a Limiter that says otherwise; one
// that claims to be larger fails its call and allocates nothing.
const MaxInflated = 32 << 20

// Limiter is an Owner with a limit of its own for what compressed values become. It is asked on the goroutine that
// wants the result, and only for answers with a compressed value.
type Limiter interface{ InflateLimit() int }

// inflateLimit is the limit of the call's owner.
func (c *Call) inflateLimit() int64 {
	if l, ok := c.Owner().(Limiter); ok {
		return inflateLimit(l.InflateLimit())
	}
	return MaxInflated
}

// inflateLimit is n, or MaxInflated where that says nothing.
func inflateLimit(n int) int64 {
	if n <= 0 {
		return MaxInflated
	}
	return int64(n)
}

// Compression says which values of documents are sent compressed, as package core describes it: a core.Compression
// converts to it.
type Compression struct {
	Off      bool
	MinSize  int
	MinRatio float64
}

const (
	defaultMinSize  = 32
	defaultMinRatio = 0.83
)

// CompressionError is a value that says it is compressed and cannot be inflated: it is corrupt, or larger than the
// limit. It unwraps to cberr.DecodingFailure and to the codec's error, if there is one. It concerns its own call alone.
type CompressionError struct {
	Len   int   // of the compressed value
	Size  int64 // that it claims to have, when that is too much
	Limit int64
	Err   error
}

func (e *CompressionError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("corrupt compressed value of %d bytes: %v", e.Len, e.Err)
	}
	return fmt.Sprintf("compressed value of %d bytes claims to have %d, limit %d", e.Len, e.Size, e.Limit)
}

// Unwrap gives the kind and the cause.
func (e *CompressionError) Unwrap() []error {
	if e.Err != nil {
		return []error{cberr.DecodingFailure, e.Err}
	}
	return []error{cberr.DecodingFailure}
}

// AppendInflated gives what a compressed value stands for, behind what is in dst. It allocates when dst has no room for
// it. It checks the length that the value claims against limit first.
func AppendInflated(dst, value []byte, limit int64) ([]byte, error) {
	if len(value) == 0 {
		return dst, nil
	}
	size, err := snappy.DecodedLen(value)
	if err != nil {
		return nil, &CompressionError{Len: len(value), Err: err}
	}
	if size > limit {
		return nil, &CompressionError{Len: len(value), Size: size, Limit: limit}
	}
	head, n := len(dst), int(size)
	if cap(dst)-head < n {
		dst = append(make([]byte, 0, head+n), dst...)
	}
	if err = snappy.Decode(dst[head:head+n], value); err != nil {
		return nil, &CompressionError{Len: len(value), Err: err}
	}
	return dst[:head+n], nil
}

// Inflate gives the uncompressed form of a value that came with datatype dt: itself, unless it is compressed. One that
// claims more than limit bytes (0 means MaxInflated) or is corrupt is a *CompressionError.
func Inflate(value []byte, dt memd.Datatype, limit int) ([]byte, error) {
	if dt&memd.DatatypeSnappy == 0 {
		return value, nil
	}
	return AppendInflated(nil, value, inflateLimit(limit))
}

// inflate makes the answer's values uncompressed: that of its only or last packet, and those of the packets before. It
// runs on the goroutine that wants the result.
func (c *Call) inflate() error {
	r := &c.Res
	left := int64(MaxParts)
	parts := r.Parts()
	for i := range parts {
		p := &parts[i]
		if p.datatype&memd.DatatypeSnappy == 0 {
			continue
		}
		v, err := AppendInflated(nil, p.Value, left)
		if err != nil {
			return err
		}
		p.Value, p.datatype = v, p.datatype&^memd.DatatypeSnappy
		left -= int64(len(v))
	}
	if r.Datatype&memd.DatatypeSnappy == 0 {
		return nil
	}
	v, err := AppendInflated(c.Req.Into, r.Value, c.inflateLimit())
	if err != nil {
		return err
	}
	r.Value, r.Datatype = v, r.Datatype&^memd.DatatypeSnappy
	return nil
}

// Packer compresses values as its Compression says. What the encoder needs beside the compressed value is shared by all
// calls: for most values that is more than what comes out. It may be used by several goroutines at once. Its zero value
// is ready.
type Packer struct {
	Compression
	encoder snappy.Encoder
	scratch sync.Pool // of *[]byte
}

// Sizes of the encoder's memory, which is a little more than the value's.
const (
	ownScratch = 4 << 10 // up to this it is the call's own, which is used again
	maxScratch = 1 << 20 // up to this it is kept for the next call
)

// encode compresses a value into memory of its own size: dst's, if that has room.
func (p *Packer) encode(dst, value []byte) []byte {
	if snappy.MaxEncodedLen(len(value)) <= max(ownScratch, cap(dst)) {
		return p.encoder.Append(dst[:0], value)
	}
	scratch, ok := p.scratch.Get().(*[]byte)
	if !ok {
		scratch = new([]byte)
	}
	out := p.encoder.Append((*scratch)[:0], value)
	*scratch = out[:0]
	if p.worth(out, value) {
		dst = append(slices.Grow(dst[:0], len(out)), out...)
	} else {
		dst = nil
	}
	if cap(*scratch) <= maxScratch {
		p.scratch.Put(scratch)
	}
	return dst
}

// worth reports whether a compressed value is to be sent instead of the value.
func (p *Packer) worth(out, value []byte) bool {
	ratio := p.MinRatio
	if ratio <= 0 {
		ratio = defaultMinRatio
	}
	return float64(len(out)) <= float64(len(value))*min(ratio, 1)
}

// Pack compresses the value of a document once, whatever number of attempts follow, if p says so and it is worth it. A
// connection calls it before it takes its lock. It reads the caller's bytes and therefore nothing once the call has
// ended.
func (c *Call) Pack(p *Packer) {
	r := &c.Req
	if p.Off || r.packTried || !c.Is(Compressible) || r.Datatype&memd.DatatypeSnappy != 0 {
		return
	}
	least := p.MinSize
	if least <= 0 {
		least = defaultMinSize
	}
	if len(r.Value) <= least || !c.guard.CompareAndSwap(0, 1) {
		return
	}
	r.packTried, r.simple = true, false
	k := r.kept()
	out := p.encode(k.spare, r.Value)
	if out != nil && cap(out) <= maxKept {
		k.spare = out[:0]
	}
	if out != nil && p.worth(out, r.Value) {
		k.packed = out
	}
	c.guard.Store(0)
}
