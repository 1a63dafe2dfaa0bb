package call

import (
	"encoding/binary"
	"fmt"

	"github.com/couchcore/couchcore/memd"
)

// ResponseError is a successful answer that its operation can make nothing of.
type ResponseError struct {
	Opcode memd.Opcode
	Field  string // that is too short or too long
	Len    int
	Want   int
	Reason string // for what is not a matter of a field's length
}

func (e *ResponseError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("the %v answer %s", e.Opcode, e.Reason)
	}
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
	return &ResponseError{Opcode: r.Opcode, Field: field, Len: n, Want: want}
}

// IDOf reads the answer to a question for the id of a collection or a scope, which has the number of the manifest, too.
func IDOf(r *Response) (manifestUID uint64, id uint32, err error) {
	if len(r.Extras()) != 12 {
		return 0, 0, Malformed(r, "extras", 12)
	}
	return binary.BigEndian.Uint64(r.Extras()), binary.BigEndian.Uint32(r.Extras()[8:]), nil
}

// TooLarge is an answer that would take more memory than limit.
func TooLarge(op memd.Opcode, limit int64) error {
	return &ResponseError{Opcode: op, Reason: fmt.Sprintf("is larger than the limit of %d bytes", limit)}
}

// PartsError says that packets of the answer were dropped because there were too many.
func (r *Response) PartsError() error {
	if r.long != nil && r.long.overflow {
		return TooLarge(r.Opcode, MaxParts)
	}
	return nil
}
