package httpsvc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits bounds what a RowReader keeps in memory. A zero field means its default.
type Limits struct {
	Row   int // bytes of one row, and of everything that is not a row together: 64 MiB
	Depth int // nesting inside a row or an attribute: 8192

	// Framed says that the end of the bytes is the end of the response, because its length or its last piece is marked.
	// What ends early then is malformed; otherwise the connection may have been lost.
	Framed bool
}

// The defaults of Limits. The query service bounds no depth itself, neither of documents nor of profiles, which nest by
// operator; package encoding/json, by which callers decode rows and this package the metadata, refuses more than 10,000
// levels.
const (
	DefaultRowLimit   = 64 << 20
	DefaultDepthLimit = 8192
	MaxDepthLimit     = 9000
)

// Errors of a RowReader.
var (
	ErrMalformed = errors.New("httpsvc: the response is not the JSON that was expected")
	ErrTooLarge  = errors.New("httpsvc: a part of the response is over the limit")
	ErrTooDeep   = errors.New("httpsvc: the response is nested too deeply")
	ErrShort     = errors.New("httpsvc: the response ends where its JSON goes on")
)

// BodyError says where in a response a RowReader stopped, and why. It unwraps to ErrMalformed, ErrShort, ErrTooLarge,
// ErrTooDeep, or to what the response's own reader failed with.
type BodyError struct {
	Part   string // "row", "attribute" or "object"
	Offset int64  // bytes of the response before it
	Limit  int    // the limit that was passed, 0 when it was none
	Err    error
}

func (e *BodyError) Error() string {
	if e.Limit > 0 {
		return fmt.Sprintf("%v: %s at byte %d, limit %d", e.Err, e.Part, e.Offset, e.Limit)
	}
	return fmt.Sprintf("%v: %s at byte %d", e.Err, e.Part, e.Offset)
}

// Unwrap gives the kind of the failure.
func (e *BodyError) Unwrap() error { return e.Err }

// Found is what a RowReader has come to.
type Found uint8

// What Peek finds.
const (
	FoundEnd    Found = iota // the end of the response, or a failure: see Err
	FoundRow                 // a row
	FoundErrors              // a list of errors before any row
)

// RowReader takes an answer of a row service apart while it arrives: one JSON object, one of whose attributes is the
// array of rows. The attributes may come in any order, an array that is null or missing has no rows, and no more than
// one row is held at a time. It is for one goroutine; its methods block as long as the reader below it does.
type RowReader struct {
	src    io.Reader
	key    string
	limits Limits

	buf    []byte // buf[pos:] is not looked at yet, buf[mark:pos] is the value under way
	pos    int
	mark   int
	before int64 // bytes of the response before buf[0]
	part   string

	state   state
	comma   bool   // a value stands before this place, so a comma comes first
	pending bool   // row holds a row that Peek found and Next has not given out
	row     []byte // part of buf
	rows    int
	sawKey  bool   // the attribute of the rows was there
	meta    []byte // the object without its rows, as far as it was read
	errs    []byte // the attribute "errors"
	err     error
}

type state uint8

const (
	atStart state = iota // before the object
	inObject
	inRows
	atEnd
)

// errorsKey is the attribute of the error list; search, which has none, puts its failures elsewhere.
const errorsKey = "errors"

// NewRowReader reads the rows that stand in the attribute rowsKey of the object that r holds.
func NewRowReader(r io.Reader, rowsKey string, limits Limits) *RowReader {
	if limits.Row <= 0 {
		limits.Row = DefaultRowLimit
	}
	limits.Row = min(limits.Row, math.MaxInt-firstBuffer)
	if limits.Depth <= 0 {
		limits.Depth = DefaultDepthLimit
	}
	return &RowReader{src: r, key: rowsKey, limits: limits, part: "object"}
}

// Peek reads up to the first row, the error list or the end, whichever comes first, and says which; it takes no row
// away. Until it has found a row, the request can be sent again. After the first row it says FoundRow or FoundEnd.
func (r *RowReader) Peek() Found {
	if r.pending {
		return FoundRow
	}
	if r.rows == 0 && len(List(r.errs)) > 0 {
		return FoundErrors
	}
	found := r.advance()
	r.pending = found == FoundRow
	return found
}

// PeekRow is Peek that passes over an error list: it reads up to the first row or the end.
func (r *RowReader) PeekRow() Found {
	found := r.Peek()
	for found == FoundErrors && r.state != atEnd {
		found = r.advance()
		r.pending = found == FoundRow
	}
	if found == FoundErrors {
		found = FoundEnd
	}
	return found
}

// Next gives the next row. Its bytes are valid until the next call of any method. ok is false at the end of the
// response and after a failure: Err tells them apart.
func (r *RowReader) Next() (raw []byte, ok bool) {
	found := FoundRow
	if !r.pending {
		for found = r.advance(); found == FoundErrors; {
			found = r.advance()
		}
	}
	r.pending = false
	if found != FoundRow {
		return nil, false
	}
	r.rows++
	return r.row, true
}

// Err is why there are no more rows: nil when the whole response was read or reading still goes on.
func (r *RowReader) Err() error { return r.err }

// Metadata is the object without its rows, for the caller to keep. It is complete when Next has said false and Err is
// nil; before that it is nil.
func (r *RowReader) Metadata() []byte {
	if r.state != atEnd || r.err != nil {
		return nil
	}
	return bytes.Clone(r.meta)
}

