package mock_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestALockHasACASOfItsOwn_D241: reads hide the CAS of a locked document wherever they tell it, and an unlocked one has
// the CAS from before again. Until 7.2.3 it kept that of the lock.
func TestALockHasACASOfItsOwn_D241(t *testing.T) {
	for _, version := range []string{"7.1", "7.2.3", "7.2.4", "7.6", "8.0"} {
		r := login(t, mock.Start(t, mock.Version(version)), subdocFeatures...)
		first := r.call(storePacket(memd.OpSet, "k", `{"a":1}`)).CAS
		lock := r.call(keyed(memd.OpGetLocked, "k"))
		require.NotEqual(t, first, lock.CAS)

		document := lookupPacket("k", 0, ps{memd.OpSubdocGet, fXattr, "$document", ""})
		p := r.call(document)
		require.Equal(t, uint64(math.MaxUint64), p.CAS)
		var attribute map[string]any
		require.NoError(t, json.Unmarshal([]byte(pathAnswers(t, p.Value)[0].value), &attribute))
		require.Equal(t, "0xffffffffffffffff", attribute["CAS"])
		require.Equal(t, "0", attribute["last_modified"], "a server takes it from the CAS")
		require.Equal(t, uint64(math.MaxUint64), r.call(keyed(memd.OpGetMeta, "k")).CAS)
		require.Equal(t, memd.StatusLocked, r.call(withCAS(storePacket(memd.OpSet, "k", "2"), first)).Status)

		require.Equal(t, memd.StatusSuccess, r.call(withCAS(keyed(memd.OpUnlockKey, "k"), lock.CAS)).Status)
		has, hasNot := first, lock.CAS
		if version < "7.2.4" {
			has, hasNot = lock.CAS, first
		}
		require.Equal(t, has, r.call(getPacket("k")).CAS, version)
		require.Equal(t, has, r.call(keyed(memd.OpGetMeta, "k")).CAS, version)
		require.Equal(t, memd.StatusKeyExists, r.call(withCAS(storePacket(memd.OpSet, "k", "2"), hasNot)).Status)
		require.Equal(t, memd.StatusSuccess, r.call(withCAS(storePacket(memd.OpSet, "k", "2"), has)).Status)
	}
}

// TestStatusesOfLocksWithoutXERROR_D242: kv_engine has two statuses for a lock that clients with XERROR see as one.
func TestStatusesOfLocksWithoutXERROR_D242(t *testing.T) {
	c := mock.Start(t)
	r, old := login(t, c, subdocFeatures...), login(t, c, memd.FeatureCollections)
	require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "1")).Status)
	other := r.call(getPacket("k")).CAS
	require.Equal(t, memd.StatusSuccess, r.call(keyed(memd.OpGetLocked, "k")).Status)
	touch := keyed(memd.OpTouch, "k")
	touch.Extras = []byte{0, 0, 0, 9}
	join := keyed(memd.OpAppend, "k")
	join.Value = []byte("1")
	for _, row := range []struct {
		p    memd.Packet
		want memd.Status
	}{
		{storePacket(memd.OpSet, "k", "2"), memd.StatusKeyExists},
		{withCAS(storePacket(memd.OpSet, "k", "2"), other), memd.StatusKeyExists},
		{storePacket(memd.OpReplace, "k", "2"), memd.StatusKeyExists},
		{join, memd.StatusKeyExists},
		{touch, memd.StatusKeyExists},
		{counterPacket(memd.OpIncrement, "k", 1, 1, 0), memd.StatusKeyExists},
		{keyed(memd.OpDelete, "k"), memd.StatusKeyExists},
		{withCAS(keyed(memd.OpDelete, "k"), other), memd.StatusTmpFail},
		{metaPacket(memd.OpSetWithMeta, "k", "2", metaExtras(0, 0, 10, 60)), memd.StatusKeyExists},
		{metaPacket(memd.OpDelWithMeta, "k", "", metaExtras(0, 0, 10, 60)), memd.StatusTmpFail},
		{keyed(memd.OpGetLocked, "k"), memd.StatusTmpFail},
		{withCAS(keyed(memd.OpUnlockKey, "k"), other), memd.StatusTmpFail},
		{singlePacket(memd.OpSubdocArrayPushLast, "k", "a", "1", 0), memd.StatusTmpFail},
		{mutatePacket("k", 0, ps{op: memd.OpSet, value: "2"}), memd.StatusTmpFail},
		{withCAS(mutatePacket("k", 0, ps{op: memd.OpSet, value: "2"}), other), memd.StatusTmpFail},
		{withCAS(keyed(memd.OpUnlockKey, "absent"), other), memd.StatusKeyNotFound},
	} {
		require.Equal(t, row.want, old.call(row.p).Status, "%v, CAS %x", row.p.Opcode, row.p.CAS)
		if row.want != memd.StatusKeyNotFound {
			row.want = memd.StatusLocked
		}
		require.Equal(t, row.want, r.call(row.p).Status, "%v, CAS %x", row.p.Opcode, row.p.CAS)
	}
}

// TestWhatIsJudgedFirst_D243: a counter looks at the number before the lock, a path is looked at behind the document's
// datatype and the attribute's name, and an index as the name of a member behind what the path leads through.
func TestWhatIsJudgedFirst_D243(t *testing.T) {
	r := login(t, mock.Start(t), subdocFeatures...)
	r.set("text", "text")
	r.set("object", `{"a":[1],"n":5}`)
	status := func(p memd.Packet) memd.Status { return r.call(p).Status }
	for _, path := range []string{"a..b", "b["} {
		require.Equal(t, memd.StatusSubdocNotJSON, status(singlePacket(memd.OpSubdocGet, "text", path, "", 0)))
		require.Equal(t, memd.StatusSubdocNotJSON, status(singlePacket(memd.OpSubdocDictUpsert, "text", path, "1", 0)))
		require.Equal(t, memd.StatusSubdocPathInvalid, status(singlePacket(memd.OpSubdocGet, "object", path, "", 0)))
	}
	p := r.call(lookupPacket("object", 0, ps{memd.OpSubdocGet, fXattr, "$nope..b", ""}))
	require.Equal(t, memd.StatusSubdocXattrUnknownVattr, pathAnswers(t, p.Value)[0].status)
	for path, want := range map[string]memd.Status{
		"[0]": memd.StatusSubdocPathMismatch, "n[0]": memd.StatusSubdocPathMismatch,
		"a[0]": memd.StatusSubdocPathInvalid, "a[7]": memd.StatusSubdocPathInvalid,
		"b[0]": memd.StatusSubdocPathInvalid,
	} {
		for _, op := range []memd.Opcode{memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert} {
			require.Equal(t, want, status(singlePacket(op, "object", path, "1", 0)), "%v %s", op, path)
		}
	}
	require.Equal(t, memd.StatusSuccess, status(keyed(memd.OpGetLocked, "text")))
	require.Equal(t, memd.StatusDeltaBadVal, status(counterPacket(memd.OpIncrement, "text", 1, 1, 0)))
}
