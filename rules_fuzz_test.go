package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// fuzzed names, for each exported function or method that reads bytes or text, the fuzz target that gives it any. A
// target of another package reaches the function through what that package does.
var fuzzed = map[string]string{
	"analytics.ParseErrors":             "analytics.FuzzAnswer",
	"analytics.ParseMeta":               "analytics.FuzzMeta",
	"core.OptionInfo.Parse":             "core.FuzzOptions",
	"core.ParseConnString":              "core.FuzzOptions",
	"core.ParsePolicy":                  "retry/policy.FuzzParse",
	"core.ParsePolicyWith":              "retry/policy.FuzzParse",
	"core.ParseSpec":                    "core.FuzzParseSpec",
	"errormap.Parse":                    "errormap.FuzzParse",
	"internal/call.Inflate":             "kv.FuzzInflate",
	"internal/packets.ReadCapture":      "internal/packets.FuzzCapture",
	"internal/snappy.Decode":            "internal/snappy.FuzzDecode",
	"internal/snappy.DecodedLen":        "internal/snappy.FuzzDecode",
	"internal/topology.Parse":           "internal/topology.FuzzParse",
	"internal/topology.ScanVersion":     "internal/topology.FuzzParse",
	"kv.Manifest.UnmarshalJSON":         "kv.FuzzManifest",
	"kv.ParseMacroCAS":                  "kv.FuzzParseMacroCAS",
	"memd.NextFrame":                    "memd.FuzzFrames",
	"memd.Packet.Parse":                 "memd.FuzzParse",
	"memd.Packet.ParseSuccess":          "memd.FuzzParse",
	"memd.ParseDurability":              "memd.FuzzFrames",
	"memd.ParseFeatures":                "memd.FuzzFeatures",
	"memd.ParseHeader":                  "memd.FuzzParse",
	"memd.ParseLEB128":                  "memd.FuzzLEB128",
	"memd.SplitXattrs":                  "memd.FuzzXattrs",
	"mock.ParseFixtures":                "mock.FuzzFixtures",
	"mock.ParseTelemetry":               "mock.FuzzParseTelemetry",
	"mock/couchbasemock.ReadDocs":       "mock/couchbasemock.FuzzReadDocs",
	"mock/internal/fts.ParseIndex":      "mock/internal/fts.FuzzSearch",
	"mock/internal/sqlpp.Decode":        "mock/internal/sqlpp.FuzzRun",
	"mock/internal/sqlpp.ParseContext":  "mock/internal/sqlpp.FuzzRun",
	"mock/internal/sqlpp.Split":         "mock/internal/sqlpp.FuzzRun",
	"mock/internal/store.ParseXattrs":   "mock/internal/store.FuzzParseXattrs",
	"mock/internal/subdoc.DecodeBinary": "mock/internal/subdoc.FuzzSubdoc",
	"query.MutationState.UnmarshalJSON": "query.FuzzMutationState",
	"query.ParseErrors":                 "query.FuzzClassify",
	"query.ParseMeta":                   "query.FuzzMeta",
	"retry.Parse":                       "retry.FuzzParse",
	"retry.ParsePushback":               "retry.FuzzParse",
	"retry/policy.Parse":                "retry/policy.FuzzParse",
	"search.ParseMeta":                  "search.FuzzMeta",
	"views.ParseErrors":                 "views.FuzzClassify",
	"views.ParseMeta":                   "views.FuzzMeta",
}

// sessions are targets of what no one function decodes: what peers say in a conversation, and what is written and read
// again.
var sessions = []string{
	"cmd/couchcore.FuzzOrphans", "cmd/couchcore.FuzzSetup",
	"core.FuzzMapReader", "core/field.FuzzSession", "core/field.FuzzServices", "internal/conn.FuzzServerBytes",
	"internal/handshake.FuzzServerFirst", "internal/httpsvc.FuzzManagement", "internal/httpsvc.FuzzRows",
	"internal/httpsvc.FuzzValid", "internal/httpx.FuzzRetryAfter",
	"internal/packets.FuzzTalk", "internal/snappy.FuzzAppend", "internal/telemetry.FuzzReply", "kv.FuzzDecode",
	"kv.FuzzAnswers", "kv.FuzzEncode", "kv.FuzzProjection", "kv.FuzzSubdocAnswer", "kv.FuzzSubdocSpecs",
	"memd.FuzzRoundTrip",
	"mock.FuzzRequests", "mock.FuzzServices", "mock.FuzzScramServer", "mock/internal/sqlpp.FuzzParse",
	"mock/internal/store.FuzzPlanScan", "mock/internal/subdoc.FuzzParsePath",
	"mock/control.FuzzAPI", "mock/couchbasemock.FuzzControl", "mock/couchbasemock.FuzzControlLines",
	"mock/gocaves.FuzzServe", "mock/internal/management.FuzzServe",
	"mock/internal/subdoc.FuzzDecode", "mock/viewjs.FuzzCheckHandler", "mock/viewjs.FuzzFunctions",
	"query.FuzzAnswer", "search.FuzzAnswer", "views.FuzzAnswer",
}

