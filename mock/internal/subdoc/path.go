package subdoc

import (
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

const (
	maxPathLen   = 1024 // of a path as it is sent
	maxPathParts = 31   // components of a path
	maxDepth     = 32   // of a document
	lastElement  = -1
)

// part is one component of a path: a key of an object, or the number of an array's element.
type part struct {
	key    string // as JSON text without its quotes, so that it can be put into a document as it is
	index  int    // of an element, lastElement for the last one
	number bool   // the component is an index
}

// parsePath takes a path apart. The empty path has no components. An error is one of the statuses for paths.
func parsePath(path string) ([]part, memd.Status) {
	var parts []part
	for len(path) > 0 {
		if len(parts) == maxPathParts {
			return nil, memd.StatusSubdocPathTooBig
		}
		var part part
		var ok bool
		if path[0] == '[' {
			part, path, ok = bracket(path)
		} else {
			part, path, ok = component(path)
		}
		if !ok {
			return nil, memd.StatusSubdocPathInvalid
		}
		parts = append(parts, part)
	}
	return parts, memd.StatusSuccess
}

// bracket takes "[n]" off the path, with the dot behind it.
func bracket(path string) (part part, tail string, ok bool) {
	digits, tail, ok := strings.Cut(path[1:], "]")
	if !ok {
		return part, "", false
	}
	part.number = true
	switch {
	case digits == "-1":
		part.index = lastElement
	case len(digits) > 18 || strings.Trim(digits, "0123456789") != "":
		return part, "", false
	default:
		part.index, _ = strconv.Atoi("0" + digits) // digits only; a server takes "[]" for the first element
	}
	if tail == "" || tail[0] == '[' {
		return part, tail, true
	}
	return part, tail[1:], tail[0] == '.'
}

// component takes a key off the path, with the dot behind it. Between backticks dots and brackets are part of the key;
// a doubled backtick is one of the key itself. What JSON escapes must be escaped.
func component(path string) (part part, tail string, ok bool) {
	quoted, escaped := false, false
	end := len(path)
scan:
	for i := range len(path) {
		c := path[i]
		switch {
		case escaped:
			if !strings.ContainsRune(`"/\bfnrt`, rune(c)) { // \u is not understood by servers either
				return part, "", false
			}
			escaped = false
			continue
		case c == '\\':
			escaped = true
			continue
		case c == '"', c < 0x20:
			return part, "", false
		case c == '`':
			quoted = !quoted
		case quoted:
		case c == ']':
			return part, "", false
		case c == '[', c == '.':
			end = i
			break scan
		}
	}
	if quoted || escaped {
		return part, "", false
	}
	part.key, tail = unquote(path[:end]), strings.TrimPrefix(path[end:], ".")
	return part, tail, part.key != ""
}

// unquote removes the backticks that quote, and halves the doubled ones.
func unquote(key string) string {
	if !strings.Contains(key, "`") {
		return key
	}
	if len(key) > 1 && key[0] == '`' && key[len(key)-1] == '`' {
		key = key[1 : len(key)-1]
	}
	const mark = "\x00" // no key has one
	key = strings.ReplaceAll(key, "``", mark)
	return strings.ReplaceAll(strings.ReplaceAll(key, "`", ""), mark, "`")
}

// same reports whether a member's name, as JSON text without quotes, is the component's. Texts are compared, as a
// server does it: a path has the escapes that the document has.
func (p *part) same(name []byte) bool { return string(name) == p.key }
