package mock

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/couchcore/couchcore/memd"
)

// maxPaths is how many specs a request may have.
const maxPaths = 16

// pathFlags are flags of one path.
type pathFlags uint8

const (
	pathMkdir  pathFlags = 0x01
	pathXattr  pathFlags = 0x04
	pathMacros pathFlags = 0x10
	pathBinary pathFlags = 0x20
)

// docFlags are flags of the document that a sub-document request works on.
type docFlags uint8

const (
	docUpsert          docFlags = 0x01
	docAdd             docFlags = 0x02
	docAccessDeleted   docFlags = 0x04
	docCreateAsDeleted docFlags = 0x08
	docRevive          docFlags = 0x10
	docReplicaRead     docFlags = 0x20

	docLookup = docAccessDeleted | docRevive | docReplicaRead
	docKeep   = docAccessDeleted | docRevive
	docInsert = docKeep | docAdd
	docCreate = docInsert | docUpsert | docCreateAsDeleted
)

// pathRow is what is true of a sub-document command.
type pathRow struct {
	read   pathRead  // what executes it, when it reads a part of the document
	write  pathWrite // or changes one
	whole  bool      // it is for the document itself, and stands beside others only
	xattr  bool      // it is for an extended attribute only
	flags  pathFlags // that its path may have
	docs   docFlags  // that its document may have
	value  bool      // it has one
	root   bool      // its path may be empty
	result bool      // its success has one
}

func (r *pathRow) mutates() bool { return r.read == nil }

// pathRows is the table of sub-document commands (spec 05, section 1).
var pathRows = map[memd.Opcode]*pathRow{
	memd.OpSubdocGet:      {read: readPath, flags: pathXattr | pathBinary, docs: docLookup, result: true},
	memd.OpSubdocExists:   {read: existsPath, flags: pathXattr, docs: docLookup},
	memd.OpSubdocGetCount: {read: countPath, flags: pathXattr, docs: docLookup, root: true, result: true},

	memd.OpSubdocDictAdd:    {write: dictAdd, flags: pathMkdir | pathXattr | pathMacros | pathBinary, docs: docCreate, value: true},
	memd.OpSubdocDictUpsert: {write: dictUpsert, flags: pathMkdir | pathXattr | pathMacros | pathBinary, docs: docCreate, value: true},
	memd.OpSubdocDelete:     {write: deletePath, flags: pathXattr, docs: docKeep},
	memd.OpSubdocReplace:    {write: replacePath, flags: pathXattr | pathMacros | pathBinary, docs: docInsert, value: true},
	memd.OpSubdocArrayPushLast: {
		write: pushLast, flags: pathMkdir | pathXattr | pathMacros, docs: docCreate, value: true, root: true,
	},
	memd.OpSubdocArrayPushFirst: {
		write: pushFirst, flags: pathMkdir | pathXattr | pathMacros, docs: docCreate, value: true, root: true,
	},
	memd.OpSubdocArrayInsert: {
		write: insertElement, flags: pathXattr | pathMacros, docs: docInsert | docCreateAsDeleted, value: true,
	},
	memd.OpSubdocArrayAddUnique: {
		write: addUnique, flags: pathMkdir | pathXattr, docs: docCreate, value: true, root: true,
	},
	memd.OpSubdocCounter: {write: countBy, flags: pathMkdir | pathXattr, docs: docCreate, value: true, result: true},

	memd.OpSubdocReplaceBodyWithXattr: {flags: pathXattr | pathBinary, docs: docKeep, xattr: true},

	memd.OpGet:    {read: readPath, whole: true, docs: docLookup, root: true, result: true},
	memd.OpSet:    {whole: true, docs: docUpsert | docAdd, root: true, value: true},
	memd.OpDelete: {whole: true, docs: docKeep, root: true},
}

// pathSpec is one command of a request.
type pathSpec struct {
	op    memd.Opcode
	row   *pathRow
	flags pathFlags
	path  string
	value []byte
	parts []pathPart
	bad   memd.Status // what is wrong with the path
}

// attribute is the name of the extended attribute that an xattr path begins with.
func (s *pathSpec) attribute() string {
	if i := strings.IndexAny(s.path, ".["); i >= 0 {
		return s.path[:i]
	}
	return s.path
}

// paths is a sub-document request.
type paths struct {
	specs     []pathSpec
	multi     bool
	mutates   bool
	flags     docFlags
	userFlags *uint32 // the document's flags afterwards, nil for those that it has
	features  memd.Features
	opaque    []byte // the request's value, for the apply log
}

