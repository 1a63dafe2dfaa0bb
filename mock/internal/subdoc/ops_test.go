package subdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

func TestParsePath(t *testing.T) {
	key := func(k string) part { return part{key: k} }
	index := func(n int) part { return part{index: n, number: true} }
	deep := strings.Repeat("a.", maxPathParts-1) + "a"
	rows := []struct {
		path string
		want []part
		st   memd.Status
	}{
		{"", nil, 0},
		{"a", []part{key("a")}, 0},
		{"a.b[0].c", []part{key("a"), key("b"), index(0), key("c")}, 0},
		{"[12][-1]", []part{index(12), index(lastElement)}, 0},
		{"`a.b[`.c", []part{key("a.b["), key("c")}, 0},
		{"`a``b`", []part{key("a`b")}, 0},
		{"a``b", []part{key("a`b")}, 0},
		{"x`.`y", []part{key("x.y")}, 0},
		{`a\"b`, []part{key(`a\"b`)}, 0},
		{"a b", []part{key("a b")}, 0},
		{"a.", []part{key("a")}, 0}, // as on a server
		{"a[]", []part{key("a"), index(0)}, 0},
		{deep, nil, 0},
		{deep + ".a", nil, memd.StatusSubdocPathTooBig},
		{strings.Repeat("[0]", maxPathParts+1), nil, memd.StatusSubdocPathTooBig},
	}
	for _, bad := range []string{
		".", ".a", "a..b", "a]", "a[", "a[0", "a[x]", "a[-2]", "a[0]b", "a[1.2]", `a"b`, "a\nb", `a\`, `a\u0041`, `a\x`, "`a", "a`",
		"``", "a[99999999999999999999]", "a[-1", "a[ 0]",
	} {
		rows = append(rows, struct {
			path string
			want []part
			st   memd.Status
		}{bad, nil, memd.StatusSubdocPathInvalid})
	}
	for _, r := range rows {
		parts, st := parsePath(r.path)
		require.Equal(t, r.st, st, r.path)
		if r.want != nil {
			require.Equal(t, r.want, parts, r.path)
		}
	}
}

const sample = ` { "a" : 1 , "b":{"c":[1, 2,{"d":"x"} ]},"e":[], "f":{},"g":[[1],[2,3]],"s":"}],{","n":-1.50e+3,"k\"q":true,"dup":1,"dup":2,` +
	`"max":9223372036854775807,"huge":9223372036854775808,"min":-9223372036854775808 } `

// opRow is one command on a document.
type opRow struct {
	doc, path, value string
	mkdir            bool
	want             string // the document afterwards, or the result of a read; "" for none
	st               memd.Status
}

func runRows(t *testing.T, op memd.Opcode, rows []opRow) {
	t.Helper()
	row := commands[op]
	for _, r := range rows {
		name := fmt.Sprintf("%v %s of %s: %s", op, r.path, r.doc, r.value)
		require.True(t, json.Valid([]byte(r.doc)), name)
		parts, st := parsePath(r.path)
		require.Equal(t, memd.StatusSuccess, st, name)
		before := r.doc
		doc := []byte(r.doc)
		var got []byte
		if row.read != nil {
			got, st = row.read(doc, parts)
		} else {
			got, _, st = row.write(doc, &change{parts: parts, value: []byte(r.value), mkdir: r.mkdir})
			if st == memd.StatusSuccess {
				require.True(t, json.Valid(got), "%s gives %s", name, got)
			}
		}
		require.Equal(t, before, string(doc), "%s: the document is not changed in place", name)
		require.Equal(t, r.st, st, name)
		require.Equal(t, r.want, string(got), name)
	}
}

func TestSubdocReads(t *testing.T) {
	runRows(t, memd.OpSubdocGet, []opRow{
		{doc: sample, path: "a", want: "1"},
		{doc: sample, path: "b.c", want: `[1, 2,{"d":"x"} ]`},
		{doc: sample, path: "b.c[2].d", want: `"x"`},
		{doc: sample, path: "b.c[-1].d", want: `"x"`},
		{doc: sample, path: "g[-1][-1]", want: "3"},
		{doc: sample, path: "n", want: "-1.50e+3"},
		{doc: sample, path: "s", want: `"}],{"`},
		{doc: sample, path: `k\"q`, want: "true"},
		{doc: sample, path: "dup", want: "1"},
		{doc: sample, path: "huge", want: "9223372036854775808"},
		{doc: `{"a\/b":1}`, path: `a\/b`, want: "1"},
	})
	runRows(t, memd.OpSubdocGet, []opRow{
		{doc: `{"\u0061":1}`, path: `a`, st: memd.StatusSubdocPathNotFound},
		{doc: sample, path: "z", st: memd.StatusSubdocPathNotFound},
		{doc: sample, path: "b.z", st: memd.StatusSubdocPathNotFound},
		{doc: sample, path: "e[0]", st: memd.StatusSubdocPathNotFound},
		{doc: sample, path: "e[-1]", st: memd.StatusSubdocPathNotFound},
		{doc: sample, path: "b.c[3]", st: memd.StatusSubdocPathNotFound},
		{doc: sample, path: "a.z", st: memd.StatusSubdocPathMismatch},
		{doc: sample, path: "b.c.z", st: memd.StatusSubdocPathMismatch},
		{doc: sample, path: "b[0]", st: memd.StatusSubdocPathMismatch},
		{doc: sample, path: "[0]", st: memd.StatusSubdocPathMismatch},
		{doc: `[1]`, path: "a", st: memd.StatusSubdocPathMismatch},
		{doc: `7`, path: "a", st: memd.StatusSubdocPathMismatch},
	})
	runRows(t, memd.OpSubdocExists, []opRow{
		{doc: sample, path: "b.c[0]"},
		{doc: sample, path: "b.d", st: memd.StatusSubdocPathNotFound},
	})
	runRows(t, memd.OpSubdocGetCount, []opRow{
		{doc: sample, path: "", want: "13"},
		{doc: ` [1,2] `, path: "", want: "2"},
		{doc: sample, path: "b.c", want: "3"},
		{doc: sample, path: "e", want: "0"},
		{doc: sample, path: "f", want: "0"},
		{doc: sample, path: "a", st: memd.StatusSubdocPathMismatch},
		{doc: sample, path: "z", st: memd.StatusSubdocPathNotFound},
	})
}

