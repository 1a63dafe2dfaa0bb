package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
)

// value is one value of a map's JSON, without space around it. The whole document is valid JSON. A value that is
// absent, or null, is empty.
//
// The reader is written by hand because encoding/json matches names of members without regard to case, takes the last
// of several members of one name, and ends at the first value of another type than it wants.
type value []byte

// kind says what a value is, in the words of encoding/json.
func (v value) kind() string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	}
	return "number"
}

func (v value) is(first byte) bool { return len(v) > 0 && v[0] == first }

// mismatch is the error of a value that has the wrong type for a member that routing needs.
func (v value) mismatch(field string) error {
	return &ParseError{Field: field, Err: errors.New("a JSON " + v.kind() + " does not fit there")}
}

// members gives the members of an object in their order; none of another value.
func (v value) members() iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		if !v.is('{') {
			return
		}
		for i := skipSpace(v, 1); i < len(v) && v[i] == '"'; i = skipSpace(v, i+1) {
			end := stringEnd(v, i)
			name := unescaped(v[i : end+1])
			i = skipSpace(v, skipSpace(v, end+1)+1) // after the colon
			end = skipValue(v, i)
			if !yield(name, part(v[i:end])) || v[end] != ',' {
				return
			}
			i = end
		}
	}
}

// elements gives the elements of an array in their order; none of another value.
func (v value) elements() iter.Seq[value] {
	return func(yield func(value) bool) {
		if !v.is('[') {
			return
		}
		for i := skipSpace(v, 1); i < len(v) && v[i] != ']'; i = skipSpace(v, i+1) {
			end := skipValue(v, i)
			if !yield(part(v[i:end])) || v[end] != ',' {
				return
			}
			i = end
		}
	}
}

// list gives the elements of an array of at most MaxNodes, so that a few bytes of the map cannot ask for much memory;
// none of another value.
func (v value) list() (all []value, err error) {
	if !v.is('[') {
		return nil, nil
	}
	n, _ := nesting(v)
	if n > MaxNodes {
		return nil, &ParseError{Field: "number of elements in a list", Value: int64(n), Limit: MaxNodes}
	}
	all = make([]value, 0, n)
	for e := range v.elements() {
		all = append(all, e)
	}
	return all, nil
}

// part takes the space off the end of a value; null is nothing.
func part(v value) value {
	v = bytes.TrimRight(v, " \n\t\r")
	if string(v) == "null" {
		return nil
	}
	return v
}

// text gives a string; false when the value is not a string.
func (v value) text() (string, bool) {
	if !v.is('"') {
		return "", false
	}
	return string(unescaped(v)), true
}

// textOr is text of an optional member: one of another type is as good as absent.
func (v value) textOr(otherwise string) string {
	if s, ok := v.text(); ok {
		return s
	}
	return otherwise
}

// unescaped is what a JSON string says. It copies only what has escapes or more than ASCII.
func unescaped(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	for _, b := range inner {
		if b == '\\' || b >= 0x80 {
			var s string
			if json.Unmarshal(quoted, &s) != nil {
				return inner // unreachable: the document is valid
			}
			return []byte(s)
		}
	}
	return inner
}

// count gives a whole number of at most max, written without a fraction and without an exponent. A number that is not
// there is 0.
func (v value) count(field string, most uint64) (uint64, error) {
	if len(v) == 0 {
		return 0, nil
	}
	if v.kind() != "number" {
		return 0, v.mismatch(field)
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n > most {
		return 0, &ParseError{Field: field, Err: fmt.Errorf("%.24s is not a whole number from 0 to %d", v, most)}
	}
	return n, nil
}

// checker looks for names that an object has twice. Such a document says different things to different readers (RFC
// 8259, section 4), so nothing of it is believed.
type checker struct {
	b     []byte
	names [][]byte // of the objects that are open
}

// firstNames is up to how many names are compared with each other.
const firstNames = 32

// check walks over a document that is valid JSON.
func check(b []byte) error {
	c := checker{b: b}
	_, err := c.value(skipSpace(b, 0))
	return err
}

// value walks over the value that begins at i and gives the position behind it.
func (c *checker) value(i int) (end int, err error) {
	switch c.b[i] {
	case '{':
		return c.object(i)
	case '[':
		for i = skipSpace(c.b, i+1); c.b[i] != ']'; {
			if i, err = c.value(i); err != nil {
				return i, err
			}
			if i = skipSpace(c.b, i); c.b[i] == ',' {
				i = skipSpace(c.b, i+1)
			}
		}
		return i + 1, nil
	case '"':
		return stringEnd(c.b, i) + 1, nil
	}
	return skipValue(c.b, i), nil
}

func (c *checker) object(i int) (end int, err error) {
	first := len(c.names)
	defer func() { c.names = c.names[:first] }()
	var seen map[string]bool
	for i = skipSpace(c.b, i+1); c.b[i] != '}'; {
		end := stringEnd(c.b, i)
		name := unescaped(c.b[i : end+1])
		if seen, err = c.add(name, first, seen); err != nil {
			return i, err
		}
		if i, err = c.value(skipSpace(c.b, skipSpace(c.b, end+1)+1)); err != nil {
			return i, err
		}
		if i = skipSpace(c.b, i); c.b[i] == ',' {
			i = skipSpace(c.b, i+1)
		}
	}
	return i + 1, nil
}

// add notes a name of the object whose names begin at first. seen has them when they are many.
func (c *checker) add(name []byte, first int, seen map[string]bool) (map[string]bool, error) {
	own := c.names[first:]
	if len(own) == firstNames && seen == nil {
		seen = make(map[string]bool, 2*firstNames)
		for _, n := range own {
			seen[string(n)] = true
		}
	}
	twice := seen[string(name)]
	if seen == nil {
		for _, n := range own {
			twice = twice || bytes.Equal(n, name)
		}
	}
	switch {
	case twice:
		return seen, &ParseError{Field: fmt.Sprintf("member %.64q", name), Err: errors.New("appears twice")}
	case seen == nil:
		c.names = append(c.names, name)
	case len(seen) == MaxNodes:
		return seen, &ParseError{Field: "number of members in an object", Value: MaxNodes + 1, Limit: MaxNodes}
	default:
		seen[string(name)] = true
	}
	return seen, nil
}
