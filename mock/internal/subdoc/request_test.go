package subdoc

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// newest are the rules of the newest release on a connection with attributes.
var newest = Rules{
	MaxPaths: MaxPaths, Xattrs: true, UserFlags: true, Binary: true, ManyAttributes: true, DocumentMacros: true,
	Revive: true, ReplicaRead: true, DeletedReplicas: true,
}

// lookup is the spec of a lookup as it is sent.
func lookup(op memd.Opcode, flags PathFlags, path string) []byte {
	return append([]byte{byte(op), byte(flags), byte(len(path) >> 8), byte(len(path))}, path...)
}

func TestDecodeReadsEveryPart(t *testing.T) {
	rq, no := Decode(&memd.Packet{
		Opcode: memd.OpSubdocDictUpsert, Extras: []byte{0, 1, byte(Mkdir), 0, 0, 0, 9, byte(Upsert)},
		Value: []byte("a1"),
	}, newest)
	require.Nil(t, no)
	require.True(t, rq.Mutates)
	require.False(t, rq.Multi)
	require.Equal(t, uint32(9), rq.Expiry)
	require.Equal(t, Upsert, rq.Flags)
	require.Len(t, rq.Specs, 1)
	require.Equal(t, "1", string(rq.Specs[0].Value))
	next, _, st := rq.Specs[0].Write([]byte(`{}`), rq.Specs[0].Value, false)
	require.Equal(t, memd.StatusSuccess, st)
	require.Equal(t, `{"a":1}`, string(next))

	rq, no = Decode(&memd.Packet{
		Opcode: memd.OpSubdocMultiLookup, Extras: []byte{byte(AccessDeleted)},
		Value: slices.Concat(lookup(memd.OpSubdocExists, Xattr, "_x.y"), lookup(memd.OpSubdocGet, 0, "a["),
			lookup(memd.OpGet, 0, "")),
	}, newest)
	require.Nil(t, no)
	require.True(t, rq.Multi)
	require.Equal(t, AccessDeleted, rq.Flags)
	require.Equal(t, "_x", rq.Specs[0].Attribute())
	require.Equal(t, memd.StatusSubdocPathInvalid, rq.Specs[1].Bad, "a malformed path fails alone")
	require.True(t, rq.Specs[2].Whole())
}

func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("a", maxPathLen+1)
	for name, c := range map[string]struct {
		op            memd.Opcode
		extras, value []byte
		st            memd.Status
	}{
		"no paths": {memd.OpSubdocMultiLookup, nil, nil, memd.StatusSubdocInvalidCombo},
		"a spec that is cut": {
			memd.OpSubdocMultiLookup, nil,
			[]byte{byte(memd.OpSubdocGet), 0, 0},
			memd.StatusInvalid,
		},
		"a path that is cut": {
			memd.OpSubdocMultiLookup, nil,
			[]byte{byte(memd.OpSubdocGet), 0, 0, 2, 'a'},
			memd.StatusInvalid,
		},
		"a change in a lookup": {
			memd.OpSubdocMultiLookup, nil, lookup(memd.OpSubdocDelete, 0, "a"),
			memd.StatusSubdocInvalidCombo,
		},
		"an unknown command": {
			memd.OpSubdocMultiLookup, nil, lookup(memd.OpNoop, 0, "a"),
			memd.StatusSubdocInvalidCombo,
		},
		"a long path": {memd.OpSubdocMultiLookup, nil, lookup(memd.OpSubdocGet, 0, long), memd.StatusInvalid},
		"seventeen paths": {
			memd.OpSubdocMultiLookup, nil, slices.Repeat(lookup(memd.OpSubdocGet, 0, "a"), 17),
			memd.StatusSubdocInvalidCombo,
		},
		"an attribute at last": {memd.OpSubdocMultiLookup, nil, append(lookup(memd.OpSubdocGet, 0, "a"),
			lookup(memd.OpSubdocGet, Xattr, "x")...), memd.StatusSubdocInvalidXattrOrder},
		"no attribute's name": {
			memd.OpSubdocMultiLookup, nil, lookup(memd.OpSubdocGet, Xattr, "!"),
			memd.StatusXattrInvalid,
		},
		"insert and upsert": {
			memd.OpSubdocDictAdd,
			[]byte{0, 1, 0, byte(Add | Upsert)},
			[]byte("a1"),
			memd.StatusInvalid,
		},
		"a value for a removal": {memd.OpSubdocDelete, []byte{0, 1, 0}, []byte("a1"), memd.StatusInvalid},
		"macros in a body": {
			memd.OpSubdocDictAdd,
			[]byte{0, 1, byte(Macros)},
			[]byte("a1"),
			memd.StatusSubdocXattrInvalidFlagCombo,
		},
		"an unknown macro": {memd.OpSubdocDictAdd, []byte{0, 1, byte(Macros | Xattr)}, []byte(`a"${x}"`), memd.StatusSubdocXattrUnknownMacro},
	} {
		_, no := Decode(&memd.Packet{Opcode: c.op, Extras: c.extras, Value: c.value}, newest)
		require.NotNil(t, no, name)
		require.Equal(t, c.st, no.Status, name)
	}
	withXattr := &memd.Packet{Opcode: memd.OpSubdocMultiLookup, Value: lookup(memd.OpSubdocGet, Xattr, "x")}
	without := newest
	without.Xattrs = false
	_, no := Decode(withXattr, without)
	require.Equal(t, memd.StatusNotSupported, no.Status, "the feature")
}

// FuzzDecode reads any request: nothing panics, and what is not refused is within the limits.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(memd.OpSubdocMultiLookup), []byte{4}, lookup(memd.OpSubdocGet, Xattr, "$document.CAS"))
	f.Add(uint8(memd.OpSubdocMultiMutation), []byte(nil), []byte("\xc8\x04\x00\x01\x00\x00\x00\x01x1"))
	f.Add(uint8(memd.OpSubdocCounter), []byte{0, 1, 1, 0, 0, 0, 1}, []byte("a1"))
	f.Fuzz(func(t *testing.T, op uint8, extras, value []byte) {
		p := &memd.Packet{Opcode: memd.Opcode(op), Extras: extras, Value: value}
		multi := p.Opcode == memd.OpSubdocMultiLookup || p.Opcode == memd.OpSubdocMultiMutation
		// the mock's own table refuses these
		if !multi && (p.Opcode < memd.OpSubdocGet || commands[p.Opcode] == nil || len(extras) < 3) {
			return
		}
		rq, no := Decode(p, newest)
		if no != nil {
			require.NotEqual(t, memd.StatusSuccess, no.Status)
			return
		}
		require.NotEmpty(t, rq.Specs)
		require.LessOrEqual(t, len(rq.Specs), MaxPaths)
		for _, s := range rq.Specs {
			require.LessOrEqual(t, len(s.parts), maxPathParts)
			require.True(t, s.parts == nil || s.Bad == memd.StatusSuccess)
		}
	})
}