// decodePaths reads a sub-document request. The reply is the refusal of one that is not in order; its status is success
// otherwise.
func decodePaths(p *memd.Packet, features memd.Features) (*paths, uint32, reply) {
	ps := &paths{features: features, opaque: p.Value}
	ps.multi = p.Opcode == memd.OpSubdocMultiLookup || p.Opcode == memd.OpSubdocMultiMutation
	extras := p.Extras
	if !ps.multi {
		extras = extras[3:]
	}
	var expiry uint32
	if len(extras) >= 4 && (ps.multi || len(extras) < 9) { // a server overlooks the expiry in extras of 12 bytes
		expiry = binary.BigEndian.Uint32(extras)
	}
	if len(extras) >= 8 {
		flags := binary.BigEndian.Uint32(extras[4:])
		ps.userFlags = &flags
	}
	if len(extras)%4 == 1 {
		ps.flags = docFlags(extras[len(extras)-1])
	}
	if ps.multi {
		ps.mutates = p.Opcode == memd.OpSubdocMultiMutation
		return ps, expiry, ps.decodeMulti(p)
	}
	ps.mutates = pathRows[p.Opcode].mutates()
	return ps, expiry, ps.decodeSingle(p)
}

func (ps *paths) decodeSingle(p *memd.Packet) reply {
	n := int(binary.BigEndian.Uint16(p.Extras))
	if n > len(p.Value) {
		return fail(memd.StatusInvalid, "Path is longer than the request")
	}
	ps.specs = []pathSpec{{
		op: p.Opcode, row: pathRows[p.Opcode], flags: pathFlags(p.Extras[2]), path: string(p.Value[:n]), value: p.Value[n:],
	}}
	if rep := ps.checkDocFlags(p.CAS); rep.status != memd.StatusSuccess {
		return rep
	}
	if f := ps.flags; f&docCreateAsDeleted != 0 {
		switch {
		case f&(docUpsert|docAdd) == 0:
			return fail(memd.StatusInvalid, "CreateAsDeleted needs the flag to upsert or to insert")
		case ps.specs[0].flags&pathXattr == 0:
			return fail(memd.StatusInvalid, "A deleted document has no body")
		}
	}
	return ps.check(&ps.specs[0])
}

// decodeMulti takes the specs of a request with several paths apart.
func (ps *paths) decodeMulti(p *memd.Packet) reply {
	if rep := ps.checkDocFlags(p.CAS); rep.status != memd.StatusSuccess {
		return rep
	}
	if f := ps.flags; f&docRevive != 0 && (f&docAccessDeleted == 0 || f&docCreateAsDeleted != 0) {
		return fail(memd.StatusInvalid, "Revive needs AccessDeleted and excludes CreateAsDeleted")
	}
	removed, bodies := false, 0
	for b := p.Value; len(b) > 0; {
		switch {
		case len(ps.specs) == maxPaths:
			return fail(memd.StatusSubdocInvalidCombo, "More than %d paths", maxPaths)
		case removed:
			return fail(memd.StatusSubdocInvalidCombo, "The document is removed and changed")
		}
		s, rest, rep := ps.nextSpec(b)
		if rep.status != memd.StatusSuccess {
			return rep
		}
		if s.flags&pathXattr != 0 && bodies > 0 {
			return reply{status: memd.StatusSubdocInvalidXattrOrder}
		}
		if s.flags&pathXattr == 0 {
			bodies++
		}
		if removed = s.op == memd.OpDelete; removed && bodies > 1 {
			return fail(memd.StatusSubdocInvalidCombo, "The document is changed and removed")
		}
		b, ps.specs = rest, append(ps.specs, s)
	}
	if len(ps.specs) == 0 {
		return fail(memd.StatusSubdocInvalidCombo, "No paths")
	}
	return reply{}
}

// nextSpec takes the first spec off b.
func (ps *paths) nextSpec(b []byte) (s pathSpec, rest []byte, rep reply) {
	head := 4
	if ps.mutates {
		head = 8
	}
	if len(b) < head {
		return s, nil, fail(memd.StatusInvalid, "Spec %d is cut off", len(ps.specs))
	}
	s = pathSpec{op: memd.Opcode(b[0]), row: pathRows[memd.Opcode(b[0])], flags: pathFlags(b[1])}
	n, v := uint64(binary.BigEndian.Uint16(b[2:])), uint64(0)
	if ps.mutates {
		v = uint64(binary.BigEndian.Uint32(b[4:]))
	}
	b = b[head:]
	switch {
	case n+v > uint64(len(b)):
		return s, nil, fail(memd.StatusInvalid, "Spec %d is longer than the request", len(ps.specs))
	case s.row == nil || s.row.mutates() != ps.mutates:
		return s, nil, fail(memd.StatusSubdocInvalidCombo, "%v is no command for such a request", s.op)
	}
	s.path, s.value = string(b[:n]), b[n:n+v]
	return s, b[n+v:], ps.check(&s)
}

