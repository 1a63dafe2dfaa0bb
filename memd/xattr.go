package memd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
)

// ErrXattrs means that a value's section of extended attributes claims more than there is, or is not terminated.
var ErrXattrs = errors.New("memd: malformed section of extended attributes")

// Xattrs is a section of extended attributes without the length before it: pairs of a length, a name and a value, each
// with a zero byte behind it.
type Xattrs []byte

// SplitXattrs takes a value with DatatypeXattr apart. Both parts alias value. It fails with ErrXattrs when the section
// is longer than the value or a pair of it is malformed.
func SplitXattrs(value []byte) (x Xattrs, body []byte, err error) {
	if len(value) < 4 {
		return nil, nil, ErrXattrs
	}
	n := uint64(binary.BigEndian.Uint32(value))
	if n > uint64(len(value)-4) {
		return nil, nil, ErrXattrs
	}
	x, body = Xattrs(value[4:4+n:4+n]), value[4+n:]
	for after := x; len(after) > 0; {
		if _, _, after, err = after.next(); err != nil {
			return nil, nil, err
		}
	}
	return x, body, nil
}

// next takes the first pair off.
func (x Xattrs) next() (name, value []byte, after Xattrs, err error) {
	if len(x) < 4 {
		return nil, nil, nil, ErrXattrs
	}
	n := uint64(binary.BigEndian.Uint32(x))
	if n > uint64(len(x)-4) {
		return nil, nil, nil, ErrXattrs
	}
	pair := x[4 : 4+n]
	i := bytes.IndexByte(pair, 0)
	if i < 1 || n < 3 || pair[n-1] != 0 || uint64(i) == n-1 {
		return nil, nil, nil, ErrXattrs
	}
	return pair[:i:i], pair[i+1 : n-1 : n-1], x[4+n:], nil
}

// All yields each attribute's name and value, which alias x. It ends at the first malformed pair; SplitXattrs gives no
// section that has one.
func (x Xattrs) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for after := x; len(after) > 0; {
			name, value, tail, err := after.next()
			if err != nil || !yield(string(name), value) {
				return
			}
			after = tail
		}
	}
}

// Get is the value of an attribute; false without one of that name.
func (x Xattrs) Get(name string) ([]byte, bool) {
	for n, v := range x.All() {
		if n == name {
			return v, true
		}
	}
	return nil, false
}

// AppendXattr appends one pair to a section. The name must not be empty and neither may hold a zero byte: dst comes
// back unchanged with ErrXattrs then.
func AppendXattr(dst Xattrs, name string, value []byte) (Xattrs, error) {
	if name == "" || bytes.IndexByte([]byte(name), 0) >= 0 || bytes.IndexByte(value, 0) >= 0 {
		return dst, ErrXattrs
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(name)+len(value)+2))
	dst = append(append(dst, name...), 0)
	return append(append(dst, value...), 0), nil
}

// JoinXattrs puts a section before a body, as a value with DatatypeXattr has it.
func JoinXattrs(x Xattrs, body []byte) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(x)+len(body)), uint32(len(x)))
	return append(append(out, x...), body...)
}
