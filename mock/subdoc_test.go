package mock_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Flags of paths and documents as they are on the wire.
const (
	fMkdir, fXattr, fMacros, fBinary                      = 0x01, 0x04, 0x10, 0x20
	dUpsert, dAdd, dDeleted, dTomb, dRevive, dFromReplica = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
)

var subdocFeatures = append([]memd.Feature{
	memd.FeatureXattr, memd.FeatureSubdocDocumentMacro, memd.FeatureSubdocBinaryXattr,
	memd.FeatureSubdocMultipleXattrKeys,
}, baseFeatures...)

// ps is one path of a request with several.
type ps struct {
	op          memd.Opcode
	flags       byte
	path, value string
}

func lookupPacket(key string, doc byte, specs ...ps) memd.Packet {
	p := memd.Packet{Opcode: memd.OpSubdocMultiLookup, Key: docKey(key)}
	if doc != 0 {
		p.Extras = []byte{doc}
	}
	for _, s := range specs {
		p.Value = append(p.Value, byte(s.op), s.flags)
		p.Value = append(binary.BigEndian.AppendUint16(p.Value, uint16(len(s.path))), s.path...)
	}
	return p
}

func mutatePacket(key string, doc byte, specs ...ps) memd.Packet {
	p := memd.Packet{Opcode: memd.OpSubdocMultiMutation, Key: docKey(key)}
	if doc != 0 {
		p.Extras = []byte{doc}
	}
	for _, s := range specs {
		p.Value = append(p.Value, byte(s.op), s.flags)
		p.Value = binary.BigEndian.AppendUint16(p.Value, uint16(len(s.path)))
		p.Value = binary.BigEndian.AppendUint32(p.Value, uint32(len(s.value)))
		p.Value = append(append(p.Value, s.path...), s.value...)
	}
	return p
}

func singlePacket(op memd.Opcode, key, path, value string, flags byte, more ...byte) memd.Packet {
	x := append(binary.BigEndian.AppendUint16(nil, uint16(len(path))), flags)
	return memd.Packet{Opcode: op, Key: docKey(key), Extras: append(x, more...), Value: []byte(path + value)}
}

// pathAnswer is one path's outcome of a lookup.
type pathAnswer struct {
	status memd.Status
	value  string
}

func pathAnswers(t testing.TB, v []byte) (out []pathAnswer) {
	t.Helper()
	for len(v) > 0 {
		require.GreaterOrEqual(t, len(v), 6)
		n := binary.BigEndian.Uint32(v[2:])
		require.LessOrEqual(t, int(n), len(v)-6)
		out = append(out, pathAnswer{memd.Status(binary.BigEndian.Uint16(v)), string(v[6 : 6+n])})
		v = v[6+n:]
	}
	return out
}

func okPaths(values ...string) (out []pathAnswer) {
	for _, v := range values {
		out = append(out, pathAnswer{memd.StatusSuccess, v})
	}
	return out
}

func (r *raw) set(key, value string) memd.Packet {
	r.t.Helper()
	p := r.call(storePacket(memd.OpSet, key, value))
	require.Equal(r.t, memd.StatusSuccess, p.Status)
	return p
}

func (r *raw) body(key string) string {
	r.t.Helper()
	p := r.call(getPacket(key))
	require.Equal(r.t, memd.StatusSuccess, p.Status)
	return string(p.Value)
}

