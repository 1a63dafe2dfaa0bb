package memd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// HeaderLen is the size of every packet's header.
const HeaderLen = 24

// DefaultLimit is the largest body Parse accepts when its caller names no limit of its own: a server's own maximum
// is 30 MiB.
const DefaultLimit = 32 << 20

// maxBody is what AppendTo lets into a body: the largest number that an int holds on every platform. Servers stop far
// below it.
const maxBody = math.MaxInt32

// Magic is the first byte of a packet: who sent it, whether it is a request, and which header it has.
type Magic uint8

// The six magics of the protocol (kv_engine, BinaryProtocol.md).
const (
	MagicReq       Magic = 0x80 // client request
	MagicReqExt    Magic = 0x08 // client request with framing extras
	MagicRes       Magic = 0x81 // response to a client
	MagicResExt    Magic = 0x18 // response to a client with framing extras
	MagicServerReq Magic = 0x82 // request that a server sends
	MagicServerRes Magic = 0x83 // a client's response to it
)

// IsRequest reports whether m starts a request of either side.
func (m Magic) IsRequest() bool { return m == MagicReq || m == MagicReqExt || m == MagicServerReq }

// IsResponse reports whether m starts a response of either side.
func (m Magic) IsResponse() bool { return m == MagicRes || m == MagicResExt || m == MagicServerRes }

// Valid reports whether m is one of the six magics.
func (m Magic) Valid() bool { return m.IsRequest() || m.IsResponse() }

func (m Magic) String() string {
	switch m {
	case MagicReq:
		return "REQ"
	case MagicReqExt:
		return "REQ_EXT"
	case MagicRes:
		return "RES"
	case MagicResExt:
		return "RES_EXT"
	case MagicServerReq:
		return "SERVER_REQ"
	case MagicServerRes:
		return "SERVER_RES"
	}
	return fmt.Sprintf("Magic(0x%02x)", uint8(m))
}

// Packet is one request or response. VBucket has a meaning in requests, Status in responses; they share two bytes of
// the header. Frames are the framing extras as they stand on the wire; NextFrame takes them apart. Opcode is a
// ServerOpcode's number when the magic is one of a server's requests.
type Packet struct {
	Magic    Magic
	Opcode   Opcode
	Datatype Datatype
	VBucket  uint16
	Status   Status
	Opaque   uint32
	CAS      uint64
	Frames   []byte
	Extras   []byte
	Key      []byte
	Value    []byte
}

// Errors of Parse and Append. A parse error other than ErrShort means that the stream can't be trusted any more.
var (
	ErrShort    = errors.New("memd: packet is incomplete")
	ErrMagic    = errors.New("memd: unknown magic")
	ErrLengths  = errors.New("memd: frame, extras and key are longer than the body")
	ErrTooLarge = errors.New("memd: body is over the limit")
	ErrEncode   = errors.New("memd: packet cannot be encoded")
)

// ParseError says which field of a received packet breaks which limit. It unwraps to ErrMagic, ErrLengths,
// ErrTooLarge or ErrFrames.
type ParseError struct {
	Field string
	Value int64
	Limit int64
	Err   error
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%v: %s is %d (0x%x), limit %d", e.Err, e.Field, e.Value, e.Value, e.Limit)
}

func (e *ParseError) Unwrap() error { return e.Err }

// EncodeError names the field of a packet that does not fit its place on the wire: Len is the field's length, or the
// number itself of a magic or a frame id. It unwraps to ErrEncode.
type EncodeError struct {
	Field string
	Len   int
	Limit int
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("%v: %s is %d, limit %d", ErrEncode, e.Field, e.Len, e.Limit)
}

func (e *EncodeError) Unwrap() error { return ErrEncode }

// ext reports whether m has the header with one byte for the key's length and one for the framing extras'.
func (m Magic) ext() bool { return m == MagicReqExt || m == MagicResExt }

