package snappy

import (
	"encoding/binary"
	"fmt"
	"math"
)

// CorruptError is a block that no encoder makes.
type CorruptError struct {
	At  int // the byte of the block at which the element begins that cannot be
	Why string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt snappy block at byte %d: %s", e.At, e.Why)
}

// The lower two bits of an element's first byte.
const (
	tagLiteral = iota
	tagCopy1   // a copy whose offset has 11 bits: three of the tag and a byte
	tagCopy2   // a copy whose offset has two bytes
	tagCopy4   // a copy whose offset has four bytes
)

const maxHead = 5 // bytes of the length

// What CorruptError says.
const (
	badLength = "the length is not a varint of 32 bits"
	badSize   = "the length is not that of the memory"
	cutOff    = "the block ends within an element"
	badOffset = "a copy begins before the first byte"
	tooLong   = "the elements are longer than the length says"
	tooShort  = "the elements are shorter than the length says"
)

// DecodedLen is the length that a block says its value has. The sender chose it: it may be any number of 32 bits,
// whatever the length of the block.
func DecodedLen(block []byte) (int64, error) {
	n, size := binary.Uvarint(block[:min(len(block), maxHead)])
	if size <= 0 || n > math.MaxUint32 {
		return 0, &CorruptError{Why: badLength}
	}
	return int64(n), nil
}

// Decode fills dst, which has the DecodedLen of block, with the value. After an error dst holds no value. The two do
// not overlap.
func Decode(dst, block []byte) error {
	n, s := binary.Uvarint(block[:min(len(block), maxHead)])
	if s <= 0 || n > math.MaxUint32 {
		return &CorruptError{Why: badLength}
	}
	if n != uint64(len(dst)) {
		return &CorruptError{Why: badSize}
	}
	d := 0
	for s < len(block) {
		left, room := uint64(len(block)-s), uint64(len(dst)-d)
		word := start(block[s:])
		var head, length, offset uint64
		switch word & 3 {
		case tagLiteral:
			head, length = literalHead(word)
			if head+length > left {
				return &CorruptError{At: s, Why: cutOff}
			}
			if length > room {
				return &CorruptError{At: s, Why: tooLong}
			}
			if s += int(head); length <= 16 && room >= 16 && len(block)-s >= 16 {
				copy(dst[d:d+16], block[s:s+16]) // what is too much is overwritten
			} else {
				copy(dst[d:], block[s:s+int(length)])
			}
			s, d = s+int(length), d+int(length)
			continue
		case tagCopy1:
			head, length, offset = 2, word>>2&7+4, word>>5&7<<8|word>>8&0xff
		case tagCopy2:
			head, length, offset = 3, word>>2&63+1, word>>8&0xffff
		case tagCopy4:
			head, length, offset = 5, word>>2&63+1, word>>8&0xffffffff
		}
		switch {
		case head > left:
			return &CorruptError{At: s, Why: cutOff}
		case offset-1 >= uint64(d): // zero less one is the largest number
			return &CorruptError{At: s, Why: badOffset}
		case length > room:
			return &CorruptError{At: s, Why: tooLong}
		}
		s += int(head)
		end := d + int(length)
		if offset >= 16 && room >= length+16 {
			for from := d - int(offset); d < end; d, from = d+16, from+16 {
				copy(dst[d:d+16], dst[from:from+16])
			}
		} else {
			repeat(dst, d, int(offset), end)
		}
		d = end
	}
	if d < len(dst) {
		return &CorruptError{At: len(block), Why: tooShort}
	}
	return nil
}

// literalHead is how many bytes are before those of a literal, and how many those are.
func literalHead(word uint64) (head, length uint64) {
	if length = word>>2&63 + 1; length <= 60 {
		return 1, length
	}
	size := length - 60 // of the length, in bytes
	return 1 + size, word>>8&(1<<(8*size)-1) + 1
}

// start is the first eight bytes, with zeros for those that there are not.
func start(b []byte) (word uint64) {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	for i, c := range b {
		word |= uint64(c) << (8 * i)
	}
	return word
}

// repeat copies the bytes that begin offset bytes before d to d, up to end. It may have just written some of them.
func repeat(dst []byte, d, offset, end int) {
	if offset >= 8 && len(dst)-end >= 8 {
		for ; d < end; d += 8 {
			copy(dst[d:d+8], dst[d-offset:d-offset+8])
		}
		return
	}
	for from := d - offset; d < end; {
		d += copy(dst[d:end], dst[from:d]) // all that is there, so twice as much each time
	}
}
