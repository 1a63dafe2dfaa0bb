package gocbcore

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the path of the module that is stood in for.
const Module = "github.com/couchbase/gocbcore/v10"

// engine has our own files, and the manifests.
//
//go:embed engine/*.go manifests/*.txt
var engine embed.FS

// how says what becomes of a file of the source.
type how uint8

const (
	keep how = iota // as it is
	drop            // without the named declarations
	take            // the named declarations alone
)

// entry is one line of a manifest.
type entry struct {
	file  string
	how   how
	names []string // of declarations; a method's is "Type.Method"
}

// Manifest says what of one version of the source is used.
type Manifest struct {
	Version string
	// Sum is the hash of the module, as in go.sum.
	Sum string

	like    string      // the version whose lines these are too, "" for none
	require [][2]string // modules that the result needs, and their versions
	entries []entry
}

// ManifestError is a line of a manifest that cannot be used.
type ManifestError struct {
	Line   int
	Reason string
}

func (e *ManifestError) Error() string { return fmt.Sprintf("manifest line %d: %s", e.Line, e.Reason) }

// Versions are those that have a manifest, the newest last.
func Versions() []string {
	files, err := fs.Glob(engine, "manifests/*.txt")
	if err != nil {
		return nil
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".txt")
	}
	return files
}

// UnknownVersionError is a version of the source that has no manifest.
type UnknownVersionError struct {
	Version string
	Known   []string
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("gocbcore %q is not known; known are: %s", e.Version, strings.Join(e.Known, ", "))
}

// ManifestOf gives the manifest of a version. The error is an *UnknownVersionError.
func ManifestOf(version string) (*Manifest, error) {
	if !slices.Contains(Versions(), version) {
		return nil, &UnknownVersionError{Version: version, Known: Versions()}
	}
	text, err := engine.ReadFile("manifests/" + version + ".txt")
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(string(text))
	if err != nil {
		return nil, err
	}
	m.Version = version
	if m.like != "" {
		base, err := ManifestOf(m.like)
		if err != nil {
			return nil, err
		}
		m.require, m.entries = append(base.require, m.require...), append(base.entries, m.entries...)
	}
	return m, nil
}

// parseManifest reads lines of these forms; an indented line goes on with the names of the line before it:
//
//	sum HASH
//	like VERSION
//	require MODULE VERSION
//	keep FILE ...
//	drop FILE NAME ...
//	take FILE NAME ...
func parseManifest(text string) (*Manifest, error) {
	m := &Manifest{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			if len(m.entries) == 0 {
				return nil, &ManifestError{n, "nothing goes on here"}
			}
			m.more(words)
			continue
		}
		if !m.add(words[0], words[1:]) {
			return nil, &ManifestError{n, "not understood: " + line}
		}
	}
	if m.Sum == "" {
		return nil, &ManifestError{0, "there is no sum"}
	}
	return m, lines.Err()
}

// add takes one line; false says that it makes no sense.
func (m *Manifest) add(word string, args []string) bool {
	switch {
	case word == "sum" && len(args) == 1:
		m.Sum = args[0]
	case word == "like" && len(args) == 1:
		m.like = args[0]
	case word == "require" && len(args) == 2:
		m.require = append(m.require, [2]string{args[0], args[1]})
	case word == "keep" && len(args) > 0:
		for _, file := range args {
			m.entries = append(m.entries, entry{file: file})
		}
	case word == "drop" && len(args) > 0:
		m.entries = append(m.entries, entry{file: args[0], how: drop, names: args[1:]})
	case word == "take" && len(args) > 0:
		m.entries = append(m.entries, entry{file: args[0], how: take, names: args[1:]})
	default:
		return false
	}
	return true
}

// more takes the words of an indented line: names of declarations, or files after keep.
func (m *Manifest) more(words []string) {
	last := &m.entries[len(m.entries)-1]
	if last.how != keep {
		last.names = append(last.names, words...)
		return
	}
	for _, file := range words {
		m.entries = append(m.entries, entry{file: file})
	}
}
