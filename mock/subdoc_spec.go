package mock

import (
	"encoding/binary"
	"strings"

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
	docs   docFlags  // that its document may have, when it is a request of its own
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

	memd.OpGet:    {read: readPath, whole: true, root: true, result: true},
	memd.OpSet:    {whole: true, root: true, value: true},
	memd.OpDelete: {whole: true, root: true},
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
	specs    []pathSpec
	multi    bool
	mutates  bool
	flags    docFlags
	features memd.Features
	opaque   []byte // the request's value, for the apply log
}

// decodePaths reads a sub-document request. The reply is the refusal of one that is not in order; its status is success
// otherwise.
func decodePaths(p *memd.Packet, features memd.Features) (*paths, uint32, reply) {
	ps := &paths{features: features, opaque: p.Value}
	var expiry uint32
	extras := p.Extras
	switch p.Opcode {
	case memd.OpSubdocMultiLookup, memd.OpSubdocMultiMutation:
		ps.multi, ps.mutates = true, p.Opcode == memd.OpSubdocMultiMutation
	default:
		row := pathRows[p.Opcode]
		ps.mutates = row.mutates()
		s, rep := decodeSingle(p, row)
		if rep.status != memd.StatusSuccess {
			return nil, 0, rep
		}
		ps.specs = []pathSpec{s}
		extras = extras[3:]
	}
	if len(extras) >= 4 {
		expiry, extras = binary.BigEndian.Uint32(extras), extras[4:]
	}
	if len(extras) == 1 {
		ps.flags = docFlags(extras[0])
	}
	if ps.multi {
		if rep := ps.decodeMulti(p.Value); rep.status != memd.StatusSuccess {
			return nil, 0, rep
		}
	}
	return ps, expiry, ps.check(p.CAS)
}

func decodeSingle(p *memd.Packet, row *pathRow) (pathSpec, reply) {
	n := int(binary.BigEndian.Uint16(p.Extras))
	if n > len(p.Value) {
		return pathSpec{}, fail(memd.StatusInvalid, "Path is longer than the request")
	}
	return pathSpec{
		op: p.Opcode, row: row, flags: pathFlags(p.Extras[2]), path: string(p.Value[:n]), value: p.Value[n:],
	}, reply{}
}

// decodeMulti takes the specs of a request with several paths apart.
func (ps *paths) decodeMulti(b []byte) reply {
	head := 4
	if ps.mutates {
		head = 8
	}
	for len(b) > 0 {
		if len(ps.specs) == maxPaths {
			return fail(memd.StatusSubdocInvalidCombo, "More than %d paths", maxPaths)
		}
		if len(b) < head {
			return fail(memd.StatusInvalid, "Spec %d is cut off", len(ps.specs))
		}
		s := pathSpec{op: memd.Opcode(b[0]), flags: pathFlags(b[1])}
		n, v := uint64(binary.BigEndian.Uint16(b[2:])), uint64(0)
		if ps.mutates {
			v = uint64(binary.BigEndian.Uint32(b[4:]))
		}
		b = b[head:]
		if n+v > uint64(len(b)) {
			return fail(memd.StatusInvalid, "Spec %d is longer than the request", len(ps.specs))
		}
		s.path, s.value, b = string(b[:n]), b[n:n+v], b[n+v:]
		s.row = pathRows[s.op]
		if s.row == nil || s.row.mutates() != ps.mutates {
			return fail(memd.StatusSubdocInvalidCombo, "%v is no command for such a request", s.op)
		}
		ps.specs = append(ps.specs, s)
	}
	if len(ps.specs) == 0 {
		return fail(memd.StatusSubdocInvalidCombo, "No paths")
	}
	return reply{}
}

// check refuses what does not go together, and parses the paths.
func (ps *paths) check(cas uint64) reply {
	if rep := ps.checkDocFlags(cas); rep.status != memd.StatusSuccess {
		return rep
	}
	body, bodies, remove, name := false, 0, false, ""
	for i := range ps.specs {
		s := &ps.specs[i]
		if rep := s.check(); rep.status != memd.StatusSuccess {
			return rep
		}
		s.parts, s.bad = parsePath(s.path)
		if s.flags&pathXattr == 0 {
			body = true
			bodies++
			remove = remove || s.op == memd.OpDelete
			continue
		}
		switch rep := ps.checkAttribute(s, &name); {
		case body:
			return fail(memd.StatusSubdocInvalidXattrOrder, "Extended attributes come first")
		case rep.status != memd.StatusSuccess:
			return rep
		}
	}
	switch {
	case remove && bodies > 1:
		return fail(memd.StatusSubdocInvalidCombo, "The document is removed and changed")
	case body && ps.flags&docCreateAsDeleted != 0:
		return fail(memd.StatusInvalid, "A deleted document has no body")
	}
	return reply{}
}

