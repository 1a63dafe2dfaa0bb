package gocbcore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mark is the file by which a directory is known as an assembled module.
const mark = "COUCHCORE.md"

// NotOursError is a directory that holds something else than an assembled module: nothing is written there.
type NotOursError struct{ Dir string }

func (e *NotOursError) Error() string {
	return e.Dir + " is not empty and not an assembled module: name another directory"
}

// Write makes dir hold the files, and no Go file besides. dir is made if it is not there. The error is a *NotOursError
// when it holds something else.
func (f Files) Write(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = os.Stat(filepath.Join(dir, mark))
	if len(entries) > 0 && err != nil {
		return &NotOursError{dir}
	}
	stale, err := f.besides(dir)
	if err != nil {
		return err
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range f.names() {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, f[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Differences says, one line each, where dir is not what Write would make of it; none when it is.
func (f Files) Differences(dir string) (list []string, err error) {
	for _, name := range f.names() {
		have, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			list = append(list, name+" is missing")
		case err != nil:
			return nil, err
		case !bytes.Equal(have, f[name]):
			list = append(list, name+" is another one")
		}
	}
	stale, err := f.besides(dir)
	for _, name := range stale {
		list = append(list, name+" should not be there")
	}
	return list, err
}

func (f Files) names() (names []string) {
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// besides are the Go files in dir that the assembled module does not have.
func (f Files) besides(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if _, ours := f[filepath.ToSlash(rel)]; !ours {
			names = append(names, rel)
		}
		return nil
	})
	return names, err
}