func TestSubdocSinglePathsOnTheWire(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	set := r.set("k", `{"a":1,"l":[1,2]}`)

	p := r.call(singlePacket(memd.OpSubdocGet, "k", "l", "", 0))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, `[1,2]`, string(p.Value))
	require.Equal(t, memd.DatatypeJSON, p.Datatype)
	require.Equal(t, set.CAS, p.CAS)
	require.Equal(t, "2", string(r.call(singlePacket(memd.OpSubdocGetCount, "k", "l", "", 0)).Value))
	require.Equal(t, memd.StatusSuccess, r.call(singlePacket(memd.OpSubdocExists, "k", "a", "", 0)).Status)
	require.Equal(t, memd.StatusSubdocPathNotFound, r.call(singlePacket(memd.OpSubdocExists, "k", "z", "", 0)).Status)
	require.Equal(t, memd.StatusKeyNotFound, r.call(singlePacket(memd.OpSubdocGet, "none", "a", "", 0)).Status)

	p = r.call(singlePacket(memd.OpSubdocCounter, "k", "a", "41", 0))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, "42", string(p.Value))
	require.Len(t, p.Extras, 16, "a mutation token")
	require.NotEqual(t, set.CAS, p.CAS)
	p = r.call(singlePacket(memd.OpSubdocArrayPushLast, "k", "l", "3", 0))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Empty(t, p.Value)
	require.Equal(t, `{"a":42,"l":[1,2,3]}`, r.body("k"))

	expiring := singlePacket(memd.OpSubdocDictUpsert, "k", "b", "1", 0, 0, 0, 0, 100, 0)
	require.Equal(t, memd.StatusSuccess, r.call(expiring).Status)
	require.NotZero(t, c.Documents("default")[0].Expiry)
	keep := singlePacket(memd.OpSubdocDictUpsert, "k", "b", "2", 0)
	keep.Magic, keep.Frames = memd.MagicReqExt, []byte{0x50}
	require.Equal(t, memd.StatusSuccess, r.call(keep).Status)
	require.NotZero(t, c.Documents("default")[0].Expiry)
	require.Equal(t, memd.StatusSuccess, r.call(singlePacket(memd.OpSubdocDelete, "k", "b", "", 0)).Status)
	require.Zero(t, c.Documents("default")[0].Expiry, "without an expiry the document has none")

	stale := singlePacket(memd.OpSubdocReplace, "k", "a", "0", 0)
	stale.CAS = set.CAS
	require.Equal(t, memd.StatusKeyExists, r.call(stale).Status)
	create := singlePacket(memd.OpSubdocDictUpsert, "new", "a.b", "0", 0, dUpsert)
	require.Equal(t, memd.StatusSuccess, r.call(create).Status)
	require.Equal(t, `{"a":{"b":0}}`, r.body("new"))
	r.set("raw", "not json")
	require.Equal(t, memd.StatusSubdocNotJSON, r.call(singlePacket(memd.OpSubdocGet, "raw", "a", "", 0)).Status)
	require.Equal(t, memd.StatusSubdocNotJSON, r.call(singlePacket(memd.OpSubdocDelete, "raw", "a", "", 0)).Status)
	r.set("deep", strings.Repeat("[", 33)+strings.Repeat("]", 33))
	require.Equal(t, memd.StatusSubdocDocTooDeep, r.call(singlePacket(memd.OpSubdocGet, "deep", "[0]", "", 0)).Status)
}

