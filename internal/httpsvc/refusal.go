package httpsvc

import (
	"bytes"
	"strconv"

	"github.com/couchcore/couchcore/retry"
)

// refusalBody bounds the body that a ResponseError keeps.
const refusalBody = 64 << 10

// ResponseError is the answer that a failed request got: of its last attempt that was answered. Every error of a
// request to a service that was answered with a failure has one in its tree, whether the request was retried before or
// not. Its zero value prints as well.
type ResponseError struct {
	Status    int
	Header    map[string][]string
	Body      []byte // as far as it was kept: at most 64 KiB. Of an answer with rows it is what stands around them
	Truncated bool   // the answer had more
	Endpoint  string // of the node that answered

	push retry.Pushback
}

// NewResponseError makes one of an answer and what was read of its body. push is what the answer said about another
// attempt.
func NewResponseError(r *Response, body []byte, push retry.Pushback) *ResponseError {
	e := &ResponseError{Status: r.Status, Header: r.Header, Endpoint: r.Endpoint, push: push}
	e.Body, e.Truncated = bytes.Clone(body[:min(len(body), refusalBody)]), len(body) > refusalBody
	return e
}

// Error says which node has answered with which status.
func (e *ResponseError) Error() string {
	text := "answered " + strconv.Itoa(e.Status)
	if e.Endpoint != "" {
		text = e.Endpoint + " " + text
	}
	return text
}

// Pushback is what the answer said about another attempt: hedges heed it as retries do.
func (e *ResponseError) Pushback() retry.Pushback { return e.push }
