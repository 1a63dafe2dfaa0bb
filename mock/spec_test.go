package mock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// TestSpecTable checks the rows against each other and against the list of what the mock is to answer.
func TestSpecTable(t *testing.T) {
	answered := []memd.Opcode{
		memd.OpHello, memd.OpGetErrorMap, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep, memd.OpSelectBucket,
		memd.OpGetClusterConfig, memd.OpNoop, memd.OpVersion, memd.OpQuit, memd.OpStat, memd.OpCollectionsGetManifest,
		memd.OpCollectionsGetID, memd.OpCollectionsGetScopeID, memd.OpObserveSeqno, memd.OpGetFailoverLog, memd.OpGet,
		memd.OpGetMeta, memd.OpGetReplica, memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpDelete, memd.OpIncrement,
		memd.OpDecrement, memd.OpAppend, memd.OpPrepend, memd.OpTouch, memd.OpGAT, memd.OpGetLocked, memd.OpUnlockKey,
		memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocGetCount, memd.OpSubdocMultiLookup, memd.OpSubdocDictAdd,
		memd.OpSubdocDictUpsert, memd.OpSubdocDelete, memd.OpSubdocReplace, memd.OpSubdocArrayPushLast,
		memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayInsert, memd.OpSubdocArrayAddUnique, memd.OpSubdocCounter,
		memd.OpSubdocReplaceBodyWithXattr, memd.OpSubdocMultiMutation,
	}
	rows := 0
	for i, sp := range specs {
		op := memd.Opcode(i)
		if sp == nil {
			continue
		}
		rows++
		require.Contains(t, answered, op)
		require.NotNil(t, sp.run, op)
		require.Equal(t, sp.mutates, sp.durable, "%v: what mutates can be durable", op)
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
	}
	require.Len(t, answered, rows)
}

func TestErrorRowsCoverTheStatusTable(t *testing.T) {
	seen := map[memd.Status]bool{}
	for _, r := range errorRows {
		require.True(t, r.code.Known(), r.text)
		require.False(t, seen[r.code], r.code)
		require.NotEmpty(t, r.attrs)
		require.NotEmpty(t, r.text)
		seen[r.code] = true
	}
	for i := range 0x10000 {
		if s := memd.Status(i); s.Known() && s != memd.StatusScopeSizeLimitExceeded { // no server map has that one
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
