package call

import "github.com/couchcore/couchcore/memd"

// AppendTo appends the request of the current attempt to dst under the caller's lock. ended is true when the call has
// finished meanwhile; then nothing is appended, because its key and value may be the caller's again.
func (c *Call) AppendTo(dst []byte, w *Wire) (out []byte, ended bool, err error) {
	out, value, watch, ended, err := c.beginAppend(dst, w)
	if ended {
		return dst, true, nil
	}
	out = append(out, value...)
	if watch {
		c.guard.Store(0)
	}
	return out, false, err
}

// AppendHead is AppendTo for a request whose value is copied later: Copy must follow, with the value. That is lent
// until then, too.
func (c *Call) AppendHead(dst []byte, w *Wire) (out, value []byte, ended bool, err error) {
	out, value, watch, ended, err := c.beginAppend(dst, w)
	if watch {
		c.guard.Store(0)
	}
	return out, value, ended, err
}

// beginAppend appends all but the value. With watch the guard is held.
func (c *Call) beginAppend(dst []byte, w *Wire) (out, value []byte, watch, ended bool, err error) {
	watch = c.shared() // otherwise no other goroutine knows the call and can end it meanwhile
	if watch && !c.guard.CompareAndSwap(0, 1) || c.guard.Load() == 2 {
		return dst, nil, false, true, nil
	}
	w.VBucket, w.CollectionID = c.Route.VBucket, c.Route.CollectionID
	if c.Req.Durability != 0 {
		w.DurabilityMS = c.Req.Own().DurabilityMS
	}
	if out, value, err = c.Req.appendHead(dst, w); err == nil {
		c.appended(w)
	}
	return out, value, watch, false, err
}

// Copy appends the value that AppendHead has given. It appends nothing when the call has ended: the value may be the
// caller's again.
func (c *Call) Copy(dst, value []byte) []byte {
	if !c.guard.CompareAndSwap(0, 1) {
		return dst
	}
	dst = append(dst, value...)
	c.guard.Store(0)
	return dst
}

// BeginSimple is the fast path of AppendTo. It gives the length of the request's wire form, which Req.PutSimple must
// then write. 0 means that nothing was begun, and that AppendTo is to be used: the request is not Simple, or another
// goroutine knows the call and could end it meanwhile.
func (c *Call) BeginSimple(w *Wire) int {
	if !c.Req.simple || c.shared() || c.guard.Load() != 0 {
		return 0
	}
	w.VBucket = c.Route.VBucket
	c.appended(w)
	return c.Req.simpleLen(w)
}

// appended notes how the request that is being appended travels: its connection, opaque and opcode.
func (c *Call) appended(w *Wire) {
	c.via = w.Via
	c.Route.Opaque = w.Opaque
	c.Route.Prefixed = w.Features.Has(memd.FeatureCollections)
	c.sent = c.Req.Opcode
	if s := c.slow.Load(); s != nil {
		s.stage.Store(uint32(StageNone)) // what it has waited for before is over
	}
	if c.observed {
		c.Slow().watcher.Sent(w.Via, w.Opaque)
	}
}