func TestSubdocDict(t *testing.T) {
	deep := strings.Repeat("[", 32) + strings.Repeat("]", 32)
	both := []opRow{
		{doc: `{}`, path: "a", value: "1", want: `{"a":1}`},
		{doc: `{ }`, path: "a", value: " 1 ", want: `{"a": 1  }`},
		{doc: `{"x":1 }`, path: "a", value: `{"b":[]}`, want: `{"x":1,"a":{"b":[]} }`},
		{doc: `{"x":{}}`, path: "x.`a.b`", value: "1", want: `{"x":{"a.b":1}}`},
		{doc: `{"x":[{}]}`, path: "x[-1].a", value: "1", want: `{"x":[{"a":1}]}`},
		{doc: `{}`, path: `q\"`, value: "1.0e5", want: `{"q\"":1.0e5}`},
		{doc: `{}`, path: "a.b.c", value: "1", mkdir: true, want: `{"a":{"b":{"c":1}}}`},
		{doc: `{"a":{"x":0}}`, path: "a.b.c", value: "1", mkdir: true, want: `{"a":{"x":0,"b":{"c":1}}}`},
		{doc: `{}`, path: "a.b.c", value: "1", st: memd.StatusSubdocPathNotFound},
		{doc: `{}`, path: "a[0].c", value: "1", mkdir: true, st: memd.StatusSubdocPathNotFound},
		{doc: `{"a":[]}`, path: "a[0].c", value: "1", mkdir: true, st: memd.StatusSubdocPathNotFound},
		{doc: `{"a":1}`, path: "a.b", value: "1", mkdir: true, st: memd.StatusSubdocPathMismatch},
		{doc: `[]`, path: "a", value: "1", st: memd.StatusSubdocPathMismatch},
		{doc: `{"a":[1]}`, path: "a[0]", value: "1", st: memd.StatusSubdocPathInvalid},
		{doc: `{}`, path: "a", value: "nonsense", st: memd.StatusSubdocCantInsert},
		{doc: `{}`, path: "a", value: "1,2", st: memd.StatusSubdocCantInsert},
		{doc: `{}`, path: "a", value: `1}`, st: memd.StatusSubdocCantInsert},
		{doc: `{}`, path: "a", value: deep, st: memd.StatusSubdocValueTooDeep},
		{doc: `{}`, path: "a", value: deep[1:63], want: `{"a":` + deep[1:63] + `}`},
	}
	runRows(t, memd.OpSubdocDictAdd, both)
	runRows(t, memd.OpSubdocDictUpsert, both)
	runRows(t, memd.OpSubdocDictAdd, []opRow{{doc: `{"a":1}`, path: "a", value: "2", st: memd.StatusSubdocPathExists}})
	runRows(t, memd.OpSubdocDictUpsert, []opRow{{doc: `{"x":0, "a" : 1 }`, path: "a", value: "2", want: `{"x":0, "a" : 2 }`}})
	runRows(t, memd.OpSubdocReplace, []opRow{
		{doc: `{"a":1}`, path: "a", value: `"z"`, want: `{"a":"z"}`},
		{doc: `[1,2,3]`, path: "[-1]", value: `0`, want: `[1,2,0]`},
		{doc: `[1,2,3]`, path: "[1]", value: `0`, want: `[1,0,3]`},
		{doc: `{"a":1}`, path: "b", value: `0`, mkdir: true, st: memd.StatusSubdocPathNotFound},
		{doc: `{"a":1}`, path: "a.b", value: `0`, st: memd.StatusSubdocPathMismatch},
		{doc: `{"a":1}`, path: "a", value: `{`, st: memd.StatusSubdocCantInsert},
		{doc: `{"a":1}`, path: "a", value: deep, st: memd.StatusSubdocValueTooDeep},
	})
	runRows(t, memd.OpSubdocDelete, []opRow{
		{doc: `{"a":1}`, path: "a", want: `{}`},
		{doc: `{ "a" : 1 }`, path: "a", want: `{  }`},
		{doc: `{"a":1 , "b":2}`, path: "a", want: `{"b":2}`},
		{doc: `{"a":1 , "b":2}`, path: "b", want: `{"a":1}`},
		{doc: `{"a":1,"b":2,"c":3}`, path: "b", want: `{"a":1,"c":3}`},
		{doc: `[1,2,3]`, path: "[0]", want: `[2,3]`},
		{doc: `[1,2,3]`, path: "[1]", want: `[1,3]`},
		{doc: `[1,2,3]`, path: "[-1]", want: `[1,2]`},
		{doc: `[1]`, path: "[-1]", want: `[]`},
		{doc: `{"a":[{"b":1}]}`, path: "a[0].b", want: `{"a":[{}]}`},
		{doc: `{}`, path: "a", st: memd.StatusSubdocPathNotFound},
		{doc: `[]`, path: "a", st: memd.StatusSubdocPathMismatch},
	})
}

