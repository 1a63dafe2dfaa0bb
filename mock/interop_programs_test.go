package mock_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// step is one request of a program.
type step struct {
	op      memd.Opcode
	key     int
	value   string
	path    string // of a sub-document command
	create  bool   // its flag to make what the path leads through
	cas     casOf
	expiry  uint32 // 0, long after the test, or, for counters, "do not make the document"
	initial uint64 // of a counter
	flags   uint32

	lock  []byte // extras of GET_LOCKED
	specs []part // of a command for several paths
	doc   byte   // flags for the document, of a sub-document command

	attr   bool  // the path is one of the attributes
	macro  bool  // its value is a macro that is to be expanded
	quiet  bool  // the quiet form
	place  place // of several nodes
	passes int   // seconds; then there is no request
}

// part is one path of a command for several.
type part struct {
	op          memd.Opcode
	path, value string
	create      bool
	attr, macro bool
}

// casOf says which CAS a step sends.
type casOf int

const (
	noCAS casOf = iota
	lastCAS
	wrongCAS
	formerCAS // the one that the last one has replaced
)

func (s step) String() string {
	if s.passes > 0 {
		return fmt.Sprintf("%d s pass", s.passes)
	}
	text := fmt.Sprintf("%v key=%d value=%q path=%q create=%v cas=%d expiry=%#x initial=%d flags=%#x lock=%x doc=%x %v",
		s.op, s.key, s.value, s.path, s.create, s.cas, s.expiry, s.initial, s.flags, s.lock, s.doc, s.specs)
	return text + fmt.Sprintf(" attr=%v macro=%v quiet=%v place=%d", s.attr, s.macro, s.quiet, s.place)
}

func (p part) String() string {
	return fmt.Sprintf("%v %q %q create=%v attr=%v macro=%v", p.op, p.path, p.value, p.create, p.attr, p.macro)
}

const never = 0xffffffff // as a counter's expiry: fail where there is no document

// takesCAS reports whether kv_engine takes a CAS with a request. It refuses one with the others as invalid, where other
// servers ignore it.
func takesCAS(op memd.Opcode) bool {
	switch op {
	case memd.OpGet, memd.OpGetK, memd.OpGetReplica, memd.OpEvictKey, memd.OpObserve, memd.OpGAT, memd.OpTouch,
		memd.OpAdd, memd.OpIncrement, memd.OpDecrement, memd.OpSubdocGet,
		memd.OpSubdocExists, memd.OpSubdocGetCount, memd.OpSubdocMultiLookup, memd.OpGetLocked:
		return false
	}
	return true
}

// makesPath reports whether a sub-document command may make what its path leads through.
func makesPath(op memd.Opcode) bool {
	switch op {
	case memd.OpSubdocDelete, memd.OpSubdocReplace, memd.OpSubdocArrayInsert:
		return false
	}
	return slices.Contains(changingOps, op)
}

func counts(op memd.Opcode) bool { return op == memd.OpIncrement || op == memd.OpDecrement }

func subdocument(op memd.Opcode) bool { return slices.Contains(subdocumentOps, op) }

// several reports whether a command is for several paths.
func several(op memd.Opcode) bool {
	return op == memd.OpSubdocMultiLookup || op == memd.OpSubdocMultiMutation
}

// reads reports whether an answer has the document.
func reads(op memd.Opcode) bool {
	return slices.Contains([]memd.Opcode{
		memd.OpGet, memd.OpGetK, memd.OpGAT, memd.OpGetLocked, memd.OpGetReplica,
	}, op)
}

