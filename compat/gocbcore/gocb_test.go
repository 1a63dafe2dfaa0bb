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

// A group is a part of gocb's integration suite: what the features are for, and how many of its tests pass at least.
type group struct {
	name, features string
	passing        int
}

// groups are run one after the other. Some tests of services want the cluster to themselves.
var groups = []group{
	{"key-value", "+keyvalue,+subdoc,+xattrs,+collections,+collectionsmgr,+collectionsmgrmaxcollections,+adjoin," +
		"+expandmacros,+durability,+usergroup,+usermanager,+usermanagergrouproles,+bucketmgr,+bucketmgrdura," +
		"+getmeta,+ping,+replicas,+waituntilready,+waituntilreadyfastfail,+waituntilreadyauthfail," +
		"+waituntilreadycluster,+preserveexpiry,+rangescan,+getexpiryusinglookupin,+keyvaluebulk," +
		"+keyvalueprojections,+nodesmetadata,+subdocreplicas,+historyretention,+flushbucket,+memcachedbucket," +
		"+unlockmissingdocfail,+notlocked,+collectionmaxexpirynoexpiry,+collectionupdatemaxexpiry," +
		"+zoneawarereplicareads,+clusterlabels,+view,+viewinsertupsertbug,+hlc,+transactions," +
		"+transactionsremovelocation,+transactionsbinaryxattr,+transactionscustommetadata", 250},
	{"services", "+keyvalue,+collections,+collectionsmgr,+query,+clusterQuery,+queryindex,+collectionsquery," +
		"+enhancedpreparedstatements,+queryimprovederrors,+mb57673,+search,+searchindex,+searchanalyze," +
		"+scopesearchindex,+scopesearch,+vectorsearch,+analytics,+analyticsindex,+collectionsanalytics," +
		"+analyticspending,+analyticsindexlinks,+analyticsindexscopeslinks,+pinganalytics,+ping,+view," +
		"+transactions,+transactionsquery,+transactionssinglequeryexists,+clusterlabels", 400},
}

// TestTheAssembledModuleCompiles type-checks our files against the newest version of gocbcore, which our own tests need
// anyway.
func TestTheAssembledModuleCompiles(t *testing.T) { compiles(t, newest()) }

// TestTheAssembledModulesCompile does so for each version that is known.
func TestTheAssembledModulesCompile(t *testing.T) {
	testkit.RequireInterop(t)
	compiles(t, gocbcore.Versions()...)
}

// newest is the newest version that is known.
func newest() string {
	all := gocbcore.Versions()
	return all[len(all)-1]
}

func compiles(t *testing.T, versions ...string) {
	t.Helper()
	for _, version := range versions {
		dir := assembled(t, version)
		goCommand(t, dir)("build", "./...")
	}
}

// TestGocbRunsOnCouchcore runs gocb's own suites, unmodified, on couchcore and on gocbcore: what is no integration
// test, and what is, on the mock. What passes with gocbcore must pass.
func TestGocbRunsOnCouchcore(t *testing.T) {
	testkit.RequireInterop(t)
	ours, theirs := gocbSuite(t, assembled(t, newest())), gocbSuite(t, "")
	out, err := ours.run(t, nil, "-test.short")
	require.NoError(t, err, out)
	require.Contains(t, out, "No goroutines appear to have leaked")
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			out := ours.integrate(t, g)
			require.Contains(t, out, "No goroutines appear to have leaked")
			require.Contains(t, out, "No leaked http requests")
			failed := outcomes(out, "FAIL")
			t.Logf("passed %d, failed %q", len(outcomes(out, "PASS")), failed)
			require.GreaterOrEqual(t, len(outcomes(out, "PASS")), g.passing)
			if len(failed) == 0 {
				return
			}
			beside := theirs.integrate(t, g)
			t.Logf("gocbcore: passed %d, failed %q", len(outcomes(beside, "PASS")), outcomes(beside, "FAIL"))
			for _, name := range outcomes(beside, "PASS") {
				if slices.Contains(failed, name) { // some depend on who is faster: alone they get another chance
					_, method, _ := strings.Cut(name, "/")
					require.Contains(t, outcomes(ours.integrate(t, g, "-testify.m=^"+method+"$"), "PASS"), name, out)
				}
			}
		})
	}
}

// suite is gocb's test binary, and where it is run.
type suite struct{ binary, dir string }

// gocbSuite compiles gocb's tests with a module in the place of gocbcore's, or with gocbcore's for "".
func gocbSuite(t *testing.T, module string) suite {
	t.Helper()
	dir, run := gocbProgram(t, module, "package main\n\nimport _ \"github.com/couchbase/gocb/v2\"\n\nfunc main() {}\n")
	s := suite{binary: filepath.Join(dir, "gocb.test")}
	run("test", "-c", "-o", s.binary, "github.com/couchbase/gocb/v2")
	s.dir = strings.TrimSpace(run("list", "-m", "-f", "{{.Dir}}", "github.com/couchbase/gocb/v2"))
	return s
}

// gocbProgram makes a module of a program of gocb's, with a module in the place of gocbcore's unless it is "". run runs
// the go command there.
func gocbProgram(t *testing.T, module, program string) (dir string, run func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	run = goCommand(t, dir)
	run("mod", "init", "program")
	run("mod", "edit", "-require="+gocbVersion, "-require="+gocbcore.Module+"@"+newest())
	if module != "" {
		run("mod", "edit", "-replace="+gocbcore.Module+"="+module, "-replace=github.com/couchcore/couchcore="+root(t))
	}
	return dir, run
}

// integrate runs a part of the integration suite on a mock of its own.
func (s suite) integrate(t *testing.T, g group, args ...string) string {
	t.Helper()
	m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.User("Administrator", "password"),
		mock.Views(viewjs.New(viewjs.Options{})))
	defer m.Close()
	out, _ := s.run(t, []string{
		"GOCBSERVER=" + m.ConnString(), "GOCBUSER=Administrator", "GOCBPASS=password", "GOCBVER=7.6.4", "GOCBNOLOG=1",
		"GOCBFEAT=-*," + g.features,
	}, args...)
	return out
}

// run runs the binary and gives what it has printed.
func (s suite) run(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.binary, append(args, "-test.v", "-test.timeout=5m")...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// outcomes are the tests of a suite that have ended so.
func outcomes(out, how string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^ {4,}--- `+how+`: (\S+) `).FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return names
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
