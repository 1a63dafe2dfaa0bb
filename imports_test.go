package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/couchcore/couchcore"

// rule says what the non-test files of one package may import. Test files may import any package of the module.
type rule struct {
	layer    int      // imports go down only, never sideways
	only     []string // the packages of this module it may import; nil: none
	below    bool     // instead of only: every package of a lower layer
	external []string // modules and packages outside the standard library, as prefixes
	never    []string // standard packages, with those below them, that would break what the package promises
}

const (
	beside   = -1 // beside the layers: only test files import it
	otelPath = "go.opentelemetry.io/otel/"
)

// Standard packages that a kind of package does without.
var (
	noIO      = []string{"net", "os", "log/slog"}
	noNetwork = []string{"net", "log/slog"}
	noHTTP    = []string{"net/http"}
)

// rules has a row for every package of the module; a trailing /... covers the packages below. A package without a row
// fails the test: adding one is a design decision, made here.
var rules = map[string]rule{
	"memd":  {layer: 0, never: []string{"net", "context", "time", "sync", "os", "log/slog"}},
	"cberr": {layer: 0, never: []string{"net", "time", "sync", "os", "log/slog"}},
	"retry": {layer: 0, never: noNetwork},
	"retry/policy": {
		layer: 0, only: []string{"retry"}, external: []string{"github.com/go-json-experiment/json"},
		never: noNetwork,
	},
	"retry/hedge": {layer: 0, only: []string{"retry"}, never: noNetwork},
	"internal/observe": {layer: 0, external: []string{
		otelPath + "attribute", otelPath + "codes", otelPath + "metric",
		otelPath + "trace",
	}, never: []string{"net", "os"}},

	"internal/canary": {layer: 0, never: noIO},

	"errormap":    {layer: 1, only: []string{"memd"}, never: noIO},
	"collections": {layer: 1, only: []string{"memd", "cberr"}, never: noIO},
	"internal/topology": {layer: 1, only: []string{"memd", "cberr"}, never: []string{
		"net/http", "os", "time",
		"sync", "log/slog",
	}},
	"internal/telemetry": {
		layer: 1, only: []string{"internal/observe"}, external: []string{"github.com/coder/websocket"}, never: noHTTP,
	},
	"internal/httpsvc": {
		layer: 1, only: []string{"cberr", "retry"},
		external: []string{"github.com/go-json-experiment/json"}, never: []string{"net/http", "os", "log/slog"},
	},
	"mock": {
		layer: 1, only: []string{
			"memd", "internal/snappy", "mock/memnet", "mock/internal/management", "mock/internal/services",
			"mock/internal/store", "mock/internal/subdoc", "mock/internal/trigger",
		},
		external: []string{"github.com/xdg-go/scram", "github.com/coder/websocket"},
		never:    []string{"testing"},
	},
	"mock/control":       {layer: 1, only: []string{"memd", "mock"}, never: []string{"testing", "os"}},
	"mock/couchbasemock": {layer: 1, only: []string{"memd", "mock"}, never: []string{"testing"}},
	"mock/gocaves":       {layer: 1, only: []string{"memd", "mock"}, never: []string{"testing", "os"}},
	"mock/memnet":        {layer: 1, never: []string{"testing", "net/http"}},
	"mock/internal/services": {
		layer: 1, only: []string{
			"memd", "mock/internal/fts", "mock/internal/sqlpp", "mock/internal/store", "mock/internal/trigger",
		},
		never: []string{"testing", "os"},
	},
	"mock/internal/fts":        {layer: 1, never: []string{"testing", "net", "net/http", "os", "log/slog", "sync"}},
	"mock/internal/management": {layer: 1, never: []string{"testing", "os", "log/slog"}},
	"mock/internal/sqlpp":      {layer: 1, never: []string{"testing", "net", "os", "log/slog"}},
	"mock/internal/store": {layer: 1, only: []string{"memd", "mock/internal/subdoc"}, never: []string{
		"testing",
		"net", "sync", "os",
	}},
	"mock/internal/trigger": {layer: 1, never: []string{"testing", "net", "time", "os"}},
	"mock/internal/subdoc": {layer: 1, only: []string{"memd"}, never: []string{
		"testing", "net", "time", "sync",
		"os",
	}},
	"mock/scripted": {layer: 1, only: []string{"memd"}, never: []string{"testing"}},
	"mock/viewjs": {
		layer: 1, only: []string{"mock"}, external: []string{"github.com/dop251/goja"},
		never: []string{"testing"},
	},

	"internal/call": {
		layer: 2, only: []string{
			"memd", "cberr", "retry", "retry/hedge", "errormap", "internal/snappy", "internal/tasks",
		}, never: noNetwork,
	},
	"kv": {
		layer: 3, only: []string{"memd", "cberr", "retry", "retry/hedge", "internal/call"}, never: noNetwork,
	},
	"query":     {layer: 2, only: []string{"cberr", "retry", "internal/httpsvc"}, never: noHTTP},
	"search":    {layer: 2, only: []string{"cberr", "retry", "internal/httpsvc"}, never: noHTTP},
	"views":     {layer: 2, only: []string{"cberr", "retry", "internal/httpsvc"}, never: noHTTP},
	"analytics": {layer: 2, only: []string{"cberr", "retry", "internal/httpsvc"}, never: noHTTP},

	"internal/handshake": {
		layer: 3, only: []string{"memd", "cberr", "internal/observe", "internal/call"},
		external: []string{"github.com/xdg-go/scram"}, never: noHTTP,
	},

	"internal/pace":  {layer: 0, never: noIO},
	"internal/tasks": {layer: 0, never: noIO},
	"internal/snappy": {layer: 0, never: []string{
		"net", "context", "time", "os", "log/slog", "unsafe",
	}},
	"internal/health": {
		layer: 4, only: []string{"cberr", "retry", "internal/handshake", "internal/observe"}, never: []string{"net"},
	},
	"internal/conn": {layer: 4, only: []string{
		"memd", "retry", "internal/call", "internal/handshake", "internal/telemetry",
	}, never: noHTTP},

	"internal/dispatch": {
		layer: 5,
		only: []string{
			"memd", "cberr", "retry", "retry/hedge", "internal/observe", "errormap", "collections", "internal/topology",
			"internal/call", "internal/handshake", "internal/health", "internal/conn", "internal/pace",
			"internal/tasks",
		},
		never: noHTTP,
	},
	"internal/httpx": {layer: 5, only: []string{
		"cberr", "retry", "internal/observe", "internal/httpsvc",
		"internal/topology", "internal/handshake", "internal/health", "internal/pace", "internal/tasks",
		"internal/telemetry",
	}, external: []string{"github.com/coder/websocket"}},

	"core": {layer: 6, below: true, external: []string{
		otelPath + "metric", otelPath + "trace",
		"github.com/coder/websocket",
	}},

	"compat/gocbcore": {layer: 0, never: []string{"net", "os/exec", "time", "sync", "log/slog"}},
	"compat/gocbcore/engine": {
		layer: 7, below: true, external: []string{"github.com/couchbase/gocbcore/v10"},
	},
	"cmd/couchcore":     {layer: 7, below: true, external: []string{"github.com/alecthomas/kong"}},
	"cmd/couchcore/...": {layer: 7, below: true, external: []string{"github.com/alecthomas/kong"}},
	"examples/...":      {layer: 7, below: true, external: []string{otelPath + "codes", otelPath + "trace"}},
	"internal/packets": {layer: 3, only: []string{"memd", "internal/call"}, external: []string{
		"github.com/gopacket/gopacket",
	}, never: noHTTP},
	"internal/bench": {layer: 7, below: true, external: []string{"github.com/couchbase/gocbcore/v10"}},
	"bench":          {layer: 8, only: []string{"internal/bench"}},

	"":                 {layer: beside},
	"core/field":       {layer: beside},
	"retry/promises":   {layer: beside},
	"internal/testkit": {layer: beside, external: []string{"github.com/stretchr/testify/require"}},
	"internal/chaos":   {layer: beside, below: true},
	"internal/sim": {layer: beside, below: true, external: []string{
		"github.com/anishathalye/porcupine", otelPath + "attribute", otelPath + "codes", otelPath + "metric",
		otelPath + "trace",
	}},
}