func TestSubdocRequestsThatAreRefused(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	r.set("k", `{"a":1}`)
	get := ps{op: memd.OpSubdocGet, path: "a"}
	up := ps{op: memd.OpSubdocDictUpsert, path: "a", value: "1"}
	upx := ps{memd.OpSubdocDictUpsert, fXattr, "x", "1"}
	many := make([]ps, 17)
	for i := range many {
		many[i] = get
	}
	cut := lookupPacket("k", 0, get)
	cut.Value = cut.Value[:len(cut.Value)-1]
	headless := lookupPacket("k", 0, get)
	headless.Value = append(headless.Value, 0xc5, 0)
	typed := lookupPacket("k", 0, get)
	typed.Datatype = memd.DatatypeJSON
	withCAS := mutatePacket("other", dAdd, up)
	withCAS.CAS = 5
	rows := []struct {
		name string
		p    memd.Packet
		want memd.Status
	}{
		{"no paths", lookupPacket("k", 0), memd.StatusSubdocInvalidCombo},
		{"no paths to change", mutatePacket("k", 0), memd.StatusSubdocInvalidCombo},
		{"16 paths", lookupPacket("k", 0, many[:16]...), memd.StatusSuccess},
		{"17 paths", lookupPacket("k", 0, many...), memd.StatusSubdocInvalidCombo},
		{"cut off path", cut, memd.StatusInvalid},
		{"cut off spec", headless, memd.StatusInvalid},
		{"datatype", typed, memd.StatusInvalid},
		{
			"mutation in a lookup", lookupPacket("k", 0, ps{op: memd.OpSubdocDelete, path: "a"}),
			memd.StatusSubdocInvalidCombo,
		},
		{"lookup in a mutation", mutatePacket("k", 0, get), memd.StatusSubdocInvalidCombo},
		{"unknown command", lookupPacket("k", 0, ps{op: 0xee}), memd.StatusSubdocInvalidCombo},
		{
			"add of a whole document", mutatePacket("k", 0, ps{op: memd.OpAdd, value: "1"}),
			memd.StatusSubdocInvalidCombo,
		},
		{"path for the whole document", lookupPacket("k", 0, ps{op: memd.OpGet, path: "a"}), memd.StatusInvalid},
		{"empty path", lookupPacket("k", 0, ps{op: memd.OpSubdocGet}), memd.StatusInvalid},
		{
			"long path", lookupPacket("k", 0, ps{op: memd.OpSubdocGet, path: strings.Repeat("x", 1025)}),
			memd.StatusInvalid,
		},
		{"no value", mutatePacket("k", 0, ps{op: memd.OpSubdocDictAdd, path: "a"}), memd.StatusInvalid},
		{
			"value to remove", mutatePacket("k", 0, ps{op: memd.OpSubdocDelete, path: "a", value: "1"}),
			memd.StatusInvalid,
		},
		{"unknown path flag", lookupPacket("k", 0, ps{memd.OpSubdocGet, 0x02, "a", ""}), memd.StatusInvalid},
		{"mkdir to read", lookupPacket("k", 0, ps{memd.OpSubdocGet, fMkdir, "a", ""}), memd.StatusInvalid},
		{
			"macros outside xattrs", mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fMacros, "a", "1"}),
			memd.StatusSubdocXattrInvalidFlagCombo,
		},
		{
			"binary macros", mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fXattr | fMacros | fBinary, "a", "1"}),
			memd.StatusSubdocXattrInvalidFlagCombo,
		},
		{
			"body from a body", mutatePacket("k", 0, ps{memd.OpSubdocReplaceBodyWithXattr, 0, "a", ""}),
			memd.StatusInvalid,
		},
		{"unknown document flag", lookupPacket("k", 0x40, get), memd.StatusInvalid},
		{"upsert to read", lookupPacket("k", dUpsert, get), memd.StatusInvalid},
		{"replica to change", mutatePacket("k", dFromReplica, up), memd.StatusInvalid},
		{"upsert and insert", mutatePacket("k", dUpsert|dAdd, up), memd.StatusInvalid},
		{"insert with CAS", withCAS, memd.StatusInvalid},
		{
			"tombstone of one path without upsert", singlePacket(memd.OpSubdocDictUpsert, "k", "x", "1", fXattr, dTomb),
			memd.StatusInvalid,
		},
		{
			"tombstone of one path with a body", singlePacket(memd.OpSubdocDictUpsert, "new", "a", "1", 0, dTomb|dAdd),
			memd.StatusInvalid,
		},
		{"tombstone without upsert", mutatePacket("new", dTomb, upx), memd.StatusKeyNotFound},
		{
			"tombstone with a path in its body", mutatePacket("new", dTomb|dAdd, upx, up),
			memd.StatusSubdocMultiPathFailure,
		},
		{
			"whole document in a tombstone", mutatePacket("new", dTomb|dAdd, upx, ps{op: memd.OpSet, value: "1"}),
			memd.StatusInvalid,
		},
		{"upsert where a path must be there", mutatePacket("k", dUpsert, ps{
			op: memd.OpSubdocReplace, path: "a",
			value: "1",
		}), memd.StatusInvalid},
		{"revive without access", mutatePacket("k", dRevive, upx), memd.StatusInvalid},
		{"revive of the living", mutatePacket("k", dRevive|dDeleted, upx), memd.StatusSubdocCanOnlyReviveDeleted},
		{"body before xattr", mutatePacket("k", 0, up, upx), memd.StatusSubdocInvalidXattrOrder},
		{"removed and changed", mutatePacket("k", 0, ps{op: memd.OpDelete}, up), memd.StatusSubdocInvalidCombo},
		{
			"long attribute", lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, strings.Repeat("x", 16), ""}),
			memd.StatusXattrInvalid,
		},
		{"no attribute", lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, ".a", ""}), memd.StatusXattrInvalid},
		{"quoted attribute", lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "`a`", ""}), memd.StatusXattrInvalid},
		{"empty attribute", lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "", ""}), memd.StatusXattrInvalid},
		{
			"system attribute without a name", lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "_.a", ""}),
			memd.StatusXattrInvalid,
		},
		{
			"unknown virtual", lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "$nothing", ""}),
			memd.StatusSubdocMultiPathFailure,
		},
		{
			"unknown virtual alone", singlePacket(memd.OpSubdocGet, "k", "$nothing", "", fXattr),
			memd.StatusSubdocXattrUnknownVattr,
		},
		{"text that is no binary value", mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fXattr, "a", `"cb-content-base64-encoded:!"`}), memd.StatusXattrInvalid},
		{
			"change a virtual", mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fXattr, "$document.CAS", "1"}),
			memd.StatusSubdocXattrCantModifyVattr,
		},
		{"no macro", mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fXattr | fMacros, "a", `"x"`}), memd.StatusSubdocXattrUnknownMacro},
		{"unknown field", mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fXattr | fMacros, "a", `"${$document.nix}"`}), memd.StatusSubdocMultiPathFailure},
		{"unknown field alone", singlePacket(memd.OpSubdocDictUpsert, "k", "a", `"${$document.nix}"`, fXattr|fMacros), memd.StatusSubdocXattrUnknownVattrMacro},
		{
			"extras",
			memd.Packet{Opcode: memd.OpSubdocGet, Key: docKey("k"), Extras: []byte{0, 1}, Value: []byte("a")},
			memd.StatusInvalid,
		},
		{"single path too long for its packet", memd.Packet{
			Opcode: memd.OpSubdocGet, Key: docKey("k"),
			Extras: []byte{0, 9, 0}, Value: []byte("a"),
		}, memd.StatusInvalid},
		{"insert on a removal", singlePacket(memd.OpSubdocDelete, "k", "a", "", 0, dAdd), memd.StatusInvalid},
	}
	before := c.ApplyLog("default")
	for _, row := range rows {
		require.Equal(t, row.want, r.call(row.p).Status, row.name)
	}
	require.Equal(t, before, c.ApplyLog("default"), "nothing was changed")
	poor := login(t, c, memd.FeatureXError, memd.FeatureCollections)
	require.Equal(t, memd.StatusNotSupported,
		poor.call(lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "a", ""})).Status)
	one := login(t, c, memd.FeatureXError, memd.FeatureCollections, memd.FeatureXattr)
	two := lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "a", ""}, ps{memd.OpSubdocGet, fXattr, "b", ""})
	require.Equal(t, memd.StatusSubdocMultiPathFailure, one.call(two).Status, "several attributes need no feature")
	require.Equal(t, memd.StatusSuccess, one.call(mutatePacket("k", 0,
		ps{memd.OpSubdocDictUpsert, fXattr | fBinary, "b", "\x01"}, ps{memd.OpSubdocDictUpsert, fXattr | fMacros, "m", `"${$document.CAS}"`})).Status,
		"nor do binary values and macros of the document")
}