// Head is the object as far as it was read, without its rows: before the first row what comes ahead of it. It is the
// caller's to keep.
func (r *RowReader) Head() []byte {
	if len(r.meta) == 0 {
		return nil
	}
	head := bytes.Clone(r.meta)
	if r.state == atEnd && r.err == nil {
		return head
	}
	return append(head, '}')
}

// Errors is the elements of the attribute "errors" as far as the response was read; they are the caller's to keep.
func (r *RowReader) Errors() []json.RawMessage { return List(bytes.Clone(r.errs)) }

// fail ends the reading with err at the value under way.
func (r *RowReader) fail(err error) (Found, bool) {
	e := &BodyError{Part: r.part, Offset: r.before + int64(r.pos), Err: err}
	switch {
	case errors.Is(err, io.EOF) && r.limits.Framed:
		e.Err = ErrShort
	case errors.Is(err, io.EOF):
		e.Err = io.ErrUnexpectedEOF
	case errors.Is(err, ErrTooLarge):
		e.Limit = r.limits.Row
	case errors.Is(err, ErrTooDeep):
		e.Limit = r.limits.Depth
	}
	r.err = e
	r.end()
	return FoundEnd, false
}

// end lets the buffer go.
func (r *RowReader) end() { r.state, r.buf, r.pos, r.mark = atEnd, nil, 0, 0 }

// advance reads on until there is something to tell.
func (r *RowReader) advance() Found {
	r.row = nil
	for {
		var found Found
		var more bool
		switch r.state {
		case atStart:
			found, more = r.open()
		case inObject:
			found, more = r.attribute()
		case inRows:
			found, more = r.element()
		default:
			return FoundEnd
		}
		if !more {
			return found
		}
	}
}

// open reads the object's first byte.
func (r *RowReader) open() (Found, bool) {
	c, err := r.token()
	if err == nil && c != '{' {
		err = ErrMalformed
	}
	if err != nil {
		return r.fail(err)
	}
	r.pos++
	r.meta = append(r.meta, '{')
	r.state = inObject
	return 0, true
}

// attribute reads an attribute, or the object's end.
func (r *RowReader) attribute() (Found, bool) {
	r.part = "attribute"
	c, err := r.token()
	if err == nil && c == '}' {
		r.pos++
		return r.close()
	}
	if err == nil {
		c, err = r.separator(c)
	}
	if err == nil && c != '"' {
		err = ErrMalformed
	}
	if err != nil {
		return r.fail(err)
	}
	name, err := r.value()
	if err != nil {
		return r.fail(err)
	}
	name = bytes.Clone(name) // the bytes move when more are read
	if c, err = r.token(); err == nil && c != ':' {
		err = ErrMalformed
	}
	if err != nil {
		return r.fail(err)
	}
	r.pos++
	if c, err = r.token(); err != nil {
		return r.fail(err)
	}
	r.comma = true
	if Text(name) == r.key {
		return r.openRows(c)
	}
	return r.keep(name)
}

// separator reads the comma between two values where there must be one, and gives the byte after it.
func (r *RowReader) separator(c byte) (byte, error) {
	if !r.comma {
		return c, nil
	}
	if c != ',' {
		return 0, ErrMalformed
	}
	r.pos++
	return r.token()
}

// openRows reads the start of the array of rows, or null.
func (r *RowReader) openRows(c byte) (Found, bool) {
	if r.sawKey { // a second array would hide in which one a row was
		return r.fail(ErrMalformed)
	}
	r.sawKey = true
	if c == '[' {
		r.pos++
		r.state, r.comma = inRows, false
		return 0, true
	}
	v, err := r.value()
	if err == nil && string(v) != "null" {
		err = ErrMalformed
	}
	if err != nil {
		return r.fail(err)
	}
	return 0, true
}

// keep reads an attribute's value into the metadata. It stops at an error list when no row came before.
func (r *RowReader) keep(name []byte) (Found, bool) {
	v, err := r.value()
	if err != nil {
		return r.fail(err)
	}
	if len(r.meta) > 1 {
		r.meta = append(r.meta, ',')
	}
	if len(r.meta)+len(name)+len(v)+len(":}") > r.limits.Row {
		return r.fail(ErrTooLarge)
	}
	r.meta = append(append(append(r.meta, name...), ':'), v...)
	if Text(name) != errorsKey {
		return 0, true
	}
	r.errs = r.meta[len(r.meta)-len(v) : len(r.meta) : len(r.meta)]
	return FoundErrors, r.rows > 0 || len(List(r.errs)) == 0
}

// element reads a row, or the array's end.
func (r *RowReader) element() (Found, bool) {
	r.part = "row"
	c, err := r.token()
	if err == nil && c == ']' {
		r.pos++
		r.state, r.comma = inObject, true
		return 0, true
	}
	if err == nil {
		_, err = r.separator(c)
	}
	if err != nil {
		return r.fail(err)
	}
	r.comma = true
	if r.row, err = r.value(); err != nil {
		return r.fail(err)
	}
	return FoundRow, false
}

// close reads what follows the object: nothing but blanks.
func (r *RowReader) close() (Found, bool) {
	r.part = "object"
	_, err := r.token()
	if err == nil {
		err = ErrMalformed
	}
	if !errors.Is(err, io.EOF) {
		return r.fail(err)
	}
	r.meta = append(r.meta, '}')
	r.end()
	return FoundEnd, false
}
