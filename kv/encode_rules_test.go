package kv_test

import (
	"bytes"
	"testing"

	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// The collection's id is read by gocbcore's codec too, when the connection has collections.
func TestTheirsReadsOurCollectionIDs(t *testing.T) {
	for _, id := range []uint32{0, 8, 0x7f, 0x80, 0x555, 0xffffffff} {
		wire, err := on("", kv.Get{Key: []byte("abc")}).encoded(inCollection(id))
		require.NoError(t, err)
		c := gmemd.NewConn(&readOnly{bytes.NewReader(wire)})
		c.EnableFeature(gmemd.FeatureCollections)
		theirs, _, err := c.ReadPacket()
		require.NoError(t, err)
		require.Equal(t, id, theirs.CollectionID)
		require.Equal(t, "abc", string(theirs.Key))
	}
}

func TestAMissingFeatureIsNamed(t *testing.T) {
	key := []byte("abc")
	durable := on("durable", kv.Upsert{Key: key, Durability: memd.DurabilityMajority})
	keep := on("keep", kv.Upsert{Key: key, PreserveExpiry: true})
	user := on("user", kv.Get{Common: kv.Common{OnBehalfOf: "jane"}, Key: key})
	for _, c := range []struct {
		op      subject
		missing memd.Feature
	}{
		{durable, memd.FeatureAltRequest},
		{durable, memd.FeatureSyncReplication},
		{keep, memd.FeatureAltRequest},
		{keep, memd.FeaturePreserveTTL},
		{user, memd.FeatureAltRequest},
		{on("get", kv.Get{Key: key}), memd.FeatureCollections},
	} {
		_, err := c.op.encoded(withoutFeature(c.missing))
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.FeatureNotAvailable)
		var fe *kv.FeatureError
		require.ErrorAs(t, e, &fe)
		require.Equal(t, c.missing, fe.Feature, c.op.name)
		require.Contains(t, e.Error(), c.missing.String())
	}
}

func TestARefusedEncodingLeavesTheBufferAlone(t *testing.T) {
	f := newFake(func(c *call.Call) {
		before := []byte("before")
		w := call.Wire{}
		out, ended, err := c.AppendTo(before, &w)
		require.False(t, ended)
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		require.Equal(t, "before", string(out))
		c.Fail(err)
	})
	_, err := kv.Do(testContext(t), f, kv.Upsert{Key: []byte("k"), Durability: memd.DurabilityMajority})
	require.ErrorIs(t, err, cberr.FeatureNotAvailable)
}

// A retry encodes again, with the collection's new id and another vbucket.
func TestEncodingIsRepeatable(t *testing.T) {
	var wires [2][]byte
	f := newFake(func(c *call.Call) {
		for i, id := range []uint32{8, 0x555} {
			w := inCollection(id)
			var err error
			wires[i], err = wireOf(c, w)
			require.NoError(t, err)
		}
		c.Fail(errSeen)
	})
	_, err := kv.Do(testContext(t), f, kv.Upsert{
		Key: []byte("abc"), Value: []byte("v"),
		Durability: memd.DurabilityMajority,
	})
	require.ErrorIs(t, err, errSeen)
	for i, want := range []string{"\x08abc", "\xd5\x0aabc"} {
		var p memd.Packet
		_, err := p.Parse(wires[i], 0)
		require.NoError(t, err)
		require.Equal(t, want, string(p.Key))
		require.Equal(t, "v", string(p.Value))
	}
}

// Nothing is appended for a call that has ended: its key and value are the caller's again.
func TestAnEndedCallIsNotEncoded(t *testing.T) {
	f := newFake(func(c *call.Call) {
		require.True(t, c.Fail(errSeen))
		require.True(t, c.Ended())
		w := common
		out, ended, err := c.AppendTo(nil, &w)
		require.NoError(t, err)
		require.True(t, ended)
		require.Empty(t, out)
		out, value, ended, err := c.AppendHead(nil, &w)
		require.NoError(t, err)
		require.True(t, ended)
		require.Empty(t, out)
		require.Empty(t, value)
		require.Equal(t, "head", string(c.Copy([]byte("head"), []byte("value"))))
	})
	_, err := kv.Do(testContext(t), f, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, errSeen)
}
