package kv

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// projects reports whether the read is one of paths, or of more than a plain read gives.
func (g *Get) projects() bool { return len(g.Paths) > 0 || g.WithExpiry }

// projectSpecs are the commands of a projecting read: the expiry and the flags as far as they are wanted, and the
// paths, or the whole document when it has none or too many of them.
func (g *Get) projectSpecs() (specs []LookupSpec, whole bool) {
	specs = make([]LookupSpec, 0, MaxPaths)
	if g.WithExpiry {
		specs = append(specs, GetXattr(XattrExpiry))
	}
	n := len(specs) + len(g.Paths)
	if g.WithFlags {
		n++
	}
	if whole = len(g.Paths) == 0 || n > MaxPaths; whole {
		return append(specs, GetXattr(XattrFlags), WholeDocument()), true
	}
	if g.WithFlags {
		specs = append(specs, GetXattr(XattrFlags))
	}
	for _, p := range g.Paths {
		specs = append(specs, LookupSpec{Op: memd.OpSubdocGet, Path: p})
	}
	return specs, false
}

// project is encode for a read that projects. The operation is copied here, where the decoder takes it along.
func (g Get) project(r *call.Request) (decoder[GetResult], error) {
	return g.decodeProjection, g.encodeProjection(r)
}

func (g *Get) encodeProjection(r *call.Request) error {
	if g.Hedge != nil { // a replica has no such read before Server 7.6
		return badArgument("hedge", "given together with paths or an expiry")
	}
	for i, p := range g.Paths {
		if err := checkPath(i, memd.OpSubdocGet, p, 0, nil, false); err != nil {
			return err
		}
		if _, err := parsePath(p); err != nil {
			return badArgument("path "+strconv.Itoa(i), err.Error())
		}
	}
	specs, _ := g.projectSpecs()
	setCommon(r, &g.Common)
	r.Opcode, r.Key = memd.OpSubdocMultiLookup, g.Key
	r.Own().Verb = "get"
	return setLookup(r, specs, 0)
}

// decodeProjection makes one JSON document of what was found. Paths that are missing are left out.
func (g *Get) decodeProjection(r *call.Response) (GetResult, error) {
	specs, whole := g.projectSpecs()
	paths, err := lookupPaths(r, specs)
	if err != nil {
		return GetResult{}, err
	}
	res := GetResult{Result: resultOf(r), Datatype: memd.DatatypeJSON, Flags: FormatJSON.Flags()}
	if g.WithExpiry {
		var seconds uint32
		if err := readNumber(paths[0], &seconds); err != nil {
			return GetResult{}, err
		}
		res.facts.SetExpiry(seconds)
		paths = paths[1:]
	}
	if whole || g.WithFlags {
		if err := readNumber(paths[0], &res.Flags); err != nil {
			return GetResult{}, err
		}
		paths = paths[1:]
	}
	if len(g.Paths) == 0 {
		res.Value = g.Into
		res.Value = append(res.Value, paths[0].Value...)
		res.Datatype = 0 // its type is not known
		return res, paths[0].Err()
	}
	var root node
	if whole {
		err = root.pick(paths[0], g.Paths)
	} else {
		err = root.collect(paths)
	}
	if err != nil {
		return GetResult{}, err
	}
	res.Value = root.append(g.Into)
	return res, nil
}

func readNumber(p PathResult, to *uint32) error {
	if err := p.Err(); err != nil {
		return err
	}
	return json.Unmarshal(p.Value, to)
}

// collect puts what was found at its place. Only a document that is not JSON at all is an error.
func (n *node) collect(paths []PathResult) error {
	for _, p := range paths {
		switch p.Status {
		case memd.StatusSuccess:
			steps, err := parsePath(p.Path)
			if err != nil {
				return err
			}
			n.put(steps, p.Value)
		case memd.StatusSubdocNotJSON:
			return p.Err()
		}
	}
	return nil
}

// pick finds the paths in the whole document.
func (n *node) pick(doc PathResult, paths []string) error {
	if err := doc.Err(); err != nil {
		return err
	}
	if !json.Valid(doc.Value) {
		return &PathError{Status: memd.StatusSubdocNotJSON, Kind: cberr.DocumentNotJSON}
	}
	for _, p := range paths {
		steps, err := parsePath(p)
		if err != nil {
			return err
		}
		if v, ok := find(doc.Value, steps); ok {
			n.put(steps, v)
		}
	}
	return nil
}

// step is one part of a path: a name, or an index of an array.
type step struct {
	name  string
	index int // -1 is the last element
	array bool
}

// pathSyntaxError says where a path is wrong.
type pathSyntaxError struct {
	at   int
	what string
}

func (e *pathSyntaxError) Error() string { return e.what + " at byte " + strconv.Itoa(e.at) }

