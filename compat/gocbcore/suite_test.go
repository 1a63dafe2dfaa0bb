package gocbcore_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/compat/gocbcore"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

// suiteVariable names a directory with binaries of gocbcore's suite, for a run in a network namespace of its own, where
// no module can be downloaded.
const suiteVariable = "COUCHCORE_GOCBCORE_SUITE"

// TestGocbcoreSuiteRunsOnCouchcore runs gocbcore's own standard suite on our engine, without the tests that look into
// what the engine replaces. It is run twice, because some tests want the default ports and lacking do not.
func TestGocbcoreSuiteRunsOnCouchcore(t *testing.T) {
	testkit.RequireInterop(t)
	version := gocbcore.Versions()[len(gocbcore.Versions())-1]
	if os.Getenv(suiteVariable) == "" {
		t.Setenv(suiteVariable, compiledSuite(t, version))
	}
	testkit.Contained(t, func(t *testing.T) {
		dir := os.Getenv(suiteVariable)
		var gone map[string]string
		text, err := os.ReadFile(filepath.Join(dir, "gone.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &gone))
		became := map[string]string{}
		for name, why := range gone {
			became[name] = "NOT COMPILED " + why
		}
		for _, r := range ways {
			for name, how := range standardRun(t, dir, r) {
				if became[name] != "PASS" && (became[name] == "" || how != "SKIP") {
					became[name] = how
				}
			}
		}
		known := readFile(t, "../RESULTS.md")
		var passed int
		var lacking []string
		for _, name := range standardTests(t, filepath.Join(dir, "source")) {
			if became[name] == "PASS" {
				passed++
				continue
			}
			if !strings.Contains(known, "\n| "+name+" | ") {
				lacking = append(lacking, name+" "+became[name])
			}
		}
		t.Logf("%d passed", passed)
		require.Empty(t, lacking)
		require.GreaterOrEqual(t, passed, 165)
	})
}

// compiledSuite makes the suite's binary in a directory, beside gone.json, which says what was taken out, and the
// unchanged tests.
func compiledSuite(t *testing.T, version string) string {
	t.Helper()
	module, dir := assembled(t, version), t.TempDir()
	source := moduleDir(t, version)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "source"), 0o755))
	copyTests(t, source, filepath.Join(dir, "source"))
	copyTests(t, source, module)
	run := goCommand(t, module)
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+ v\S+)$`).FindAllStringSubmatch(
		readFile(t, filepath.Join(source, "go.mod")), -1) {
		run("mod", "edit", "-require="+strings.Replace(line[1], " ", "@", 1))
	}
	c := &cut{dir: module, gone: map[string]string{}}
	c.compile(t, filepath.Join(dir, "suite"))
	text, err := json.Marshal(c.gone)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gone.json"), text, 0o600))
	if from := filepath.Join(source, "testdata"); exists(from) {
		require.NoError(t, os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(from)))
	}
	return dir
}

// A way is one in which the suite is run.
type way struct {
	ports    mock.Option
	http     bool
	features string
}

// ways are those that tests want: the default ports, or an address of the management service and no collections.
var ways = []way{
	{ports: mock.DefaultPorts(), features: "+computeunits"},
	{ports: mock.Ports(0), http: true, features: "-collections"},
}

// standardRun runs the suite on a mock and says what has become of its tests.
func standardRun(t *testing.T, dir string, r way) map[string]string {
	t.Helper()
	m := mock.Start(t, r.ports, mock.Nodes(2), mock.Bucket("default", 64), mock.Bucket("memd", 64, mock.Memcached()),
		mock.User("Administrator", "password"), mock.TLS(), mock.ReportUnits(), mock.Version("7.6.4"),
		mock.Views(viewjs.New(viewjs.Options{})))
	defer m.Close()
	seed := m.ConnString()
	if r.http {
		seed = "http://" + m.Node(0).ServiceAddr(mock.ManagementService)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "suite"), "-test.v", "-test.timeout=4m",
		"-test.run=^TestStandardSuite$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GCBCONNSTR="+seed, "GCBUSER=Administrator", "GCBPASS=password", "GCBCVER=7.6.4",
		"GCBFEAT="+r.features)
	out, _ := cmd.CombinedOutput()
	if keep := os.Getenv("COUCHCORE_KEEP"); keep != "" {
		f, err := os.OpenFile(keep, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, _ = f.Write(out)
		require.NoError(t, f.Close())
	}
	became := map[string]string{}
	for _, l := range regexp.MustCompile(`(?m)^    --- (\w+): TestStandardSuite/(\w+) `).FindAllStringSubmatch(
		string(out), -1) {
		became[l[2]] = l[1]
	}
	require.NotEmpty(t, became, string(out))
	return became
}

// moduleDir is where gocbcore's source is in the module cache.
func moduleDir(t *testing.T, version string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", gocbcore.Module+"@"+version).Output()
	require.NoError(t, err, string(out))
	var got struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &got))
	return got.Dir
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