var (
	documentOps = []memd.Opcode{
		memd.OpGet, memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpDelete, memd.OpIncrement, memd.OpDecrement,
		memd.OpAppend, memd.OpPrepend, memd.OpTouch, memd.OpGAT,
	}
	keyOps = []memd.Opcode{ // those with a key alone
		memd.OpGet, memd.OpGetK, memd.OpGetReplica, memd.OpDelete, memd.OpEvictKey,
	}
	readingOps  = []memd.Opcode{memd.OpGet, memd.OpGetK, memd.OpTouch, memd.OpGAT}
	lookingOps  = []memd.Opcode{memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocGetCount}
	changingOps = []memd.Opcode{ // those that change the document
		memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert, memd.OpSubdocDelete, memd.OpSubdocReplace,
		memd.OpSubdocArrayPushLast, memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayInsert, memd.OpSubdocArrayAddUnique,
		memd.OpSubdocCounter,
	}
	writingOps = []memd.Opcode{ // those that bring a part of it
		memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert, memd.OpSubdocReplace, memd.OpSubdocArrayPushLast,
		memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayInsert, memd.OpSubdocArrayAddUnique,
	}
	subdocumentOps = slices.Concat(lookingOps, changingOps)

	values = []string{"", "7", "18446744073709551615", "text", `{"a":1}`, `{"a":{"b":[1,2]},"n":5}`, "[1]", "-1", "007"}
	paths  = []string{"a", "a.b", "a.b[0]", "a.b[-1]", "a.b[7]", "n", "x.y", "[0]", "a..b", "b[", "a.n"}
	parts  = []string{"1", `"s"`, `{"c":2}`, "[3]", "-4", "nojson", "true", "0"}

	// lockTimes are extras of GET_LOCKED, for locks that outlast every program.
	lockTimes = [][]byte{nil, {0, 0, 0, 0}, {0, 0, 0, 20}, {0, 0, 0, 29}, {0, 0, 0, 31}}
	// documents are documents that many of the paths lead into.
	documents = []string{`{"a":{"b":[1,2]},"n":5}`, `{"a":{"b":[1,2]},"n":5}`, `{"a":1}`, "[1]"}
)

// randomStep is the next step of a program; documents are few, so that steps meet.
func randomStep(random *rand.Rand, ops []memd.Opcode) step {
	st := step{
		op: ops[random.IntN(len(ops))], key: random.IntN(3), value: values[random.IntN(len(values))],
		path: paths[random.IntN(len(paths))], create: random.IntN(2) == 0, cas: casOf(random.IntN(3)),
		initial: uint64(random.IntN(9)), flags: random.Uint32(),
	}
	if random.IntN(3) == 0 || !takesCAS(st.op) && random.IntN(8) > 0 {
		st.cas = noCAS
	}
	switch {
	case random.IntN(3) == 0:
		st.expiry = uint32(time.Now().Add(24 * time.Hour).Unix())
	case counts(st.op) && random.IntN(2) == 0:
		st.expiry = never
	}
	if subdocument(st.op) {
		st.value = parts[random.IntN(len(parts))]
	}
	return st
}

// documentStep and pathStep are steps of the programs without locks and with one path.
func documentStep(random *rand.Rand) step { return randomStep(random, documentOps) }

func pathStep(random *rand.Rand) step {
	st := randomStep(random, slices.Concat(documentOps, subdocumentOps))
	st.path = apart(random, st.op, st.path)
	return st
}

// lockStep is a step of a program in which documents are locked and unlocked, and everything else meets locked ones.
func lockStep(random *rand.Rand) step {
	var st step
	switch random.IntN(12) {
	case 0, 1:
		st = step{op: memd.OpGetLocked, key: random.IntN(3), lock: lockTimes[random.IntN(len(lockTimes))]}
		if random.IntN(16) == 0 {
			st.cas = lastCAS
		}
		return st
	case 2:
		return step{op: memd.OpUnlockKey, key: random.IntN(3), cas: casOf(random.IntN(4))}
	case 3:
		return step{op: memd.OpUnlockKey, key: random.IntN(3), cas: lastCAS}
	case 4, 5:
		st = severalStep(random)
	default:
		st = pathStep(random)
	}
	if takesCAS(st.op) && st.doc&docAdd == 0 {
		switch random.IntN(4) {
		case 0:
			st.cas = formerCAS
		case 1:
			st.cas = lastCAS
		}
	}
	return st
}

// apart is a path for a command so that no counter meets an array: CouchbaseMock ends when it counts one that has not
// exactly one element.
func apart(random *rand.Rand, op memd.Opcode, path string) string {
	switch op {
	case memd.OpSubdocCounter:
		return []string{"n", "n", "a.n", "b[", "a..b", "n.x"}[random.IntN(6)]
	case memd.OpSubdocArrayPushLast, memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayInsert, memd.OpSubdocArrayAddUnique:
		if path == "n" || path == "a.n" {
			return "a.b"
		}
	}
	return path
}

const docAdd = 2 // the flag of a document that is to be made

