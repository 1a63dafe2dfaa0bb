package subdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/memd"
)

// The model works on decoded documents, where the engine works on bytes. Its numbers are json.Number, so texts count.

const noPath = memd.StatusSubdocPathNotFound

// modelFind follows a path.
func modelFind(cur any, parts []part) (any, memd.Status) {
	for i := range parts {
		next, at, st := modelStep(cur, &parts[i])
		if st != memd.StatusSuccess || at == nil {
			return nil, st
		}
		cur = next
	}
	return cur, memd.StatusSuccess
}

// modelStep goes to a member or element; at is its key or index, nil when it is not there.
func modelStep(cur any, p *part) (next, at any, st memd.Status) {
	if p.number {
		a, ok := cur.([]any)
		i := p.index
		if i == lastElement {
			i = len(a) - 1
		}
		switch {
		case !ok:
			return nil, nil, memd.StatusSubdocPathMismatch
		case i < 0 || i >= len(a):
			return nil, nil, noPath
		}
		return a[i], i, memd.StatusSuccess
	}
	m, ok := cur.(map[string]any)
	if !ok {
		return nil, nil, memd.StatusSubdocPathMismatch
	}
	v, ok := m[p.key]
	if !ok {
		return nil, nil, noPath
	}
	return v, p.key, memd.StatusSuccess
}

// modelEdit replaces what a path leads to by what f makes of it; f gets nil, false for what is not there and may be
// made.
func modelEdit(cur any, parts []part, mkdir bool, f func(v any, there bool) (any, memd.Status)) (any, memd.Status) {
	if len(parts) == 0 {
		return f(cur, true)
	}
	p := &parts[0]
	next, at, st := modelStep(cur, p)
	if st == memd.StatusSubdocPathMismatch {
		return nil, st
	}
	if at == nil {
		if len(parts) > 1 && !mkdir || slices.ContainsFunc(parts, func(p part) bool { return p.number }) {
			return nil, noPath
		}
		var v any
		if len(parts) > 1 {
			if v, st = modelEdit(map[string]any{}, parts[1:], mkdir, f); st != memd.StatusSuccess {
				return nil, st
			}
		} else if v, st = f(nil, false); st != memd.StatusSuccess {
			return nil, st
		}
		cur.(map[string]any)[p.key] = v
		return cur, memd.StatusSuccess
	}
	v, st := modelEdit(next, parts[1:], mkdir, f)
	if st != memd.StatusSuccess {
		return nil, st
	}
	switch k := at.(type) {
	case int:
		cur.([]any)[k] = v
	case string:
		cur.(map[string]any)[k] = v
	}
	return cur, memd.StatusSuccess
}

func modelPrimitive(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// modelWrite is one command on a document.
func modelWrite(doc any, op memd.Opcode, parts []part, values []any, mkdir bool) (any, memd.Status) {
	fail := func(st memd.Status) (any, memd.Status) { return nil, st }
	last := func() *part { return &parts[len(parts)-1] }
	push := func(join func(a []any) []any) (any, memd.Status) {
		if _, st := modelFind(doc, parts); st == noPath && !mkdir {
			return nil, st
		}
		return modelEdit(doc, parts, mkdir, func(v any, there bool) (any, memd.Status) {
			a, ok := v.([]any)
			if there && !ok {
				return fail(memd.StatusSubdocPathMismatch)
			}
			return join(a), memd.StatusSuccess
		})
	}
	switch op {
	case memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert:
		if _, st := modelFind(doc, parts); st == memd.StatusSubdocPathMismatch {
			return fail(st)
		}
		if last().number {
			return fail(memd.StatusSubdocPathInvalid)
		}
		return modelEdit(doc, parts, mkdir, func(_ any, there bool) (any, memd.Status) {
			if there && op == memd.OpSubdocDictAdd {
				return fail(memd.StatusSubdocPathExists)
			}
			return values[0], memd.StatusSuccess
		})
	case memd.OpSubdocReplace:
		if _, st := modelFind(doc, parts); st != memd.StatusSuccess {
			return nil, st
		}
		return modelEdit(doc, parts, false, func(any, bool) (any, memd.Status) { return values[0], memd.StatusSuccess })
	case memd.OpSubdocArrayPushLast:
		return push(func(a []any) []any { return slices.Concat(a, values) })
	case memd.OpSubdocArrayPushFirst:
		return push(func(a []any) []any { return slices.Concat(values, a) })
	case memd.OpSubdocDelete:
		if _, st := modelFind(doc, parts); st != memd.StatusSuccess {
			return nil, st
		}
		return modelEdit(doc, parts[:len(parts)-1], false, func(v any, _ bool) (any, memd.Status) {
			_, at, _ := modelStep(v, last())
			switch k := at.(type) {
			case int:
				return slices.Delete(v.([]any), k, k+1), memd.StatusSuccess
			case string:
				delete(v.(map[string]any), k)
			}
			return v, memd.StatusSuccess
		})
	case memd.OpSubdocArrayInsert:
		if !last().number || last().index == lastElement {
			return fail(memd.StatusSubdocPathInvalid)
		}
		if _, st := modelFind(doc, parts[:len(parts)-1]); st != memd.StatusSuccess {
			return nil, st
		}
		return modelEdit(doc, parts[:len(parts)-1], false, func(v any, _ bool) (any, memd.Status) {
			a, ok := v.([]any)
			switch {
			case !ok:
				return fail(memd.StatusSubdocPathMismatch)
			case last().index > len(a):
				return fail(noPath)
			}
			return slices.Insert(a, last().index, values...), memd.StatusSuccess
		})
	}
	panic("unreachable")
}

func modelDecode(t require.TestingT, b []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), "%s", b)
	return v
}

