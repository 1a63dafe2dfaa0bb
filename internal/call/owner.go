package call

import "time"

// Owner is what a call needs of the dispatcher that runs it.
type Owner interface {
	// Redispatch routes and sends c again. It never blocks.
	Redispatch(c *Call)
	// Cancel ends c with cause unless it has ended, and says whether it did. context.DeadlineExceeded as the cause ends
	// it as timed out.
	Cancel(c *Call, cause error) bool
	// Complete runs f, which calls a user's function, where it can't hold up anything else.
	Complete(f func())
}

// Holder is an Owner that keeps the deadlines of calls outside of connections.
type Holder interface {
	// LetGo forgets the deadline of a call that has ended. False means that the owner is just about to look at the
	// call.
	LetGo(c *Call) bool
}

// Container is an Owner that is told of panics of a program's functions that did not run in Complete.
type Container interface {
	// Panicked says in the log that a function has panicked with v. It is for the function's own goroutine.
	Panicked(v any)
}

// Explainer is an Owner that knows what keeps a call from being sent.
type Explainer interface {
	// Explain gives cause, which may be nil, together with what else is known now. The call may be on its way to a
	// connection meanwhile: nothing that changes with an attempt is to be read.
	Explain(c *Call, cause error) error
}

// Home is what all calls of one dispatcher have in common. It does not change.
type Home struct {
	Owner  Owner
	Bucket string
	Base   time.Time // what Started and Deadline count from
}

// Bind gives c to its dispatcher.
func (c *Call) Bind(h *Home) { c.home = h }

// OwnedBy reports whether o runs the call.
func (c *Call) OwnedBy(o Owner) bool { return c.Owner() == o }

// Owner is who runs the call, nil before it was dispatched.
func (c *Call) Owner() Owner {
	if c.home == nil {
		return nil
	}
	return c.home.Owner
}

// letGo has the owner forget the deadline of an ended call.
func (c *Call) letGo() {
	if h, ok := c.Owner().(Holder); ok && h.LetGo(c) {
		c.Slow().held.Store(false)
	}
}

// MarkHeld is true once, for the caller that is to keep the call's deadline outside of a connection.
func (c *Call) MarkHeld() bool { return c.Slow().held.CompareAndSwap(false, true) }

// Held reports whether MarkHeld has said so, and the call's owner still keeps its deadline.
func (c *Call) Held() bool {
	s := c.slow.Load()
	return s != nil && s.held.Load()
}

// Stage is what a call waits for, or waited for when it ended.
type Stage uint32

// Stages of a call. StageReply is a call on the wire, StageBackoff one that is parked between attempts.
const (
	StageNone Stage = iota
	StageConfig
	StageCollection
	StageConnection
	StageRoom
	StageReply
	StageBackoff
)

func (s Stage) String() string {
	switch s {
	case StageNone:
	case StageConfig:
		return "waiting for the first cluster map"
	case StageCollection:
		return "waiting for the collection's id"
	case StageConnection:
		return "waiting for a connection to its node"
	case StageRoom:
		return "waiting for its turn on a full connection"
	case StageReply:
		return "waiting for the answer"
	case StageBackoff:
		return "waiting for a retry"
	}
	return ""
}

// SetStage records what the call waits for outside of a connection.
func (c *Call) SetStage(s Stage) { c.Slow().stage.Store(uint32(s)) }

// stage is what SetStage has recorded last.
func (c *Call) stage() Stage {
	if s := c.slow.Load(); s != nil {
		return Stage(s.stage.Load())
	}
	return StageNone
}

// began is when the call was dispatched; zero before.
func (c *Call) began() time.Time {
	if c.home == nil || c.home.Base.IsZero() {
		return time.Time{}
	}
	return c.home.Base.Add(time.Duration(c.Started))
}

// bucket is the name of the bucket that the call is for, "" before it was dispatched.
func (c *Call) bucket() string {
	if c.home == nil {
		return ""
	}
	return c.home.Bucket
}
