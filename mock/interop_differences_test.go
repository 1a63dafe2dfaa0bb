package mock_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// What memcached does otherwise. The mock does as kv_engine in all of it.
var memcachedDiffers = []difference{
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   readingOps, when: namesCAS, ours: "0x04", theirs: "0x01( key)?|silent",
		why: "kv_engine refuses it as invalid (mcbp_validators.cc, ExpectedCas::NotSet), memcached reads and touches",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   readingOps, when: namesCAS, ours: "0x04", theirs: "0x00.*", differ: true,
		why: "and its client knows the CAS from then on",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   []memd.Opcode{memd.OpAdd, memd.OpIncrement, memd.OpDecrement}, when: namesCAS, ours: "0x04",
		theirs: "0x0[1256]",
		why:    "memcached compares it with a counter's, and takes the ADD for a SET",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   []memd.Opcode{memd.OpAdd, memd.OpIncrement, memd.OpDecrement}, when: namesCAS, ours: "0x04",
		theirs: "0x00.*|silent", differ: true,
		why: "and changes the document if it fits",
	},
	{
		topic: "TOUCH, GAT",
		ops:   []memd.Opcode{memd.OpTouch}, ours: "0x00 (new|same) CAS", theirs: "0x00 4 bytes (new|same) CAS",
		why: "memcached tells the document's flags, kv_engine has no extras in this answer (gat_context.cc)",
	},
	{
		topic: "TOUCH, GAT",
		ops:   []memd.Opcode{memd.OpTouch, memd.OpGAT}, ours: "0x00.* new CAS", theirs: "0x00.* same CAS",
		same: true, why: "a new expiry is a change of the document in kv_engine (VBucket::processGetAndUpdateTtl)",
	},
	{
		topic: "the width of a counter",
		ops:   []memd.Opcode{memd.OpGet, memd.OpGetK, memd.OpGAT}, ours: `0x00( key)? flags=\w* ".*\d.*" \w+ CAS`,
		theirs: `0x00( key)? flags=\w* ".*\d +.*" \w+ CAS`, differ: true,
		why: "memcached keeps a counter's width, with blanks",
	},
	{
		topic: "the width of a counter", when: widened,
		ops: []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, ours: "0x00.*", theirs: "0x00.*", differ: true,
		why: "memcached counts what stands before its blanks, where APPEND has put more behind them",
	},
	{
		topic: "the width of a counter", when: widened,
		ops: []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, ours: "0x06", theirs: "0x00.*|silent", differ: true,
		why: "and takes what is no number without blanks",
	},
	{
		topic: "counters", when: brought("18446744073709551615"),
		ops: []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, ours: "0x00.*|silent", theirs: "0x06", differ: true,
		stray: true, // memcached looks for a sign behind such a number in memory that is not the document's
		why:   "a number of 64 bits is one, whatever stands behind the document in memory (memcached's safe_strtoull)",
	},
}

// widened reports whether a document was counted and something was added to it afterwards.
func widened(before []step, st step) bool {
	i := slices.IndexFunc(before, func(b step) bool { return b.key == st.key && counts(b.op) })
	return i >= 0 && slices.ContainsFunc(before[i:], func(b step) bool {
		return b.key == st.key && (b.op == memd.OpAppend || b.op == memd.OpPrepend)
	})
}

// brought gives whether a step before has written a value to the document, or beside what it had.
func brought(value string) func(before []step, st step) bool {
	return func(before []step, st step) bool {
		return slices.ContainsFunc(before, func(b step) bool {
			return b.key == st.key && b.value == value && slices.Contains([]memd.Opcode{
				memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpAppend, memd.OpPrepend,
			}, b.op)
		})
	}
}

