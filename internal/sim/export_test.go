package sim

import (
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Lines are the lines of a run's trace.
func (r *Report) Lines() []string {
	ls := make([]string, 0, len(r.trace))
	for _, e := range r.trace {
		ls = append(ls, e.String())
	}
	return ls
}

// GoroutinesInBubble counts the goroutines of the caller's bubble beside the caller.
func GoroutinesInBubble() int { return goroutinesInBubble() }

// Operations are the opcodes of the simulation's calls.
func Operations() []memd.Opcode { return documentOps() }

// Meaning is what the judges know of an answer, in the client's terms.
func Meaning(op memd.Opcode, st memd.Status, cas bool) call.Disposition {
	m := meaningOf(op, st, cas)
	d := call.Disposition{
		Reason: m.why, Kind: m.kind, NotApplied: m.kind != nil && !m.changed, Ambiguous: m.unsure,
		Reconnect: m.useless,
	}
	switch {
	case m.kind == nil:
		d.Class = call.ClassSuccess
	case m.final():
		d.Class = call.ClassFail
	case m.why != retry.Unknown:
		d.Class = call.ClassRetry
	}
	return d
}

// ElsewhereWait is the judges' schedule of what is sent elsewhere.
func ElsewhereWait(waits int) time.Duration { return elsewhereWait(waits) }

// ErrorKinds are the names of the kinds of errors that a large set of seeds must have returned.
func ErrorKinds() (names []string) {
	for _, k := range errorKinds() {
		names = append(names, strings.TrimPrefix(k, errorPrefix))
	}
	return names
}