// drawJSON draws a document of a few keys, so that paths meet it.
func drawJSON(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind = max(kind, 2)
	}
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
	switch kind {
	case 0:
		out := "{"
		for i, k := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c.d", "]"}), 0, 3,
			rapid.ID[string]).Draw(t, "keys") {
			if i > 0 {
				out += space + ","
			}
			out += space + strconv.Quote(k) + space + ":" + space + drawJSON(t, depth-1)
		}
		return out + space + "}"
	case 1:
		out := "["
		for i := range rapid.IntRange(0, 3).Draw(t, "length") {
			if i > 0 {
				out += "," + space
			}
			out += drawJSON(t, depth-1) + space
		}
		return out + "]"
	}
	return rapid.SampledFrom([]string{"1", "-2.50e+1", `"x"`, `"],}\"{"`, "true", "null", "12345678901234567890"}).Draw(t, "primitive")
}

func TestSubdocAgreesWithAModel(t *testing.T) {
	ops := []memd.Opcode{
		memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert, memd.OpSubdocReplace, memd.OpSubdocDelete,
		memd.OpSubdocArrayPushLast,
		memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayInsert,
	}
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(drawJSON(t, 3))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			op := rapid.SampledFrom(ops).Draw(t, "op")
			least := 1
			if commands[op].root {
				least = 0
			}
			path := ""
			for range rapid.IntRange(least, 3).Draw(t, "components") {
				part := rapid.SampledFrom([]string{"a", "b", "`c.d`", "`]`", "[0]", "[1]", "[2]", "[-1]"}).Draw(t,
					"component")
				if path != "" && part[0] != '[' {
					path += "."
				}
				path += part
			}
			parts, st := parsePath(path)
			require.Equal(t, memd.StatusSuccess, st)
			value := drawJSON(t, 1)
			c := &change{parts: parts, value: []byte(value), mkdir: rapid.Bool().Draw(t, "mkdir")}
			if op == memd.OpSubdocDelete {
				c.value = nil
			}
			name := fmt.Sprintf("%v %q = %s, mkdir %v, of %s", op, path, value, c.mkdir, doc)
			want, wantSt := modelWrite(modelDecode(t, doc), op, parts, []any{modelDecode(t, []byte(value))}, c.mkdir)
			next, _, st := commands[op].write(doc, c)
			require.Equal(t, wantSt, st, name)
			if st != memd.StatusSuccess {
				continue
			}
			require.Equal(t, want, modelDecode(t, next), "%s gives %s", name, next)
			doc = next
			if nesting(doc) > 20 {
				return
			}
			read, st := modelFind(want, parts)
			got, gotSt := readPath(doc, parts)
			require.Equal(t, st, gotSt, name)
			if st == memd.StatusSuccess {
				require.Equal(t, read, modelDecode(t, got))
				count, st := countPath(doc, parts)
				require.Equal(t, modelPrimitive(read), st == memd.StatusSubdocPathMismatch, "%s: count %s", name, count)
			}
		}
	})
}