// What CouchbaseMock does otherwise. The mock does as kv_engine and its library subjson in all of it.
var couchbaseMockDiffers = []difference{
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   readingOps, when: namesCAS, ours: "0x04", theirs: "0x0[129]",
		why: "kv_engine refuses it as invalid (mcbp_validators.cc, ExpectedCas::NotSet), CouchbaseMock reads, touches",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   readingOps, when: namesCAS, ours: "0x04", theirs: "0x00.*", differ: true,
		why: "and its client knows the CAS from then on",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   []memd.Opcode{memd.OpAdd}, when: namesCAS, ours: "0x04", theirs: "0x0[29] with a CAS",
		why: "CouchbaseMock takes it for that of a document that is there",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, when: namesCAS, ours: "0x04",
		theirs: "0x00.*|0x0[16]|0x86", differ: true,
		why: "and counts, whatever the CAS is; a lock's ends the lock",
	},
	{
		topic: "a CAS with a lookup",
		ops:   append([]memd.Opcode{memd.OpSubdocMultiLookup}, lookingOps...), when: namesCAS,
		ours: "0x02", theirs: "0x00.*|0xc.*",
		why: "kv_engine compares it (get_document_for_searching), CouchbaseMock ignores it",
	},
	{
		topic: "refusals",
		ops:   []memd.Opcode{memd.OpSet, memd.OpReplace, memd.OpDelete},
		when:  namesCAS, ours: "0x02", theirs: "0x02 with a CAS",
		why: "a refusal of kv_engine has no CAS",
	},
	{
		topic: "refusals",
		ops:   []memd.Opcode{memd.OpSet, memd.OpReplace},
		when:  namesCAS, ours: "0x01", theirs: "0x01 with a CAS",
		why: "the same where there is no document",
	},
	{
		topic: "TOUCH, GAT",
		ops:   []memd.Opcode{memd.OpTouch}, ours: "0x00 (new|same) CAS", theirs: "0x00 no CAS",
		why: "kv_engine tells the CAS (gat_context.cc)",
	},
	{
		topic: "TOUCH, GAT",
		ops:   []memd.Opcode{memd.OpGAT}, ours: "0x00.* new CAS", theirs: "0x00.* same CAS",
		same: true, why: "a new expiry is a change of the document in kv_engine (VBucket::processGetAndUpdateTtl)",
	},
	{
		topic: "counters",
		ops:   []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, ours: "0x00.*", theirs: "0x06", differ: true,
		when: brought("18446744073709551615"), why: "counters of kv_engine have no sign, and 64 bits",
	},
	{
		topic: "counters",
		ops:   []memd.Opcode{memd.OpDecrement},
		ours:  `0x00 "(\\x00){8}" \w+ CAS`, theirs: `0x00 "\\xff.*`, differ: true,
		why: "they stop at 0 downwards",
	},
	{
		topic: "counters",
		ops:   []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, ours: "0x06", theirs: "0x00.*", differ: true,
		when: brought("-1"), why: "a value with a sign is no counter to kv_engine (DELTA_BADVAL)",
	},
	{
		topic: "the order of judging",
		ops:   changingOps, when: namesCAS, ours: "0x02", theirs: "0xc[126]", differ: true,
		why: "kv_engine compares the CAS before it looks at the path and the document (subdocument.cc)",
	},
	{
		topic: "the order of judging",
		ops:   changingOps,
		when:  namesCAS, ours: "0x02", theirs: "0xc0", differ: true,
		why: "and before it looks whether the path is there",
	},
	{
		topic: "the order of judging",
		ops:   writingOps, when: namesCAS, ours: "0x02", theirs: "0xc5", differ: true,
		why: "and before it looks at the value",
	},
	{
		topic: "the order of judging",
		ops:   []memd.Opcode{memd.OpSubdocCounter}, when: namesCAS, ours: "0x02", theirs: "0xc8", differ: true,
		why: "and before it looks at a counter's delta",
	},
	{
		topic: "the order of judging",
		ops:   []memd.Opcode{memd.OpSubdocDictAdd, memd.OpSubdocArrayAddUnique}, when: namesCAS, ours: "0x02",
		theirs: "0xc9", differ: true,
		why: "and before it looks whether there is such a member or element",
	},
	{
		topic: "an index as the name of a member",
		ops:   []memd.Opcode{memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert},
		when:  func(_ []step, st step) bool { return strings.HasSuffix(st.path, "]") },
		ours:  "0xc2", theirs: "0xc[019]", differ: true,
		why: "subjson refuses an index as the name of a member, whatever is there (operations.cc, do_store_dict)",
	},
	{
		topic: "an index of what is no array",
		ops:   subdocumentOps,
		when:  func(_ []step, st step) bool { return strings.HasSuffix(st.path, "]") },
		ours:  "0xc1", theirs: "0xc2", differ: true,
		why: "a path that begins with an index does not fit a document that is no array; it is a path all the same",
	},
	{
		topic: "an index behind the end of an array",
		ops: []memd.Opcode{
			memd.OpSubdocArrayPushLast, memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayAddUnique,
		},
		when: func(_ []step, st step) bool { return strings.HasSuffix(st.path, "]") },
		ours: "0xc0", theirs: "0xc1", differ: true,
		why: "an index behind the end of an array is a path that is not there",
	},
	{
		topic: "ARRAY_INSERT without an index",
		ops:   []memd.Opcode{memd.OpSubdocArrayInsert},
		when: func(_ []step, st step) bool {
			return !strings.HasSuffix(st.path, "]") || strings.HasSuffix(st.path, "[-1]")
		},
		ours: "0xc2", theirs: "0xc[01]|0x00.*", differ: true,
		why: "subjson looks at the path's last part before it looks at the document (operations.cc, do_insert)",
	},
	{
		topic: "ARRAY_ADD_UNIQUE of what is no single value",
		ops:   []memd.Opcode{memd.OpSubdocArrayAddUnique},
		when:  func(_ []step, st step) bool { return slices.Contains([]string{"[3]", `{"c":2}`, "nojson"}, st.value) },
		ours:  "0xc5", theirs: "0xc[012]|0x00.*", differ: true,
		why: "subjson refuses what is no single value before it looks at the document (operations.cc)",
	},
	{
		topic: "the delta of a counter in a document",
		ops:   []memd.Opcode{memd.OpSubdocCounter},
		when:  func(_ []step, st step) bool { return !slices.Contains([]string{"1", "-4"}, st.value) },
		ours:  "0xc8", theirs: "0xc[012]|0x00.*", differ: true,
		why: "and a delta that is no number, or 0",
	},
	{
		topic: "documents that are not JSON",
		ops:   subdocumentOps, ours: "0xc6", theirs: "0xc[12]", differ: true,
		why: "kv_engine looks at the datatype of the document before all that (subdocument.cc)",
	},
	{
		topic: "documents that are not JSON",
		ops:   writingOps, ours: "0xc6", theirs: "0xc5", differ: true,
		why: "the same, where the value is no JSON either",
	},
	{
		topic: "documents that are not JSON",
		ops:   []memd.Opcode{memd.OpSubdocCounter}, ours: "0xc6", theirs: "0xc8", differ: true,
		why: "the same, where the delta is no number either",
	},
	{
		topic: "documents that go on behind their first value",
		ops:   subdocumentOps, when: joined,
		ours: "0xc6", theirs: "0x00.*|0xc[09]", differ: true,
		why: "a document that goes on behind its first value, as after APPEND, is no JSON; CouchbaseMock reads the " +
			"first",
	},
}

