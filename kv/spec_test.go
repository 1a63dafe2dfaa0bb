package kv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// rowsOf gives every row of the table of operations.
func rowsOf() []*kv.Spec {
	var all []*kv.Spec
	for op := range 256 {
		if s := kv.SpecOf(memd.Opcode(op)); s != nil {
			all = append(all, s)
		}
	}
	return all
}

func TestEveryRowIsComplete(t *testing.T) {
	names := map[string]memd.Opcode{}
	for op := range 256 {
		s := kv.SpecOf(memd.Opcode(op))
		if s == nil {
			continue
		}
		require.EqualValues(t, op, s.Opcode)
		require.True(t, s.Opcode.Known(), s.Name)
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, s.Name)
		require.NotContains(t, names, s.Name, "the verb is another row's")
		names[s.Name] = s.Opcode
		require.Same(t, s, kv.SpecByName(s.Name))
		for _, lens := range [][]int{s.ReqExtras, s.ResExtras} {
			require.NotEmpty(t, lens, s.Name)
			require.True(t, slices.IsSorted(lens), s.Name)
			require.LessOrEqual(t, lens[len(lens)-1], 23, "%s: SetExtras cuts at 24, which no row may allow", s.Name)
		}
		require.NotEqual(t, s.Has(kv.Keyed), s.Has(kv.AnyNode), "%s is routed by key or to any node", s.Name)
		require.Equal(t, s.Has(kv.Keyed), s.Has(kv.CollectionAware), s.Name)
		for _, needsMutates := range []kv.Traits{kv.Durable, kv.PreservesExpiry, kv.WantsCAS} {
			require.True(t, !s.Has(needsMutates) || s.Has(kv.Mutates), s.Name)
		}
		require.False(t, s.Has(kv.Mutates) && s.Has(kv.Idempotent), "%s changes something", s.Name)
	}
	require.Len(t, names, len(subjects()))
	require.Nil(t, kv.SpecByName("no-such-verb"))
	require.Nil(t, kv.SpecOf(memd.OpHello))
}

// CB-11, CB-52, CB-53: the default is not idempotent.
func TestTheIdempotentOperationsAreExactlyThese_CB11_CB52_CB53(t *testing.T) {
	want := []memd.Opcode{
		memd.OpGet, memd.OpNoop, memd.OpGetReplica, memd.OpGetMeta, memd.OpGetClusterConfig, memd.OpCollectionsGetID,
	}
	var got []memd.Opcode
	for _, s := range rowsOf() {
		if s.Has(kv.Idempotent) {
			got = append(got, s.Opcode)
		}
	}
	require.Equal(t, want, got)
	for _, op := range []memd.Opcode{memd.OpGetLocked, memd.OpGAT, memd.OpTouch, memd.OpUnlockKey} {
		require.False(t, kv.SpecOf(op).Has(kv.Idempotent), op)
		require.True(t, kv.SpecOf(op).Has(kv.Mutates), op)
	}
}

// The facts of BinaryProtocol.md's tables, row by row.
func TestTheTraitsOfEveryRow(t *testing.T) {
	const (
		read  = kv.Keyed | kv.CollectionAware
		write = read | kv.Mutates
		d, p  = kv.Durable, kv.PreservesExpiry
	)
	want := map[string]kv.Traits{
		"get": read | kv.Idempotent, "get-replica": read | kv.Idempotent | kv.FromReplica, "exists": read | kv.Idempotent,
		"upsert": write | d | p, "insert": write | d, "replace": write | d | p, "remove": write | d,
		"append": write | d | p, "prepend": write | d | p, "increment": write | d | p, "decrement": write | d | p,
		"touch": write | d, "get-and-touch": write | d, "get-and-lock": write, "unlock": write | kv.WantsCAS,
		"noop": kv.Idempotent | kv.AnyNode, "get-cluster-config": kv.Idempotent | kv.AnyNode,
		"get-collection-id": kv.Idempotent | kv.AnyNode,
	}
	for _, s := range rowsOf() {
		require.Equal(t, want[s.Name], s.Traits, s.Name)
		delete(want, s.Name)
	}
	require.Empty(t, want)
}

func TestEveryOperationEncodesToItsRow(t *testing.T) {
	seen := map[memd.Opcode]bool{}
	for _, s := range subjects() {
		wire, err := s.encoded(kv.Wire{Features: allFeatures})
		require.NoError(t, err, s.name)
		var p memd.Packet
		_, err = p.Parse(wire, 0)
		require.NoError(t, err, s.name)
		row := kv.SpecOf(p.Opcode)
		require.NotNil(t, row, s.name)
		require.Equal(t, s.name, row.Name)
		require.Contains(t, row.ReqExtras, len(p.Extras), s.name)
		require.Equal(t, row.Has(kv.Keyed), len(p.Key) > 0, s.name)
		require.False(t, seen[p.Opcode], s.name)
		seen[p.Opcode] = true
	}
	require.Len(t, seen, len(rowsOf()), "every row has its operation")
}

// subjects lists every type with an Encode; the source says which there are.
func TestNoOperationIsLeftOut(t *testing.T) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	var types []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "Encode" {
				continue
			}
			id, ok := fn.Recv.List[0].Type.(*ast.Ident)
			require.True(t, ok, "%s: Encode is on the value, so that both forms implement Op", f.Name())
			types = append(types, id.Name)
		}
	}
	require.Len(t, types, len(subjects()), "%v", types)
}
