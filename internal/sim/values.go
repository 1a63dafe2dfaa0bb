package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Compressed values: in half of the runs documents hold more than their tokens, so that client and nodes compress them,
// the nodes of half of those runs also by themselves, and their cluster maps too. What is read is judged by its whole
// content.

// bodyEnd is behind the token of a value that has more.
const bodyEnd = '|'

// body is the value that a call writes.
func (w *world) body(token string) []byte {
	if !w.packs {
		return []byte(token)
	}
	more := w.d.roll(text("body"), text(token))
	text := strings.Repeat(fmt.Sprintf("%08x", uint32(more)), int(more>>32%80))
	return fmt.Appendf(nil, "%s%c%s", token, bodyEnd, text)
}

// long is the value of a burst over TLS that is cut short. It does not get shorter by compression, so that five of them
// fill more than the 16 KiB of a record: the write can be cut behind a record that has left whole.
func (w *world) long(token string) []byte {
	const words = 250
	value := append(make([]byte, 0, len(token)+1+words*16), token...)
	value = append(value, bodyEnd)
	for i := range uint64(words) {
		value = fmt.Appendf(value, "%016x", w.d.roll(text("long"), text(token), i))
	}
	return value
}

// quote is before and behind the token of a value that is JSON, and of what changes one by a path.
const quote = '"'

// tokenOf is the token of a value.
func tokenOf(value []byte) string {
	if parts := bytes.SplitN(value, []byte{quote}, 3); len(parts) == 3 {
		return string(parts[1])
	}
	token, _, _ := bytes.Cut(value, []byte{bodyEnd})
	return string(token)
}

// sentToken is what tells a request from others with its key, as it is on the wire: its value's token, or its expiry.
func sentToken(p *memd.Packet) string {
	switch p.Opcode {
	case memd.OpTouch, memd.OpGAT:
		return fmt.Sprint(binary.BigEndian.Uint32(p.Extras)) // what the client makes is whole
	case memd.OpSubdocMultiLookup, memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocGetCount:
		return ""
	default: // it may have a value
	}
	value, err := call.Inflate(p.Value, p.Datatype, 0)
	if err != nil {
		return ""
	}
	return tokenOf(value)
}

// took notes what a call has read.
func (e *entry) took(w *world, value []byte, cas uint64) {
	if e.cas = cas; e.private {
		e.got = string(value)
		return
	}
	e.got = tokenOf(value)
	if (e.shared || e.alone) && len(value) > 0 && !bytes.Equal(value, w.body(e.got)) {
		w.report.violate("P5", "%s: it has read %q, which is not what was written", e, value)
	}
}

// firstCount is what counters begin with.
const firstCount = 1

// counts judges what a counter says (P5): no other call has its key, so it is its initial value.
func (e *entry) counts(w *world, c kv.CounterResult) retry.Info {
	if c.Value != firstCount {
		w.report.violate("P5", "%s: it says %d, and no other call has counted", e, c.Value)
	}
	return c.RetryInfo()
}
