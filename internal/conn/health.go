package conn

import (
	"errors"
	"sync"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Health is a cluster's record of terminal conditions: a refused login or a failed TLS handshake on a connection of the
// current topology, a bucket without access. A condition is set by its explicit failure, cleared by the same thing's
// later success or when the connection leaves the topology, and kept through reconnects. Safe for concurrent use.
type Health struct {
	mu    sync.Mutex
	conns map[connKey]*condition
	// OnSet is called, outside the lock, after a condition was set: calls that wait for something else may now know
	// better.
	OnSet func()
}

type connKey struct{ bucket, addr string }

type condition struct{ auth, tls, access error }

// Failed records what a failed Connect says about the connection.
func (h *Health) Failed(bucket, addr string, err error) {
	var ce *ConnectError
	if !errors.As(err, &ce) {
		return
	}
	set := false
	h.change(bucket, addr, func(c *condition) {
		switch {
		case ce.Step == StepTLS && errors.Is(ce, cberr.TLSFailure):
			c.tls, set = err, true
		case errors.Is(ce, cberr.AuthenticationFailure):
			c.auth, c.tls, set = err, nil, true
		case errors.Is(ce, cberr.BucketAccess):
			c.auth, c.tls, c.access, set = nil, nil, err, true
		case ce.Step == StepSelectBucket || ce.Step == StepConfig:
			c.auth, c.tls = nil, nil
		}
	})
	if set && h.OnSet != nil {
		h.OnSet()
	}
}

// OK records that a connection was made: it clears all that was known of it.
func (h *Health) OK(bucket, addr string) { h.Forget(bucket, addr) }

// Forget drops what is known of a connection that has left the topology.
func (h *Health) Forget(bucket, addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, connKey{bucket, addr})
}

func (h *Health) change(bucket, addr string, f func(*condition)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := connKey{bucket, addr}
	c := h.conns[k]
	if c == nil {
		c = &condition{}
	}
	f(c)
	if h.conns == nil {
		h.conns = map[connKey]*condition{}
	}
	h.conns[k] = c
}

// Refine gives a better name to a call that cannot be dispatched, in the RFC's order, and the error behind it. Other
// reasons than those of an absent path come back unchanged.
func (h *Health) Refine(why retry.Reason, bucket string) (retry.Reason, error) {
	switch why {
	case retry.SocketNotAvailable, retry.NodeNotAvailable, retry.ServiceNotAvailable, retry.BucketNotReady, retry.NotReady:
	default:
		return why, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var tls, access error
	for k, c := range h.conns {
		switch {
		case c.auth != nil:
			return retry.AuthenticationError, c.auth
		case c.tls != nil:
			tls = c.tls
		case c.access != nil && k.bucket == bucket:
			access = c.access
		}
	}
	switch {
	case tls != nil:
		return retry.TLSError, tls
	case access != nil:
		return retry.BucketAccessError, access
	}
	return why, nil
}