// testOnly are modules that no package outside bench links; in test files everything of theirs is allowed
// but what testify holds beside require.
var testOnly = []string{
	"github.com/couchbase/gocbcore", "github.com/golang/snappy", "github.com/stretchr/testify", "go.uber.org/goleak",
	"pgregory.net/rapid",
}

// forChaos are packages beside the layers that the command's chaos subcommand imports.
var forChaos = []string{"internal/sim", "internal/chaos"}

// outside are trees of tests that use the public API only, as a program of a user does.
var outside = []string{"core/field", "retry/promises"}

func TestImportsGoDownOnly(t *testing.T) {
	found, err := checkImports(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

// TestTheTableItselfGoesDownOnly keeps a row from allowing what the layers forbid.
func TestTheTableItselfGoesDownOnly(t *testing.T) {
	sideways := map[string][]string{
		"retry/policy": {"retry"}, "retry/hedge": {"retry"},
		"mock": {
			"mock/memnet", "mock/internal/management", "mock/internal/services", "mock/internal/store",
			"mock/internal/subdoc", "mock/internal/trigger",
		},
		"mock/internal/services": {
			"mock/internal/fts", "mock/internal/sqlpp", "mock/internal/store", "mock/internal/trigger",
		},
		"mock/internal/store": {"mock/internal/subdoc"},
		"mock/control":        {"mock"},
		"mock/couchbasemock":  {"mock"},
		"mock/gocaves":        {"mock"},
		"mock/viewjs":         {"mock"},
	}
	for name, r := range rules {
		for _, to := range r.only {
			target, known := rules[to]
			require.True(t, known, "%s may import %s, which has no row", name, to)
			require.GreaterOrEqual(t, target.layer, 0, "%s may import %s, which is for tests", name, to)
			require.True(t, target.layer < r.layer || slices.Contains(sideways[name], to),
				"%s (layer %d) may import %s (layer %d)",
				name, r.layer, to, target.layer)
		}
	}
	for name, r := range rules {
		for _, to := range r.only {
			if name == "mock" || isBelow(name, "mock") {
				format := to == "memd" || to == "internal/snappy" // what both sides of the wire know
				require.True(t, format || isBelow(to, "mock"),
					"%s: the mock never depends on the client it tests", name)
			}
		}
	}
	for _, name := range []string{"memd", "cberr", "retry", "internal/observe", "internal/testkit"} {
		require.Empty(t, rules[name].only, "%s imports nothing of this module", name)
		require.False(t, rules[name].below)
	}
}

func TestEveryPlantedViolationIsFound(t *testing.T) {
	for file, c := range map[string]struct{ imports, want string }{
		"memd/a.go":            {"time", "memd/a.go: memd must not import time"},
		"memd/b.go":            {"sync/atomic", "must not import sync/atomic"},
		"memd/d.go":            {modulePath + "/internal/snappy", "memd may not import internal/snappy"},
		"internal/snappy/a.go": {"unsafe", "must not import unsafe"},
		"internal/snappy/b.go": {
			"github.com/golang/snappy",
			"internal/snappy must not link github.com/golang/snappy outside its tests",
		},
		"memd/c.go":                 {modulePath + "/retry", "memd may not import retry"},
		"retry/a.go":                {"net/http", "must not import net/http"},
		"retry/policy/a.go":         {modulePath + "/retry/hedge", "may not import retry/hedge"},
		"mock/a.go":                 {modulePath + "/kv", "mock may not import kv"},
		"mock/b.go":                 {"testing", "must not import testing"},
		"mock/internal/store/a.go":  {modulePath + "/mock/memnet", "mock/internal/store may not import mock/memnet"},
		"mock/internal/subdoc/a.go": {"time", "must not import time"},
		"mock/couchbasemock/a.go": {
			modulePath + "/mock/internal/store",
			"mock/couchbasemock may not import mock/internal/store",
		},
		"mock/memnet/a.go":       {modulePath + "/mock", "mock/memnet may not import mock"},
		"kv/a.go":                {modulePath + "/internal/conn", "kv may not import internal/conn"},
		"kv/b.go":                {"log/slog", "must not import log/slog"},
		"internal/conn/a.go":     {modulePath + "/internal/topology", "may not import internal/topology"},
		"internal/dispatch/a.go": {modulePath + "/core", "may not import core"},
		"internal/httpsvc/a.go":  {"net/http", "must not import net/http"},
		"core/a.go":              {modulePath + "/cmd/couchcore", "core may not import cmd/couchcore"},
		"core/b.go": {
			"github.com/couchbase/gocbcore/v10/memd",
			"core must not link github.com/couchbase/gocbcore",
		},
		"core/c.go": {"github.com/alecthomas/kong", "core must not link github.com/alecthomas/kong"},
		"core/d.go": {modulePath + "/internal/testkit", "core may not import internal/testkit"},
		"core/e_test.go": {
			"github.com/stretchr/testify/assert",
			"testify holds require for us, nothing else",
		},
		"core/g.go":            {modulePath + "/internal/sim", "core may not import internal/sim"},
		"core/field/a_test.go": {modulePath + "/internal/conn", "the tests of core/field go the way a user goes"},
		"retry/promises/a_test.go": {
			modulePath + "/internal/dispatch",
			"the tests of retry/promises go the way a user goes",
		},
		"core/f.go":                  {"go.opentelemetry.io/otel", "core must not link go.opentelemetry.io/otel"},
		"cmd/couchcore/sub/a.go":     {modulePath + "/bench", "may not import bench"},
		"newpackage/a.go":            {"fmt", "newpackage has no row in the imports table"},
		"internal/unknown/a_test.go": {"fmt", "internal/unknown has no row in the imports table"},
	} {
		source := fmt.Sprintf("package x\n\nimport _ %q\n", c.imports)
		found, err := checkImports(fstest.MapFS{file: {Data: []byte(source)}})
		require.NoError(t, err)
		require.Len(t, found, 1, "%s imports %s", file, c.imports)
		require.Contains(t, found[0], c.want)
	}
}

func TestWhatTheTableAllowsIsNotFound(t *testing.T) {
	for file, imports := range map[string]string{
		"core/a.go":                 modulePath + "/internal/dispatch",
		"memd/a_test.go":            "github.com/couchbase/gocbcore/v10/memd",
		"kv/a_test.go":              modulePath + "/core",
		"internal/bench/a.go":       "github.com/couchbase/gocbcore/v10",
		"examples/retry/main.go":    modulePath + "/core",
		"tools/nested.go":           "example.com/anything", // a module of its own
		"memd/testdata/x.go":        "net",
		"internal/observe/a.go":     "go.opentelemetry.io/otel/metric/noop",
		"cmd/couchcore/sub/main.go": "github.com/alecthomas/kong",
		"cmd/couchcore/chaos.go":    modulePath + "/internal/sim",
	} {
		found, err := checkImports(fstest.MapFS{
			file:           {Data: []byte(fmt.Sprintf("package x\n\nimport _ %q\n", imports))},
			"tools/go.mod": {Data: []byte("module nested\n")},
		})
		require.NoError(t, err)
		require.Empty(t, found)
	}
}

// checkImports returns the imports in the module at fsys that the table does not allow. It parses the files itself: a
// child process would open them behind the test cache's back, which would then go on reporting an old success.
func checkImports(fsys fs.FS) ([]string, error) {
	var found []string
	err := walkGo(fsys, func(file string, f *ast.File, _ *token.FileSet) {
		dir := packageOf(file)
		r, known := ruleFor(dir)
		if !known {
			found = append(found, fmt.Sprintf("%s: %s has no row in the imports table", file, dir))
			return
		}
		for _, spec := range f.Imports {
			to, _ := strconv.Unquote(spec.Path.Value)
			if why := r.refuses(dir, to, strings.HasSuffix(file, "_test.go")); why != "" {
				found = append(found, file+": "+why)
			}
		}
	})
	slices.Sort(found)
	return found, err
}

func (r rule) refuses(dir, to string, test bool) string {
	if test {
		if isBelow(to, "github.com/stretchr/testify") && to != "github.com/stretchr/testify/require" {
			return "testify holds require for us, nothing else"
		}
		if slices.Contains(outside, dir) && isBelow(to, modulePath+"/internal") {
			return fmt.Sprintf("the tests of %s go the way a user goes: they may not import %s", dir, to)
		}
		return ""
	}
	if ours, ok := strings.CutPrefix(to+"/", modulePath+"/"); ok {
		if ours = strings.TrimSuffix(ours, "/"); !r.allows(ours) {
			return fmt.Sprintf("%s may not import %s", dir, ours)
		}
		return ""
	}
	if first, _, _ := strings.Cut(to, "/"); !strings.Contains(first, ".") {
		for _, p := range r.never {
			if isBelow(to, p) && to != "net/url" { // which is about texts
				return fmt.Sprintf("%s must not import %s", dir, to)
			}
		}
		return ""
	}
	for _, p := range r.external {
		if isBelow(to, p) {
			return ""
		}
	}
	if slices.ContainsFunc(testOnly, func(p string) bool { return isBelow(to, p) }) {
		return fmt.Sprintf("%s must not link %s outside its tests", dir, to)
	}
	return fmt.Sprintf("%s must not link %s", dir, to)
}

func (r rule) allows(ours string) bool {
	if slices.Contains(r.only, ours) {
		return true
	}
	to, known := ruleFor(ours)
	switch {
	case !r.below || !known:
		return false
	case to.layer == beside:
		return slices.Contains(forChaos, ours) && r.layer == rules["cmd/couchcore"].layer
	default:
		return r.layer == beside || to.layer < r.layer
	}
}

func isBelow(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

func packageOf(file string) string {
	if dir := path.Dir(file); dir != "." {
		return dir
	}
	return ""
}

// ruleFor finds the row of a package, or that of the nearest directory above it that covers what is below.
func ruleFor(dir string) (rule, bool) {
	if r, ok := rules[dir]; ok {
		return r, true
	}
	for up := path.Dir(dir); up != "."; up = path.Dir(up) {
		if r, ok := rules[up+"/..."]; ok {
			return r, true
		}
	}
	return rule{}, false
}

// walkGo parses every Go file of the module at fsys, whatever its build constraints, but no test data, no hidden
// directory and no nested module.
func walkGo(fsys fs.FS, visit func(file string, f *ast.File, set *token.FileSet)) error {
	set := token.NewFileSet()
	return fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file == "." {
				return nil
			}
			if _, err := fs.Stat(fsys, file+"/go.mod"); err == nil {
				return fs.SkipDir
			}
			if name == "testdata" || name == "target" || name[0] == '.' || name[0] == '_' {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(set, file, source, parser.ParseComments)
		if err != nil {
			return err
		}
		visit(file, f, set)
		return nil
	})
}
