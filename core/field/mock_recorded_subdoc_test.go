package field_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// recSpec is one path of a change. Flags are letters: p makes parents, x is for an attribute, m expands macros, b is
// binary.
func recSpec(op memd.Opcode, path, value, flags string) kv.MutateSpec {
	has := func(flag string) bool { return strings.Contains(flags, flag) }
	return kv.MutateSpec{
		Op: op, Path: path, Value: []byte(value),
		CreateParents: has("p"), Xattr: has("x"), ExpandMacros: has("m"), Binary: has("b"),
	}
}

const (
	dictAdd     = memd.OpSubdocDictAdd
	dictUp      = memd.OpSubdocDictUpsert
	replacePath = memd.OpSubdocReplace
	removePath  = memd.OpSubdocDelete
	pushLast    = memd.OpSubdocArrayPushLast
	pushFirst   = memd.OpSubdocArrayPushFirst
	insertAt    = memd.OpSubdocArrayInsert
	addUnique   = memd.OpSubdocArrayAddUnique
	countBy     = memd.OpSubdocCounter
	takeBody    = memd.OpSubdocReplaceBodyWithXattr
)

const recDocument = `{"s":"str","n":5,"neg":-3,"f":1.5,"big":9223372036854775807,"t":true,"nul":null,"arr":[1,2,3],` +
	`"mix":[1,{"a":2},"x"],"o":{"a":{"b":1}},"empty":{},"ea":[],"a.b":7,"q\"":8,"` + "\u00fc" + `":9}`

// recTooLong has one component more than a server takes.
var recTooLong = strings.Repeat("a.", 31) + "a"

// recLongName is the longest path that a server takes.
var recLongName = strings.Repeat("x", 1024)

func recordLookups(r *recorder) {
	key := []byte("d")
	r.put("d", recDocument)
	for _, path := range []string{
		"s", "n", "arr", "arr[0]", "arr[-1]", "arr[3]", "arr[-2]", "arr[x]", "arr[", "arr]", "mix[1].a", "o.a.b",
		"o.a.c",
		"o.", ".o", "o..a", "", "`a.b`", "a.b", "`a.b", `q"`, "`q\"`", "\u00fc", "nope", "s.x", "n[0]", "arr.x",
		"arr[0][0]", "empty", "ea[0]",
		"ea[-1]", recTooLong, recTooLong + ".a", recLongName, recLongName + "x", "o.a[0]", "[0]", "o['a']", "s ", " s",
		"nul", "nul.x", "$document", "arr[01]", "arr[1", "arr[1]x", "arr[99999999999999999999]",
	} {
		name := path
		if len(name) > 20 {
			name = name[:10] + fmt.Sprint(len(path))
		}
		name = fmt.Sprintf("%q", name)
		l, err := recDo(r, kv.LookupIn{Common: recCommon, Key: key, Specs: []kv.LookupSpec{
			kv.GetPath(path), kv.ExistsPath(path), kv.CountPath(path),
		}})
		var outcome []string
		for _, p := range l.Paths {
			outcome = append(outcome, fmt.Sprintf("%s(0x%02x)", p.Value, uint16(p.Status)))
		}
		r.row(name, recSaid(err), strings.Join(outcome, " "))
		one, err := recDo(r, kv.LookupPath{Common: recCommon, Key: key, Spec: kv.GetPath(path)})
		value := ""
		if err == nil {
			value = string(one.Paths[0].Value)
		}
		said := strings.ReplaceAll(recSaid(err), recLongName, "X")
		r.row(name+" alone", strings.ReplaceAll(said, recTooLong, "P"), value)
	}
	put := kv.Upsert{Common: recCommon, Key: []byte("txt"), Value: []byte("no json")}
	require.Equal(r.t, "ok", recTold(r, put))
	l, err := recDo(r, kv.LookupIn{Common: recCommon, Key: put.Key, Specs: []kv.LookupSpec{
		kv.GetPath("a"), kv.ExistsPath("a"), kv.CountPath("a"), kv.GetXattr("u"), kv.WholeDocument(),
	}})
	r.row("in text", recSaid(err), recLooked(l))
	for _, n := range []int{16, 17} {
		specs := make([]kv.LookupSpec, n)
		for i := range specs {
			specs[i] = kv.GetPath("s")
		}
		r.row(fmt.Sprint("paths ", n), recTold(r, kv.LookupIn{Common: recCommon, Key: key, Specs: specs}))
	}
}

