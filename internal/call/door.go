package call

import "github.com/couchcore/couchcore/internal/tasks"

// Doored is a Runner that counts the operations under way, and refuses new ones while its client shuts down. Its calls
// are operations of the user's, but for those of Inside.
type Doored interface {
	// Inside is the Runner of the requests that operations under way send.
	Inside() Runner
	// Door counts the operations.
	Door() *tasks.Door
}

// Compound begins an operation that sends several requests, now and later. They run on inside; leave says that the last
// of them has ended. When the client shuts down already, inside refuses them.
func Compound(run Runner) (inside Runner, leave func()) {
	if d, ok := run.(Doored); ok {
		if p := d.Door().Place(); p.Enter() {
			return d.Inside(), p.Leave
		}
	}
	return run, func() {}
}

// insideOf is the Runner for the parts of an operation that run itself has let in.
func insideOf(run Runner) Runner {
	if d, ok := run.(Doored); ok {
		return d.Inside()
	}
	return run
}

// Enter counts the call as an operation, or has Prepare refuse it. A Doored's NewCall calls it, and Release Leave.
func (c *Call) Enter(d *tasks.Door) {
	if c.place == nil {
		c.place = d.Place()
	}
	c.has |= hasRefused
	if c.place.Enter() {
		c.has ^= hasRefused | hasEntered
	}
}

// Leave says that the operation has ended, whose caller needs the call no more.
func (c *Call) Leave() {
	if c.has&hasEntered != 0 {
		c.place.Leave()
	}
}
