package subdoc

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// What follows works on the bytes of documents that are known to be valid JSON: nothing is decoded and encoded again,
// so numbers, spaces and the order of members stay as they are.

// span is a stretch of a document.
type span struct{ from, to int }

// element is one element of an array or one member of an object.
type element struct {
	whole span // with its key, without commas
	key   span // of a member, without quotes
	value span
}

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\t' || doc[i] == '\n' || doc[i] == '\r') {
		i++
	}
	return i
}

// root is the document without the space around it.
func root(doc []byte) span {
	i := skipSpace(doc, 0)
	return span{i, valueEnd(doc, i)}
}

// valueEnd is where the value that begins at i ends.
func valueEnd(doc []byte, i int) int {
	if i >= len(doc) {
		return i
	}
	switch doc[i] {
	case '"':
		return stringEnd(doc, i)
	case '{', '[':
		for depth := 0; i < len(doc); i++ {
			switch doc[i] {
			case '"':
				i = stringEnd(doc, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return i
	}
	for i < len(doc) {
		switch doc[i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

func stringEnd(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(doc)
}

// elements yields the elements of the array or object that begins at open, with their numbers.
func elements(doc []byte, open int) iter.Seq2[int, element] {
	return func(yield func(int, element) bool) {
		i := skipSpace(doc, open+1)
		for n := 0; i < len(doc) && doc[i] != '}' && doc[i] != ']'; n++ {
			var e element
			e.whole.from = i
			if doc[open] == '{' {
				end := stringEnd(doc, i)
				e.key = span{i + 1, end - 1}
				i = skipSpace(doc, skipSpace(doc, end)+1) // over the colon
			}
			end := valueEnd(doc, i)
			e.value = span{i, end}
			e.whole.to = end
			if !yield(n, e) {
				return
			}
			i = skipSpace(doc, end)
			if i < len(doc) && doc[i] == ',' {
				i = skipSpace(doc, i+1)
			}
		}
	}
}

// nesting is how deep objects and arrays are inside of one another.
func nesting(doc []byte) int {
	depth, most := 0, 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = stringEnd(doc, i) - 1
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	return most
}

// place is where a path leads.
type place struct {
	matched int     // how many components of the path exist
	value   span    // what these lead to
	elem    element // the last of them, when there is one
	before  span    // the element before that one, empty for the first
	first   bool
}

// find follows a path through a document. The status is success when all of it exists, "not found" when a part does
// not, and "mismatch" when it treats a value as something that it is not.
func find(doc []byte, parts []part) (place, memd.Status) {
	at := place{value: root(doc)}
	for i := range parts {
		p := &parts[i]
		open := byte('{')
		if p.number {
			open = '['
		}
		if at.value.from >= len(doc) || doc[at.value.from] != open {
			return at, memd.StatusSubdocPathMismatch
		}
		if !at.enter(doc, p) {
			return at, memd.StatusSubdocPathNotFound
		}
		at.matched++
	}
	return at, memd.StatusSuccess
}

// enter goes on to the element that p names, if there is one.
func (at *place) enter(doc []byte, p *part) bool {
	var before, last, beforeLast element
	count := 0
	for n, e := range elements(doc, at.value.from) {
		if p.number && n == p.index || !p.number && p.same(doc[e.key.from:e.key.to]) {
			at.value, at.elem, at.before, at.first = e.value, e, before.whole, n == 0
			return true
		}
		beforeLast, last, before = last, e, e
		count++
	}
	if p.number && p.index == lastElement && count > 0 {
		at.value, at.elem, at.before, at.first = last.value, last, beforeLast.whole, count == 1
		return true
	}
	return false
}

// replaced is doc with other bytes in the place of s.
func replaced(doc []byte, s span, with ...[]byte) []byte {
	out := make([]byte, 0, len(doc)+16)
	out = append(out, doc[:s.from]...)
	return append(append(out, slices.Concat(with...)...), doc[s.to:]...)
}

// appended is doc with text as a new last element of the container c.
func appended(doc []byte, c span, text ...[]byte) []byte {
	end := c.from + 1
	for _, e := range elements(doc, c.from) {
		end = e.whole.to
	}
	if end > c.from+1 {
		text = append([][]byte{{','}}, text...)
	}
	return replaced(doc, span{end, end}, text...)
}

// without is doc without the element that at leads to, and without the comma that goes with it.
func (at *place) without(doc []byte) []byte {
	cut := at.elem.whole
	next := skipSpace(doc, cut.to)
	switch {
	case !at.first:
		cut.from = at.before.to
	case next < len(doc) && doc[next] == ',':
		cut.to = skipSpace(doc, next+1)
	}
	return replaced(doc, cut)
}

// isPrimitive reports whether a value is neither an object nor an array.
func isPrimitive(v []byte) bool { return len(v) > 0 && v[0] != '{' && v[0] != '[' }

// isList reports whether v is one JSON value, or several with commas between.
func isList(v []byte) bool {
	return len(bytes.TrimSpace(v)) > 0 && json.Valid(slices.Concat([]byte("["), v, []byte("]")))
}

// Searchable says whether a document's body is one that paths can lead through.
func Searchable(body []byte, dt memd.Datatype) memd.Status {
	switch {
	case dt&memd.DatatypeJSON == 0:
		return memd.StatusSubdocNotJSON
	case nesting(body) > maxDepth:
		return memd.StatusSubdocDocTooDeep
	}
	return memd.StatusSuccess
}