// recChange is a row of the table of changes.
type recChange struct {
	name        string
	op          memd.Opcode
	path, value string
	flags       string
}

var recBodyChanges = []recChange{
	{"insert new", dictAdd, "new", "1", ""},
	{"insert existing", dictAdd, "s", "1", ""},
	{"insert deep no parents", dictAdd, "x.y.z", "1", ""},
	{"insert deep parents", dictAdd, "x.y.z", "1", "p"},
	{"insert into scalar", dictAdd, "s.x", "1", ""},
	{"insert invalid json", dictAdd, "new", "nope", ""},
	{"insert two values", dictAdd, "new", "1,2", ""},
	{"insert empty value", dictAdd, "new", "", ""},
	{"insert spaces", dictAdd, "new", " 1 ", ""},
	{"insert array index", dictAdd, "arr[0]", "1", ""},
	{"insert empty path", dictAdd, "", "1", ""},
	{"upsert existing", dictUp, "s", `"t"`, ""},
	{"upsert arr elem", dictUp, "arr[0]", "9", ""},
	{"upsert deep none", dictUp, "x.y", "1", ""},
	{"upsert parents through scalar", dictUp, "s.y.z", "1", "p"},
	{"replace", replacePath, "n", "6", ""},
	{"replace missing", replacePath, "zz", "6", ""},
	{"replace arr elem", replacePath, "arr[-1]", "6", ""},
	{"replace with invalid", replacePath, "n", "{", ""},
	{"replace nan", replacePath, "n", "NaN", ""},
	{"remove", removePath, "n", "", ""},
	{"remove missing", removePath, "zz", "", ""},
	{"remove elem", removePath, "arr[1]", "", ""},
	{"remove last elem", removePath, "arr[-1]", "", ""},
	{"remove past", removePath, "arr[7]", "", ""},
	{"append", pushLast, "arr", "4", ""},
	{"append many", pushLast, "arr", "4,5,[6]", ""},
	{"append to object", pushLast, "o", "4", ""},
	{"append missing", pushLast, "zz", "4", ""},
	{"append missing parents", pushLast, "zz.y", "1,2", "p"},
	{"append nothing", pushLast, "arr", "", ""},
	{"append root", pushLast, "", "1", ""},
	{"append trailing comma", pushLast, "arr", "1,", ""},
	{"prepend", pushFirst, "arr", "0", ""},
	{"prepend empty array", pushFirst, "ea", "0", ""},
	{"prepend scalar", pushFirst, "s", "0", ""},
	{"array-insert 0", insertAt, "arr[0]", "9", ""},
	{"array-insert len", insertAt, "arr[3]", "9", ""},
	{"array-insert past", insertAt, "arr[4]", "9", ""},
	{"array-insert -1", insertAt, "arr[-1]", "9", ""},
	{"array-insert no index", insertAt, "arr", "9", ""},
	{"array-insert missing", insertAt, "zz[0]", "9", ""},
	{"array-insert into object", insertAt, "o[0]", "9", ""},
	{"add-unique", addUnique, "arr", "9", ""},
	{"add-unique exists", addUnique, "arr", "2", ""},
	{"add-unique object value", addUnique, "arr", "{}", ""},
	{"add-unique mixed array", addUnique, "mix", "9", ""},
	{"add-unique missing", addUnique, "zz", "9", ""},
	{"add-unique float", addUnique, "arr", "2.0", ""},
	{"add-unique to empty", addUnique, "ea", "null", ""},
	{"counter", countBy, "n", "3", ""},
	{"counter new", countBy, "cnt", "3", ""},
	{"counter neg", countBy, "n", "-30", ""},
	{"counter zero", countBy, "n", "0", ""},
	{"counter string", countBy, "s", "1", ""},
	{"counter float", countBy, "f", "1", ""},
	{"counter overflow", countBy, "big", "1", ""},
	{"counter missing deep", countBy, "x.y", "1", ""},
	{"counter parents", countBy, "x.y", "1", "p"},
	{"counter arr elem", countBy, "arr[0]", "1", ""},
	{"counter bad delta", countBy, "n", "1.5", ""},
	{"counter delta text", countBy, "n", `"x"`, ""},
	{"counter delta huge", countBy, "n", "9223372036854775808", ""},
	{"counter null", countBy, "nul", "1", ""},
	{"deep path value", dictUp, recTooLong, "1", "p"},
	{"too deep value", dictAdd, "new", strings.Repeat("[", 40) + strings.Repeat("]", 40), ""},
}

