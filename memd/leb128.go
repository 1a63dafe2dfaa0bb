package memd

import "errors"

// ErrLEB128 means that a collection id prefix is too long, unterminated, or not in its shortest form.
var ErrLEB128 = errors.New("memd: malformed collection id prefix")

// AppendLEB128 appends v as an unsigned LEB128 number, the form of a collection id before a key: one to five bytes.
func AppendLEB128(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// ParseLEB128 reads a collection id from the start of b and returns the bytes after it, which alias b. Like the
// server it accepts the shortest form only.
func ParseLEB128(b []byte) (v uint32, tail []byte, err error) {
	for i := 0; i < len(b) && i < 5; i++ {
		c := b[i]
		if i == 4 && c > 0x0f { // more than 32 bits
			return 0, nil, ErrLEB128
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				return 0, nil, ErrLEB128
			}
			return v, b[i+1:], nil
		}
	}
	return 0, nil, ErrLEB128
}