// AppendTo appends p's wire form to dst. MagicReq and MagicRes turn into their extended forms when there are
// framing extras, and back without any, so the header always follows the content. dst comes back unchanged
// with an EncodeError when a length does not fit.
func (p *Packet) AppendTo(dst []byte) ([]byte, error) {
	m := p.Magic
	switch {
	case len(p.Frames) > 0:
		switch m {
		case MagicReq:
			m = MagicReqExt
		case MagicRes:
			m = MagicResExt
		case MagicServerReq, MagicServerRes:
			return dst, &EncodeError{"length of framing extras in a server packet", len(p.Frames), 0}
		}
	case m == MagicReqExt:
		m = MagicReq
	case m == MagicResExt:
		m = MagicRes
	}
	if !m.Valid() {
		return dst, &EncodeError{"magic (unknown)", int(m), 0}
	}
	keyMax := 0xffff
	if m.ext() {
		keyMax = 0xff
	}
	switch {
	case len(p.Key) > keyMax:
		return dst, &EncodeError{"key length", len(p.Key), keyMax}
	case len(p.Frames) > 0xff:
		return dst, &EncodeError{"framing extras length", len(p.Frames), 0xff}
	case len(p.Extras) > 0xff:
		return dst, &EncodeError{"extras length", len(p.Extras), 0xff}
	}
	body := len(p.Frames) + len(p.Extras) + len(p.Key) + len(p.Value)
	if len(p.Value) > maxBody || body > maxBody {
		return dst, &EncodeError{"body length", body, maxBody}
	}
	two := p.VBucket
	if m.IsResponse() {
		two = uint16(p.Status)
	}
	dst = AppendHeader(dst, Header{
		Magic: m, Opcode: p.Opcode, Datatype: p.Datatype, VBucketOrStatus: two, Opaque: p.Opaque, CAS: p.CAS,
		FramesLen: len(p.Frames), KeyLen: len(p.Key), ExtrasLen: len(p.Extras), BodyLen: body,
	})
	dst = append(dst, p.Frames...)
	dst = append(dst, p.Extras...)
	dst = append(dst, p.Key...)
	return append(dst, p.Value...), nil
}

// Header is a packet's first 24 bytes, decoded. BodyLen counts framing extras, extras, key and value.
type Header struct {
	Magic           Magic
	Opcode          Opcode
	Datatype        Datatype
	VBucketOrStatus uint16
	Opaque          uint32
	CAS             uint64
	FramesLen       int
	KeyLen          int
	ExtrasLen       int
	BodyLen         int
}

// ValueLen is what the body holds besides framing extras, extras and key.
func (h *Header) ValueLen() int { return h.BodyLen - h.FramesLen - h.ExtrasLen - h.KeyLen }

// AppendHeader appends h. The lengths are the caller's care: they must fit their fields.
func AppendHeader(dst []byte, h Header) []byte {
	lens := uint16(h.KeyLen)
	if h.Magic.ext() {
		lens = uint16(h.FramesLen)<<8 | uint16(h.KeyLen)&0xff
	}
	var b [HeaderLen]byte
	put(&b, h.Magic, h.Opcode, lens, uint8(h.ExtrasLen), h.Datatype, h.VBucketOrStatus, uint32(h.BodyLen), h.Opaque,
		h.CAS)
	return append(dst, b[:]...)
}

// PutRequest writes the header of a request without framing extras. It takes no memory, not even much of the stack. The
// lengths are the caller's care: they must fit their fields.
func PutRequest(b *[HeaderLen]byte, op Opcode, keyLen uint16, extrasLen uint8, dt Datatype, vb uint16, bodyLen,
	opaque uint32, cas uint64,
) {
	put(b, MagicReq, op, keyLen, extrasLen, dt, vb, bodyLen, opaque, cas)
}

// put writes a header. lens is the key's length, or the lengths of the framing extras and the key.
func put(b *[HeaderLen]byte, m Magic, op Opcode, lens uint16, extrasLen uint8, dt Datatype, vb uint16, bodyLen,
	opaque uint32, cas uint64,
) {
	b[0], b[1] = byte(m), byte(op)
	binary.BigEndian.PutUint16(b[2:], lens)
	b[4], b[5] = extrasLen, byte(dt)
	binary.BigEndian.PutUint16(b[6:], vb)
	binary.BigEndian.PutUint32(b[8:], bodyLen)
	binary.BigEndian.PutUint32(b[12:], opaque)
	binary.BigEndian.PutUint64(b[16:], cas)
}

// ParseHeader decodes the header at the start of b and checks it: the magic is known, the body is at most limit bytes
// (0 means DefaultLimit), and its parts fit into it. It allocates nothing unless it fails; ErrShort means that b holds
// fewer than 24 bytes.
func ParseHeader(b []byte, limit int) (Header, error) {
	if len(b) < HeaderLen {
		if len(b) > 0 && !Magic(b[0]).Valid() {
			return Header{}, &ParseError{"magic", int64(b[0]), 0, ErrMagic}
		}
		return Header{}, ErrShort
	}
	frames, extras, key, body, err := lengths(b, limit)
	if err != nil {
		return Header{}, err
	}
	return Header{
		Magic: Magic(b[0]), Opcode: Opcode(b[1]), Datatype: Datatype(b[5]),
		VBucketOrStatus: binary.BigEndian.Uint16(b[6:]), Opaque: binary.BigEndian.Uint32(b[12:]),
		CAS: binary.BigEndian.Uint64(b[16:]), FramesLen: frames, KeyLen: key, ExtrasLen: extras, BodyLen: body,
	}, nil
}

