package subdoc

import (
	"encoding/binary"
	"fmt"

	"github.com/couchcore/couchcore/memd"
)

// MaxPaths is how many specs a request may have unless a server is set otherwise.
const MaxPaths = 16

// Request is a sub-document request.
type Request struct {
	Specs     []Spec
	Multi     bool
	Mutates   bool
	Flags     DocFlags
	Expiry    uint32
	UserFlags *uint32 // the document's flags afterwards, nil for those that it has
	features  memd.Features
	Opaque    []byte // the request's value, for the apply log
}

// EmptyBody is what a new document begins with: what the first path that leads into one wants, be it an attribute's. A
// request with none writes the body as a whole.
func (rq *Request) EmptyBody() []byte {
	for i := range rq.Specs {
		s := &rq.Specs[i]
		switch {
		case s.row.whole, s.row.xattr:
		case s.path == "" || s.path[0] == '[':
			return []byte("[]")
		default:
			return []byte("{}")
		}
	}
	return nil
}

// Refusal is why a request is not in order: a status, and for some a text that explains it. Nil is no refusal.
type Refusal struct {
	Status  memd.Status
	Context string
}

func refuse(s memd.Status, format string, args ...any) *Refusal {
	return &Refusal{s, fmt.Sprintf(format, args...)}
}

// Decode reads a sub-document request whose extras have a length that its opcode allows, with so many specs at most.
func Decode(p *memd.Packet, features memd.Features, most int) (*Request, *Refusal) {
	rq := &Request{features: features, Opaque: p.Value}
	rq.Multi = p.Opcode == memd.OpSubdocMultiLookup || p.Opcode == memd.OpSubdocMultiMutation
	extras := p.Extras
	if !rq.Multi {
		extras = extras[3:]
	}
	if len(extras) >= 4 && (rq.Multi || len(extras) < 9) { // a server overlooks the expiry in extras of 12 bytes
		rq.Expiry = binary.BigEndian.Uint32(extras)
	}
	if len(extras) >= 8 {
		flags := binary.BigEndian.Uint32(extras[4:])
		rq.UserFlags = &flags
	}
	if len(extras)%4 == 1 {
		rq.Flags = DocFlags(extras[len(extras)-1])
	}
	if rq.Multi {
		rq.Mutates = p.Opcode == memd.OpSubdocMultiMutation
		return rq, rq.decodeMulti(p, most)
	}
	rq.Mutates = commands[p.Opcode].mutates()
	return rq, rq.decodeSingle(p)
}

func (rq *Request) decodeSingle(p *memd.Packet) *Refusal {
	n := int(binary.BigEndian.Uint16(p.Extras))
	if n > len(p.Value) {
		return refuse(memd.StatusInvalid, "Path is longer than the request")
	}
	rq.Specs = []Spec{{
		Op: p.Opcode, row: commands[p.Opcode], Flags: PathFlags(p.Extras[2]), path: string(p.Value[:n]),
		Value: p.Value[n:],
	}}
	if no := rq.checkDocFlags(p.CAS); no != nil {
		return no
	}
	if f := rq.Flags; f&CreateAsDeleted != 0 {
		switch {
		case f&(Upsert|Add) == 0:
			return refuse(memd.StatusInvalid, "CreateAsDeleted needs the flag to upsert or to insert")
		case rq.Specs[0].Flags&Xattr == 0:
			return refuse(memd.StatusInvalid, "A deleted document has no body")
		}
	}
	return rq.check(&rq.Specs[0])
}

// decodeMulti takes the specs of a request with several paths apart.
func (rq *Request) decodeMulti(p *memd.Packet, most int) *Refusal {
	if no := rq.checkDocFlags(p.CAS); no != nil {
		return no
	}
	if f := rq.Flags; f&Revive != 0 && (f&AccessDeleted == 0 || f&CreateAsDeleted != 0) {
		return refuse(memd.StatusInvalid, "Revive needs AccessDeleted and excludes CreateAsDeleted")
	}
	removed, bodies := false, 0
	for b := p.Value; len(b) > 0; {
		switch {
		case len(rq.Specs) == most:
			return refuse(memd.StatusSubdocInvalidCombo, "More than %d paths", most)
		case removed:
			return refuse(memd.StatusSubdocInvalidCombo, "The document is removed and changed")
		}
		s, tail, no := rq.nextSpec(b)
		if no != nil {
			return no
		}
		if s.Flags&Xattr != 0 && bodies > 0 {
			return &Refusal{Status: memd.StatusSubdocInvalidXattrOrder}
		}
		if s.Flags&Xattr == 0 {
			bodies++
		}
		if removed = s.Op == memd.OpDelete; removed && bodies > 1 {
			return refuse(memd.StatusSubdocInvalidCombo, "The document is changed and removed")
		}
		b, rq.Specs = tail, append(rq.Specs, s)
	}
	if len(rq.Specs) == 0 {
		return refuse(memd.StatusSubdocInvalidCombo, "No paths")
	}
	return nil
}