func (ps *paths) checkDocFlags(cas uint64) reply {
	allowed := docLookup
	if ps.mutates {
		allowed = docCreate
	}
	if !ps.multi {
		allowed = ps.specs[0].row.docs
	}
	f := ps.flags
	switch {
	case f&^allowed != 0:
		return fail(memd.StatusInvalid, "Document flags 0x%02x are not allowed", uint8(f))
	case f&docUpsert != 0 && f&docAdd != 0:
		return fail(memd.StatusInvalid, "Flags to upsert and to insert the document")
	case f&docAdd != 0 && cas != 0:
		return fail(memd.StatusInvalid, "CAS given for a document that must not exist")
	case f&docCreateAsDeleted != 0 && f&(docUpsert|docAdd) == 0:
		return fail(memd.StatusInvalid, "CreateAsDeleted needs the flag to upsert or to insert")
	case f&docRevive != 0 && (f&docAccessDeleted == 0 || f&docCreateAsDeleted != 0):
		return fail(memd.StatusInvalid, "Revive needs AccessDeleted and excludes CreateAsDeleted")
	}
	return reply{}
}

// check refuses a spec that is not in order, whatever the document is.
func (s *pathSpec) check() reply {
	r, f := s.row, s.flags
	switch {
	case f&(pathMacros|pathBinary) != 0 && f&pathXattr == 0, f&pathMacros != 0 && f&pathBinary != 0:
		return fail(memd.StatusSubdocXattrInvalidFlagCombo, "Path flags 0x%02x do not go together", uint8(f))
	case f&^r.flags != 0:
		return fail(memd.StatusInvalid, "Path flags 0x%02x are not allowed for %v", uint8(f), s.op)
	case len(s.path) > maxPathLen:
		return fail(memd.StatusInvalid, "Path is longer than %d bytes", maxPathLen)
	case s.path == "" && !r.root || s.path != "" && r.whole:
		return fail(memd.StatusInvalid, "Path has %d bytes", len(s.path))
	case r.value != (len(s.value) > 0):
		return fail(memd.StatusInvalid, "Value has %d bytes", len(s.value))
	case r.xattr && f&pathXattr == 0:
		return fail(memd.StatusSubdocXattrInvalidFlagCombo, "%v needs an extended attribute", s.op)
	}
	return reply{}
}

// checkAttribute refuses what is wrong with an xattr path. name is the one attribute that the request is about so far.
func (ps *paths) checkAttribute(s *pathSpec, name *string) reply {
	key := s.attribute()
	virtual := strings.HasPrefix(key, "$")
	several := ps.features.Has(memd.FeatureSubdocMultipleXattrKeys)
	switch {
	case !ps.features.Has(memd.FeatureXattr):
		return fail(memd.StatusNotSupported, "Xattr is not enabled for the connection")
	case s.flags&pathBinary != 0 && !ps.features.Has(memd.FeatureSubdocBinaryXattr):
		return fail(memd.StatusNotSupported, "SubdocBinaryXattr is not enabled for the connection")
	case key == "" || len(key) > maxXattrName || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '`' }):
		return fail(memd.StatusXattrInvalid, "%q is no name for an extended attribute", key)
	case virtual && ps.mutates:
		return fail(memd.StatusSubdocXattrCantModifyVattr, "%q is a virtual attribute", key)
	case virtual && !isVirtual(key):
		return fail(memd.StatusSubdocXattrUnknownVattr, "%q is no virtual attribute", key)
	case !virtual && *name != "" && *name != key && !several:
		return fail(memd.StatusSubdocXattrInvalidKeyCombo, "More than one extended attribute")
	}
	if !virtual {
		*name = key
	}
	if s.flags&pathMacros != 0 {
		if st := checkMacro(s.value, ps.features); st != memd.StatusSuccess {
			return fail(st, "Value is no macro that is known")
		}
	}
	return reply{}
}