// inner names a target for each package that has readers of its own, exports none of them and has no target.
var inner = map[string]string{
	"internal/dispatch":      "core/field.FuzzSession",
	"mock/internal/services": "mock.FuzzServices",
}

// decoder is the name of a function that reads, innerDecoder the one of a function that is not exported.
var (
	decoder      = regexp.MustCompile(`^(Parse|Decode|Unmarshal|Inflate|Read|Split|Scan|Next)[A-Z]?`)
	innerDecoder = regexp.MustCompile(`^(parse|decode|unmarshal|inflate|read|split|scan|next|check)([A-Z]|$)`)
)

// notDecoders only look like it: predicates, bytes that are passed on, and a walk over files that FuzzFixtures reads.
var notDecoders = []string{
	"internal/httpsvc.Reads", "mock.Cluster.Scans", "mock.FaultConn.Read", "mock.ReadFixtures", "mock.Reader",
	"mock/internal/subdoc.Spec.Read", "mock/memnet.Flow.read",
}

// unfuzzed are trees whose readers get what this repository holds or their own processes write: manifests, results of
// benchmarks, packets of a simulation, captures for tests. In examples they show how a program decodes its documents.
var unfuzzed = []string{
	"bench", "compat", "examples", "internal/bench", "internal/chaos", "internal/sim", "internal/testkit",
}

func TestEveryDecoderHasAFuzzTarget(t *testing.T) {
	found, err := checkFuzz(os.DirFS("."), fuzzed, inner, sessions)
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestADecoderWithoutATargetIsFound(t *testing.T) {
	fsys := fstest.MapFS{
		"a/a.go": {Data: []byte("package a\n\nfunc ParseX(b []byte) {}\n\nfunc ParseY(s string) {}\n\n" +
			"func (*T) Decode(b []byte) {}\n\nfunc Parse(n int) {}\n")},
		"a/a_test.go": {Data: []byte("package a\n\nfunc FuzzX(f *testing.F) { f.Add(1) }\n\n" +
			"func FuzzZ(f *testing.F) {}\n\nfunc FuzzNew(f *testing.F) {}\n\nfunc checkIn(s string) {}\n")},
		"b/b.go":                  {Data: []byte("package b\n\nfunc checkX(s string) {}\n\nfunc (t) parse(b []byte) {}\n")},
		"c/c.go":                  {Data: []byte("package c\n\nfunc checkX(s string) {}\n")},
		"d/d.go":                  {Data: []byte("package d\n\nfunc checker(s string) {}\n\nfunc check(n int) {}\n")},
		"a/testdata/fuzz/FuzzX/1": {},
	}
	found, err := checkFuzz(fsys, map[string]string{"a.ParseX": "a.FuzzX", "a.Gone": "a.FuzzGone"},
		map[string]string{"c": "a.FuzzX", "d": "a.FuzzNo"}, []string{"a.FuzzZ"})
	require.NoError(t, err)
	require.Equal(t, []string{
		"a.FuzzNew has no corpus in testdata/fuzz", "a.FuzzNew is in no table",
		"a.FuzzZ has no corpus in testdata/fuzz", "a.Gone: there is no such function",
		"a.Gone: there is no target a.FuzzGone", "a.ParseY has no fuzz target", "a.T.Decode has no fuzz target",
		"b has no fuzz target for b.checkX, b.t.parse", "d has a target or no reader of its own",
		"d: there is no target a.FuzzNo",
	}, found)
}

// checkFuzz lists readers without a target, targets that do not exist, and targets without a corpus. A reader that is
// not exported needs no target of its own, since an exported function reaches it: but its package needs one.
func checkFuzz(fsys fs.FS, table, inner map[string]string, more []string) (found []string, err error) {
	readers, targets := map[string]bool{}, map[string]bool{}
	hidden := map[string][]string{} // readers that are not exported, by their packages
	err = walkGo(fsys, func(file string, f *ast.File, _ *token.FileSet) {
		dir := packageOf(file)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case strings.HasSuffix(file, "_test.go"):
				if strings.HasPrefix(fn.Name.Name, "Fuzz") && fn.Recv == nil {
					name := dir + "." + fn.Name.Name
					targets[name] = true
					kept, _ := fs.Glob(fsys, path.Join(dir, "testdata/fuzz", fn.Name.Name, "*")) // the pattern is valid
					if len(kept) == 0 {
						found = append(found, name+" has no corpus in testdata/fuzz")
					}
				}
			case slices.ContainsFunc(unfuzzed, func(tree string) bool { return isBelow(dir, tree) }) || !takesText(fn):
			case slices.Contains(notDecoders, dir+"."+receiver(fn)+fn.Name.Name):
			case exported(fn) && decoder.MatchString(fn.Name.Name):
				readers[dir+"."+receiver(fn)+fn.Name.Name] = true
			case innerDecoder.MatchString(fn.Name.Name):
				hidden[dir] = append(hidden[dir], dir+"."+receiver(fn)+fn.Name.Name)
			}
		}
	})
	for name := range readers {
		if table[name] == "" {
			found = append(found, name+" has no fuzz target")
		}
	}
	for name := range table {
		if !readers[name] {
			found = append(found, name+": there is no such function")
		}
	}
	found = append(found, checkInner(hidden, targets, inner)...)
	for _, named := range []map[string]string{table, inner} {
		for name, target := range named {
			if !targets[target] {
				found = append(found, fmt.Sprintf("%s: there is no target %s", name, target))
			}
		}
	}
	for _, target := range more {
		if !targets[target] {
			found = append(found, "there is no target "+target)
		}
	}
	listed := append(slices.Collect(maps.Values(table)), more...)
	for target := range targets {
		if !slices.Contains(listed, target) {
			found = append(found, target+" is in no table")
		}
	}
	slices.Sort(found)
	return found, err
}

