package subdoc

import (
	"encoding/binary"
	"fmt"

	"github.com/couchcore/couchcore/memd"
)

// MaxPaths is how many specs a request may have unless a server is set otherwise.
const MaxPaths = 16

// Rules are what decides, beside its bytes, whether a request is in order: the connection, and the server's release.
type Rules struct {
	MaxPaths        int  // of one request
	Xattrs          bool // the connection has negotiated extended attributes
	UserFlags       bool // extras may have the document's flags
	Binary          bool // the path flag for binary values is known
	ManyAttributes  bool // one request may name several attributes
	DocumentMacros  bool // macros of $document are known
	Revive          bool // the document flag is known
	ReplicaRead     bool // the document flag is known
	DeletedReplicas bool // that flag goes together with AccessDeleted
}

// docFlags are the document flags that are known.
func (u *Rules) docFlags() DocFlags {
	known := docCreate &^ Revive
	if u.Revive {
		known |= Revive
	}
	if u.ReplicaRead {
		known |= ReplicaRead
	}
	return known
}

// Request is a sub-document request.
type Request struct {
	Specs     []Spec
	Multi     bool
	Mutates   bool
	Flags     DocFlags
	Expiry    uint32
	UserFlags *uint32 // the document's flags afterwards, nil for those that it has
	rules     Rules
	attribute string // the only one that is not virtual, where several are refused
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

// Decode reads a sub-document request whose extras have a length that its opcode allows. It refuses what a server
// refuses, in the server's order and words.
func Decode(p *memd.Packet, rules Rules) (*Request, *Refusal) {
	rq := &Request{rules: rules, Opaque: p.Value}
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
	if rq.Flags&^rules.docFlags() != 0 || rq.UserFlags != nil && !rules.UserFlags {
		return rq, refuse(memd.StatusInvalid, "%s", InvalidExtras(p.Opcode, len(p.Extras)))
	}
	if rq.Multi {
		rq.Mutates = p.Opcode == memd.OpSubdocMultiMutation
		return rq, rq.decodeMulti(p)
	}
	rq.Mutates = commands[p.Opcode].mutates()
	return rq, rq.decodeSingle(p)
}

// InvalidExtras is what a server says of extras that it cannot read.
func InvalidExtras(op memd.Opcode, length int) string {
	switch {
	case op == memd.OpSubdocMultiLookup, op == memd.OpSubdocMultiMutation,
		length == 7, length == 8, length == 11, length == 12:
		return "Request extras invalid"
	}
	return "Invalid extras section"
}

func (rq *Request) decodeSingle(p *memd.Packet) *Refusal {
	n := int(binary.BigEndian.Uint16(p.Extras))
	switch {
	case n > maxPathLen:
		return refuse(memd.StatusInvalid, "Request path length exceeds maximum")
	case n > len(p.Value):
		return refuse(memd.StatusInvalid, "Path length can't exceed value")
	}
	rq.Specs = []Spec{{
		Op: p.Opcode, row: commands[p.Opcode], Flags: PathFlags(p.Extras[2]), path: string(p.Value[:n]),
		Value: p.Value[n:],
	}}
	s := &rq.Specs[0]
	if no := rq.checkValue(s); no != nil {
		return no
	}
	if no := rq.checkFlags(s); no != nil {
		return no
	}
	if f := rq.Flags; f&CreateAsDeleted != 0 {
		switch {
		case f&(Upsert|Add) == 0:
			return refuse(memd.StatusInvalid, "CreateAsDeleted requires Mkdoc or Add")
		case s.Flags&Xattr == 0:
			return refuse(memd.StatusInvalid, "CreateAsDeleted does not support body path")
		}
	}
	if no := rq.checkDocFlags(p.CAS); no != nil {
		return no
	}
	if no := rq.checkAttribute(s); no != nil {
		return no
	}
	if s.path == "" && !s.row.root {
		return refuse(memd.StatusInvalid, "Request must include path")
	}
	s.parts, s.Bad = parsePath(s.path)
	return nil
}

// decodeMulti takes the specs of a request with several paths apart.
func (rq *Request) decodeMulti(p *memd.Packet) *Refusal {
	if no := rq.checkDocFlags(p.CAS); no != nil {
		return no
	}
	if f := rq.Flags; f&Revive != 0 {
		switch {
		case f&AccessDeleted == 0:
			return refuse(memd.StatusInvalid, "ReviveDocument can't be used without AccessDeleted")
		case f&CreateAsDeleted != 0:
			return refuse(memd.StatusInvalid, "ReviveDocument can't be used with CreateAsDeleted")
		}
	}
	removed, bodies := false, 0
	for b := p.Value; len(b) > 0; {
		switch {
		case len(rq.Specs) == rq.rules.MaxPaths:
			return refuse(memd.StatusSubdocInvalidCombo, "Request must contain at most %d paths", rq.rules.MaxPaths)
		case removed:
			return refuse(memd.StatusSubdocInvalidCombo, "%s", badCombination)
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
			return refuse(memd.StatusSubdocInvalidCombo, "%s", badCombination)
		}
		b, rq.Specs = tail, append(rq.Specs, s)
	}
	if len(rq.Specs) == 0 {
		return refuse(memd.StatusSubdocInvalidCombo, "Request must contain at least one path")
	}
	return nil
}

const badCombination = "Request contains an invalid combination of commands"

// nextSpec takes the first spec off b.
func (rq *Request) nextSpec(b []byte) (s Spec, tail []byte, no *Refusal) {
	head, kind, what := 4, "lookup", "path"
	if rq.Mutates {
		head, kind, what = 8, "mutation", "path and value"
	}
	if len(b) < head {
		return s, nil, refuse(memd.StatusInvalid, "Multi %s spec truncated", kind)
	}
	s = Spec{Op: memd.Opcode(b[0]), row: commands[memd.Opcode(b[0])], Flags: PathFlags(b[1])}
	n, v := uint64(binary.BigEndian.Uint16(b[2:])), uint64(0)
	if rq.Mutates {
		v = uint64(binary.BigEndian.Uint32(b[4:]))
	}
	b = b[head:]
	switch {
	case n+v > uint64(len(b)):
		return s, nil, refuse(memd.StatusInvalid, "Multi %s %s truncated", kind, what)
	case s.row == nil:
		return s, nil, refuse(memd.StatusSubdocInvalidCombo, "Subdoc and MCBP command must not both be invalid")
	case s.row.mutates() != rq.Mutates:
		return s, nil, refuse(memd.StatusSubdocInvalidCombo, "Mutation opcodes only permitted for mutation commands")
	}
	s.path, s.Value = string(b[:n]), b[n:n+v]
	return s, b[n+v:], rq.checkSpec(&s)
}

// checkDocFlags refuses flags of the document that do not go together.
func (rq *Request) checkDocFlags(cas uint64) *Refusal {
	switch f := rq.Flags; {
	case f&ReplicaRead != 0 && f&AccessDeleted != 0 && !rq.rules.DeletedReplicas:
		return refuse(memd.StatusInvalid, "Can't access deleted documents on replicas")
	case f&Add != 0 && cas != 0:
		return refuse(memd.StatusInvalid, "Request with add flag must have CAS 0")
	case f&Upsert != 0 && f&Add != 0:
		return refuse(memd.StatusInvalid, "Request must not contain both add and mkdoc flags")
	}
	return nil
}

// checkSpec refuses a spec of several that is not in order, whatever the document is, and parses its path.
func (rq *Request) checkSpec(s *Spec) *Refusal {
	if no := rq.checkFlags(s); no != nil {
		return no
	}
	switch {
	case len(s.path) > maxPathLen:
		return refuse(memd.StatusInvalid, "Request path length exceeds maximum")
	case s.path != "" && s.row.whole:
		return refuse(memd.StatusInvalid, "Request must not include path for wholedoc operations")
	}
	if no := rq.checkAttribute(s); no != nil {
		return no
	}
	if s.path == "" && !s.row.root {
		return refuse(memd.StatusInvalid, "Request must include path")
	}
	if no := rq.checkValue(s); no != nil {
		return no
	}
	s.parts, s.Bad = parsePath(s.path)
	return nil
}

// checkFlags refuses flags that the command does not take.
func (rq *Request) checkFlags(s *Spec) *Refusal {
	allowed := s.row.flags
	if !rq.rules.Binary {
		allowed &^= Binary
	}
	switch {
	case s.Flags&^allowed != 0:
		return refuse(memd.StatusInvalid, "Request flags invalid")
	case s.row.xattr && s.Flags&Xattr == 0:
		return refuse(memd.StatusInvalid, "Request missing mandatory flags")
	case rq.Flags&^s.row.docs != 0:
		return refuse(memd.StatusInvalid, "Request document flags invalid")
	}
	return nil
}

func (rq *Request) checkValue(s *Spec) *Refusal {
	switch {
	case s.row.value && len(s.Value) == 0:
		return refuse(memd.StatusInvalid, "Request must include value")
	case !s.row.value && len(s.Value) > 0:
		return refuse(memd.StatusInvalid, "Request must not include value")
	}
	return nil
}

// checkAttribute refuses what is wrong with an xattr path, and flags that only such a path has. A server gives a
// context for some of that only.
func (rq *Request) checkAttribute(s *Spec) *Refusal {
	f := s.Flags
	switch {
	case f&Xattr == 0 && f&Macros != 0:
		return refuse(memd.StatusSubdocXattrInvalidFlagCombo, "EXPAND_MACROS flag requires XATTR flag to be set")
	case f&Xattr == 0 && f&Binary != 0:
		return refuse(memd.StatusSubdocXattrInvalidFlagCombo, "BINARY_VALUE flag requires XATTR flag to be set")
	case f&Xattr == 0:
		return nil
	case f&Macros != 0 && f&Binary != 0:
		return refuse(memd.StatusSubdocXattrInvalidFlagCombo, "BINARY_VALUE can't be used together with EXPAND_MACROS")
	case !rq.rules.Xattrs:
		return refuse(memd.StatusNotSupported, "Connection not XATTR enabled")
	case !validAttribute(s.path):
		return refuse(memd.StatusXattrInvalid, "Request XATTR key invalid")
	case s.path[0] == '$' && rq.Mutates:
		return &Refusal{Status: memd.StatusSubdocXattrCantModifyVattr}
	case !rq.alone(s):
		return &Refusal{Status: memd.StatusSubdocXattrInvalidKeyCombo}
	case rq.rules.Binary && !validBinary(string(s.Value)):
		return refuse(memd.StatusXattrInvalid, "Incorrectly encoded binary value")
	case f&Macros != 0 && !isMacro(s.Value, rq.rules.DocumentMacros):
		return &Refusal{Status: memd.StatusSubdocXattrUnknownMacro}
	}
	return nil
}

// alone reports whether the attribute may stand beside those before it.
func (rq *Request) alone(s *Spec) bool {
	name := s.Attribute()
	if rq.rules.ManyAttributes || name[0] == '$' {
		return true
	}
	if rq.attribute == "" {
		rq.attribute = name
	}
	return rq.attribute == name
}
