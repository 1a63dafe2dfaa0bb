package mock_test

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

var (
	// attributes are paths of attributes; those that begin with _ belong to the system.
	attributes = []string{
		"u", "u", "u", "u.a", "u.a", "u.a.b", "u.b[0]", "u.b[-1]", "_s", "_s.a", "_s.b[0]", "v", "u..a",
		"$document.deleted", "$nope.a",
	}
	// numbers are those that counters may meet: CouchbaseMock ends when it counts an array.
	numbers = []string{"u.n", "_s.n", "w.n"}
	macros  = []string{`"${Mutation.CAS}"`, `"${Mutation.seqno}"`, `"${Mutation.value_crc32c}"`, `"${nope}"`}
)

// attributeStep is a step of a program with attributes: a command for one path or for several, or one that brings a
// document, changes or removes it.
func attributeStep(random *rand.Rand) step {
	switch random.IntN(3) {
	case 0:
		st := severalStep(random)
		for i := range st.specs {
			p := &st.specs[i]
			if i <= random.IntN(len(st.specs)) && p.op != memd.OpGet && p.op != memd.OpSet {
				p.attr, p.path = true, attributePath(random, p.op)
				p.macro, p.value = macroOf(random, p.op, p.value)
			}
		}
		if random.IntN(3) == 0 && st.specs != nil {
			st.doc |= []byte{4, 8, 12, 16, 20}[random.IntN(5)]
		}
		return st
	case 1:
		st := randomStep(random, subdocumentOps)
		st.path = apart(random, st.op, st.path)
		if random.IntN(3) > 0 {
			st.attr, st.path = true, attributePath(random, st.op)
			st.macro, st.value = macroOf(random, st.op, st.value)
		} else {
			st.doc = []byte{0, 0, 1, 2}[random.IntN(4)] // with an attribute's path or a CAS CouchbaseMock ends
		}
		if st.doc != 0 {
			st.cas = noCAS
		}
		if random.IntN(4) == 0 {
			st.doc |= 4
		}
		return st
	}
	st := documentStep(random)
	if random.IntN(2) == 0 {
		st.op, st.value, st.cas, st.expiry = memd.OpSet, documents[random.IntN(len(documents))], noCAS, 0
	}
	return st
}

// attributePath is a path in the attributes for a command.
func attributePath(random *rand.Rand, op memd.Opcode) string {
	if op == memd.OpSubdocCounter {
		return numbers[random.IntN(len(numbers))]
	}
	return attributes[random.IntN(len(attributes))]
}

// macroOf is a value for a path in the attributes, now and then one that is to be expanded.
func macroOf(random *rand.Rand, op memd.Opcode, value string) (bool, string) {
	takes := slices.Contains(writingOps, op) && op != memd.OpSubdocArrayAddUnique
	if !takes || random.IntN(6) > 0 {
		return false, value
	}
	return true, macros[random.IntN(len(macros))]
}

// What CouchbaseMock does otherwise with attributes.
var attributesDiffer = []difference{
	{
		topic: "what stands in one request",
		ops:   []memd.Opcode{memd.OpSubdocMultiLookup, memd.OpSubdocMultiMutation}, ours: "0xd4", theirs: ".*",
		differ: true,
		why:    "kv_engine wants the paths of attributes before those of the body (subdocument_validators.cc)",
	},
	{
		topic: "what stands in one request",
		ops:   append([]memd.Opcode{memd.OpSubdocMultiMutation, memd.OpSubdocMultiLookup}, subdocumentOps...),
		when:  flagged, ours: "0x04", theirs: ".*", differ: true,
		why: "and refuses flags that do not fit each other or the command",
	},
	{
		topic: "what stands in one request",
		ops:   []memd.Opcode{memd.OpSubdocReplace, memd.OpSubdocArrayInsert}, when: flagged, ours: "0x.*",
		theirs: "0x04", differ: true, why: "and REPLACE and ARRAY_INSERT may have to make the document",
	},
	{
		topic: "virtual attributes",
		ops:   lookingOps, when: virtual, ours: "0x00.*|0xc.|0xd1.*", theirs: "0xc.",
		why: "$document is a part of each document, other names are unknown (0xd1)",
	},
	{
		topic: "virtual attributes",
		ops:   append([]memd.Opcode{memd.OpSubdocMultiMutation}, changingOps...), when: changesVirtual,
		ours: "0xd2", theirs: ".*", differ: true,
		why: "which cannot be changed (subdocument_validators.cc)",
	},
	{
		topic: "macros",
		ops:   append([]memd.Opcode{memd.OpSubdocMultiMutation}, changingOps...), when: expands,
		ours: "0xd0", theirs: ".*", differ: true,
		why: "kv_engine refuses what is no macro (0xd0)",
	},
	{
		topic: "macros",
		ops:   lookingOps, ours: `0x00 .*0x.*`, theirs: `0x00 .*Mutation.*`, differ: true,
		why: "and expands macros",
	},
	{
		topic: "a whole document beside paths",
		ops:   []memd.Opcode{memd.OpSubdocMultiLookup}, when: readsWhole, ours: "0x00 .*|0xcc .*", theirs: "0xc6",
		why: "a whole document is read, JSON or not, beside attributes too",
	},
	{
		topic: "removed documents",
		ops:   append([]memd.Opcode{memd.OpSubdocMultiMutation, memd.OpSubdocMultiLookup}, subdocumentOps...),
		when:  reachesRemoved, ours: "0x02|0xc.*|0xd[1367].*", theirs: "0x.*", differ: true,
		why: "kv_engine has attributes of removed documents, for those that ask for them",
	},
	{
		topic: "attributes of a document that is written anew",
		ops:   subdocumentOps, when: rewritten, ours: "0x00.*|0xc[0-9]", theirs: "0x00.*|0xc[0-9]", differ: true,
		why: "kv_engine keeps them when the body is replaced",
	},
}

// flagged reports whether a step has a flag for the document.
func flagged(_ []step, st step) bool { return st.doc != 0 }

// virtual reports whether a step is about an attribute that is not stored.
func virtual(_ []step, st step) bool { return st.attr && strings.HasPrefix(st.path, "$") }

// changesVirtual reports the same of one of a command's paths.
func changesVirtual(before []step, st step) bool {
	return virtual(before, st) || slices.ContainsFunc(st.specs, func(p part) bool {
		return p.attr && strings.HasPrefix(p.path, "$")
	})
}

// readsWhole reports whether a path of a command is the document.
func readsWhole(_ []step, st step) bool {
	return slices.ContainsFunc(st.specs, func(p part) bool { return p.op == memd.OpGet })
}

// expands reports whether a step brings a macro.
func expands(_ []step, st step) bool {
	return st.macro || slices.ContainsFunc(st.specs, func(p part) bool { return p.macro })
}

// reachesRemoved reports whether a step asks for a document that was removed, or makes or revives a removed one.
func reachesRemoved(before []step, st step) bool {
	removes := func(b step) bool { return b.op == memd.OpDelete }
	return st.doc&0x18 != 0 || st.doc&4 != 0 && slices.ContainsFunc(before, removes)
}

// rewritten reports whether a document was replaced after it had got attributes.
func rewritten(before []step, st step) bool {
	i := slices.IndexFunc(before, func(b step) bool {
		return b.attr || slices.ContainsFunc(b.specs, func(p part) bool { return p.attr })
	})
	return st.attr && i >= 0 && slices.ContainsFunc(before[i:], func(b step) bool {
		return slices.Contains([]memd.Opcode{memd.OpSet, memd.OpReplace, memd.OpIncrement, memd.OpDecrement}, b.op)
	})
}