// checkInner lists packages with readers, by their packages in hidden, and without a target, and rows without need.
func checkInner(hidden map[string][]string, targets map[string]bool, inner map[string]string) (found []string) {
	with := map[string]bool{}
	for target := range targets {
		with[target[:strings.LastIndexByte(target, '.')]] = true
	}
	for dir, names := range hidden {
		if !with[dir] && inner[dir] == "" {
			slices.Sort(names)
			found = append(found, dir+" has no fuzz target for "+strings.Join(names, ", "))
		}
	}
	for dir := range inner {
		if with[dir] || len(hidden[dir]) == 0 {
			found = append(found, dir+" has a target or no reader of its own")
		}
	}
	return found
}

// exported reports whether other packages can call a function.
func exported(fn *ast.FuncDecl) bool {
	return fn.Name.IsExported() && (fn.Recv == nil || ast.IsExported(receiver(fn)))
}

// takesText reports whether a function has a parameter of bytes or text.
func takesText(fn *ast.FuncDecl) bool {
	for _, p := range fn.Type.Params.List {
		switch types := p.Type.(type) {
		case *ast.Ident:
			if types.Name == "string" {
				return true
			}
		case *ast.ArrayType:
			if e, ok := types.Elt.(*ast.Ident); ok && e.Name == "byte" {
				return true
			}
			if e, ok := types.Elt.(*ast.SelectorExpr); ok && e.Sel.Name == "RawMessage" {
				return true
			}
		case *ast.SelectorExpr:
			if slices.Contains([]string{"Reader", "ReaderAt"}, types.Sel.Name) {
				return true
			}
		}
	}
	return false
}

// receiver is the name of a method's type with a dot, or nothing.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch g := of.(type) {
	case *ast.IndexExpr:
		of = g.X
	case *ast.IndexListExpr:
		of = g.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}

// TestTheGateFuzzesEveryTarget: the step of the gate finds targets by their name, in all packages.
func TestTheGateFuzzesEveryTarget(t *testing.T) {
	gate, err := os.ReadFile(".ci/run")
	require.NoError(t, err)
	require.Contains(t, string(gate), `go test -list '^Fuzz' ./...`)
	names := slices.Collect(maps.Values(fuzzed))
	for _, target := range append(names, sessions...) {
		require.Regexp(t, `^[\w/]+\.Fuzz\w+$`, target)
	}
}
