package subdoc

import (
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// PathFlags are flags of one path.
type PathFlags uint8

// The flags of a path.
const (
	Mkdir  PathFlags = 0x01
	Xattr  PathFlags = 0x04
	Macros PathFlags = 0x10
	Binary PathFlags = 0x20
)

// DocFlags are flags of the document that a sub-document request works on.
type DocFlags uint8

// The flags of a document, and those that kinds of commands allow.
const (
	Upsert          DocFlags = 0x01
	Add             DocFlags = 0x02
	AccessDeleted   DocFlags = 0x04
	CreateAsDeleted DocFlags = 0x08
	Revive          DocFlags = 0x10
	ReplicaRead     DocFlags = 0x20

	docLookup = AccessDeleted | Revive | ReplicaRead
	docKeep   = AccessDeleted | Revive
	docInsert = docKeep | Add
	docCreate = docInsert | Upsert | CreateAsDeleted
)

// command is what is true of a sub-document command.
type command struct {
	read   reader    // what executes it, when it reads a part of the document
	write  writer    // or changes one
	whole  bool      // it is for the document itself, and stands beside others only
	xattr  bool      // it is for an extended attribute only
	flags  PathFlags // that its path may have
	docs   DocFlags  // that its document may have
	value  bool      // it has one
	root   bool      // its path may be empty
	result bool      // its success has one
}

func (r *command) mutates() bool { return r.read == nil }

// commands is the table of sub-document commands (spec 05, section 1).
var commands = map[memd.Opcode]*command{
	memd.OpSubdocGet:      {read: readPath, flags: Xattr | Binary, docs: docLookup, result: true},
	memd.OpSubdocExists:   {read: existsPath, flags: Xattr, docs: docLookup},
	memd.OpSubdocGetCount: {read: countPath, flags: Xattr, docs: docLookup, root: true, result: true},

	memd.OpSubdocDictAdd:    {write: dictAdd, flags: Mkdir | Xattr | Macros | Binary, docs: docCreate, value: true},
	memd.OpSubdocDictUpsert: {write: dictUpsert, flags: Mkdir | Xattr | Macros | Binary, docs: docCreate, value: true},
	memd.OpSubdocDelete:     {write: deletePath, flags: Xattr, docs: docKeep},
	memd.OpSubdocReplace:    {write: replacePath, flags: Xattr | Macros | Binary, docs: docInsert, value: true},
	memd.OpSubdocArrayPushLast: {
		write: pushLast, flags: Mkdir | Xattr | Macros, docs: docCreate, value: true, root: true,
	},
	memd.OpSubdocArrayPushFirst: {
		write: pushFirst, flags: Mkdir | Xattr | Macros, docs: docCreate, value: true, root: true,
	},
	memd.OpSubdocArrayInsert: {
		write: insertElement, flags: Xattr | Macros, docs: docInsert | CreateAsDeleted, value: true,
	},
	memd.OpSubdocArrayAddUnique: {
		write: addUnique, flags: Mkdir | Xattr, docs: docCreate, value: true, root: true,
	},
	memd.OpSubdocCounter: {write: countBy, flags: Mkdir | Xattr, docs: docCreate, value: true, result: true},

	memd.OpSubdocReplaceBodyWithXattr: {flags: Xattr | Binary, docs: docKeep, xattr: true},

	memd.OpGet:    {read: readPath, whole: true, docs: docLookup, root: true, result: true},
	memd.OpSet:    {whole: true, docs: Upsert | Add, root: true, value: true},
	memd.OpDelete: {whole: true, docs: docKeep, root: true},
}

// Spec is one command of a request.
type Spec struct {
	Op    memd.Opcode
	Flags PathFlags
	Value []byte
	Bad   memd.Status // what is wrong with the path; following it fails with that

	row   *command
	path  string
	parts []part
}

// Attribute is the name of the extended attribute that an xattr path begins with.
func (s *Spec) Attribute() string {
	if i := strings.IndexAny(s.path, ".["); i >= 0 {
		return s.path[:i]
	}
	return s.path
}

// Whole reports whether the command is for the document itself.
func (s *Spec) Whole() bool { return s.row.whole }

// HasResult reports whether a success of the command has a result.
func (s *Spec) HasResult() bool { return s.row.result }

// Read executes a command that reads a part of doc.
func (s *Spec) Read(doc []byte) (result []byte, st memd.Status) {
	if s.Bad != memd.StatusSuccess {
		return nil, s.Bad
	}
	return s.row.read(doc, s.parts)
}

// Find is the part of doc that the path leads to, whatever the command is.
func (s *Spec) Find(doc []byte) ([]byte, memd.Status) {
	if s.Bad != memd.StatusSuccess {
		return nil, s.Bad
	}
	return readPath(doc, s.parts)
}

// Write executes a command that changes a part of doc, with a value in place of the request's; mkdir lets it create the
// objects that lead to the path, as the path's own flag does.
func (s *Spec) Write(doc, value []byte, mkdir bool) (next, result []byte, st memd.Status) {
	if s.Bad != memd.StatusSuccess {
		return nil, nil, s.Bad
	}
	return s.row.write(doc, &change{parts: s.parts, value: value, mkdir: mkdir || s.Flags&Mkdir != 0})
}