func TestSubdocArrays(t *testing.T) {
	push := []opRow{
		{doc: `[]`, path: "", value: "1", want: `[1]`},
		{doc: `{"a":[ ]}`, path: "a", value: "1,2", want: `{"a":[1,2 ]}`},
		{doc: `{}`, path: "a", value: "1,2", mkdir: true, want: `{"a":[1,2]}`},
		{doc: `{"x":1}`, path: "a.b", value: "1", mkdir: true, want: `{"x":1,"a":{"b":[1]}}`},
		{doc: `{}`, path: "a", value: "1", st: memd.StatusSubdocPathNotFound},
		{doc: `{"a":{}}`, path: "a", value: "1", st: memd.StatusSubdocPathMismatch},
		{doc: `{}`, path: "", value: "1", st: memd.StatusSubdocPathMismatch},
		{doc: `[]`, path: "", value: "1],[2", st: memd.StatusSubdocCantInsert},
		{doc: `[]`, path: "", value: "x", st: memd.StatusSubdocCantInsert},
		{doc: `[]`, path: "[0]", value: "1", mkdir: true, st: memd.StatusSubdocPathNotFound},
		{doc: `[]`, path: "", value: strings.Repeat("[", 32) + strings.Repeat("]", 32), st: memd.StatusSubdocValueTooDeep},
	}
	runRows(t, memd.OpSubdocArrayPushLast, push)
	runRows(t, memd.OpSubdocArrayPushFirst, push)
	runRows(t, memd.OpSubdocArrayPushLast, []opRow{
		{doc: `[ 1, 2 ]`, path: "", value: "3,[4]", want: `[ 1, 2,3,[4] ]`},
		{doc: `[[1]]`, path: "[-1]", value: `"x"`, want: `[[1,"x"]]`},
	})
	runRows(t, memd.OpSubdocArrayPushFirst, []opRow{
		{doc: `[ 1, 2 ]`, path: "", value: "3,[4]", want: `[ 3,[4],1, 2 ]`},
		{doc: `[[1]]`, path: "[0]", value: `"x"`, want: `[["x",1]]`},
	})
	runRows(t, memd.OpSubdocArrayInsert, []opRow{
		{doc: `[1,2]`, path: "[0]", value: "9", want: `[9,1,2]`},
		{doc: `[1,2]`, path: "[1]", value: "8,9", want: `[1,8,9,2]`},
		{doc: `[1,2]`, path: "[2]", value: "9", want: `[1,2,9]`},
		{doc: `[]`, path: "[0]", value: "9", want: `[9]`},
		{doc: `{"a":[1]}`, path: "a[0]", value: "9", want: `{"a":[9,1]}`},
		{doc: `[1,2]`, path: "[3]", value: "9", st: memd.StatusSubdocPathNotFound},
		{doc: `{}`, path: "a[0]", value: "9", st: memd.StatusSubdocPathNotFound},
		{doc: `{"a":{}}`, path: "a[0]", value: "9", st: memd.StatusSubdocPathMismatch},
		{doc: `[1,2]`, path: "[-1]", value: "9", st: memd.StatusSubdocPathInvalid},
		{doc: `{"a":[1]}`, path: "a", value: "9", st: memd.StatusSubdocPathInvalid},
		{doc: `[1]`, path: "[0]", value: " ", st: memd.StatusSubdocCantInsert},
	})
	runRows(t, memd.OpSubdocArrayAddUnique, []opRow{
		{doc: `[1,"a"]`, path: "", value: `"b"`, want: `[1,"a","b"]`},
		{doc: `[1]`, path: "", value: "1.0", want: `[1,1.0]`},
		{doc: `{}`, path: "a", value: "null", mkdir: true, want: `{"a":[null]}`},
		{doc: `[1,"a"]`, path: "", value: `"a"`, st: memd.StatusSubdocPathExists},
		{doc: `[1,[]]`, path: "", value: `2`, st: memd.StatusSubdocPathMismatch},
		{doc: `[1]`, path: "", value: `[]`, st: memd.StatusSubdocCantInsert},
		{doc: `[1]`, path: "", value: `2,3`, st: memd.StatusSubdocCantInsert},
	})
}

