package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAModuleForGocbIsAssembled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gocbcore")
	r := couchcore("gocbcore", dir, "--couchcore", "../..", "--check", "--json")
	r.failsWith(t, exitFailed, "agent_config.go is missing")

	r = couchcore("gocbcore", dir, "--couchcore", "../..")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "replace github.com/couchbase/gocbcore/v10 => "+dir)
	require.Contains(t, r.stdout, "replace github.com/couchcore/couchcore => ")
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "module github.com/couchbase/gocbcore/v10\n")
	require.FileExists(t, filepath.Join(dir, "LICENSE"))

	r = couchcore("gocbcore", dir, "--couchcore", "../..", "--check", "--json")
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, dir, r.object(t)["dir"])
}

func TestAModuleForGocbIsRefused(t *testing.T) {
	couchcore("gocbcore", t.TempDir(), "--couchcore", "../..", "--gocbcore", "v10.0.0").
		failsWith(t, exitUsage, `gocbcore "v10.0.0" is not known; known are: v10`)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own.go"), nil, 0o600))
	couchcore("gocbcore", dir, "--couchcore", "../..").failsWith(t, exitFailed, "name another directory")
	require.Empty(t, ownVersion(), "a test has no version")
	couchcore("gocbcore", t.TempDir()).failsWith(t, exitUsage, "--couchcore DIR")
}
