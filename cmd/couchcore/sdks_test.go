package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

// The examples for other languages, with the SDKs of these languages. COUCHCORE_PYTHON names a Python that has the
// package couchbase, COUCHCORE_NODE_MODULES a folder of packages for Node that has it; interop/run installs both.

func TestThePythonExampleRunsWithItsSDK(t *testing.T) {
	python := os.Getenv("COUCHCORE_PYTHON")
	if python == "" {
		python = "python3"
	}
	requireSDK(t, exec.CommandContext(t.Context(), python, "-c", "import couchbase"))
	runExample(t, exec.CommandContext(t.Context(), python, "-m", "unittest", "test_orders.py"), "python")
}

func TestTheNodeExampleRunsWithItsSDK(t *testing.T) {
	modules := os.Getenv("COUCHCORE_NODE_MODULES")
	_, err := os.Stat(filepath.Join(modules, "couchbase"))
	if modules == "" {
		err = os.ErrNotExist
	}
	if err != nil {
		requireSDK(t, exec.CommandContext(t.Context(), "node", "-e", "require('couchbase')"))
	}
	// Packages of modules are looked for above the file, so the example stands beside them.
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, "examples", "node", "orders.test.mjs"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orders.test.mjs"), text, 0o600))
	if modules != "" {
		require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	}
	cmd := exec.CommandContext(t.Context(), "node", "--test", "orders.test.mjs")
	cmd.Dir = dir
	runExample(t, cmd, "node")
}

// requireSDK skips the test when its language or its SDK is missing, unless all tests have to run.
func requireSDK(t *testing.T, probe *exec.Cmd) {
	t.Helper()
	if out, err := probe.CombinedOutput(); err != nil {
		testkit.RequireInterop(t)
		t.Fatalf("%v: %v\n%s", probe.Args, err, out)
	}
}

// runExample runs an example against the command as it is now.
func runExample(t *testing.T, cmd *exec.Cmd, folder string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "couchcore")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if cmd.Dir == "" {
		cmd.Dir = filepath.Join(root, "examples", folder)
	}
	cmd.Env = append(os.Environ(), "COUCHCORE="+program, "PYTHONDONTWRITEBYTECODE=1")
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The examples are short enough to read at once.
func TestTheExamplesOfOtherLanguagesAreShort(t *testing.T) {
	for _, file := range []string{"examples/python/test_orders.py", "examples/node/orders.test.mjs"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		lines := 0
		for _, b := range text {
			if b == '\n' {
				lines++
			}
		}
		require.Less(t, lines, 60, file)
	}
}
