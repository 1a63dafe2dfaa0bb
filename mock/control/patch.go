package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// PatchOp is one operation of a JSON patch (RFC 6902).
type PatchOp struct {
	Op    string          `json:"op" doc:"add, remove, replace, move, copy or test"`
	Path  string          `json:"path" doc:"a JSON pointer (RFC 6901)"`
	From  string          `json:"from,omitempty" doc:"of move and copy"`
	Value json.RawMessage `json:"value,omitempty" doc:"of add, replace and test"`
}

// decodeJSON reads one JSON value and keeps its numbers as they are written.
func decodeJSON(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more behind the JSON value")
	}
	return v, nil
}

// maxCopied is how many bytes the operations of one patch may copy: a copy of a whole document into itself doubles it.
const maxCopied = 64 << 20

// patch applies operations to a JSON text. It fails, and changes nothing, when one of them cannot be applied.
func patch(text []byte, ops []PatchOp) ([]byte, error) {
	doc, err := decodeJSON(text)
	if err != nil {
		return nil, err
	}
	left := maxCopied
	for i := range ops {
		if doc, err = ops[i].apply(doc, &left); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return json.Marshal(doc)
}

func (o *PatchOp) apply(doc any, left *int) (any, error) {
	path, err := pointer(o.Path)
	if err != nil {
		return nil, err
	}
	switch o.Op {
	case "remove":
		doc, _, err = remove(doc, path)
		return doc, err
	case "move", "copy":
		from, err := pointer(o.From)
		if err != nil {
			return nil, err
		}
		v, err := find(doc, from)
		if err != nil {
			return nil, err
		}
		if o.Op == "move" {
			if doc, _, err = remove(doc, from); err != nil {
				return nil, err
			}
		}
		if v = clone(v, left); *left < 0 {
			return nil, fmt.Errorf("the patch copies more than %d bytes", maxCopied)
		}
		return add(doc, path, v)
	}
	v, err := decodeJSON(o.Value)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	switch o.Op {
	case "add":
		return add(doc, path, v)
	case "replace":
		if len(path) == 0 {
			return v, nil
		}
		if doc, _, err = remove(doc, path); err != nil {
			return nil, err
		}
		return add(doc, path, v)
	case "test":
		have, err := find(doc, path)
		if err == nil && !reflect.DeepEqual(have, v) {
			err = fmt.Errorf("the value at %q is another one", o.Path)
		}
		return doc, err
	}
	return nil, fmt.Errorf("there is no operation %q", o.Op)
}

// check finds what is wrong with an operation whatever the document is.
func (o *PatchOp) check() error {
	if !slices.Contains([]string{"add", "remove", "replace", "move", "copy", "test"}, o.Op) {
		return fmt.Errorf("there is no operation %q", o.Op)
	}
	if _, err := pointer(o.Path); err != nil {
		return err
	}
	if _, err := pointer(o.From); err != nil {
		return err
	}
	if slices.Contains([]string{"add", "replace", "test"}, o.Op) && !json.Valid(o.Value) {
		return fmt.Errorf("%s needs a value", o.Op)
	}
	return nil
}

// pointer are the names in a JSON pointer.
func pointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("the pointer %q does not begin with a slash", s)
	}
	names := strings.Split(s[1:], "/")
	for i, n := range names {
		names[i] = strings.ReplaceAll(strings.ReplaceAll(n, "~1", "/"), "~0", "~")
	}
	return names, nil
}

// place is the index that a name means in an array; one behind the end is allowed for what is added.
func place(name string, length int, adding bool) (int, error) {
	if name == "-" && adding {
		return length, nil
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i > length || i == length && !adding {
		return 0, fmt.Errorf("%q is not an index of an array of %d", name, length)
	}
	return i, nil
}

func find(doc any, path []string) (any, error) {
	for _, name := range path {
		switch v := doc.(type) {
		case map[string]any:
			member, ok := v[name]
			if !ok {
				return nil, fmt.Errorf("there is no member %q", name)
			}
			doc = member
		case []any:
			i, err := place(name, len(v), false)
			if err != nil {
				return nil, err
			}
			doc = v[i]
		default:
			return nil, fmt.Errorf("%q is in something that is neither an object nor an array", name)
		}
	}
	return doc, nil
}

// edit changes what the path's parent has, and returns the document with the parent as it is then.
func edit(doc any, path []string, do func(parent any, name string) (any, error)) (any, error) {
	if len(path) == 1 {
		return do(doc, path[0])
	}
	child, err := find(doc, path[:1])
	if err != nil {
		return nil, err
	}
	if child, err = edit(child, path[1:], do); err != nil {
		return nil, err
	}
	switch v := doc.(type) {
	case map[string]any:
		v[path[0]] = child
	case []any:
		i, _ := place(path[0], len(v), false) // it was found
		v[i] = child
	}
	return doc, nil
}

func add(doc any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	return edit(doc, path, func(parent any, name string) (any, error) {
		switch v := parent.(type) {
		case map[string]any:
			v[name] = value
			return v, nil
		case []any:
			i, err := place(name, len(v), true)
			if err != nil {
				return nil, err
			}
			return slices.Insert(v, i, value), nil
		}
		return nil, fmt.Errorf("%q is in something that is neither an object nor an array", name)
	})
}

func remove(doc any, path []string) (out, removed any, err error) {
	if len(path) == 0 {
		return nil, doc, nil
	}
	if removed, err = find(doc, path); err != nil {
		return nil, nil, err
	}
	out, err = edit(doc, path, func(parent any, name string) (any, error) {
		if m, ok := parent.(map[string]any); ok {
			delete(m, name)
			return m, nil
		}
		list, _ := parent.([]any) // the member was found, so it is one of both
		i, err := place(name, len(list), false)
		if err != nil {
			return nil, err
		}
		return slices.Delete(list, i, i+1), nil
	})
	return out, removed, err
}

// clone is a copy that shares nothing that a patch changes. left is how many bytes may still be copied; the copy is not
// complete when it falls below zero.
func clone(v any, left *int) any {
	const each = 16 // bytes that a value takes at least
	if *left -= each; *left < 0 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			*left -= len(name)
			out[name] = clone(member, left)
		}
		return out
	case []any:
		out := make([]any, 0, min(len(v), *left/each))
		for _, element := range v {
			out = append(out, clone(element, left))
			if *left < 0 {
				break
			}
		}
		return out
	case string:
		*left -= len(v)
	case json.Number:
		*left -= len(v)
	}
	return v
}
