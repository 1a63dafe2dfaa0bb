package call

import (
	"errors"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Retry implements retry.Op.
func (c *Call) Retry() *retry.State { return &c.State }

// Size implements retry.Op: the bytes a parked call keeps alive.
func (c *Call) Size() int { return c.Req.wireSize() }

// Dispatch implements retry.Op.
func (c *Call) Dispatch() { c.home.Owner.Redispatch(c) }

// Describe implements retry.Op.
func (c *Call) Describe(r *retry.Request) {
	r.Context = c.ctx
	r.Service = "kv"
	r.Operation = c.Name()
	r.Endpoint = c.Endpoint()
	r.Bucket, r.Scope, r.Collection = c.bucket(), c.Req.Scope(), c.Req.Collection()
	r.Started = c.began()
	if !r.Started.IsZero() {
		r.Deadline = c.home.Base.Add(time.Duration(c.Deadline))
	}
}

// Explain implements retry.Explainer: the owner knows more.
func (c *Call) Explain(cause error) error {
	if x, ok := c.Owner().(Explainer); ok {
		return x.Explain(c, cause)
	}
	return cause
}

// Identify implements retry.Identifier.
func (c *Call) Identify() string { return opaqueID(c.Route.Opaque) }

// Name is what errors call the operation.
func (c *Call) Name() string {
	if c.Req.Verb() != "" {
		return c.Req.Verb()
	}
	if s := c.Spec(); s != nil {
		return s.Name
	}
	return c.Req.Opcode.String()
}

func opaqueID(o uint32) string {
	const hex = "0123456789abcdef"
	b := [10]byte{'0', 'x'}
	for i := range 8 {
		b[2+i] = hex[o>>(28-4*i)&15]
	}
	return string(b[:])
}

// endedUnsent counts the attempt in whose place a call has ended that the orchestrator has not: one without a node was
// never sent, nor was one that its node or its connection cannot take.
func (e *Error) endedUnsent() {
	_, missing := errors.AsType[*FeatureError](e.Cause)
	_, gone := errors.AsType[*ConnectionGoneError](e.Cause)
	if missing || gone || e.Endpoint == "" {
		e.Retry.Unsent++
	}
}

// routed says how the last attempt was sent. It is for a call that no other goroutine is sending: of one that ended on
// its way to a connection, the goroutine that brings it there may still write these.
func (e *Error) routed(c *Call) { e.CollectionID, e.Opaque = c.Route.CollectionID, c.Route.Opaque }

// on says which connection carried the attempt; nil says that none did.
func (e *Error) on(v *Via) {
	if v != nil {
		e.Endpoint, e.Connection, e.LocalAddr = v.Endpoint, v.Local, v.LocalAddr
	}
}
