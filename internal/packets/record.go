package packets

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Kind is what a record is about.
type Kind string

// Kinds of records.
const (
	Request Kind = "request" // of a client
	Answer  Kind = "answer"  // of a node
	Push    Kind = "push"    // a request of a node, which a client does not answer
	Note    Kind = "note"    // about the connection: what it is, why it cannot be read
)

// Record is one packet, or a note about a connection. It does not share memory with what was read.
type Record struct {
	Time         time.Time
	Conn         int // the connection's number, from 1
	Client, Node string
	Kind         Kind

	Opcode        memd.Opcode
	Opaque        uint32
	VBucket       uint16      // of a request
	Status        memd.Status // of an answer
	Key           []byte      // without its collection's id
	Document      bool        // Key is a document's
	Collection    uint32
	HasCollection bool
	CAS           uint64
	ValueLen      int
	Datatype      memd.Datatype
	Frames        []string // what the packet's frames say, in words

	Answered bool          // the answer's request was seen,
	Took     time.Duration // and so long before
	Server   time.Duration // of an answer, how long the node says it worked; 0 when it does not say
	Detail   string        // what else is known: features, a map's revision, a bucket, an error's context
}

// Name is the packet's command in the words of the protocol.
func (r *Record) Name() string {
	if r.Kind == Push {
		return memd.ServerOpcodeName(r.Opcode)
	}
	return r.Opcode.String()
}

// Failed reports whether the record is an answer that says that the request was not done.
func (r *Record) Failed() bool {
	return r.Kind == Answer && (!r.Status.CarriesPayload() || r.Status == memd.StatusRollback)
}

// secret are commands whose values are never looked at: they hold proofs and passwords.
func secret(op memd.Opcode) bool {
	return op == memd.OpSASLAuth || op == memd.OpSASLStep
}

// fill takes a packet apart. prefixed says that keys have their collection's id before them.
func (r *Record) fill(p *memd.Packet, prefixed bool) {
	r.Opcode, r.Opaque, r.CAS, r.Datatype, r.ValueLen = p.Opcode, p.Opaque, p.CAS, p.Datatype, len(p.Value)
	if r.Kind == Answer {
		r.Status = p.Status
	} else {
		r.VBucket = p.VBucket
	}
	key, spec := p.Key, call.SpecOf(p.Opcode)
	r.Document = r.Kind != Push && len(key) > 0 && spec != nil && spec.Has(call.CollectionAware)
	if r.Document && prefixed && r.Kind == Request {
		if id, left, err := memd.ParseLEB128(key); err == nil {
			r.Collection, r.HasCollection, key = id, true, left
		}
	}
	r.Key = append([]byte(nil), key...)
	r.frames(p.Frames)
	r.detail(p)
}

func (r *Record) frames(raw []byte) {
	for len(raw) > 0 {
		id, data, left, err := memd.NextFrame(raw)
		if err != nil {
			r.Frames = append(r.Frames, "frames that cannot be read")
			return
		}
		raw = left
		if r.Kind == Answer {
			r.answerFrame(id, data)
		} else {
			r.requestFrame(id, data)
		}
	}
}

func (r *Record) answerFrame(id memd.FrameID, data []byte) {
	if len(data) != 2 {
		r.Frames = append(r.Frames, fmt.Sprintf("frame %d of %d bytes", id, len(data)))
		return
	}
	n := uint16(data[0])<<8 | uint16(data[1])
	switch id {
	case memd.FrameServerDuration:
		r.Server = time.Duration(memd.DecodeServerDuration(n) * float64(time.Microsecond))
	case memd.FrameReadUnits:
		r.Frames = append(r.Frames, fmt.Sprintf("%d read units", n))
	case memd.FrameWriteUnits:
		r.Frames = append(r.Frames, fmt.Sprintf("%d write units", n))
	default:
		r.Frames = append(r.Frames, fmt.Sprintf("frame %d", id))
	}
}

func (r *Record) requestFrame(id memd.FrameID, data []byte) {
	text := fmt.Sprintf("frame %d", id)
	switch id {
	case memd.FrameBarrier:
		text = "barrier"
	case memd.FrameDurability:
		if level, ms, ok := memd.ParseDurability(data); ok {
			text = fmt.Sprintf("durability %d", level)
			if ms > 0 {
				text += fmt.Sprintf(" within %d ms", ms)
			}
		}
	case memd.FrameImpersonateUser:
		text = "on behalf of a user"
	case memd.FramePreserveTTL:
		text = "keeps the expiry"
	}
	r.Frames = append(r.Frames, text)
}

// maxDetail is how much of a value is looked at and shown.
const maxDetail = 512

func (r *Record) detail(p *memd.Packet) {
	switch {
	case secret(p.Opcode):
	case p.Opcode == memd.OpHello && r.Kind != Push:
		r.Detail = features(p.Value)
	case r.Kind == Push && p.Opcode == memd.ServerOpClustermapChange && len(p.Extras) >= 16:
		r.Detail = fmt.Sprintf("map %d.%d", be(p.Extras[:8]), be(p.Extras[8:16]))
	case isMap(p, r.Kind):
		r.Detail = revision(p.Value)
	case r.Kind == Request && p.Opcode == memd.OpCollectionsGetID && len(p.Value) > 0 && len(p.Value) <= maxDetail:
		r.Detail = string(p.Value)
	case r.Failed() && p.Datatype&memd.DatatypeJSON != 0:
		r.Detail = said(p.Value)
	}
}

func be(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

func features(value []byte) string {
	var names []string
	for ; len(value) >= 2 && len(names) < maxDetail/8; value = value[2:] {
		names = append(names, memd.Feature(uint16(value[0])<<8|uint16(value[1])).String())
	}
	return strings.Join(names, " ")
}

// isMap reports whether a packet holds a cluster map.
func isMap(p *memd.Packet, kind Kind) bool {
	switch {
	case len(p.Value) == 0 || p.Datatype&memd.DatatypeSnappy != 0:
		return false
	case kind == Push:
		return p.Opcode == memd.ServerOpClustermapChange
	case kind != Answer:
		return false
	case p.Status == memd.StatusNotMyVBucket:
		return true
	}
	return p.Status == memd.StatusSuccess && p.Opcode == memd.OpGetClusterConfig
}

func revision(value []byte) string {
	var m struct {
		Epoch int64  `json:"revEpoch"`
		Rev   int64  `json:"rev"`
		Name  string `json:"name"`
	}
	if json.Unmarshal(value, &m) != nil {
		return "a map that cannot be read"
	}
	text := fmt.Sprintf("map %d.%d", m.Epoch, m.Rev)
	if m.Name != "" {
		text += " of " + m.Name
	}
	return text
}

// said is what a node says of a failure.
func said(value []byte) string {
	var e struct {
		Error struct{ Context, Ref string }
	}
	if len(value) > 8*maxDetail || json.Unmarshal(value, &e) != nil {
		return ""
	}
	text := e.Error.Context
	if e.Error.Ref != "" {
		text = strings.TrimSpace(text + " (ref " + e.Error.Ref + ")")
	}
	return text[:min(len(text), maxDetail)]
}