var recAttributeChanges = []recChange{
	{"xattr insert", dictAdd, "u.a", "1", "xp"},
	{"xattr no parents", dictAdd, "u.a", "1", "x"},
	{"xattr top", dictUp, "u", "1", "x"},
	{"xattr system", dictUp, "_sys.a", "1", "xp"},
	{"xattr virtual", dictUp, "$document.x", "1", "x"},
	{"xattr empty path", dictUp, "", "1", "x"},
	{"xattr key of 16", dictUp, "abcdefghijklmnop", "1", "x"},
	{"xattr key of 15", dictUp, "abcdefghijklmno", "1", "x"},
	{"xattr macro cas", dictUp, "m.c", `"${Mutation.CAS}"`, "xpm"},
	{"xattr macro bad", dictUp, "m.c", `"${Nope}"`, "xpm"},
	{"macro document", dictUp, "m.c", `"${$document.CAS}"`, "xpm"},
	{"macro crc", dictUp, "m.c", `"${Mutation.value_crc32c}"`, "xpm"},
	{"macro outside xattr", dictUp, "m", `"${Mutation.CAS}"`, "m"},
	{"xattr remove missing", removePath, "zz", "", "x"},
	{"xattr push", pushLast, "l", "1", "xp"},
	{"xattr counter", countBy, "c", "1", "xp"},
	{"xattr name with dot", dictUp, "`a.b`", "1", "x"},
	{"xattr binary", dictUp, "bin", "\x01\x02\x03", "xb"},
	{"replace body with xattr", takeBody, "nope", "", "x"},
}

func recordMutations(r *recorder) {
	rows := slices.Clone(recBodyChanges)
	whole := []recChange{
		{"set whole", memd.OpSet, "", `{"w":1}`, ""},
		{"set whole invalid json", memd.OpSet, "", "{", ""},
		{"delete whole", memd.OpDelete, "", "", ""},
		{"replace root", memd.OpSet, "", "6", ""}, // the client of the time made these two of an empty path
		{"remove root", memd.OpDelete, "", "", ""},
		{"unknown op", memd.OpGet, "s", "", ""},
	}
	rows = append(append(rows, whole...), recAttributeChanges...)
	key := []byte("d")
	for _, c := range rows {
		r.put("d", recDocument)
		s := recSpec(c.op, c.path, c.value, c.flags)
		res, err := recDo(r, kv.MutateIn{Common: recCommon, Key: key, Specs: []kv.MutateSpec{s}})
		several := strings.ReplaceAll(recSaid(err), recTooLong, "P")
		if err == nil {
			got, _ := recDo(r, kv.Get{Common: recCommon, Key: key})
			text := strings.ReplaceAll(string(got.Value), `"t":true,"nul":null,`, "~")
			text += fmt.Sprintf(" dt=%v fl=%x", got.Datatype, got.Flags)
			r.row(c.name, several, string(res.Paths[0].Value), text)
		} else {
			r.row(c.name, several, strings.HasPrefix(r.get("d"), recDocument))
		}
		if s.Op == memd.OpSet || s.Op == memd.OpDelete || s.Op == memd.OpGet {
			continue
		}
		r.put("d", recDocument)
		_, err = recDo(r, kv.MutatePath{Common: recCommon, Key: key, Spec: s})
		if one := strings.ReplaceAll(recSaid(err), recTooLong, "P"); one != several {
			r.row(c.name+" alone", one)
		}
	}
	r.put("d", recDocument)
	r.row("second path fails", recTold(r, kv.MutateIn{Common: recCommon, Key: key, Specs: []kv.MutateSpec{
		recSpec(dictUp, "n", "1", ""), recSpec(dictAdd, "s", "1", ""),
	}}), strings.HasPrefix(r.get("d"), recDocument))
	text := kv.Upsert{Common: recCommon, Key: []byte("txt"), Value: []byte("no json")}
	require.Equal(r.t, "ok", recTold(r, text))
	attr := kv.MutateIn{Common: recCommon, Key: text.Key, Specs: []kv.MutateSpec{recSpec(dictUp, "a", "1", "")}}
	r.row("mutate text", recTold(r, attr))
	attr.Specs[0] = recSpec(dictUp, "u", "1", "x")
	r.row("xattr on text", recTold(r, attr), r.get("txt"))
}

