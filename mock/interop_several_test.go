package mock_test

import (
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// What CouchbaseMock does otherwise with several paths. The rows of single paths explain what each of them gives.
var severalPathsDiffer = []difference{
	{
		topic: "what stands in one request",
		ops:   []memd.Opcode{memd.OpSubdocMultiMutation}, when: unfitFlags, ours: "0x04", theirs: ".*", differ: true,
		why: "kv_engine refuses flags that one of the paths' commands does not take (subdocument_validators.cc)",
	},
	{
		topic: "what stands in one request",
		ops:   []memd.Opcode{memd.OpSubdocMultiLookup, memd.OpSubdocMultiMutation}, when: mixed,
		ours: "0xcb", theirs: ".*", differ: true,
		why: "and commands of the other kind, before it looks for the document",
	},
	{
		topic: "a whole document beside paths",
		ops:   []memd.Opcode{memd.OpSet},
		when:  func(_ []step, st step) bool { return st.specs != nil && st.value == "text" },
		ours:  "0x00", theirs: "0xc5", differ: true,
		why: "a whole document is any text",
	},
	{
		topic: "a whole document beside paths",
		ops:   []memd.Opcode{memd.OpSet}, when: besidePaths, ours: "0x00", theirs: "0xc6", differ: true,
		why: "whatever it replaces",
	},
	{
		topic: "a whole document beside paths",
		ops:   []memd.Opcode{memd.OpSubdocMultiLookup},
		when: func(_ []step, st step) bool {
			return !slices.ContainsFunc(st.specs, func(p part) bool { return p.op != memd.OpGet })
		},
		ours: `0x00.*|0xcc 0xc0(, 0xc0)* \w+ CAS`, theirs: "0xc6",
		why: "kv_engine reads a whole document that is no JSON; an empty one is missing",
	},
	{
		topic: "a whole document beside paths",
		ops:   []memd.Opcode{memd.OpGet}, when: besidePaths, ours: `0x00 "007"`, theirs: `0x00 "\\"007\\""`,
		why: "as it is",
	},
	{
		topic: "documents that go on behind their first value",
		ops:   []memd.Opcode{memd.OpGet},
		when:  func(before []step, st step) bool { return besidePaths(before, st) && joined(before, st) },
		ours:  "0x00 .*", theirs: "0x00 .*",
		why: "a whole document is read with what stands behind its first value",
	},
	{
		topic: "the place of ARRAY_ADD_UNIQUE",
		ops:   []memd.Opcode{memd.OpGet, memd.OpGAT, memd.OpGetLocked, memd.OpSubdocGet}, when: addedUnique,
		ours: "0x00 .*", theirs: "0x00 .*", moved: true, differ: true,
		why: "is the end of the array (operations.cc, do_list_append)",
	},
	{
		topic: "the place of ARRAY_ADD_UNIQUE",
		ops:   []memd.Opcode{memd.OpSubdocGet},
		when: func(before []step, st step) bool {
			return strings.HasSuffix(st.path, "]") && addedUnique(before, st)
		},
		ours: "0x00 .*", theirs: "0x00 .*", differ: true, stray: true,
		why: "so that other elements have the same numbers",
	},
	{
		topic: "a counter that is an array",
		ops:   []memd.Opcode{memd.OpSubdocCounter}, ours: "0xc1", theirs: "0x00.*", differ: true, stray: true,
		why: "is a path that does not fit; CouchbaseMock counts an array of one number",
	},
	{
		topic: "documents that are not JSON",
		ops:   []memd.Opcode{memd.OpSubdocMultiLookup}, ours: "0xcc .*0xc6.*", theirs: "0xc6",
		why: "kv_engine answers each path of a lookup (subdocument.cc)",
	},
	{
		topic: "the order of judging",
		ops:   []memd.Opcode{memd.OpSubdocMultiMutation}, when: namesCAS, ours: "0x02", theirs: "0xcc.*", differ: true,
		why: "kv_engine compares the CAS before it looks at paths, values and the document (subdocument.cc)",
	},
	{
		topic: "a CAS for a document that is to be made",
		ops:   []memd.Opcode{memd.OpSubdocMultiMutation},
		when:  func(_ []step, st step) bool { return st.cas != noCAS && st.doc != 0 },
		ours:  "0x00.*|0xcc.*", theirs: "0x01 with a CAS|0xcc.*", differ: true,
		why: "a mutation that may make the document looks at the CAS of one that is there only (subdocument.cc)",
	},
	{
		topic: "refusals",
		ops:   []memd.Opcode{memd.OpSubdocMultiMutation}, when: namesCAS, ours: "0x02", theirs: "0x02 with a CAS",
		why: "a refusal of kv_engine has no CAS",
	},
}

// besidePaths reports whether a step is a path of a command for several.
func besidePaths(_ []step, st step) bool { return st.specs != nil }

// addedUnique reports whether something was added to a set.
func addedUnique(before []step, _ step) bool {
	return slices.ContainsFunc(before, func(b step) bool {
		return b.op == memd.OpSubdocArrayAddUnique ||
			slices.ContainsFunc(b.specs, func(p part) bool { return p.op == memd.OpSubdocArrayAddUnique })
	})
}

// unfitFlags reports whether a flag for the document does not fit a path's command.
func unfitFlags(_ []step, st step) bool {
	return slices.ContainsFunc(st.specs, func(p part) bool {
		switch p.op {
		case memd.OpSubdocDelete:
			return st.doc != 0
		case memd.OpSubdocReplace, memd.OpSubdocArrayInsert:
			return st.doc == 1
		}
		return false
	})
}

// mixed reports whether a lookup has a mutation among its paths, or a mutation a lookup.
func mixed(_ []step, st step) bool {
	return slices.ContainsFunc(st.specs, func(p part) bool {
		return (slices.Contains(lookingOps, p.op) || p.op == memd.OpGet) != (st.op == memd.OpSubdocMultiLookup)
	})
}