func TestSubdocCounter(t *testing.T) {
	runRows(t, memd.OpSubdocCounter, []opRow{
		{doc: `{"a": 5 }`, path: "a", value: "-7", want: `{"a": -2 }`},
		{doc: `{}`, path: "a", value: "7", want: `{"a":7}`},
		{doc: `{}`, path: "a.b", value: "7", mkdir: true, want: `{"a":{"b":7}}`},
		{doc: `[5]`, path: "[0]", value: "1", want: `[6]`},
		{doc: `{}`, path: "a.b", value: "7", st: memd.StatusSubdocPathNotFound},
		{doc: `[]`, path: "[0]", value: "7", mkdir: true, st: memd.StatusSubdocPathNotFound},
		{doc: `{"a":5}`, path: "a", value: "0", st: memd.StatusSubdocDeltaInvalid},
		{doc: `{"a":5}`, path: "a", value: "1.5", st: memd.StatusSubdocDeltaInvalid},
		{doc: `{"a":5}`, path: "a", value: "9223372036854775808", st: memd.StatusSubdocDeltaInvalid},
		{doc: `{"a":5.0}`, path: "a", value: "1", st: memd.StatusSubdocPathMismatch},
		{doc: `{"a":"5"}`, path: "a", value: "1", st: memd.StatusSubdocPathMismatch},
		{doc: `{"a":[]}`, path: "a", value: "1", st: memd.StatusSubdocPathMismatch},
		{doc: `{"a":9223372036854775808}`, path: "a", value: "1", st: memd.StatusSubdocNumRange},
		{doc: `{"a":9223372036854775807}`, path: "a", value: "1", st: memd.StatusSubdocCantInsert},
		{doc: `{"a":9223372036854775806}`, path: "a", value: "1", want: `{"a":9223372036854775807}`},
		{doc: `{"a":-9223372036854775808}`, path: "a", value: "-1", st: memd.StatusSubdocCantInsert},
	})
}