// lengths decodes and checks those of the header that b begins with. Each is a result of its own, so that they stay in
// registers.
func lengths(b []byte, limit int) (frames, extras, key, body int, err error) {
	_ = b[HeaderLen-1]
	if limit <= 0 {
		limit = DefaultLimit
	}
	switch Magic(b[0]) {
	case MagicReq, MagicRes, MagicServerReq, MagicServerRes:
		key = int(binary.BigEndian.Uint16(b[2:]))
	case MagicReqExt, MagicResExt:
		frames, key = int(b[2]), int(b[3])
	default:
		return 0, 0, 0, 0, &ParseError{"magic", int64(b[0]), 0, ErrMagic}
	}
	n := binary.BigEndian.Uint32(b[8:])
	if uint64(n) > uint64(limit) {
		return 0, 0, 0, 0, &ParseError{"body length", int64(n), int64(limit), ErrTooLarge}
	}
	extras, body = int(b[4]), int(n)
	if parts := frames + extras + key; parts > body {
		return 0, 0, 0, 0, &ParseError{"frames, extras and key", int64(parts), int64(body), ErrLengths}
	}
	return frames, extras, key, body, nil
}

// Parse decodes the packet at the start of b into p and returns how many bytes it took. p's slices alias b and are
// valid as long as b is. limit bounds the body, 0 means DefaultLimit. While b holds less than the whole packet the
// error is ErrShort and n says how many bytes are needed (24 until the header is there). It allocates nothing unless
// the packet is malformed.
func (p *Packet) Parse(b []byte, limit int) (n int, err error) {
	if len(b) < HeaderLen {
		_, err = ParseHeader(b, limit)
		return HeaderLen, err
	}
	frames, extras, key, body, err := lengths(b, limit)
	if err != nil {
		return HeaderLen, err
	}
	if n = HeaderLen + body; len(b) < n {
		return n, ErrShort
	}
	p.Magic, p.Opcode, p.Datatype = Magic(b[0]), Opcode(b[1]), Datatype(b[5])
	p.setVBucketOrStatus(binary.BigEndian.Uint16(b[6:]))
	p.Opaque, p.CAS = binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])
	p.setParts(b[HeaderLen:n], frames, extras, key)
	return n, nil
}

// ParseSuccess is Parse for a whole packet that is a successful response without a key, as most responses are, in half
// of the instructions. It says how many bytes the packet took; 0 means that b begins with another packet, or with one
// that is not whole or not sound: which of them Parse tells.
func (p *Packet) ParseSuccess(b []byte, limit int) int {
	if len(b) < HeaderLen {
		return 0
	}
	if limit <= 0 {
		limit = DefaultLimit
	}
	frames, key := 0, b[3]
	switch Magic(b[0]) {
	case MagicRes:
		key |= b[2]
	case MagicResExt:
		frames = int(b[2])
	default:
		return 0
	}
	body, values := int64(binary.BigEndian.Uint32(b[8:])), frames+int(b[4])
	n := HeaderLen + body
	if key|b[6]|b[7] != 0 || body > int64(limit) || n > int64(len(b)) || int64(values) > body {
		return 0
	}
	p.Magic, p.Opcode, p.Datatype, p.VBucket, p.Status = Magic(b[0]), Opcode(b[1]), Datatype(b[5]), 0, StatusSuccess
	p.Opaque, p.CAS = binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])
	b = b[HeaderLen:n:n]
	p.Frames, p.Extras, p.Key, p.Value = b[:frames:frames], b[frames:values:values], nil, b[values:]
	return int(n)
}

func (p *Packet) setVBucketOrStatus(v uint16) {
	if p.Magic.IsResponse() {
		p.Status, p.VBucket = Status(v), 0
	} else {
		p.Status, p.VBucket = 0, v
	}
}

// setParts cuts body, which is at least as long as the parts before the value.
func (p *Packet) setParts(body []byte, frames, extras, key int) {
	i := frames
	j := i + extras
	k := j + key
	p.Frames, p.Extras, p.Key, p.Value = body[:i:i], body[i:j:j], body[j:k:k], body[k:len(body):len(body)]
}

// SetBody fills p's slices with the parts of body, which must have h.BodyLen bytes: for a reader that has received
// header and body apart. p's slices alias body.
func (p *Packet) SetBody(h *Header, body []byte) {
	p.Magic, p.Opcode, p.Datatype, p.Opaque, p.CAS = h.Magic, h.Opcode, h.Datatype, h.Opaque, h.CAS
	p.setVBucketOrStatus(h.VBucketOrStatus)
	p.setParts(body[:h.BodyLen], h.FramesLen, h.ExtrasLen, h.KeyLen)
}
