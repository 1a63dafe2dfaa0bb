package mock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestSubdocTombstones(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	look := func(doc byte) memd.Packet {
		return r.call(lookupPacket("k", doc, ps{memd.OpSubdocGet, fXattr, "_s", ""}, ps{
			memd.OpSubdocGet, fXattr, "u",
			"",
		}))
	}
	r.set("k", `{"a":1}`)
	attrs := []ps{{memd.OpSubdocDictUpsert, fXattr, "_s", "1"}, {memd.OpSubdocDictUpsert, fXattr, "u", "2"}}
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("k", 0, attrs...)).Status)
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpDelete, Key: docKey("k")}).Status)
	require.Equal(t, memd.StatusKeyNotFound, look(0).Status)
	p := look(dDeleted)
	require.Equal(t, memd.StatusSubdocMultiPathFailureDeleted, p.Status)
	require.Equal(t, []pathAnswer{{0, "1"}, {memd.StatusSubdocPathNotFound, ""}}, pathAnswers(t, p.Value),
		"system attributes stay")
	require.Equal(t, memd.StatusSubdocSuccessDeleted, r.call(singlePacket(memd.OpSubdocGet, "k", "_s", "", fXattr,
		dDeleted)).Status)

	require.Equal(t, memd.StatusKeyNotFound, r.call(mutatePacket("k", 0, attrs...)).Status)
	p = r.call(mutatePacket("k", dDeleted, attrs[0], ps{memd.OpSubdocCounter, fXattr, "n", "1"}))
	require.Equal(t, memd.StatusSubdocSuccessDeleted, p.Status)
	require.Len(t, p.Extras, 16)
	require.NotEmpty(t, p.Value)
	require.Equal(t, memd.StatusKeyExists, r.call(mutatePacket("k", dDeleted|dAdd, attrs...)).Status)
	p = r.call(mutatePacket("k", dDeleted, ps{memd.OpSubdocReplaceBodyWithXattr, fXattr, "_s", ""}))
	require.Equal(t, memd.StatusSubdocDeletedCantHaveValue, p.Status)
	p = r.call(mutatePacket("k", dDeleted, ps{op: memd.OpSubdocDictUpsert, path: "a", value: "1"}))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, p.Status)
	require.Equal(t, []byte{0, 0, 0xc6}, p.Value)
	p = r.call(lookupPacket("k", dDeleted, ps{memd.OpSubdocGet, fXattr, "$document.deleted", ""}, ps{op: memd.OpGet},
		ps{op: memd.OpSubdocGet, path: "a"}))
	require.Equal(t, []pathAnswer{
		{0, "true"}, {memd.StatusSubdocPathNotFound, ""}, {memd.StatusSubdocNotJSON, ""},
	}, pathAnswers(t, p.Value))

	p = r.call(mutatePacket("k", dDeleted|dRevive, ps{memd.OpSubdocDictUpsert, fXattr, "st", `{"v":1}`},
		ps{memd.OpSubdocReplaceBodyWithXattr, fXattr, "st", ""}, ps{memd.OpSubdocDelete, fXattr, "st", ""}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, `{"v":1}`, r.body("k"))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, look(dDeleted).Status)

	p = r.call(mutatePacket("ghost", dAdd|dTomb|dDeleted, attrs...))
	require.Equal(t, memd.StatusSubdocSuccessDeleted, p.Status)
	require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("ghost")).Status)
	p = r.call(lookupPacket("ghost", dDeleted, ps{memd.OpSubdocGet, fXattr, "u", ""}))
	require.Equal(t, memd.StatusSubdocSuccessDeleted, p.Status)
	require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpAdd, "ghost", "{}")).Status)
	p = r.call(lookupPacket("ghost", 0, ps{memd.OpSubdocGet, fXattr, "u", ""}))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, p.Status,
		"a new document has none of the tombstone's attributes")

	r.set("both", "{}")
	p = r.call(mutatePacket("both", 0, attrs[0], attrs[1], ps{op: memd.OpDelete}))
	require.Equal(t, memd.StatusSuccess, p.Status)
	p = r.call(lookupPacket("both", dDeleted, ps{memd.OpSubdocGet, fXattr, "$XTOC", ""}))
	require.Equal(t, okPaths(`["_s"]`), pathAnswers(t, p.Value))
}

func TestSubdocLookupOnReplicas(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	active, replica := loginAt(t, c, 0, subdocFeatures...), loginAt(t, c, 1, subdocFeatures...)
	active.set("k", `{"a":1}`)
	get := ps{op: memd.OpSubdocGet, path: "a"}
	require.Equal(t, memd.StatusNotMyVBucket, active.call(lookupPacket("k", dFromReplica, get)).Status)
	require.Equal(t, memd.StatusNotMyVBucket, replica.call(lookupPacket("k", 0, get)).Status)
	p := replica.call(lookupPacket("k", dFromReplica, get))
	require.Equal(t, okPaths("1"), pathAnswers(t, p.Value))
	require.Equal(t, memd.StatusSuccess, replica.call(singlePacket(memd.OpSubdocGet, "k", "a", "", 0,
		dFromReplica)).Status)

	durable := mutatePacket("k", 0, ps{op: memd.OpSubdocDictUpsert, path: "a", value: "2"})
	durable.Magic, durable.Frames = memd.MagicReqExt, []byte{0x11, 1}
	require.Equal(t, memd.StatusSuccess, active.call(durable).Status)
	require.Equal(t, `{"a":2}`, active.body("k"))
}

