package packets

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Side is one of a connection's two ends.
type Side uint8

// The sides.
const (
	FromClient Side = iota
	FromNode
)

const (
	maxPacket  = memd.DefaultLimit // of a packet's body; a longer one is a stream that cannot be read
	maxPending = 1 << 16           // requests without an answer that are remembered for each connection
)

// Talk follows one connection. It takes what each side sends, in pieces of any size, and gives the packets in them. Its
// methods may be called from several goroutines.
type Talk struct {
	Conn         int
	Client, Node string

	mu       sync.Mutex
	halves   [2]half
	swapped  bool // what was taken for the client's side is the node's
	judged   bool // which side is which is known
	prefixed bool // HELLO has agreed on collections
	pending  map[uint32]pending
}

// half is what one side has sent and was not yet read.
type half struct {
	buf  []byte
	lost bool // its packets do not begin where they should: the next piece that begins with one is waited for
}

// pending is a request without its answer.
type pending struct {
	opcode memd.Opcode
	at     time.Time
}

// Take reads a piece that a side has sent, and gives the packets that are whole now. b is not kept. Which side is which
// is what the first packet says: a capture may have seen the wrong one first.
func (t *Talk) Take(from Side, b []byte, at time.Time) (found []Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.halves[from]
	if h.lost {
		if !plausible(b) {
			return nil
		}
		h.lost = false
		found = append(found, t.note(at, "packets can be read again"))
	}
	if !t.judged && len(b) > 0 {
		if b[0] == 0x16 && len(b) > 1 && b[1] == 0x03 {
			h.lost, t.judged = true, true
			t.halves[1-from].lost = true
			return append(found, t.note(at, "the connection speaks TLS: its packets cannot be read"))
		}
		t.judged = true
		t.swapped = (from == FromClient) == nodes(memd.Magic(b[0]))
	}
	h.buf = append(h.buf, b...)
	left := h.buf
	for {
		var p memd.Packet
		n, err := p.Parse(left, maxPacket)
		if errors.Is(err, memd.ErrShort) {
			break
		}
		if err != nil {
			h.buf, h.lost = nil, true
			return append(found, t.note(at, fmt.Sprintf("%s sends what is not the protocol: %v", t.name(from), err)))
		}
		found = append(found, t.packet(&p, at))
		left = left[n:]
	}
	if h.buf = append(h.buf[:0], left...); len(left) == 0 && cap(h.buf) > 1<<16 {
		h.buf = nil
	}
	return found
}

// Gap says that a piece of what a side has sent is missing.
func (t *Talk) Gap(from Side, bytes int, at time.Time) Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halves[from] = half{lost: true}
	what := "what was sent before the capture"
	if bytes > 0 {
		what = fmt.Sprintf("%d bytes", bytes)
	}
	return t.note(at, fmt.Sprintf("%s of %s are missing in the capture", what, t.name(from)))
}

// Ends is the note that the connection has ended.
func (t *Talk) Ends(at time.Time, why string) Record { return t.note(at, why) }

// nodes reports whether a packet with that magic is one that nodes send.
func nodes(m memd.Magic) bool {
	return m == memd.MagicRes || m == memd.MagicResExt || m == memd.MagicServerReq
}

// plausible reports whether a piece begins with a packet.
func plausible(b []byte) bool {
	if len(b) < memd.HeaderLen {
		return false
	}
	h, err := memd.ParseHeader(b, maxPacket)
	return err == nil && (h.Opcode.Known() || !h.Magic.IsResponse())
}

func (t *Talk) name(from Side) string {
	if (from == FromClient) != t.swapped {
		return "the client"
	}
	return "the node"
}

// record begins a record of this connection.
func (t *Talk) record(kind Kind, at time.Time) Record {
	r := Record{Time: at, Conn: t.Conn, Client: t.Client, Node: t.Node, Kind: kind}
	if t.swapped {
		r.Client, r.Node = t.Node, t.Client
	}
	return r
}

func (t *Talk) note(at time.Time, text string) Record {
	r := t.record(Note, at)
	r.Detail = text
	return r
}

func (t *Talk) packet(p *memd.Packet, at time.Time) Record {
	kind := Request
	switch {
	case p.Magic.IsResponse():
		kind = Answer
	case p.Magic == memd.MagicServerReq:
		kind = Push
	}
	r := t.record(kind, at)
	r.fill(p, t.prefixed)
	switch kind {
	case Request:
		t.ask(p, at)
	case Answer:
		if q, ok := t.pending[p.Opaque]; ok && q.opcode == p.Opcode {
			r.Answered, r.Took = true, at.Sub(q.at)
			if !call.Continues(p) {
				delete(t.pending, p.Opaque)
			}
		}
		if p.Opcode == memd.OpHello && p.Status == memd.StatusSuccess {
			agreed, err := memd.ParseFeatures(p.Value)
			t.prefixed = err == nil && agreed.Has(memd.FeatureCollections)
		}
	case Push, Note:
	}
	return r
}

// ask remembers a request. Of too many the oldest are forgotten: a quiet one has no answer.
func (t *Talk) ask(p *memd.Packet, at time.Time) {
	if t.pending == nil {
		t.pending = map[uint32]pending{}
	}
	if len(t.pending) >= maxPending {
		all := make([]time.Time, 0, len(t.pending))
		for _, q := range t.pending {
			all = append(all, q.at)
		}
		slices.SortFunc(all, time.Time.Compare)
		for opaque, q := range t.pending {
			if !q.at.After(all[len(all)/2]) {
				delete(t.pending, opaque)
			}
		}
	}
	t.pending[p.Opaque] = pending{p.Opcode, at}
}
