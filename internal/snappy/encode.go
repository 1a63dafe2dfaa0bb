package snappy

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
)

const (
	hashBits  = 13
	minMatch  = 4
	maxOffset = 1<<16 - 1 // of a copy with two bytes for it
	readAhead = 16        // at a position that is looked at there are as many bytes
)

// table finds the last place of four bytes by their hash. Places go on from one value to the next, more than maxOffset
// apart, so that what earlier values left is too far away and nothing has to be cleared.
type table struct {
	base uint64                // place of the value's first byte
	last [1 << hashBits]uint64 // place in the upper half, the four bytes in the lower
}

// Encoder makes blocks. Several goroutines may use it at once. Its zero value is ready. It keeps a table for each
// Append that was under way at a time.
type Encoder struct{ tables sync.Pool }

// MaxEncodedLen is the length that the block of a value of n bytes has at most. Each copy is at least one byte shorter
// than what it stands for, and each literal but the last is before a copy; so the loss is the headers of long literals,
// a byte in 65 or fewer, the last literal, and the length.
func MaxEncodedLen(n int) int { return n + n/64 + 32 }

// Append appends the block of src to dst, and allocates only if there are fewer than MaxEncodedLen bytes behind dst.
// src has less than 4 GiB, and is not in the memory behind dst. The same value always gives the same block.
func (e *Encoder) Append(dst, src []byte) []byte {
	dst = slices.Grow(dst, MaxEncodedLen(len(src)))
	dst = binary.AppendUvarint(dst, uint64(len(src)))
	d := len(dst)
	dst = dst[:cap(dst)]
	if len(src) < readAhead {
		return dst[:literal(dst, d, src)]
	}
	t, ok := e.tables.Get().(*table)
	if !ok {
		t = &table{base: maxOffset + 1}
	}
	d = t.pack(dst, d, src)
	e.tables.Put(t)
	return dst[:d]
}

// pack writes the elements of src at dst[d:] and gives where they end.
func (t *table) pack(dst []byte, d int, src []byte) int {
	if t.base+uint64(len(src)) > math.MaxUint32 {
		clear(t.last[:])
		t.base = maxOffset + 1
	}
	written := 0 // bytes of src that have their element
	for {
		s, offset := t.find(src, written)
		if offset == 0 {
			break
		}
		if n := s - written; n > 16 {
			d = literal(dst, d, src[written:s])
		} else if n > 0 {
			dst[d] = byte((n - 1) << 2)
			copy(dst[d+1:d+17], src[written:written+16]) // what is too much is overwritten
			d += 1 + n
		}
		length := minMatch
		differs := binary.LittleEndian.Uint64(src[s+minMatch:])
		differs ^= binary.LittleEndian.Uint64(src[s-offset+minMatch:])
		if differs != 0 {
			length += bits.TrailingZeros64(differs) / 8
		} else {
			length = same(src, s, s-offset)
		}
		end := s + length
		for length > 64 {
			n := min(64, length-minMatch) // so that what is left fits the short form
			d += copy2(dst[d:], offset, n)
			length -= n
		}
		if length > 11 || offset >= 1<<11 {
			d += copy2(dst[d:], offset, length)
		} else {
			binary.LittleEndian.PutUint16(dst[d:], uint16(offset>>8<<5|(length-4)<<2|tagCopy1|offset<<8))
			d += 2
		}
		written = end
	}
	t.base += uint64(len(src)) + maxOffset + 1
	return literal(dst, d, src[written:])
}

// find gives the next position, from s on, whose four bytes have been before, and how far back. An offset of zero means
// that no such position is left.
func (t *table) find(src []byte, s int) (at, offset int) {
	base := t.base
	if s > 0 && s <= len(src)-readAhead {
		word := binary.LittleEndian.Uint32(src[s-1:])
		t.last[hash(word)] = (base+uint64(s)-1)<<32 | uint64(word)
	}
	for misses := 32; s <= len(src)-readAhead; misses++ {
		word := binary.LittleEndian.Uint32(src[s:])
		i := hash(word)
		entry := t.last[i]
		place := base + uint64(s)
		t.last[i] = place<<32 | uint64(word)
		if uint32(entry) == word {
			if offset := place - entry>>32; offset <= maxOffset {
				return s, int(offset)
			}
		}
		s += misses >> 5 // faster and faster through what does not become smaller
	}
	return s, 0
}

// hash gives the place of the lower four bytes of word in a table.
func hash(word uint32) uint32 { return word * 0x9e3779b1 >> (32 - hashBits) }

// same is the number of bytes that are alike at s and at from, which is before s. The first twelve are.
func same(src []byte, s, from int) int {
	n := minMatch + 8
	for a, b := src[s:], src[from:]; len(a)-n >= 8; n += 8 {
		if differs := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differs != 0 {
			return n + bits.TrailingZeros64(differs)/8
		}
	}
	for s+n < len(src) && src[s+n] == src[from+n] {
		n++
	}
	return n
}

// literal writes bytes as they are. Its tag is zero.
func literal(dst []byte, d int, b []byte) int {
	n := len(b) - 1
	switch {
	case n < 0:
		return d
	case n < 60:
		dst[d] = byte(n << 2)
		d++
	case n < 1<<8:
		dst[d], dst[d+1] = 60<<2, byte(n)
		d += 2
	case n < 1<<16:
		dst[d], dst[d+1], dst[d+2] = 61<<2, byte(n), byte(n>>8)
		d += 3
	default:
		dst[d] = 63 << 2
		binary.LittleEndian.PutUint32(dst[d+1:], uint32(n))
		d += 5
	}
	return d + copy(dst[d:], b)
}

// copy2 writes the form of a copy that has two bytes for its offset.
func copy2(dst []byte, offset, length int) int {
	_ = dst[2]
	dst[0], dst[1], dst[2] = byte((length-1)<<2|tagCopy2), byte(offset), byte(offset>>8)
	return 3
}
