package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
)

// httpStatusError is an answer without a map.
type httpStatusError int

func (e httpStatusError) Error() string { return fmt.Sprintf("the node answered HTTP %d", int(e)) }

// failure is why a node has given no map, in the form of a failed connection. The generation is that of the credentials
// before the node's address was looked up.
func (s *mapSource) failure(addr string, generation uint64, err error) *handshake.Error {
	var cause error
	if errors.Is(err, context.DeadlineExceeded) {
		cause = context.DeadlineExceeded
	}
	ce := &handshake.Error{Addr: addr, Bucket: s.b.name, Step: handshake.StepHTTP, Generation: generation}
	ce.Err = handshake.InWords(handshake.StepDial, err, cause, s.b.c.cfg.Maps.OverHTTP.Timeout)
	var status httpStatusError
	switch {
	case errors.As(err, &status) && status == http.StatusUnauthorized:
		ce.Kind = cberr.AuthenticationFailure
	case errors.As(err, &status) && status == http.StatusForbidden && s.b.name != "":
		ce.Kind = cberr.BucketAccess
	case errors.As(err, &status) && status == http.StatusNotFound && s.b.name != "":
		ce.Kind = cberr.BucketNotFound
	case handshake.IsTLSFailure(err):
		ce.Step, ce.Kind = handshake.StepTLS, cberr.TLSFailure
	}
	return ce
}
