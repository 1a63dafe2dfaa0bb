package kv

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Limits of sub-document requests (kv_engine, SubDocument.md).
const (
	MaxPaths   = call.MaxPaths // of one request, unless the dispatcher allows more
	MaxPathLen = 1024          // in bytes
)

// Virtual extended attributes that a lookup can read.
const (
	XattrDocument = "$document"         // CAS, expiry, flags and so on as an object; "$document.exptime" is one of them
	XattrExpiry   = "$document.exptime" // in Unix seconds, 0 for never
	XattrFlags    = "$document.flags"
	XattrNames    = "$XTOC"    // the names of the document's extended attributes
	XattrVBucket  = "$vbucket" // the vbucket's clock
)

// Macros: a value that is one of them, in a spec with ExpandMacros, stands for what the write itself brings about.
const (
	MacroCAS    = `"${Mutation.CAS}"` // as ParseMacroCAS reads it
	MacroSeqno  = `"${Mutation.seqno}"`
	MacroCRC32C = `"${Mutation.value_crc32c}"`
)

// macroDocument starts the macros that stand for the document as it was. They need a feature of their own.
const macroDocument = `"${$document`

// ParseMacroCAS reads the text that MacroCAS has become, with or without its quotes: the bytes of the CAS, least
// significant first. ok is false for any other text.
func ParseMacroCAS(text string) (cas uint64, ok bool) {
	text = strings.Trim(text, `"`)
	digits, found := strings.CutPrefix(text, "0x")
	if !found || len(digits) != 16 {
		return 0, false
	}
	var b [8]byte
	if _, err := hex.Decode(b[:], []byte(digits)); err != nil {
		return 0, false
	}
	for _, c := range b {
		cas = cas<<8 | uint64(c)
	}
	return bits.ReverseBytes64(cas), true
}

// Flags of a path and of the document on the wire.
const (
	pathMkdir  = 0x01
	pathXattr  = 0x04
	pathMacros = 0x10
	pathBinary = 0x20

	docMake            = 0x01
	docAdd             = 0x02
	docAccessDeleted   = 0x04
	docCreateAsDeleted = 0x08
	docRevive          = 0x10
	docReplicaRead     = 0x20
)

// pathOp is what is true of a sub-document command.
type pathOp struct {
	mutates bool
	flags   uint8 // that a path of it may have
	docs    uint8 // flags that its document may have, when it is a request of its own
	value   bool  // it has one
	noPath  bool  // the path may be empty: the document's root
	whole   bool  // the path must be empty: the document itself; only beside others
	result  bool  // a success has a value
}

const (
	docRead = docAccessDeleted | docRevive | docReplicaRead
	docKeep = docAccessDeleted | docRevive
	docFill = docKeep | docAdd
	docNew  = docFill | docMake | docCreateAsDeleted
)

// pathOps is the table of sub-document commands. Source: kv_engine's SubDocument.md and subdocument_traits.h.
var pathOps = map[memd.Opcode]pathOp{
	memd.OpGet:            {whole: true, noPath: true, result: true},
	memd.OpSubdocGet:      {flags: pathXattr | pathBinary, docs: docRead, result: true},
	memd.OpSubdocExists:   {flags: pathXattr, docs: docRead},
	memd.OpSubdocGetCount: {flags: pathXattr, docs: docRead, noPath: true, result: true},

	memd.OpSet:    {mutates: true, value: true, whole: true, noPath: true},
	memd.OpDelete: {mutates: true, whole: true, noPath: true},
	memd.OpSubdocDictAdd: {
		mutates: true, flags: pathMkdir | pathXattr | pathMacros | pathBinary, docs: docNew, value: true,
	},
	memd.OpSubdocDictUpsert: {
		mutates: true, flags: pathMkdir | pathXattr | pathMacros | pathBinary, docs: docNew, value: true,
	},
	memd.OpSubdocDelete:  {mutates: true, flags: pathXattr, docs: docKeep},
	memd.OpSubdocReplace: {mutates: true, flags: pathXattr | pathMacros | pathBinary, docs: docFill, value: true},
	memd.OpSubdocArrayPushLast: {
		mutates: true, flags: pathMkdir | pathXattr | pathMacros, docs: docNew, value: true, noPath: true,
	},
	memd.OpSubdocArrayPushFirst: {
		mutates: true, flags: pathMkdir | pathXattr | pathMacros, docs: docNew, value: true, noPath: true,
	},
	memd.OpSubdocArrayInsert: {
		mutates: true, flags: pathXattr | pathMacros, docs: docFill | docCreateAsDeleted, value: true,
	},
	memd.OpSubdocArrayAddUnique: {mutates: true, flags: pathMkdir | pathXattr, docs: docNew, value: true, noPath: true},
	memd.OpSubdocCounter:        {mutates: true, flags: pathMkdir | pathXattr, docs: docNew, value: true, result: true},

	memd.OpSubdocReplaceBodyWithXattr: {mutates: true, flags: pathXattr | pathBinary, docs: docKeep},
}

