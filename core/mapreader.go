package core

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/couchcore/couchcore/cberr"
)

// mapSeparator is behind each map of a stream. One without a map before it is a sign of life.
var mapSeparator = []byte("\n\n\n\n")

var errMapSize = fmt.Errorf("a cluster map is larger than the limit: %w", cberr.DecodingFailure)

// mapSpace may be around a map, and belongs to none.
const mapSpace = " \t\r\n"

// mapReader takes a stream apart into maps of at most limit bytes, which are counted from a map's first byte to the
// separator, however the stream is cut.
type mapReader struct {
	r     io.Reader
	limit int
	alive func() // called whenever something has come

	buf  []byte
	used int // of buf, by the last map
	seen int // of buf, where no separator begins
}

// next gives the next map. It is valid until the next call. It blocks as the stream does.
func (m *mapReader) next() ([]byte, error) {
	for {
		if tail := bytes.TrimLeft(m.buf[m.used:], mapSpace); len(tail) < len(m.buf) {
			m.buf = m.buf[:copy(m.buf, tail)]
			m.used, m.seen = 0, 0
		}
		if i := bytes.Index(m.buf[m.seen:], mapSeparator); i >= 0 {
			end := m.seen + i
			if end > m.limit {
				return nil, errMapSize
			}
			m.used = end + len(mapSeparator)
			return bytes.TrimRight(m.buf[:end], mapSpace), nil
		}
		m.seen = max(0, len(m.buf)-len(mapSeparator)+1)
		if m.seen > m.limit {
			return nil, errMapSize
		}
		if err := m.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once. Memory follows the bytes that have come.
func (m *mapReader) fill() error {
	m.buf = slices.Grow(m.buf, 4096)
	n, err := m.r.Read(m.buf[len(m.buf):cap(m.buf)])
	m.buf = m.buf[:len(m.buf)+n]
	if n > 0 {
		m.alive()
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
