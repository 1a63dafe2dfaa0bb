package kv

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

func malformed(r *Response, field string, want int) error {
	n := int(r.extrasLen)
	if field == "value" {
		n = len(r.Value)
	}
	return &ResponseError{r.Opcode, field, n, want}
}