// TestSubdocTableIsWhole keeps the table of commands and what they are tested with together.
func TestSubdocTableIsWhole(t *testing.T) {
	for op, row := range commands {
		require.False(t, row.read != nil && row.write != nil, op)
		require.Equal(t, !row.whole && row.read == nil && !row.xattr, row.write != nil, op)
		if row.read != nil {
			require.Zero(t, row.docs&^docLookup, op)
		}
	}
	require.Len(t, commands, 16)
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a.b[0]", "`a.b`[-1]", "a``b", `\"`, "[", "a[]."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		parts, st := parsePath(path)
		if st != memd.StatusSuccess {
			require.Nil(t, parts)
			return
		}
		require.LessOrEqual(t, len(parts), maxPathParts)
		for _, p := range parts {
			if !p.number {
				require.NotEmpty(t, p.key)
			}
		}
	})
}

// FuzzSubdoc runs every command on any document: what comes out is JSON again, and a value that was set is read back.
func FuzzSubdoc(f *testing.F) {
	f.Add(sample, "b.c[2]", `{"x":1}`, true)
	f.Add(`[1,[2]]`, "[-1]", `1,2`, false)
	f.Add(`{}`, "a.b", `3`, true)
	f.Add(`{"a" :{ } }`, "a", `"\""`, false)
	f.Fuzz(func(t *testing.T, doc, path, value string, mkdir bool) {
		parts, st := parsePath(path)
		if !json.Valid([]byte(doc)) || st != memd.StatusSuccess || nesting([]byte(doc)) > maxPathParts {
			return
		}
		at := root([]byte(doc))
		require.True(t, json.Valid([]byte(doc[at.from:at.to])))
		for op, row := range commands {
			if len(parts) == 0 && !row.root || row.whole || row.xattr {
				continue
			}
			if row.read != nil {
				got, st := row.read([]byte(doc), parts)
				if st == memd.StatusSuccess && row.result {
					require.True(t, json.Valid(got), "%v", op)
				}
				continue
			}
			next, _, st := row.write([]byte(doc), &change{parts: parts, value: []byte(value), mkdir: mkdir})
			if st != memd.StatusSuccess {
				continue
			}
			require.True(t, json.Valid(next), "%v of %q gives %q", op, doc, next)
			if op == memd.OpSubdocDictUpsert || op == memd.OpSubdocReplace {
				got, st := readPath(next, parts)
				require.Equal(t, memd.StatusSuccess, st)
				require.Equal(t, string(bytes.TrimSpace([]byte(value))), string(got))
			}
		}
	})
}
