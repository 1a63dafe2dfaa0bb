package conn

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/telemetry"
	"github.com/couchcore/couchcore/memd"
)

// Application telemetry counts attempts: what was given to the socket, and what has become of it. Only a connection
// knows that of each attempt.

// kindOf is what an attempt is counted as; false for what the client sends to see to its connections and maps. Writes
// are the opcodes that kv_engine (protocol/mcbp/opcode.cc) says write data or accept durability.
func kindOf(op memd.Opcode, durable bool) (telemetry.Kind, bool) {
	switch op {
	case memd.OpNoop, memd.OpGetClusterConfig:
		return 0, false
	case memd.OpGetLocked, memd.OpUnlockKey, memd.OpDelWithMeta: // change a document, and are neither
		return telemetry.Retrieval, true
	}
	switch s := call.SpecOf(op); {
	case s == nil || !s.Has(call.Mutates):
		return telemetry.Retrieval, true
	case durable:
		return telemetry.DurableMutation, true
	}
	return telemetry.Mutation, true
}

// countAnswer counts an attempt that was answered. It is called before the call can end: its memory may be used again
// from then on.
func (c *Conn) countAnswer(call *call.Call) {
	k, counted := kindOf(call.Sent(), call.Req.Durability != 0)
	if !counted {
		return
	}
	if c.reader.now == 0 { // once for each read: the bounds of the histograms are milliseconds apart
		c.reader.now = c.deadlines.now()
	}
	c.counts.Answered(k, time.Duration(c.reader.now-call.Began()))
}

// unwanted handles an answer whose call has ended although its slot was still taken.
func (c *Conn) unwanted(p *memd.Packet, late lateCall) {
	if _, counted := kindOf(p.Opcode, late.Durable); counted && c.counts.On() {
		c.counts.Unwanted(late.Deadline <= c.deadlines.now())
	}
	c.orphan(p, late)
}

// countUnanswered counts an attempt whose call leaves its slot before the answer, if it was sent.
func (c *Conn) countUnanswered(call *call.Call, sent bool, now int64) {
	if _, counted := kindOf(call.Sent(), false); counted && sent {
		c.counts.Unanswered(call.Deadline <= now)
	}
}

// countLate adds the time of an answer whose attempt countUnanswered has counted. late is what is known of the call.
func (c *Conn) countLate(op memd.Opcode, late *lateCall) {
	if !c.counts.On() || late.Via == nil || late.Began < 0 {
		return
	}
	if k, counted := kindOf(op, late.Durable); counted {
		c.counts.Late(k, time.Duration(c.deadlines.now()-late.Began))
	}
}