// checkDocFlags refuses flags of the document that do not go together.
func (ps *paths) checkDocFlags(cas uint64) reply {
	switch f := ps.flags; {
	case f&^(docCreate|docReplicaRead) != 0:
		return fail(memd.StatusInvalid, "Unknown document flags 0x%02x", uint8(f))
	case f&docUpsert != 0 && f&docAdd != 0:
		return fail(memd.StatusInvalid, "Flags to upsert and to insert the document")
	case f&docAdd != 0 && cas != 0:
		return fail(memd.StatusInvalid, "CAS given for a document that must not exist")
	}
	return reply{}
}

// check refuses a spec that is not in order, whatever the document is, and parses its path.
func (ps *paths) check(s *pathSpec) reply {
	r, f := s.row, s.flags
	switch {
	case f&^r.flags != 0:
		return fail(memd.StatusInvalid, "Path flags 0x%02x are not allowed for %v", uint8(f), s.op)
	case r.xattr && f&pathXattr == 0:
		return fail(memd.StatusInvalid, "%v needs an extended attribute", s.op)
	case ps.flags&^r.docs != 0:
		return fail(memd.StatusInvalid, "Document flags 0x%02x are not allowed for %v", uint8(ps.flags), s.op)
	case len(s.path) > maxPathLen:
		return fail(memd.StatusInvalid, "Path is longer than %d bytes", maxPathLen)
	case s.path != "" && r.whole:
		return fail(memd.StatusInvalid, "Path has %d bytes", len(s.path))
	case f&(pathMacros|pathBinary) != 0 && f&pathXattr == 0, f&pathMacros != 0 && f&pathBinary != 0:
		return fail(memd.StatusSubdocXattrInvalidFlagCombo, "Path flags 0x%02x do not go together", uint8(f))
	}
	if f&pathXattr != 0 {
		if rep := ps.checkAttribute(s); rep.status != memd.StatusSuccess {
			return rep
		}
	}
	switch {
	case s.path == "" && !r.root:
		return fail(memd.StatusInvalid, "Path has no bytes")
	case r.value != (len(s.value) > 0):
		return fail(memd.StatusInvalid, "Value has %d bytes", len(s.value))
	}
	s.parts, s.bad = parsePath(s.path)
	return reply{}
}

// checkAttribute refuses what is wrong with an xattr path. A server gives a context for some of that only.
func (ps *paths) checkAttribute(s *pathSpec) reply {
	switch {
	case !ps.features.Has(memd.FeatureXattr):
		return fail(memd.StatusNotSupported, "Connection not XATTR enabled")
	case !validAttribute(s.path):
		return fail(memd.StatusXattrInvalid, "Request XATTR key invalid")
	case s.path[0] == '$' && ps.mutates:
		return reply{status: memd.StatusSubdocXattrCantModifyVattr}
	case !validBinary(string(s.value)):
		return fail(memd.StatusXattrInvalid, "Incorrectly encoded binary value")
	case s.flags&pathMacros != 0:
		return reply{status: checkMacro(s.value)}
	}
	return reply{}
}

// validAttribute reports whether an xattr path begins with the name of an attribute: up to 15 bytes that begin with
// neither a control character nor punctuation, but for "_" and "$" with something behind them.
func validAttribute(path string) bool {
	if path == "" || !utf8.ValidString(path) || strings.ContainsRune(path, 0) {
		return false
	}
	name := (&pathSpec{path: path}).attribute()
	switch c := path[0]; {
	case c == '_', c == '$':
		return len(name) > 1 && len(name) <= maxXattrName
	case c < ' ', c > ' ' && c < '0', c > '9' && c < 'A', c > 'Z' && c < 'a', c > 'z' && c <= 0x7f:
		return false
	}
	return len(name) <= maxXattrName
}

// validBinary reports whether a value that says of itself that it is an encoded binary one is.
func validBinary(value string) bool {
	i := strings.Index(value, binaryPrefix)
	if i < 0 {
		return true
	}
	if i > 1 || i == 1 && value[0] != '"' {
		var ok bool
		if value, _, ok = strings.Cut(value[i:], `"`); !ok {
			return false
		}
	}
	_, ok := decodeBinary([]byte(value))
	return ok
}
