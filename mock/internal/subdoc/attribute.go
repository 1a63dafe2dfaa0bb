package subdoc

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxXattrName is the limit of an attribute's name.
const MaxXattrName = 15

// AttributeDoc is a document that has one attribute as its only member, so that paths lead through it as through any
// other; none when value is nil.
func AttributeDoc(name string, value []byte) []byte {
	if value == nil {
		return []byte("{}")
	}
	return slices.Concat([]byte(`{"`), []byte(name), []byte(`":`), value, []byte("}"))
}

// OnlyMember is the value of the member of a document that has one at most; nil when it has none.
func OnlyMember(doc []byte) []byte {
	for _, e := range elements(doc, root(doc).from) {
		return doc[e.value.from:e.value.to:e.value.to]
	}
	return nil
}

// Member is the value of an object's member, nil when it has none of that name.
func Member(doc []byte, name string) []byte {
	value, _ := readPath(doc, []part{{key: name}}) // nil with a failure
	return value
}

// validAttribute reports whether an xattr path begins with the name of an attribute: up to 15 bytes that begin with
// neither a control character nor punctuation, but for "_" and "$" with something behind them.
func validAttribute(path string) bool {
	if path == "" || !utf8.ValidString(path) || strings.ContainsRune(path, 0) {
		return false
	}
	name := (&Spec{path: path}).Attribute()
	switch c := path[0]; {
	case c == '_', c == '$':
		return len(name) > 1 && len(name) <= MaxXattrName
	case c < ' ', c > ' ' && c < '0', c > '9' && c < 'A', c > 'Z' && c < 'a', c > 'z' && c <= 0x7f:
		return false
	}
	return len(name) <= MaxXattrName
}

// validBinary reports whether a value that says of itself that it is an encoded binary one is.
func validBinary(value string) bool {
	i := strings.Index(value, binaryPrefix)
	if i < 0 {
		return true
	}
	if i > 1 || i == 1 && value[0] != '"' {
		var ok bool
		if value, _, ok = strings.Cut(value[i:], `"`); !ok {
			return false
		}
	}
	_, ok := DecodeBinary([]byte(value))
	return ok
}

const binaryPrefix = "cb-content-base64-encoded:"

// EncodeBinary is a binary value as the JSON text that an attribute has of it.
func EncodeBinary(b []byte) []byte {
	return []byte(`"` + binaryPrefix + base64.StdEncoding.EncodeToString(b) + `"`)
}

// DecodeBinary is the binary value that a text made by EncodeBinary stands for.
func DecodeBinary(text []byte) ([]byte, bool) {
	s, ok := strings.CutPrefix(strings.Trim(string(text), `"`), binaryPrefix)
	if !ok {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	return b, err == nil
}

// Macros, and what the macros of the document's virtual attribute begin and end with.
const (
	MacroCAS      = `"${Mutation.CAS}"`
	MacroSeqno    = `"${Mutation.seqno}"`
	MacroCRC      = `"${Mutation.value_crc32c}"`
	MacroDocument = `"${$document`
	MacroEnd      = `}"`
)

// isMacro reports whether a value is a macro, of a server that has those of the document or has not. Whether such a
// macro names a field that there is is found out when it is executed.
func isMacro(value []byte, document bool) bool {
	text := string(value)
	switch text {
	case MacroCAS, MacroSeqno, MacroCRC:
		return true
	}
	return document && strings.HasPrefix(text, MacroDocument) && strings.HasSuffix(text, MacroEnd)
}