// parsePath takes a path apart: names with dots between, indices in brackets, and names in back-ticks, in which a
// doubled back-tick is one.
func parsePath(path string) ([]step, error) {
	var steps []step
	for i := 0; i < len(path); {
		if len(steps) > 0 && path[i] == '.' {
			if i++; i == len(path) {
				return nil, &pathSyntaxError{i, "no name behind a dot"}
			}
		} else if len(steps) > 0 && path[i] != '[' {
			return nil, &pathSyntaxError{i, "neither a dot nor a bracket"}
		}
		s, n, err := nextStep(path[i:], i)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
		i += n
	}
	if len(steps) > 32 {
		return nil, &pathSyntaxError{len(path), "more than 32 parts"}
	}
	return steps, nil
}

func nextStep(tail string, at int) (s step, n int, err error) {
	switch tail[0] {
	case '[':
		end := strings.IndexByte(tail, ']')
		if end < 0 {
			return s, 0, &pathSyntaxError{at, "an open bracket"}
		}
		i, err := strconv.Atoi(tail[1:end])
		if err != nil || i < -1 {
			return s, 0, &pathSyntaxError{at, "no index in brackets"}
		}
		return step{index: i, array: true}, end + 1, nil
	case '`':
		var name strings.Builder
		for i := 1; i < len(tail); i++ {
			switch {
			case tail[i] != '`':
				name.WriteByte(tail[i])
			case i+1 < len(tail) && tail[i+1] == '`':
				name.WriteByte('`')
				i++
			default:
				return step{name: name.String()}, i + 1, nil
			}
		}
		return s, 0, &pathSyntaxError{at, "an open back-tick"}
	}
	n = strings.IndexAny(tail, ".[]`")
	if n < 0 {
		n = len(tail)
	}
	if n == 0 || n < len(tail) && (tail[n] == ']' || tail[n] == '`') {
		return s, 0, &pathSyntaxError{at + n, "an unexpected character"}
	}
	return step{name: tail[:n]}, n, nil
}

// node is a part of the document that a projection builds: a value, or what is known of an object or an array.
type node struct {
	value  []byte // nil unless it is a leaf
	names  []string
	fields map[string]*node
	index  []int // in order; -1 behind all others
	items  map[int]*node
}

// put puts a value at its place. What is inside of a value that is there already is there, too; the whole of something
// replaces its parts.
func (n *node) put(steps []step, value []byte) {
	for _, s := range steps {
		if n.value != nil || s.array && n.fields != nil || !s.array && n.items != nil {
			return
		}
		if s.array {
			n = n.item(s.index)
		} else {
			n = n.field(s.name)
		}
	}
	*n = node{value: value}
}

func (n *node) field(name string) *node {
	if n.fields == nil {
		n.fields = map[string]*node{}
	}
	if n.fields[name] == nil {
		n.fields[name] = &node{}
		n.names = append(n.names, name)
	}
	return n.fields[name]
}

func (n *node) item(i int) *node {
	if n.items == nil {
		n.items = map[int]*node{}
	}
	if n.items[i] == nil {
		n.items[i] = &node{}
		at := 0
		for at < len(n.index) && uint(n.index[at]) < uint(i) { // -1 is the largest
			at++
		}
		n.index = append(n.index[:at], append([]int{i}, n.index[at:]...)...)
	}
	return n.items[i]
}

// append appends the node as JSON. Arrays are written compactly: what is in between the indices is left out.
func (n *node) append(b []byte) []byte {
	switch {
	case n.value != nil:
		return append(b, n.value...)
	case n.items != nil:
		b = append(b, '[')
		for i, at := range n.index {
			if i > 0 {
				b = append(b, ',')
			}
			b = n.items[at].append(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, name := range n.names {
		if i > 0 {
			b = append(b, ',')
		}
		text, _ := json.Marshal(name) // texts cannot fail
		b = append(append(b, text...), ':')
		b = n.fields[name].append(b)
	}
	return append(b, '}')
}

// find gives the part of a document that steps lead to. Of a name that an object has twice the first one counts, as it
// does for a server (kv_engine's subjson).
func find(doc []byte, steps []step) (json.RawMessage, bool) {
	v := json.RawMessage(bytes.TrimSpace(doc))
	for _, s := range steps {
		var ok bool
		if s.array {
			v, ok = element(v, s.index)
		} else {
			v, ok = member(v, s.name)
		}
		if !ok {
			return nil, false
		}
	}
	return v, true
}

// element gives an element of an array; -1 is the last one.
func element(array json.RawMessage, i int) (json.RawMessage, bool) {
	var items []json.RawMessage
	if len(array) == 0 || array[0] != '[' || json.Unmarshal(array, &items) != nil {
		return nil, false
	}
	if i < 0 {
		i = len(items) - 1
	}
	if i < 0 || i >= len(items) {
		return nil, false
	}
	return items[i], true
}

// member gives the first member of an object that has the name.
func member(object json.RawMessage, name string) (value json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		if key == name {
			return value, true
		}
	}
	return nil, false
}