// nextSpec takes the first spec off b.
func (rq *Request) nextSpec(b []byte) (s Spec, tail []byte, no *Refusal) {
	head := 4
	if rq.Mutates {
		head = 8
	}
	if len(b) < head {
		return s, nil, refuse(memd.StatusInvalid, "Spec %d is cut off", len(rq.Specs))
	}
	s = Spec{Op: memd.Opcode(b[0]), row: commands[memd.Opcode(b[0])], Flags: PathFlags(b[1])}
	n, v := uint64(binary.BigEndian.Uint16(b[2:])), uint64(0)
	if rq.Mutates {
		v = uint64(binary.BigEndian.Uint32(b[4:]))
	}
	b = b[head:]
	switch {
	case n+v > uint64(len(b)):
		return s, nil, refuse(memd.StatusInvalid, "Spec %d is longer than the request", len(rq.Specs))
	case s.row == nil || s.row.mutates() != rq.Mutates:
		return s, nil, refuse(memd.StatusSubdocInvalidCombo, "%v is not a command of such a request", s.Op)
	}
	s.path, s.Value = string(b[:n]), b[n:n+v]
	return s, b[n+v:], rq.check(&s)
}

// checkDocFlags refuses flags of the document that do not go together.
func (rq *Request) checkDocFlags(cas uint64) *Refusal {
	switch f := rq.Flags; {
	case f&^(docCreate|ReplicaRead) != 0:
		return refuse(memd.StatusInvalid, "Unknown document flags 0x%02x", uint8(f))
	case f&Upsert != 0 && f&Add != 0:
		return refuse(memd.StatusInvalid, "Flags to upsert and to insert the document")
	case f&Add != 0 && cas != 0:
		return refuse(memd.StatusInvalid, "CAS given for a document that must not exist")
	}
	return nil
}

// check refuses a spec that is not in order, whatever the document is, and parses its path.
func (rq *Request) check(s *Spec) *Refusal {
	r, f := s.row, s.Flags
	switch {
	case f&^r.flags != 0:
		return refuse(memd.StatusInvalid, "Path flags 0x%02x are not allowed for %v", uint8(f), s.Op)
	case r.xattr && f&Xattr == 0:
		return refuse(memd.StatusInvalid, "%v needs an extended attribute", s.Op)
	case rq.Flags&^r.docs != 0:
		return refuse(memd.StatusInvalid, "Document flags 0x%02x are not allowed for %v", uint8(rq.Flags), s.Op)
	case len(s.path) > maxPathLen:
		return refuse(memd.StatusInvalid, "Path is longer than %d bytes", maxPathLen)
	case s.path != "" && r.whole:
		return refuse(memd.StatusInvalid, "Path has %d bytes", len(s.path))
	case f&(Macros|Binary) != 0 && f&Xattr == 0, f&Macros != 0 && f&Binary != 0:
		return refuse(memd.StatusSubdocXattrInvalidFlagCombo, "Path flags 0x%02x do not go together", uint8(f))
	}
	if f&Xattr != 0 {
		if no := rq.checkAttribute(s); no != nil {
			return no
		}
	}
	switch {
	case s.path == "" && !r.root:
		return refuse(memd.StatusInvalid, "Path has no bytes")
	case r.value != (len(s.Value) > 0):
		return refuse(memd.StatusInvalid, "Value has %d bytes", len(s.Value))
	}
	s.parts, s.Bad = parsePath(s.path)
	return nil
}

// checkAttribute refuses what is wrong with an xattr path. A server gives a context for some of that only.
func (rq *Request) checkAttribute(s *Spec) *Refusal {
	switch {
	case !rq.features.Has(memd.FeatureXattr):
		return refuse(memd.StatusNotSupported, "Connection not XATTR enabled")
	case !validAttribute(s.path):
		return refuse(memd.StatusXattrInvalid, "Request XATTR key invalid")
	case s.path[0] == '$' && rq.Mutates:
		return &Refusal{Status: memd.StatusSubdocXattrCantModifyVattr}
	case !validBinary(string(s.Value)):
		return refuse(memd.StatusXattrInvalid, "Incorrectly encoded binary value")
	case s.Flags&Macros != 0 && !isMacro(s.Value):
		return &Refusal{Status: memd.StatusSubdocXattrUnknownMacro}
	}
	return nil
}
