package gocbcore_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/compat/gocbcore"
	"github.com/couchcore/couchcore/internal/testkit"
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
// again. The mock's log of what it has applied is held against what the program was told of each write.
func TestGocbLosesNothing(t *testing.T) {
	testkit.RequireInterop(t)
	dir, run := gocbProgram(t, assembled(t, newest()), readFile(t, "testdata/writer/main.go"))
	binary := filepath.Join(dir, "writer")
	run("build", "-o", binary, ".")
	m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 64),
		mock.User("Administrator", "password"))
	cmd := exec.CommandContext(t.Context(), binary, m.ConnString())
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	require.Equal(t, "ready", lines.Text())
	told := make(chan map[string]map[string]int, 1)
	var causes []string
	go func() {
		all := map[string]map[string]int{}
		for lines.Scan() {
			key, outcome, _ := strings.Cut(lines.Text(), " ")
			how, why, _ := strings.Cut(outcome, " ")
			if all[key] == nil {
				all[key] = map[string]int{}
			}
			all[key][how]++
			if how == "not-done" {
				causes = append(causes, why)
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
	require.NoError(t, input.Close())
	all := <-told
	require.NoError(t, cmd.Wait())

	applied, there := map[string]int{}, map[string]bool{}
	for _, a := range m.ApplyLog("default") {
		applied[a.Key]++
	}
	for _, d := range m.Documents("default") {
		there[d.Key] = true
	}
	var done int
	for key, how := range all {
		done += how["done"]
		require.Zero(t, how["twice"], key)
		require.GreaterOrEqual(t, applied[key], how["done"], "%s: %v", key, how)
		require.LessOrEqual(t, applied[key], how["done"]+how["unknown"], "%s: %v", key, how)
		require.True(t, how["done"] == 0 || there[key], "%s is lost", key)
	}
	t.Logf("%d writes done, %d timeouts", done, len(causes))
	require.Greater(t, done, 1000)
	require.NotEmpty(t, causes)
	for _, why := range causes {
		require.Contains(t, why, "refused")
	}
}
