package gocbcore

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Options say what an assembled module needs besides its source.
type Options struct {
	// Couchcore is the version of couchcore that the module requires.
	Couchcore string
	// Go is the version of the language, as in "1.26.0".
	Go string
}

// SumError is a source that is not what its version's manifest is for.
type SumError struct {
	Version, Want, Have string
}

func (e *SumError) Error() string {
	return fmt.Sprintf("gocbcore %s has the sum %s, expected is %s: it is not the published module",
		e.Version, e.Have, e.Want)
}

// Files are the files of an assembled module, by their paths.
type Files map[string][]byte

// Assemble makes the module of the source that m is for. src is the root of the source module. The same input makes the
// same bytes. The error is a *SumError when src is not that version as it was published.
func (m *Manifest) Assemble(src fs.FS, o Options) (Files, error) {
	have, err := sum(src, Module+"@"+m.Version)
	if err != nil {
		return nil, err
	}
	if have != m.Sum {
		return nil, &SumError{m.Version, m.Sum, have}
	}
	out := Files{}
	for _, e := range m.entries {
		text, err := fs.ReadFile(src, e.file)
		if err == nil && e.how != keep {
			text, err = choose(e, text)
		}
		if err != nil {
			return nil, err
		}
		out[e.file] = text
	}
	if err := m.addEngine(out); err != nil {
		return nil, err
	}
	out["go.mod"], out[mark] = m.goMod(o), m.notice()
	return out, nil
}

// addEngine adds our own files. The first line of each keeps it out of our own build.
func (m *Manifest) addEngine(out Files) error {
	files, err := fs.Glob(engine, "engine/*.go")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := engine.ReadFile(f)
		if err != nil {
			return err
		}
		body, tagged := bytes.CutPrefix(text, []byte("//go:build ignore\n\n"))
		name := "couchcore_" + path.Base(f)
		if _, taken := out[name]; taken || !tagged {
			return fmt.Errorf("%s cannot be added", f)
		}
		out[name] = body
	}
	return nil
}

// goMod is the module's go.mod.
func (m *Manifest) goMod(o Options) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "module %s\n\ngo %s\n\nrequire (\n", Module, o.Go)
	need := append(slices.Clone(m.require), [2]string{"github.com/couchcore/couchcore", o.Couchcore})
	slices.SortFunc(need, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	for _, r := range need {
		fmt.Fprintf(&b, "\t%s %s\n", r[0], r[1])
	}
	b.WriteString(")\n")
	return b.Bytes()
}

// notice says what the module is made of, as the license of its source asks for.
func (m *Manifest) notice() []byte {
	return fmt.Appendf(nil, `# What this module is made of

The command "couchcore gocbcore" has made it of two sources:

* The files whose names do not begin with couchcore_ are those of %s %s, Copyright Couchbase, Inc.,
  licensed under the Apache License 2.0 (file LICENSE). A notice marks each file of which parts were left out; the
  others are unchanged. go.mod is new.
* The files whose names begin with couchcore_ are part of couchcore and under its license.

It is made anew rather than edited.
`, Module, m.Version)
}

// sum is the hash of a module's files that go.sum has: of the sorted list of each file's hash and name, with the
// module's path and version before the name (golang.org/ref/mod, section go.sum files).
func sum(src fs.FS, prefix string) (string, error) {
	var names []string
	err := fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	all := sha256.New()
	for _, name := range names {
		text, err := fs.ReadFile(src, name)
		if err != nil {
			return "", err
		}
		all.Write(fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(text), prefix+"/"+name))
	}
	return "h1:" + base64.StdEncoding.EncodeToString(all.Sum(nil)), nil
}
