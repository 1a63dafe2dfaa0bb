package control

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The examples of RFC 6902, appendix A, and what it forbids.
func TestJSONPatch(t *testing.T) {
	for _, row := range []struct{ doc, ops, want string }{
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"baz":"qux","foo":"bar"}`},
		{`{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{`{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{
			`{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`,
			`[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`,
			`{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`,
		},
		{
			`{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`,
			`{"foo":["all","cows","eat","grass"]}`,
		},
		{`{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"qux"}]`, `{"baz":"qux"}`},
		{
			`{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`,
			`{"child":{"grandchild":{}},"foo":"bar"}`,
		},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":[]},{"op":"copy","from":"","path":"/0"}]`, `[[]]`},
		{
			`{"n":12345678901234567890}`, `[{"op":"copy","from":"/n","path":"/m"}]`,
			`{"m":12345678901234567890,"n":12345678901234567890}`,
		},
	} {
		var ops []PatchOp
		require.NoError(t, json.Unmarshal([]byte(row.ops), &ops))
		got, err := patch([]byte(row.doc), ops)
		require.NoError(t, err, row.ops)
		require.Equal(t, row.want, string(got))
	}
	for ops, why := range map[string]string{
		`[{"op":"add","path":"/baz/bat","value":"qux"}]`: "no member",
		`[{"op":"remove","path":"/nope"}]`:               "no member",
		`[{"op":"replace","path":"/list/7","value":1}]`:  "not an index",
		`[{"op":"add","path":"/list/x","value":1}]`:      "not an index",
		`[{"op":"test","path":"/list/0","value":2}]`:     "another one",
		`[{"op":"add","path":"/list/0/a","value":1}]`:    "neither an object nor an array",
		`[{"op":"add","path":"list","value":1}]`:         "slash",
		`[{"op":"swap","path":"/list","value":1}]`:       "no operation",
		`[{"op":"move","from":"/nope","path":"/list"}]`:  "no member",
	} {
		var list []PatchOp
		require.NoError(t, json.Unmarshal([]byte(ops), &list))
		_, err := patch([]byte(`{"list":[1]}`), list)
		require.ErrorContains(t, err, why, ops)
	}
	_, err := patch([]byte(`{} {}`), nil)
	require.Error(t, err)
}

// A patch that doubles the document again and again ends with an error, not with the memory.
func TestAPatchCopiesSoMuchAndNoMore(t *testing.T) {
	var ops []PatchOp
	for range 100 {
		ops = append(ops, PatchOp{Op: "copy", From: "", Path: "/again"}, PatchOp{Op: "copy", From: "", Path: "/more"})
	}
	_, err := patch([]byte(`{"text":"0123456789"}`), ops)
	require.ErrorContains(t, err, "copies more than")
}