func recordCreation(r *recorder) {
	for _, st := range []kv.StoreSemantics{kv.StoreReplace, kv.StoreUpsert, kv.StoreInsert} {
		try := func(name, key string, s kv.MutateSpec) {
			key += fmt.Sprint(st)
			op := kv.MutateIn{Common: recCommon, Key: []byte(key), Store: st, Specs: []kv.MutateSpec{s}}
			r.row(fmt.Sprint("store ", st, " ", name), recTold(r, op), r.get(key))
		}
		try("deep path on absent", "st", recSpec(dictUp, "a.b", "1", ""))
		try("parents on absent", "st", recSpec(dictUp, "a.b", "1", "p"))
		try("on present", "st", recSpec(dictUp, "c", "1", ""))
		try("array root", "sa", recSpec(pushLast, "", "1", ""))
		try("xattr only", "sx", recSpec(dictUp, "u", "1", "x"))
	}
}

func recordAttributes(r *recorder) {
	key := []byte("x")
	r.put("x", `{"a":1}`)
	three := kv.MutateIn{Common: recCommon, Key: key, Specs: []kv.MutateSpec{
		recSpec(dictUp, "u1.a", "1", "xp"), recSpec(dictUp, "u2", `"two"`, "x"), recSpec(dictUp, "_s", "3", "x"),
	}}
	r.row("three xattr keys", recTold(r, three), r.get("x"))
	look := func(name string, specs ...kv.LookupSpec) {
		l, err := recDo(r, kv.LookupIn{Common: recCommon, Key: key, Specs: specs})
		r.row(name, recSaid(err), recLooked(l))
	}
	attr := kv.GetXattr
	look("two of one and the body", attr("u1"), attr("u1.a"), kv.GetPath("a"))
	look("two", attr("u1"), attr("u2"))
	look("all and virtual", attr("u1"), attr("u2"), attr("_s"), attr("$document"))
	look("names", attr("$XTOC"))
	look("document", attr("$document"))
	var fields []kv.LookupSpec
	for _, f := range []string{
		"exptime", "CAS", "vbucket_uuid", "seqno", "last_modified", "value_bytes", "deleted", "datatype", "flags",
		"revid", "value_crc32c", "nope",
	} {
		fields = append(fields, attr("$document."+f))
	}
	look("fields of the document", fields...)
	look("vbucket HLC", attr("$vbucket.HLC"))
	look("vbucket", attr("$vbucket"))
	look("unknown virtual", attr("$nope"))
	look("unknown", attr("nope"))
	look("unknown, and in the body", attr("nope.x"), kv.ExistsPath("a"))
	look("exists and count", kv.LookupSpec{Op: memd.OpSubdocExists, Path: "u1", Xattr: true},
		kv.LookupSpec{Op: memd.OpSubdocGetCount, Path: "u1", Xattr: true})
	look("body first", kv.GetPath("a"), attr("u1"))
	look("empty", attr(""))
	look("whole as attribute", kv.LookupSpec{Op: memd.OpGet, Xattr: true})
	e, err := recDo(r, kv.GetEx{Common: recCommon, Key: key})
	r.row("get-ex", recSaid(err), string(e.Value), recPairs(e.Xattrs), e.Flags, e.Datatype)
	r.row("get-ex absent", recTold(r, kv.GetEx{Common: recCommon, Key: []byte("nope")}))
	r.put("x2", `{"a":1}`)
	e, err = recDo(r, kv.GetEx{Common: recCommon, Key: []byte("x2")})
	r.row("get-ex without xattrs", recSaid(err), string(e.Value), e.Xattrs == nil, e.Datatype)
	time.Sleep(150 * time.Millisecond)
	copied, err := recDo(r, kv.GetEx{Common: recCommon, Key: key, Replica: 1})
	r.row("get-ex-replica", recSaid(err), string(copied.Value), recPairs(copied.Xattrs))
	r.row("get-ex-replica absent", recTold(r, kv.GetEx{Common: recCommon, Key: []byte("nope"), Replica: 1}))
	over := kv.Upsert{Common: recCommon, Key: key, Value: []byte(`{"b":2}`), Datatype: memd.DatatypeJSON}
	require.Equal(r.t, "ok", recTold(r, over))
	look("names kept by upsert", attr("$XTOC"))
}

// recPairs are attributes in the order in which the server gives them.
func recPairs(x memd.Xattrs) string {
	var out []string
	for name, v := range x.All() {
		out = append(out, name+"="+string(v))
	}
	return fmt.Sprint(out)
}