// An xattr path that comes first decides what a new document is, and a lock is noticed when the document is stored.
func TestSubdocOrderOfChecks(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	attr, push := ps{memd.OpSubdocDictUpsert, fXattr, "u", "1"}, ps{op: memd.OpSubdocArrayPushLast, value: "1"}
	p := r.call(mutatePacket("new", dUpsert, attr, push))
	require.Equal(t, []byte{1, 0, 0xc1}, p.Value, "the attribute's path makes an object")
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("new", dUpsert, push)).Status)
	other := mutatePacket("made", dUpsert, ps{op: memd.OpSubdocDictUpsert, path: "a", value: "1"})
	other.CAS = 77
	require.Equal(t, memd.StatusSuccess, r.call(other).Status, "a document that is not there has no CAS to compare")

	r.set("k", `{"a":1}`)
	lock := r.call(memd.Packet{Opcode: memd.OpGetLocked, Key: docKey("k")})
	require.Equal(t, memd.StatusSuccess, lock.Status)
	try := func(p memd.Packet, cas uint64) memd.Status {
		p.CAS = cas
		return r.call(p).Status
	}
	missing, there := ps{op: memd.OpSubdocReplace, path: "nix", value: "1"}, ps{
		op: memd.OpSubdocReplace, path: "a",
		value: "1",
	}
	require.Equal(t, memd.StatusLocked, try(mutatePacket("k", 0, missing), 0))
	require.Equal(t, memd.StatusSubdocMultiPathFailure, try(mutatePacket("k", 0, missing), 5))
	require.Equal(t, memd.StatusSubdocPathNotFound, try(singlePacket(memd.OpSubdocReplace, "k", "nix", "1", 0), 5))
	require.Equal(t, memd.StatusLocked, try(mutatePacket("k", 0, there), 5))
	require.Equal(t, memd.StatusKeyExists, try(lookupPacket("k", 0, ps{op: memd.OpSubdocGet, path: "a"}), lock.CAS))
	require.Equal(t, memd.StatusSuccess, try(mutatePacket("k", 0, there), lock.CAS))
	require.Equal(t, memd.StatusKeyExists, try(lookupPacket("k", 0, ps{op: memd.OpSubdocGet, path: "a"}), 5))
	require.Equal(t, memd.StatusKeyExists, try(mutatePacket("k", dRevive|dDeleted, there), 5),
		"before it is found alive")
}

func TestSubdocUserFlags(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	flags := func(key string) []byte {
		p := r.call(getPacket(key))
		require.Equal(t, memd.StatusSuccess, p.Status)
		return p.Extras
	}
	p := mutatePacket("multi", 0, ps{op: memd.OpSubdocDictUpsert, path: "a", value: "1"})
	p.Extras = []byte{0, 0, 0, 0, 1, 2, 3, 4, dUpsert}
	require.Equal(t, memd.StatusSuccess, r.call(p).Status)
	require.Equal(t, []byte{1, 2, 3, 4}, flags("multi"))
	p.Extras = []byte{0, 0, 0, 0, 1, 2, 3, 5}
	require.Equal(t, memd.StatusSuccess, r.call(p).Status)
	require.Equal(t, []byte{1, 2, 3, 5}, flags("multi"))
	p.Extras = nil
	require.Equal(t, memd.StatusSuccess, r.call(p).Status)
	require.Equal(t, []byte{1, 2, 3, 5}, flags("multi"), "kept")

	one := singlePacket(memd.OpSubdocDictUpsert, "multi", "b", "1", 0)
	one.Extras = append(one.Extras, 0, 0, 0, 0, 9, 9, 9, 9)
	require.Equal(t, memd.StatusSuccess, r.call(one).Status)
	require.Equal(t, []byte{9, 9, 9, 9}, flags("multi"))
	one = singlePacket(memd.OpSubdocDictUpsert, "single", "b", "1", 0)
	one.Extras = append(one.Extras, 0, 0, 0, 1, 9, 9, 9, 8, dUpsert)
	require.Equal(t, memd.StatusSuccess, r.call(one).Status)
	require.Equal(t, []byte{9, 9, 9, 8}, flags("single"))
	meta := r.call(memd.Packet{Opcode: memd.OpGetMeta, Key: docKey("single")})
	require.Equal(t, make([]byte, 4), meta.Extras[8:12], "the expiry in 12 bytes is overlooked")
}