func TestSubdocMultiPaths(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	r.set("k", `{"a":1,"l":[1,2]}`)
	p := r.call(lookupPacket("k", 0, ps{op: memd.OpGet}, ps{op: memd.OpSubdocGetCount, path: "l"},
		ps{op: memd.OpSubdocExists, path: "a"}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Zero(t, p.Datatype)
	require.Equal(t, okPaths(`{"a":1,"l":[1,2]}`, "2", ""), pathAnswers(t, p.Value))
	p = r.call(lookupPacket("k", 0, ps{op: memd.OpSubdocGet, path: "z"}, ps{op: memd.OpSubdocGet, path: "a"},
		ps{op: memd.OpSubdocGet, path: "a["},
		ps{op: memd.OpSubdocGet, path: "a.b"}))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, p.Status)
	require.Equal(t, []pathAnswer{
		{memd.StatusSubdocPathNotFound, ""},
		{memd.StatusSuccess, "1"},
		{memd.StatusSubdocPathInvalid, ""},
		{memd.StatusSubdocPathMismatch, ""},
	}, pathAnswers(t, p.Value))

	p = r.call(mutatePacket("k", 0, ps{op: memd.OpSubdocDictUpsert, path: "b", value: "2"}, ps{
		op:   memd.OpSubdocCounter,
		path: "a", value: "1",
	},
		ps{op: memd.OpSubdocDelete, path: "l[0]"}, ps{op: memd.OpSubdocCounter, path: "b", value: "3"}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Len(t, p.Extras, 16)
	require.Equal(t, []byte{1, 0, 0, 0, 0, 0, 1, '2', 3, 0, 0, 0, 0, 0, 1, '5'}, p.Value)
	require.Equal(t, `{"a":2,"l":[2],"b":5}`, r.body("k"))
	require.Equal(t, p.CAS, r.call(getPacket("k")).CAS)

	p = r.call(mutatePacket("k", 0, ps{op: memd.OpSubdocDelete, path: "l"}, ps{
		op: memd.OpSubdocDictAdd, path: "a",
		value: "1",
	}))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, p.Status)
	require.Equal(t, []byte{1, 0, 0xc9}, p.Value)
	require.Empty(t, p.Extras)
	require.Equal(t, `{"a":2,"l":[2],"b":5}`, r.body("k"), "all or nothing")

	whole := ps{op: memd.OpSet, value: "bytes"}
	require.Equal(t, memd.StatusKeyNotFound, r.call(mutatePacket("new", 0, whole)).Status)
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("new", dAdd, whole)).Status)
	require.Equal(t, memd.StatusKeyExists, r.call(mutatePacket("new", dAdd, whole)).Status)
	require.Equal(t, "bytes", r.body("new"))
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("new", 0, ps{op: memd.OpDelete})).Status)
	require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("new")).Status)
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("list", dUpsert, ps{
		op:    memd.OpSubdocArrayPushLast,
		value: "1",
	})).Status)
	require.Equal(t, "[1]", r.body("list"))

	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpGetLocked, Key: docKey("k")}).Status)
	p = r.call(lookupPacket("k", 0, ps{op: memd.OpSubdocGet, path: "a"}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, ^uint64(0), p.CAS)
	require.Equal(t, memd.StatusLocked, r.call(mutatePacket("k", 0, ps{op: memd.OpSubdocDelete, path: "a"})).Status)
}

