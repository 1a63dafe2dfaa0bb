package mock

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// noDurability are the mutations that take no durability frame, but for quiet forms.
var noDurability = []memd.Opcode{memd.OpSetWithMeta, memd.OpAddWithMeta, memd.OpDelWithMeta, memd.OpReturnMeta}

// TestSpecTable checks the rows against each other.
func TestSpecTable(t *testing.T) {
	for i, sp := range specs {
		op := memd.Opcode(i)
		if sp == nil {
			continue
		}
		require.True(t, op.Known(), op)
		require.NotNil(t, sp.run, op)
		if sp.quiet {
			require.False(t, sp.durable || sp.fleeting || sp.reorder, op)
		} else if !slices.Contains(noDurability, op) {
			require.Equal(t, sp.mutates, sp.durable || sp.fleeting, "%v: what mutates can be durable, or refuses to",
				op)
		}
		if sp.key == keyDocument {
			require.True(t, sp.bucket, op)
		}
		if sp.preAuth {
			require.False(t, sp.bucket || sp.reorder, "%v: the bootstrap keeps its order", op)
		}
		if sp.token {
			require.True(t, sp.mutates, op)
		}
		if sp.document {
			require.Equal(t, valueAny, sp.value, op)
			require.Zero(t, sp.datatypes, op)
		}
		require.Equal(t, sp.quiet, baseForm(op) != op, op)
	}
}

// TestEveryOpcodeIsAnsweredOrRefusedForAReason needs a row in specs, or a place in the list of refusals, for each
// opcode.
func TestEveryOpcodeIsAnsweredOrRefusedForAReason(t *testing.T) {
	page, err := os.ReadFile("FIDELITY.md")
	require.NoError(t, err)
	why := map[memd.Opcode]string{}
	for _, r := range refused {
		require.Contains(t, string(page), r.group, "FIDELITY.md names it")
		for _, op := range r.ops {
			require.Empty(t, why[op], "%v is refused twice", op)
			why[op] = r.group
		}
	}
	for i := range 256 {
		op := memd.Opcode(i)
		require.Equal(t, op.Known(), (specs[op] != nil) != (why[op] != ""), "%v: a row or a refusal", op)
		if s := call.SpecOf(op); s != nil {
			require.NotNil(t, specs[op], "%v is what the client sends", op)
			if specs[op].extras != nil {
				require.Subset(t, specs[op].extras, s.ReqExtras, "%v: the client's extras", op)
			}
			require.Equal(t, s.Has(call.Durable), specs[op].durable, op)
			require.Equal(t, s.Has(call.PreservesExpiry), specs[op].preserve, op)
		}
	}
}

func TestErrorRowsCoverTheStatusTable(t *testing.T) {
	seen := map[memd.Status]bool{}
	for _, r := range errorRows {
		require.True(t, r.what.name != "" || r.what.code.Known(), r.what.text)
		require.NotEmpty(t, r.what.attrs)
		require.NotEmpty(t, r.what.text)
		seen[r.what.code] = true
	}
	for i := range 0x10000 {
		if s := memd.Status(i); s.Known() {
			require.True(t, seen[s], s)
		}
	}
}

func TestSpreadIsEvenAndNeverDoubles(t *testing.T) {
	for nodes := range 6 {
		var all []int
		for n := range nodes {
			all = append(all, 10+n)
		}
		for replicas := range 4 {
			held := map[int]int{}
			for _, row := range spread(all, 60, replicas) {
				require.Len(t, row, 1+replicas)
				seen := map[int]bool{}
				for i, n := range row {
					require.Equal(t, i >= nodes, n == -1, "places without a node come last")
					require.False(t, n >= 0 && seen[n], "a node twice in %v", row)
					seen[n] = true
				}
				held[row[0]]++
			}
			for _, n := range all {
				require.Equal(t, 60/nodes, held[n])
			}
		}
	}
}

func TestSubdocCommandsChangeWhatTheTableSays(t *testing.T) {
	paths := 0
	for op, sp := range specs {
		if sp != pathLookup && sp != pathMutation {
			continue
		}
		paths++
		rq, _ := subdoc.Decode(&memd.Packet{Opcode: memd.Opcode(op), Extras: make([]byte, 3)},
			subdoc.Rules{MaxPaths: subdoc.MaxPaths})
		require.Equal(t, sp.mutates, rq.Mutates, memd.Opcode(op))
	}
	require.Equal(t, 13, paths)
}

// TestTheStoreKnowsEveryMutation compares the table with the operations that the tests of the store go through.
func TestTheStoreKnowsEveryMutation(t *testing.T) {
	known := []memd.Opcode{
		memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpDelete, memd.OpIncrement, memd.OpDecrement, memd.OpAppend,
		memd.OpPrepend,
		memd.OpTouch, memd.OpGAT,
	}
	for i, sp := range specs {
		op := memd.Opcode(i)
		switch {
		case sp == nil || !sp.mutates, sp.meta, sp == pathMutation, op == memd.OpSubdocMultiMutation,
			baseForm(op) != op:
		default:
			require.Contains(t, known, op)
		}
	}
}
