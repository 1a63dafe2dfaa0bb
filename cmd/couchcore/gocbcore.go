package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/couchcore/couchcore/compat/gocbcore"
)

type gocbcoreCmd struct {
	Dir       string `arg:"" help:"Where the module is written: a new directory, or one that this command has made."`
	Check     bool   `help:"Write nothing; say whether the directory is what would be written (default: no)."`
	Gocbcore  string `name:"gocbcore" placeholder:"VERSION" help:"The version of gocbcore to replace (default: the newest known)."`
	Couchcore string `name:"couchcore" placeholder:"DIR" help:"A directory with the source of couchcore, instead of the version of this command."`
}

// noVersion is what go.mod says of a module that a replace line stands for.
const noVersion = "v0.0.0-00010101000000-000000000000"

// assembled is what the command says as JSON.
type assembled struct {
	Dir      string   `json:"dir"`
	Gocbcore string   `json:"gocbcore"`
	Replace  []string `json:"replace"`
	// Differences are those that --check has found.
	Differences []string `json:"differences,omitempty"`
}

// Run implements the command.
func (c *gocbcoreCmd) Run(a *app) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	res := assembled{Dir: dir, Gocbcore: c.Gocbcore, Replace: []string{gocbcore.Module + " => " + dir}}
	if res.Gocbcore == "" {
		known := gocbcore.Versions()
		res.Gocbcore = known[len(known)-1]
	}
	options := gocbcore.Options{Go: goLine, Couchcore: ownVersion()}
	if c.Couchcore != "" {
		own, err := filepath.Abs(c.Couchcore)
		if err != nil {
			return err
		}
		options.Couchcore = noVersion
		res.Replace = append(res.Replace, "github.com/couchcore/couchcore => "+own)
	}
	if options.Couchcore == "" {
		return usagef("this command was not built from a version of couchcore: name its source with --couchcore DIR")
	}
	files, err := assemble(res.Gocbcore, options)
	if err != nil {
		return err
	}
	if c.Check {
		return a.checked(files, res)
	}
	if err := files.Write(dir); err != nil {
		return err
	}
	if a.json {
		return a.emit(res)
	}
	return a.print("%s is written. Add to your go.mod, and run go mod tidy:\n\nreplace %s", dir,
		strings.Join(res.Replace, "\n\nreplace "))
}

// goLine is the version of the language that couchcore is written in.
const goLine = "1.26.0"

// ownVersion is the version of couchcore that this command was built from, "" for a build from a directory.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; v != "(devel)" && !strings.Contains(v, "+dirty") {
		return v
	}
	return ""
}

// assemble makes the module of what the go command has in its module cache.
func assemble(version string, o gocbcore.Options) (gocbcore.Files, error) {
	m, err := gocbcore.ManifestOf(version)
	if err != nil {
		return nil, usagef("%v", err)
	}
	src, err := moduleDir(gocbcore.Module + "@" + version)
	if err != nil {
		return nil, err
	}
	return m.Assemble(os.DirFS(src), o)
}

// moduleDir asks the go command for a module, which it downloads if its cache does not have it.
func moduleDir(module string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // whatever module the caller is in
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	var got struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &got); jsonErr == nil && got.Error != "" {
		return "", errors.New(got.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, err, bytes.TrimSpace(errs.Bytes()))
	}
	return got.Dir, nil
}

// checked says whether the directory is what would be written.
func (a *app) checked(files gocbcore.Files, res assembled) error {
	var err error
	if res.Differences, err = files.Differences(res.Dir); err != nil {
		return err
	}
	if len(res.Differences) > 0 {
		return fmt.Errorf("%s is not what would be written: %s", res.Dir, strings.Join(res.Differences, ", "))
	}
	if a.json {
		return a.emit(res)
	}
	return a.print("%s is what would be written", res.Dir)
}