var flagNames = []struct {
	bit  uint8
	name string
}{{pathMkdir, "create parents"}, {pathXattr, "xattr"}, {pathMacros, "expand macros"}, {pathBinary, "binary"}}

// checkPath says what is wrong with one spec, the i-th of the caller's.
func checkPath(i int, op memd.Opcode, path string, flags uint8, value []byte, mutates bool) error {
	po, known := pathOps[op]
	switch {
	case !known || po.mutates != mutates:
		return badPath(i, op.String()+" is not one of its commands")
	case path == "" && !po.noPath:
		return badPath(i, "is empty, which "+op.String()+" does not take")
	case path != "" && po.whole:
		return badPath(i, "is not empty, but the command is for the whole document")
	case len(path) > MaxPathLen:
		return outOfRange(fmt.Sprintf("path %d length", i), int64(len(path)), MaxPathLen)
	case po.value && len(value) == 0:
		return badPath(i, "has no value")
	case !po.value && len(value) != 0:
		return badPath(i, "has a value, which "+op.String()+" does not take")
	case flags&pathMacros != 0 && flags&pathXattr == 0:
		return badPath(i, "expands macros without being an extended attribute")
	case flags&pathBinary != 0 && (flags&pathXattr == 0 || flags&pathMacros != 0):
		return badPath(i, "is binary, which only an extended attribute without macros can be")
	case op == memd.OpSubdocReplaceBodyWithXattr && flags&pathXattr == 0:
		return badPath(i, "replaces the document by something that is not an extended attribute")
	}
	for _, f := range flagNames {
		if flags&^po.flags&f.bit != 0 {
			return badPath(i, op.String()+" does not take the flag: "+f.name)
		}
	}
	return nil
}

// badPath refuses the i-th of the caller's specs.
func badPath(i int, reason string) error { return badArgument(fmt.Sprintf("path %d", i), reason) }

// pathNeeds are the features without which a server would not understand a spec.
func pathNeeds(op memd.Opcode, flags uint8, value []byte) (f memd.Features) {
	if flags&pathXattr != 0 {
		f = f.With(memd.FeatureXattr)
	}
	if flags&pathBinary != 0 {
		f = f.With(memd.FeatureSubdocBinaryXattr)
	}
	if flags&pathMacros != 0 && strings.HasPrefix(string(value[:min(len(value), len(macroDocument))]), macroDocument) {
		f = f.With(memd.FeatureSubdocDocumentMacro)
	}
	if op == memd.OpSubdocReplaceBodyWithXattr {
		f = f.With(memd.FeatureSubdocReplaceBodyWithXattr)
	}
	return f
}

func checkPathCount(r *call.Request, n int) error {
	most := r.MaxPaths()
	if n == 0 {
		return badArgument("paths", fmt.Sprintf("are missing, 1 to %d allowed", most))
	}
	if n > most {
		return outOfRange("number of paths", int64(n), int64(most))
	}
	return nil
}

// wireOrder gives, for each place in the request, the caller's index of the spec that goes there: extended attributes
// first, as the server wants it, and otherwise as they are given. Nil means that all are as they are given.
func wireOrder[S interface{ attribute() bool }](specs []S) (order []uint8) {
	behind := false // a path of the body is in front of an attribute
	for i := 1; i < len(specs) && !behind; i++ {
		behind = specs[i].attribute() && !specs[i-1].attribute()
	}
	if !behind {
		return nil
	}
	order = make([]uint8, 0, len(specs))
	for _, first := range [...]bool{true, false} {
		for i, s := range specs {
			if s.attribute() == first {
				order = append(order, uint8(i))
			}
		}
	}
	return order
}

// at is the caller's index of the spec at a place of the request.
func at(order []uint8, place int) int {
	if order == nil {
		return place
	}
	return int(order[place])
}