func TestSubdocXattrsAndMacros(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	r.set("k", `{"a":1}`)
	p := r.call(mutatePacket("k", 0,
		ps{memd.OpSubdocDictUpsert, fXattr | fMkdir, "_sync.rev", `"1-a"`},
		ps{memd.OpSubdocDictUpsert, fXattr, "user", `{"n":1.0}`},
		ps{memd.OpSubdocDictUpsert, fXattr | fMacros | fMkdir, "_sync.cas", `"${Mutation.CAS}"`},
		ps{memd.OpSubdocDictUpsert, fXattr | fMacros, "_sync.seq", `"${Mutation.seqno}"`},
		ps{memd.OpSubdocDictUpsert, fXattr | fMacros, "_sync.crc", `"${Mutation.value_crc32c}"`},
		ps{memd.OpSubdocDictUpsert, fXattr | fMacros, "_sync.was", `"${$document.value_bytes}"`},
		ps{op: memd.OpSubdocDictUpsert, path: "a", value: "22"}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	swapped := binary.LittleEndian.AppendUint64(nil, p.CAS)
	crc := fmt.Sprintf("0x%08x", crc32.Checksum([]byte(`{"a":22}`), crc32.MakeTable(crc32.Castagnoli)))
	want := fmt.Sprintf(`{"cas":"0x%x","crc":"%s","rev":"1-a","seq":"0x%016x","was":7}`,
		swapped, crc, binary.BigEndian.Uint64(p.Extras[8:]))
	p = r.call(lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "_sync", ""}, ps{
		memd.OpSubdocGet, fXattr, "user.n",
		"",
	},
		ps{memd.OpSubdocGet, fXattr, "$XTOC", ""}, ps{memd.OpSubdocGet, fXattr, "$document.deleted", ""},
		ps{op: memd.OpSubdocGet, path: "a"}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	got := pathAnswers(t, p.Value)
	require.Equal(t, okPaths(want, "1.0", `["_sync","user"]`, "false", "22"), got)

	p = r.call(lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "$document", ""}, ps{
		memd.OpSubdocGet, fXattr,
		"$vbucket.HLC.mode", "",
	},
		ps{memd.OpSubdocGet, fXattr, "$document.CAS", ""}, ps{memd.OpSubdocGet, fXattr, "$document.nix", ""}))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, p.Status)
	got = pathAnswers(t, p.Value)
	var d map[string]any
	require.NoError(t, json.Unmarshal([]byte(got[0].value), &d))
	require.Equal(t, crc, d["value_crc32c"])
	require.Equal(t, []any{"json", "xattr"}, d["datatype"])
	require.InDelta(t, 8, d["value_bytes"], 0)
	require.Equal(t, "2", d["revid"])
	require.Equal(t, `"real"`, got[1].value)
	require.Equal(t, fmt.Sprintf(`"0x%016x"`, p.CAS), got[2].value)
	require.Equal(t, memd.StatusSubdocPathNotFound, got[3].status)

	r.set("k", "other")
	p = r.call(lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "user.n", ""}))
	require.Equal(t, okPaths("1.0"), pathAnswers(t, p.Value), "a store keeps the attributes")

	p = r.call(mutatePacket("k", 0, ps{memd.OpSubdocDictUpsert, fXattr | fBinary, "bin", "\x00\x01"}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	p = r.call(lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "bin", ""}, ps{
		memd.OpSubdocGet, fXattr | fBinary,
		"bin", "",
	},
		ps{memd.OpSubdocGet, fXattr | fBinary, "user", ""}))
	require.Equal(t, []pathAnswer{
		{0, `"cb-content-base64-encoded:AAE="`}, {0, "\x00\x01"}, {memd.StatusSubdocFieldNotBinary, ""},
	}, pathAnswers(t, p.Value))
	p = r.call(mutatePacket("k", 0, ps{memd.OpSubdocReplaceBodyWithXattr, fXattr, "user", ""}, ps{
		memd.OpSubdocDelete,
		fXattr, "user", "",
	}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, `{"n":1.0}`, r.body("k"))
}