// joined reports whether something was put behind the document, or before it.
func joined(before []step, _ step) bool {
	return slices.ContainsFunc(before, func(b step) bool { return b.op == memd.OpAppend || b.op == memd.OpPrepend })
}

// namesCAS reports whether a step sends a CAS, as far as there is one.
func namesCAS(_ []step, st step) bool { return st.cas != noCAS }

// TestThePageNamesEachDifference: the page has a row for each topic of the tables above, which says what that server
// does, and it says "the same" of no server that does otherwise.
func TestThePageNamesEachDifference(t *testing.T) {
	page, err := os.ReadFile("FIDELITY.md")
	require.NoError(t, err)
	found := checkPage(string(page), memcachedDiffers, slices.Concat(
		couchbaseMockDiffers, severalPathsDiffer, locksDiffer, oldLocksDiffer, newLocksDiffer, attributesDiffer,
		quietDiffers, copiesDiffer, expiryDiffers,
	))
	require.Empty(t, found, "%s", strings.Join(found, "\n"))

	table := "## Random programs\n| topic | mock and kv_engine | memcached | CouchbaseMock |\n|---|---|---|---|\n" +
		"| a | one | the same | two |\n| b | one | two | has none |\n| c | one | two | untested: two |\n## More\n"
	a, b, other := []difference{{topic: "a"}}, []difference{{topic: "b"}}, []difference{{topic: "d"}}
	require.Empty(t, checkPage(table, slices.Concat(b, []difference{{topic: "c"}}), a))
	require.Equal(t, []string{"c: the page says that memcached differs, and no program shows it"},
		checkPage(table, b, a))
	require.Contains(t, checkPage(table, a, a), `a: memcached differs, and the page says "the same"`)
	require.Contains(t, checkPage(table, b, b), `b: CouchbaseMock differs, and the page says "has none"`)
	require.Contains(t, checkPage(table, other, a), "d: the page has no such row")
}

// checkPage says where the page's table of random programs and the tables of differences do not fit each other.
func checkPage(page string, memcached, couchbaseMock []difference) (found []string) {
	_, section, _ := strings.Cut(page, "## Random programs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		if cols := strings.Split(strings.Trim(line, "| \n"), " | "); len(cols) == 4 && cols[0] != "topic" {
			rows[cols[0]] = cols
		}
	}
	for i, server := range []string{"memcached", "CouchbaseMock"} {
		shown := map[string]bool{}
		for _, d := range [][]difference{memcached, couchbaseMock}[i] {
			shown[d.topic] = true
			switch row := rows[d.topic]; {
			case row == nil:
				found = append(found, d.topic+": the page has no such row")
			case slices.Contains(noDifference, row[2+i]):
				found = append(found, d.topic+": "+server+" differs, and the page says \""+row[2+i]+"\"")
			}
		}
		for topic, row := range rows {
			if !shown[topic] && !slices.Contains(noDifference, row[2+i]) && !strings.HasPrefix(row[2+i], "untested: ") {
				found = append(found, topic+": the page says that "+server+" differs, and no program shows it")
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// noDifference is what the page says of a server that does as the mock, or that has no such commands.
var noDifference = []string{"the same", "has none"}
