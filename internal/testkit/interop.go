package testkit

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// InteropVariable switches the tests on that need software which Go alone does not bring. CI sets it to 1.
const InteropVariable = "COUCHCORE_INTEROP"

// containedVariable marks the copy of a test binary that Contained started, so that it never starts another.
const containedVariable = "COUCHCORE_CONTAINED"

// RequireInterop skips the test unless COUCHCORE_INTEROP is 1; the skip names the variable. With the variable set
// nothing is skipped any more: a missing program fails the test.
func RequireInterop(t testing.TB) {
	t.Helper()
	if os.Getenv(InteropVariable) != "1" {
		t.Skipf("needs programs that Go does not bring: set %s=1 to run it, and .ci/run installs what is missing",
			InteropVariable)
	}
}

// Contained runs the calling test's body in a network namespace that has a loopback interface and nothing else, so that
// a server which binds every interface is out of everybody's reach. Where the process is in such a namespace already,
// run is called at once; otherwise the test binary is started again inside one, for this test alone, its output is
// passed on, and the test fails if that copy fails or does not run it. Call it first in a test that has no parallel
// siblings, and do nothing after it.
func Contained(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	RequireInterop(t)
	only, err := loopbackOnly()
	if err != nil {
		t.Fatalf("list the network interfaces: %v", err)
	}
	if only {
		run(t)
		return
	}
	if os.Getenv(containedVariable) != "" {
		t.Fatal("the namespace has more than a loopback interface: the containment does not work here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	var pattern []string
	for _, part := range strings.Split(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-rn", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", self,
		"-test.run="+strings.Join(pattern, "/"), "-test.v", "-test.count=1", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), containedVariable+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("in a network namespace of its own:\n%s", out)
	if err != nil {
		t.Fatalf("the contained run failed: %v. If it did not start at all: it needs unshare, ip and user namespaces",
			err)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatal("the contained run did not run this test")
	}
}

// loopbackOnly tells whether every network interface of this process's namespace that is up is a loopback interface.
func loopbackOnly() (bool, error) {
	all, err := net.Interfaces()
	if err != nil {
		return false, err
	}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return false, nil
		}
	}
	return true, nil
}

// Program returns the path of an installed program and fails the test, naming the Debian package to install, if it is
// missing.
func Program(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is set and %s is missing: %v (Debian: apt-get install %s)", InteropVariable, name, err,
			debianPackage)
	}
	return path
}

// moduleRoot is the directory of the module's go.mod, searched upwards from the directory that the test runs in.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/couchcore/couchcore\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod of the module above the test's directory: %w", fs.ErrNotExist)
		}
		dir = up
	}
}
