package gocbcore_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/compat/gocbcore"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

const gocbVersion = "github.com/couchbase/gocb/v2@v2.12.4"

// features are what gocb's suite is run for: what the mock has, and no service but views.
const features = "-*,+keyvalue,+subdoc,+xattrs,+collections,+collectionsmgr,+collectionsmgrmaxcollections,+adjoin," +
	"+expandmacros,+durability,+usergroup,+usermanager,+usermanagergrouproles,+bucketmgr,+bucketmgrdura," +
	"+getmeta,+ping,+replicas,+waituntilready,+waituntilreadyfastfail,+waituntilreadyauthfail," +
	"+waituntilreadycluster,+preserveexpiry,+rangescan,+getexpiryusinglookupin,+keyvaluebulk," +
	"+keyvalueprojections,+nodesmetadata,+subdocreplicas,+historyretention,+flushbucket,+memcachedbucket," +
	"+unlockmissingdocfail,+notlocked,+collectionmaxexpirynoexpiry,+collectionupdatemaxexpiry," +
	"+zoneawarereplicareads,+clusterlabels,+view,+viewinsertupsertbug,+hlc,+transactions," +
	"+transactionsremovelocation,+transactionsbinaryxattr,+transactionscustommetadata"

// failing are the tests of gocb's suite that fail on the mock, with gocbcore too.
var failing = []string{
	"TestBucketMgrMemcached", // the mock makes memcached buckets in its own way
	"TestClusterPingAll",     // it wants services that are left out
}

// TestTheAssembledModuleCompiles type-checks our files against each version of gocbcore that is known.
func TestTheAssembledModuleCompiles(t *testing.T) {
	for _, version := range gocbcore.Versions() {
		dir := assembled(t, version)
		goCommand(t, dir, "GOPROXY=off")("build", "./...")
	}
}

// TestGocbRunsOnCouchcore runs gocb's own suites, unmodified: what is no integration test, and what is, on the mock.
func TestGocbRunsOnCouchcore(t *testing.T) {
	testkit.RequireInterop(t)
	for _, version := range gocbcore.Versions() {
		t.Run(version, func(t *testing.T) {
			module := assembled(t, version)
			dir := t.TempDir()
			program := "package main\n\nimport _ \"github.com/couchbase/gocb/v2\"\n\nfunc main() {}\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
			run := goCommand(t, dir)
			run("mod", "init", "program")
			run("mod", "edit", "-require="+gocbVersion, "-replace="+gocbcore.Module+"="+module,
				"-replace=github.com/couchcore/couchcore="+root(t))
			suite := filepath.Join(dir, "gocb.test")
			run("test", "-c", "-o", suite, "github.com/couchbase/gocb/v2")
			home := strings.TrimSpace(run("list", "-m", "-f", "{{.Dir}}", "github.com/couchbase/gocb/v2"))

			out, err := suiteRun(t, suite, home, nil, "-test.short")
			require.NoError(t, err, out)

			m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.User("Administrator", "password"),
				mock.Views(viewjs.New(viewjs.Options{})))
			out, _ = suiteRun(t, suite, home, []string{
				"GOCBSERVER=" + m.ConnString(), "GOCBUSER=Administrator", "GOCBPASS=password", "GOCBVER=7.6.4",
				"GOCBNOLOG=1", "GOCBFEAT=" + features,
			})
			require.Contains(t, out, "No goroutines appear to have leaked")
			require.Contains(t, out, "No leaked http requests")
			require.Greater(t, strings.Count(out, "\n    --- PASS"), 250)
			failed := regexp.MustCompile(`\n    --- FAIL: TestIntegration/(\w+)`)
			var unexpected []string
			for _, f := range failed.FindAllStringSubmatch(out, -1) {
				if !slices.Contains(failing, f[1]) {
					unexpected = append(unexpected, f[1])
				}
			}
			require.Empty(t, unexpected, out)
		})
	}
}

// suiteRun runs a test binary and gives what it has printed.
func suiteRun(t *testing.T, binary, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append(args, "-test.v", "-test.timeout=5m")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// assembled makes the module in a directory of its own, of the module cache.
func assembled(t *testing.T, version string) string {
	t.Helper()
	m, err := gocbcore.ManifestOf(version)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", gocbcore.Module+"@"+version)
	text, err := cmd.Output()
	require.NoError(t, err, string(text))
	var got struct{ Dir string }
	require.NoError(t, json.Unmarshal(text, &got))
	files, err := m.Assemble(os.DirFS(got.Dir), gocbcore.Options{
		Couchcore: "v0.0.0-00010101000000-000000000000", Go: "1.26.0",
	})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "gocbcore")
	require.NoError(t, files.Write(dir))
	goCommand(t, dir)("mod", "edit", "-replace=github.com/couchcore/couchcore="+root(t))
	return dir
}

// root is the directory of this repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// goCommand runs the go command in a module whose go.mod and go.sum it may write.
func goCommand(t *testing.T, dir string, env ...string) func(args ...string) string {
	t.Helper()
	return func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GONOSUMDB=*"), env...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), errs.String())
		return string(out)
	}
}
