package call

import (
	"fmt"

	"github.com/couchcore/couchcore/memd"
)

// ResponseError is a successful answer that lacks something its operation needs.
type ResponseError struct {
	Opcode memd.Opcode
	Field  string
	Len    int
	Want   int
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("malformed %v answer: %s has %d bytes, needs %d", e.Opcode, e.Field, e.Len, e.Want)
}

// Malformed is an answer whose field is not as long as it must be.
func Malformed(r *Response, field string, want int) error {
	n := int(r.extrasLen)
	switch field {
	case "value":
		n = len(r.Value)
	case "key":
		n = len(r.Key())
	}
	return &ResponseError{r.Opcode, field, n, want}
}

// IndexError is a successful answer that names a path which its request did not have.
type IndexError struct {
	Opcode memd.Opcode
	Index  int
	Paths  int
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("malformed %v answer: path %d of %d", e.Opcode, e.Index, e.Paths)
}

// FormatError is a successful answer in a form that the client does not know.
type FormatError struct {
	Opcode memd.Opcode
	Format uint8
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("malformed %v answer: unknown format %d", e.Opcode, e.Format)
}

// SizeError is an answer of several packets, or one that was compressed, which would take more memory than the client
// allows.
type SizeError struct {
	Opcode memd.Opcode
	Size   int64 // 0 when it is not known
	Limit  int64
}

func (e *SizeError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("the %v answer is larger than the limit of %d bytes", e.Opcode, e.Limit)
	}
	return fmt.Sprintf("the %v answer has %d bytes, limit %d", e.Opcode, e.Size, e.Limit)
}

// PartsError says that packets of the answer were dropped because there were too many.
func (r *Response) PartsError() error {
	if r.long != nil && r.long.overflow {
		return &SizeError{Opcode: r.Opcode, Limit: MaxParts}
	}
	return nil
}