// severalStep is a command for several paths, or one that brings a document for it.
func severalStep(random *rand.Rand) step {
	if random.IntN(3) == 0 {
		st := documentStep(random)
		if random.IntN(2) == 0 {
			st.op, st.value, st.cas, st.expiry = memd.OpSet, documents[random.IntN(len(documents))], noCAS, 0
		}
		return st
	}
	st := randomStep(random, []memd.Opcode{memd.OpSubdocMultiLookup, memd.OpSubdocMultiMutation})
	st.value, st.path = "", ""
	ops, stray := append(slices.Clone(lookingOps), memd.OpGet), memd.OpSubdocDictUpsert
	if st.op == memd.OpSubdocMultiMutation {
		ops, stray = append(slices.Clone(changingOps), memd.OpSet), memd.OpSubdocGet
		st.doc = []byte{0, 0, 1, docAdd}[random.IntN(4)]
	}
	if st.doc == docAdd {
		st.cas = noCAS
	}
	for range 1 + random.IntN(4) {
		p := part{
			op: ops[random.IntN(len(ops))], path: paths[random.IntN(len(paths))],
			value: parts[random.IntN(len(parts))], create: random.IntN(2) == 0,
		}
		p.path = apart(random, p.op, p.path)
		switch {
		case random.IntN(100) == 0: // of the other kind
			p.op = stray
		case p.op == memd.OpSet:
			p.path, p.value = "", append(slices.Clone(documents), "text")[random.IntN(len(documents)+1)]
		case p.op == memd.OpGet:
			p.path = ""
		}
		st.specs = append(st.specs, p)
	}
	return st
}

// packet is the request without what the server decides: its CAS.
func (s step) packet(key string) memd.Packet {
	p := memd.Packet{Opcode: s.op, Key: []byte(key), Value: []byte(s.value)}
	number := binary.BigEndian.AppendUint32
	switch {
	case s.op == memd.OpSet || s.op == memd.OpAdd || s.op == memd.OpReplace:
		p.Extras = number(number(nil, s.flags), s.expiry)
	case counts(s.op):
		p.Extras = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 3), s.initial)
		p.Extras, p.Value = number(p.Extras, s.expiry), nil
	case s.op == memd.OpTouch || s.op == memd.OpGAT:
		p.Extras, p.Value = number(nil, s.expiry), nil
	case s.op == memd.OpGetLocked:
		p.Extras = s.lock
	case subdocument(s.op):
		one := part{op: s.op, path: s.path, value: s.value, create: s.create, attr: s.attr, macro: s.macro}
		p.Extras = append(binary.BigEndian.AppendUint16(nil, uint16(len(s.path))), one.flags())
		p.Extras = append(p.Extras, s.extras()...)
		p.Value = append([]byte(s.path), one.brings()...)
	case several(s.op):
		p.Extras, p.Value = s.extras(), nil
		for _, one := range s.specs {
			p.Value = one.appendTo(p.Value, s.op == memd.OpSubdocMultiMutation)
		}
	case s.op == memd.OpObserve:
		p.Key, p.Value = nil, append(number(nil, uint32(len(key))), key...)
	case slices.Contains(keyOps, s.op):
		p.Value = nil
	}
	if s.quiet {
		p.Opcode = quietForms[s.op]
	}
	return p
}

// extras are those of a command for several paths, and those that one for a single path has behind its own.
func (s step) extras() (b []byte) {
	if s.op == memd.OpSubdocMultiMutation && s.expiry != 0 {
		b = binary.BigEndian.AppendUint32(b, s.expiry)
	}
	if s.doc != 0 {
		b = append(b, s.doc)
	}
	return b
}

func (p part) flags() (flags byte) {
	if p.create && makesPath(p.op) {
		flags = 1
	}
	if p.attr {
		flags |= 4
	}
	if p.macro {
		flags |= 0x10
	}
	return flags
}

// brings is the value that a path's command sends.
func (p part) brings() string {
	if slices.Contains(writingOps, p.op) || p.op == memd.OpSubdocCounter || p.op == memd.OpSet {
		return p.value
	}
	return ""
}

func (p part) appendTo(b []byte, mutation bool) []byte {
	b = binary.BigEndian.AppendUint16(append(b, byte(p.op), p.flags()), uint16(len(p.path)))
	value := p.brings()
	if mutation {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	} else {
		value = "" // there is no place for one
	}
	return append(append(b, p.path...), value...)
}
