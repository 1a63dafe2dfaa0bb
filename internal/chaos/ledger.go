package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// outcome is how a call ended, as its caller sees it.
type outcome string

const (
	applied  outcome = "ok"
	refused  outcome = "not applied" // and its error says so
	doubtful outcome = "in doubt"
)

// outcomeOf reads an error. One that is not a call's says nothing about what was applied.
func outcomeOf(err error) outcome {
	var ke *kv.Error
	switch {
	case err == nil:
		return applied
	case errors.As(err, &ke) && !ke.Ambiguous():
		return refused
	}
	return doubtful
}

// message is a line from a client process to the supervisor. One field of it is set.
type message struct {
	Ready     bool       `json:"ready,omitempty"`
	Ended     *ended     `json:"ended,omitempty"`
	Violation *Violation `json:"violation,omitempty"`
	Summary   *summary   `json:"summary,omitempty"`
	Sample    *Sample    `json:"sample,omitempty"`
}

// ended is the end of a mutation. Its ID is that of no other one, and what the apply log has of it: see identity.
type ended struct {
	ID      string  `json:"id"`
	Verb    string  `json:"verb"`
	Outcome outcome `json:"outcome"`
	Err     string  `json:"err,omitempty"`
}

// identity is what tells one mutation of the log from another: a key is written by one call, and removed and given an
// expiry by one at most; what is added to a document of a worker's own has its own name.
func identity(a mock.Applied) string {
	switch a.Opcode {
	case memd.OpAppend, memd.OpPrepend:
		return "+" + strings.TrimSuffix(a.Token, partEnd)
	case memd.OpSubdocMultiMutation:
		return "+" + strings.Trim(a.Token[min(len(a.Token), pathHead):], `"`)
	case memd.OpReplace:
		return "=" + a.Token
	case memd.OpDelete:
		return "-" + a.Key
	case memd.OpTouch, memd.OpGAT:
		return "~" + a.Key
	}
	return a.Key
}

// pathHead is what a change by the empty path has before its value on the wire: opcode, flags and lengths.
const pathHead = 1 + 1 + 2 + 4

// summary is what a client process counts.
type summary struct {
	Calls      int            `json:"calls"`       // reads included
	Verbs      map[string]int `json:"verbs"`       // calls that have succeeded, by what they do
	Busy       int            `json:"busy"`        // calls that were late as the process or its threads were
	WorstStall int64          `json:"worst_stall"` // ns
	Strict     bool           `json:"strict"`      // calls might end 50 ms late, not 2 s
	Between    int            `json:"between"`     // calls that were later than 50 ms where they might
	Faults     map[string]int `json:"faults"`      // that the process made itself
}

// wire writes messages. A caller does not wait for the supervisor to read them, unless there are very many.
type wire struct {
	to io.Writer

	mu      sync.Mutex
	pending []byte
	writing sync.Mutex // held while the supervisor is written to
}

const (
	wireEvery = 5 * time.Millisecond
	wireMost  = 1 << 20 // bytes that wait
)

func newWire(w io.Writer) *wire { return &wire{to: w} }

// send writes m.
func (w *wire) send(m message) {
	line, err := json.Marshal(m)
	if err != nil {
		return // texts and numbers cannot fail
	}
	w.mu.Lock()
	w.pending = append(append(w.pending, line...), '\n')
	many := len(w.pending) > wireMost
	w.mu.Unlock()
	if many {
		w.flush()
	}
}

// flush writes what waits. What cannot be written, the supervisor misses.
func (w *wire) flush() {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	b := w.pending
	w.pending = nil
	w.mu.Unlock()
	if len(b) > 0 {
		_, _ = w.to.Write(b)
	}
}

// run flushes now and then until ctx ends, and a last time then.
func (w *wire) run(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, wireEvery)
		w.flush()
	}
	w.flush()
}

// judge holds the ends of mutations against what the nodes have applied.
func judge(r *Report, ends map[string]*ended, log []mock.Applied) {
	times := make(map[string]int, len(log))
	for _, a := range log {
		times[identity(a)]++
	}
	for id, e := range ends {
		n := times[id]
		said := fmt.Sprintf("%s of %q ended %q, and was applied %d times: %s", e.Verb, id, e.Outcome, n, e.Err)
		switch {
		case n > 1:
			r.AppliedTwice++
			r.violate("P2", "%s", said)
		case e.Outcome == applied && n == 0:
			r.Lost++
			r.violate("P3", "%s", said)
		case e.Outcome == refused && n > 0:
			r.violate("P4", "%s", said)
		case e.Outcome == doubtful:
			r.Reached[fmt.Sprintf("in doubt, applied %d times", n)]++
		default:
			r.Reached[string(e.Outcome)]++
		}
	}
	for id, n := range times {
		if ends[id] == nil {
			r.EndedNotOnce++
			r.violate("P1", "%q was applied %d times, and its call has not ended", id, n)
		}
	}
}
