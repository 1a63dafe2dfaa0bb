package httpsvc

import (
	"bytes"
	"io"
)

// firstBuffer is the size that a RowReader starts with, and the room it keeps free beyond a row of the largest size.
const firstBuffer = 16 << 10

// mostEmptyReads is how often the reader below may give nothing before that counts as a failure.
const mostEmptyReads = 100

// token skips blanks and gives the byte at pos, which it does not take.
func (r *RowReader) token() (byte, error) {
	for {
		r.mark = r.pos
		if err := r.fill(); err != nil {
			return 0, err
		}
		switch c := r.buf[r.pos]; c {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return c, nil
		}
	}
}

// value reads one JSON value whole. The bytes are a part of the buffer, valid until more is read.
func (r *RowReader) value() ([]byte, error) {
	r.mark = r.pos
	err := r.skip()
	if r.pos-r.mark > r.limits.Row {
		// How far skip came, and what else it met beyond the limit, depends on the pieces in which the response
		// arrived.
		r.pos = r.mark + r.limits.Row
		return nil, ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	v := r.buf[r.mark:r.pos:r.pos]
	if !valid(v) { // skip only looked for the end
		return nil, ErrMalformed
	}
	return v, nil
}

// skip finds the end of a value.
func (r *RowReader) skip() error {
	for depth := 0; ; {
		if err := r.fill(); err != nil {
			return err
		}
		var err error
		switch r.buf[r.pos] {
		case '"':
			err = r.text()
		case '{', '[':
			r.pos++
			if depth++; depth > r.limits.Depth {
				err = ErrTooDeep
			}
		case '}', ']':
			if depth == 0 {
				return ErrMalformed
			}
			r.pos++
			depth--
		default:
			if depth > 0 {
				r.pos++
			} else {
				err = r.literal()
			}
		}
		if err != nil || depth == 0 {
			return err
		}
	}
}

// text reads from a quote to the one that ends it.
func (r *RowReader) text() error {
	r.pos++
	for {
		if err := r.fill(); err != nil {
			return err
		}
		quote := bytes.IndexByte(r.buf[r.pos:], '"')
		escape := r.buf[r.pos:]
		if quote >= 0 {
			escape = escape[:quote]
		}
		switch k := bytes.IndexByte(escape, '\\'); {
		case k >= 0: // the byte after it is no quote, whatever it is
			r.pos += k + 1
			if err := r.fill(); err != nil {
				return err
			}
			r.pos++
		case quote >= 0:
			r.pos += quote + 1
			return nil
		default:
			r.pos = len(r.buf)
		}
	}
}

// literal reads a number, true, false or null up to what cannot belong to it.
func (r *RowReader) literal() error {
	for {
		if err := r.fill(); err != nil {
			return err
		}
		switch r.buf[r.pos] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\r', '\n':
			return nil
		}
		r.pos++
	}
}

// fill makes sure that there is a byte at pos. It moves the value under way to the buffer's start, and lets the buffer
// grow no further than the largest row needs.
func (r *RowReader) fill() error {
	if r.pos < len(r.buf) {
		return nil
	}
	if len(r.buf)-r.mark > r.limits.Row {
		return ErrTooLarge
	}
	if r.mark > 0 {
		r.before += int64(r.mark)
		r.buf = r.buf[:copy(r.buf, r.buf[r.mark:])]
		r.pos, r.mark = r.pos-r.mark, 0
	}
	if len(r.buf) == cap(r.buf) {
		size := max(firstBuffer, min(2*cap(r.buf), r.limits.Row+firstBuffer))
		bigger := make([]byte, len(r.buf), size)
		copy(bigger, r.buf)
		r.buf = bigger
	}
	for range mostEmptyReads {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		if n > 0 {
			r.buf = r.buf[:len(r.buf)+n]
			return nil // the same error comes again when these bytes are used up
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
