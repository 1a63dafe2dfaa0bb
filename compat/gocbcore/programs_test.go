package gocbcore_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/compat/gocbcore"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestTheExampleRuns runs examples/gocb, which has a module of its own, on couchcore.
func TestTheExampleRuns(t *testing.T) {
	testkit.RequireInterop(t)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root(t), "examples", "gocb"))))
	run := goCommand(t, dir)
	run("mod", "edit", "-replace="+gocbcore.Module+"="+assembled(t, newest()),
		"-replace=github.com/couchcore/couchcore="+root(t))
	run("mod", "tidy")
	m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.User("Administrator", "password"))
	require.Equal(t, "read 40-Mile Air\nnow in Canada\n", run("run", ".", m.ConnString(), "Administrator", "password"))
}

// TestGocbLosesNothing has a program of gocb write while nodes are added, rebalanced, failed over, killed and started
// again. The mock's log of what it has applied is held against what the program was told of each write. The program
// goes through that with gocbcore too: where it is told that a time is over, couchcore says what has taken it.
func TestGocbLosesNothing(t *testing.T) {
	testkit.RequireInterop(t)
	ours, theirs := suffer(t, assembled(t, newest())), suffer(t, "")
	t.Logf("couchcore: %s; gocbcore: %s", ours, theirs)
	require.Empty(t, ours.lost)
	require.Empty(t, ours.wrong)
	require.Greater(t, ours.done, 1000)
	require.NotEmpty(t, ours.timeouts)
	for _, why := range ours.timeouts {
		require.Contains(t, why, "refused")
	}
	require.NotEmpty(t, theirs.timeouts)
	for _, why := range theirs.timeouts {
		require.NotContains(t, why, "refused")
	}
}

// A fate is what has become of a program's writes.
type fate struct {
	done     int
	timeouts []string // what it was told
	lost     []string // that were done, by what it was told, and are not there
	wrong    []string // that were applied more or less often than it was told
}

func (f fate) String() string {
	return fmt.Sprintf("%d writes done, %d timeouts, %d lost, %d wrong", f.done, len(f.timeouts), len(f.lost),
		len(f.wrong))
}

// suffer has the program write, with a module in the place of gocbcore's unless it is "".
func suffer(t *testing.T, module string) (f fate) {
	t.Helper()
	dir, run := gocbProgram(t, module, readFile(t, "testdata/writer/main.go"))
	binary := filepath.Join(dir, "writer")
	run("build", "-o", binary, ".")
	m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 64),
		mock.User("Administrator", "password"))
	defer m.Close()
	writer := talkTo(t, binary, m.ConnString())
	require.Equal(t, "ready", writer.line(t))
	told := make(chan map[string]map[string]int, 1)
	go func() {
		all := map[string]map[string]int{}
		for writer.out.Scan() {
			key, outcome, _ := strings.Cut(writer.out.Text(), " ")
			how, why, _ := strings.Cut(outcome, " ")
			if all[key] == nil {
				all[key] = map[string]int{}
			}
			all[key][how]++
			if strings.Contains(why, "timeout") {
				f.timeouts = append(f.timeouts, why)
			}
		}
		told <- all
	}()
	for _, event := range []func() error{
		func() error { m.AddNode(); return m.Rebalance() },
		func() error { return m.CloseConns(1) },
		func() error { return m.Failover(0) },
		m.Rebalance,
		func() error { return m.Kill(2) },
	} {
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, event())
	}
	time.Sleep(3 * time.Second) // longer than the timeout of a write
	require.NoError(t, m.Respawn(2))
	time.Sleep(time.Second)
	writer.end(t)
	f.hold(m, <-told)
	return f
}

// hold holds what the program was told against what the mock has done.
func (f *fate) hold(m *mock.Cluster, told map[string]map[string]int) {
	applied, there := map[string]int{}, map[string]bool{}
	for _, a := range m.ApplyLog("default") {
		applied[a.Key]++
	}
	for _, d := range m.Documents("default") {
		there[d.Key] = true
	}
	for key, how := range told {
		f.done += how["done"]
		if how["done"] > 0 && !there[key] {
			f.lost = append(f.lost, key)
		}
		if n := applied[key]; how["twice"] > 0 || n < how["done"] || n > how["done"]+how["unknown"] {
			f.wrong = append(f.wrong, fmt.Sprintf("%s: applied %d times, told %v", key, n, how))
		}
	}
}

// TestAgentsAreAsGocbcores runs a program of gocbcore's own API with both: a write whose first attempt fails has the
// same spans, begun and ended in the same order, with one for each attempt; and TLS is turned on and off.
func TestAgentsAreAsGocbcores(t *testing.T) {
	testkit.RequireInterop(t)
	m := mock.Start(t, mock.Nodes(2), mock.TLS(), mock.Bucket("default", 64), mock.User("Administrator", "password"))
	defer m.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, m.CA(), 0o600))
	said := map[string][]string{}
	for _, module := range []string{assembled(t, newest()), ""} {
		dir, run := gocbProgram(t, module, readFile(t, "testdata/agent/main.go"))
		run("build", "-o", filepath.Join(dir, "agent"), ".")
		for _, about := range []string{"spans", "own-spans", "security"} {
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "agent"), about, m.ConnString(), ca)
			out, err := cmd.Output()
			require.NoError(t, err, string(out))
			said[about] = append(said[about], string(out))
		}
	}
	for about, both := range said {
		require.Equal(t, both[1], both[0], about)
	}
	spans := said["spans"][0]
	require.Equal(t, 2, strings.Count(spans, "begin program/CMD_SET/dispatch_to_server"), spans)
	require.Equal(t, "false http http 200\ntrue https https 200\nfalse http http 200\n", said["security"][0])
}
