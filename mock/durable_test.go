package mock_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func durable(p memd.Packet, level byte) memd.Packet {
	p.Magic, p.Frames = memd.MagicReqExt, []byte{0x11, level}
	return p
}

func TestOutcomesOfDurableWritesOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Nodes(2), mock.Bucket("default", 1))
		r := login(t, c, baseFeatures...)
		set := func(value string) memd.Status { return r.call(durable(storePacket(memd.OpSet, "k", value), 1)).Status }
		require.Equal(t, memd.StatusSuccess, set("first"))
		require.NoError(t, c.SetDurability("default", mock.Durability{Impossible: true}))
		require.Equal(t, memd.StatusDurabilityImpossible, set("impossible"))
		require.NoError(t, c.SetDurability("default", mock.Durability{Ambiguous: true}))
		require.Equal(t, memd.StatusSyncWriteAmbiguous, set("lost"))
		require.Equal(t, "first", r.body("k"))
		require.NoError(t, c.SetDurability("default", mock.Durability{Ambiguous: true, Applied: true}))
		require.Equal(t, memd.StatusSyncWriteAmbiguous, set("late"))
		require.Equal(t, "late", r.body("k"))
		require.Len(t, c.ApplyLog("default"), 2)

		require.NoError(t, c.SetDurability("default", mock.Durability{Time: 60 * time.Millisecond}))
		begin := time.Now()
		other := login(t, c, append([]memd.Feature{memd.FeatureUnorderedExecution}, baseFeatures...)...)
		other.send(durable(storePacket(memd.OpSet, "k", "slow"), 1), storePacket(memd.OpSet, "k", "impatient"),
			getPacket("k"))
		require.Equal(t, memd.StatusSyncWriteInProgress, other.next(memd.OpSet, other.opaque-1).Status)
		require.Equal(t, "late", string(other.next(memd.OpGet, other.opaque).Value),
			"what is not committed is not read")
		require.Equal(t, memd.StatusSuccess, other.next(memd.OpSet, other.opaque-2).Status)
		require.GreaterOrEqual(t, time.Since(begin), 60*time.Millisecond)
		require.NoError(t, c.SetDurability("default", mock.Durability{}))
		require.Error(t, c.SetDurability("none", mock.Durability{}))
	})
}

func TestDocumentsThatWait(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1, mock.WithCollection("s", "c")))
	r := login(t, c, baseFeatures...)
	r.set("k", `{"a":1}`)
	mutations := []memd.Packet{
		storePacket(memd.OpSet, "k", "v"), durable(storePacket(memd.OpSet, "k", "v"), 1),
		{Opcode: memd.OpDelete, Key: docKey("k")},
		singlePacket(memd.OpSubdocDelete, "k", "a", "", 0),
	}
	release, err := c.HoldPrepare("default", "", "k")
	require.NoError(t, err)
	_, err = c.HoldPrepare("default", "_default._default", "k")
	require.Error(t, err)
	for _, p := range mutations {
		require.Equal(t, memd.StatusSyncWriteInProgress, r.call(p).Status, p.Opcode)
	}
	require.Equal(t, `{"a":1}`, r.body("k"))
	other := storePacket(memd.OpSet, "", "v")
	other.Key = inCollection(8, []byte("k"))
	require.Equal(t, memd.StatusSuccess, r.call(other).Status, "it is another document")
	release()
	release, err = c.HoldRecommit("default", "_default._default", "k")
	require.NoError(t, err)
	for _, p := range append(mutations, getPacket("k"), lookupPacket("k", 0, ps{op: memd.OpGet})) {
		require.Equal(t, memd.StatusSyncWriteReCommitInProgress, r.call(p).Status, p.Opcode)
	}
	release()
	release()
	require.Equal(t, memd.StatusSuccess, r.call(mutations[1]).Status)
	for _, bad := range [][2]string{{"none", ""}, {"default", "s.none"}, {"default", "none.c"}} {
		_, err = c.HoldPrepare(bad[0], bad[1], "k")
		require.Error(t, err)
	}
}

func TestMemcachedBuckets(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 0, mock.Memcached()), mock.ServerGroups("a", "b"))
	var g struct {
		NodeLocator, BucketType string
		Map                     *struct{} `json:"vBucketServerMap"`
		Nodes                   []struct{ Ports map[string]int }
		NodesExt                []struct{ ServerGroup string }
	}
	require.NoError(t, json.Unmarshal(c.ConfigJSON("default"), &g))
	require.Equal(t, []any{"ketama", "memcached"}, []any{g.NodeLocator, g.BucketType})
	require.Nil(t, g.Map)
	require.Len(t, g.Nodes, 2)
	require.NotZero(t, g.Nodes[1].Ports["direct"])
	require.Equal(t, "b", g.NodesExt[1].ServerGroup)
	one, two := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	one.set("k", "one")
	two.set("k", "two")
	require.Equal(t, "one", one.body("k"), "each node has documents of its own")
	require.Equal(t, "two", two.body("k"))
	require.Equal(t, "one", string(one.call(at(getPacket("k"), 700)).Value), "the vbucket is not looked at")
	require.Equal(t, memd.StatusSuccess, one.call(memd.Packet{
		Opcode: memd.OpTouch, Key: docKey("k"),
		Extras: make([]byte, 4),
	}).Status)
	for _, p := range []memd.Packet{
		{Opcode: memd.OpGetLocked, Key: docKey("k")},
		{Opcode: memd.OpGetMeta, Key: docKey("k")},
		{Opcode: memd.OpObserve, Value: []byte{0, 0, 0, 2, 0, 'k'}},
		{Opcode: memd.OpGetReplica, Key: docKey("k")},
		{Opcode: memd.OpGetRandomKey},
		{Opcode: memd.OpGetFailoverLog},
		lookupPacket("k", 0, ps{op: memd.OpGet}), durable(storePacket(memd.OpSet, "k", "v"), 1),
		scanPacket(scanJSON("a", "z", "")),
	} {
		require.Equal(t, memd.StatusNotSupported, one.call(p).Status, p.Opcode)
	}
	require.Len(t, c.Documents("default"), 2)
	require.NoError(t, c.Failover(0))
	require.NoError(t, c.Rebalance())
	require.NoError(t, json.Unmarshal(c.ConfigJSON("default"), &g))
	require.Len(t, g.Nodes, 1)
	_, err := mock.New(mock.Bucket("default", 0, mock.Memcached(), mock.WithCollection("s", "c")))
	require.Error(t, err)
	_, err = c.HoldPrepare("default", "", "k")
	require.Error(t, err)
}

// kv_engine 8.0.0 has answered so at each level (durable touch, durable get-and-touch).
func TestNoTouchIsDurable(t *testing.T) {
	r := login(t, mock.Start(t), baseFeatures...)
	for level := byte(1); level <= 3; level++ {
		for _, op := range []memd.Opcode{memd.OpTouch, memd.OpGAT} {
			p := memd.Packet{Opcode: op, Key: docKey("k"), Extras: make([]byte, 4)}
			require.Equal(t, memd.StatusNotSupported, r.call(durable(p, level)).Status, "%v %d", op, level)
			r.set("k", "v")
			require.Equal(t, memd.StatusNotSupported, r.call(durable(p, level)).Status, "%v %d", op, level)
		}
	}
}
