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

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// rowsOf gives every row of the table of operations.
func rowsOf() []*call.Spec {
	var all []*call.Spec
	for op := range 256 {
		if s := call.SpecOf(memd.Opcode(op)); s != nil {
			all = append(all, s)
		}
	}
	return all
}

func TestEveryRowIsComplete(t *testing.T) {
	names := map[string]memd.Opcode{}
	for op := range 256 {
		s := call.SpecOf(memd.Opcode(op))
		if s == nil {
			continue
		}
		require.EqualValues(t, op, s.Opcode)
		require.True(t, s.Opcode.Known(), s.Name)
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, s.Name)
		require.NotContains(t, names, s.Name, "the verb is another row's")
		names[s.Name] = s.Opcode
		require.Same(t, s, call.SpecByName(s.Name))
		for _, lens := range [][]int{s.ReqExtras, s.ResExtras} {
			require.NotEmpty(t, lens, s.Name)
			require.True(t, slices.IsSorted(lens), s.Name)
			require.LessOrEqual(t, lens[len(lens)-1], 31, "%s: SetExtras cuts at 32, which no row may allow", s.Name)
		}
		routes := 0
		for _, by := range []call.Traits{call.Keyed, call.AnyNode, call.OfVBucket} {
			if s.Has(by) {
				routes++
			}
		}
		require.Equal(t, 1, routes, "%s is routed by key, by vbucket or to any node", s.Name)
		require.True(t, !s.Has(call.Keyed) || s.Has(call.CollectionAware), s.Name)
		require.True(t, !s.Has(call.Compressible) || s.Datatypes&memd.DatatypeSnappy != 0, s.Name)
		require.False(t, s.Has(call.Idempotent|call.NoRetry), s.Name)
		for _, needsMutates := range []call.Traits{call.Durable, call.PreservesExpiry, call.WantsCAS} {
			require.True(t, !s.Has(needsMutates) || s.Has(call.Mutates), s.Name)
		}
		require.False(t, s.Has(call.Mutates) && s.Has(call.Idempotent), "%s changes something", s.Name)
	}
	require.Nil(t, call.SpecByName("no-such-verb"))
	require.Nil(t, call.SpecOf(memd.OpHello))
}

// CB-11, CB-52, CB-53: the default is not idempotent.
func TestTheIdempotentOperationsAreExactlyThese_CB11_CB52_CB53(t *testing.T) {
	want := []memd.Opcode{
		// The RFC's list.
		memd.OpGetClusterConfig, memd.OpGet, memd.OpCollectionsGetID, memd.OpCollectionsGetManifest, memd.OpNoop,
		memd.OpObserve,
		memd.OpObserveSeqno, memd.OpGetReplica, memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocGetCount,
		memd.OpSubdocMultiLookup,
		// Pure reads beside it.
		memd.OpGetMeta, memd.OpStat, memd.OpGetRandomKey, memd.OpGetEx, memd.OpGetExReplica,
		memd.OpGetFailoverLog, memd.OpVersion,
	}
	slices.Sort(want)
	var got []memd.Opcode
	for _, s := range rowsOf() {
		if s.Has(call.Idempotent) {
			got = append(got, s.Opcode)
		}
	}
	require.Equal(t, want, got)
	for _, op := range []memd.Opcode{memd.OpGetLocked, memd.OpGAT, memd.OpTouch, memd.OpUnlockKey} {
		require.False(t, call.SpecOf(op).Has(call.Idempotent), op)
		require.True(t, call.SpecOf(op).Has(call.Mutates), op)
	}
}

// The facts of BinaryProtocol.md's tables, row by row.
func TestTheTraitsOfEveryRow(t *testing.T) {
	const (
		read  = call.Keyed | call.CollectionAware
		write = read | call.Mutates
		d, p  = call.Durable, call.PreservesExpiry
	)
	const (
		idem, z = call.Idempotent, call.Compressible
		sub     = write | call.Durable | call.PreservesExpiry
	)
	want := map[string]call.Traits{
		"get": read | idem, "get-replica": read | idem | call.FromReplica, "exists": read | idem,
		"get-ex": read | idem, "get-ex-replica": read | idem | call.FromReplica,
		"get-random": call.AnyNode | call.CollectionAware | idem,
		"upsert":     write | d | p | z, "insert": write | d | z, "replace": write | d | p | z, "remove": write | d,
		"append": write | d | p | z, "prepend": write | d | p | z, "increment": write | d | p,
		"decrement": write | d | p,
		"touch":     write, "get-and-touch": write, "get-and-lock": write, "unlock": write | call.WantsCAS,
		"set-with-meta": write, "add-with-meta": write, "delete-with-meta": write,
		"lookup-in": read | idem, "mutate-in": sub, "path-get": read | idem, "path-exists": read | idem,
		"path-count":  read | idem,
		"path-insert": sub, "path-upsert": sub, "path-remove": sub, "path-replace": sub, "path-array-append": sub,
		"path-array-prepend": sub, "path-array-insert": sub, "path-array-add-unique": sub, "path-counter": sub,
		"path-replace-body": sub,
		"observe":           read | idem, "observe-seqno": call.OfVBucket | idem,
		"failover-log":        call.OfVBucket | idem | call.Ordered,
		"range-scan-create":   call.OfVBucket | call.CollectionAware,
		"range-scan-continue": call.OfVBucket | call.NoRetry,
		"range-scan-cancel":   call.OfVBucket | call.NoRetry,
		"noop":                idem | call.AnyNode, "stat": idem | call.AnyNode, "version": idem | call.AnyNode,
		"get-manifest": idem | call.AnyNode,
		"get-scope-id": call.AnyNode, "get-cluster-config": idem | call.AnyNode,
		"get-collection-id": idem | call.AnyNode,
	}
	for _, s := range rowsOf() {
		require.Equal(t, want[s.Name], s.Traits, s.Name)
		delete(want, s.Name)
	}
	require.Empty(t, want)
}

func TestEveryOperationEncodesToItsRow(t *testing.T) {
	seen := map[memd.Opcode]bool{}
	for _, s := range append(subjects(), onePath()...) {
		wire, err := s.encoded(call.Wire{Features: allFeatures})
		require.NoError(t, err, s.name)
		var p memd.Packet
		_, err = p.Parse(wire, 0)
		require.NoError(t, err, s.name)
		row := call.SpecOf(p.Opcode)
		require.NotNil(t, row, s.name)
		verbs := map[memd.Opcode]string{memd.OpGetMeta: "get-meta", memd.OpGet: "get-or-null"}
		require.Contains(t, []string{"", row.Name, verbs[p.Opcode]}, s.name)
		require.Contains(t, row.ReqExtras, len(p.Extras), s.name)
		require.Equal(t, row.Has(call.Keyed) && p.Opcode != memd.OpObserve, len(p.Key) > 0, s.name)
		seen[p.Opcode] = true
	}
	for _, r := range rowsOf() {
		require.True(t, seen[r.Opcode], "%s has no operation", r.Name)
	}
}

// subjects lists every type with an encode; the source says which there are.
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
			if !ok || fn.Recv == nil || fn.Name.Name != "encode" {
				continue
			}
			id, ok := fn.Recv.List[0].Type.(*ast.Ident)
			require.True(t, ok, "%s: encode is on the value, so that both forms implement Op", f.Name())
			types = append(types, id.Name)
		}
	}
	const twice = 1 // GetEx has two opcodes
	require.Len(t, types, len(subjects())-twice, "%v", types)
}
