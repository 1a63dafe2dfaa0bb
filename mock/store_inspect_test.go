package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestDocumentsAndFlush(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1, mock.WithCollection("s", "c")))
	require.Nil(t, c.Documents("absent"))
	require.Error(t, c.Flush("absent"))
	r := login(t, c, baseFeatures...)
	set := r.call(storePacket(memd.OpSet, "b", `{"a":1}`))
	require.Equal(t, memd.StatusSuccess, set.Status)
	for _, p := range []memd.Packet{
		storePacket(memd.OpSet, "a", "v"), storePacket(memd.OpSet, "gone", "v"), keyed(memd.OpDelete, "gone"),
		keyed(memd.OpGetLocked, "a"),
		{Opcode: memd.OpSet, Key: inCollection(8, []byte("c")), Value: []byte("w"), Extras: []byte{
			0, 0, 0, 9, 0, 0, 0,
			100,
		}},
	} {
		require.Equal(t, memd.StatusSuccess, r.call(p).Status)
	}
	ds := c.Documents("default")
	require.Len(t, ds, 3)
	require.Equal(t, []string{"a", "b", "c"}, []string{ds[0].Key, ds[1].Key, ds[2].Key})
	require.True(t, ds[0].Locked)
	require.False(t, ds[1].Locked)
	require.Equal(t, memd.DatatypeJSON, ds[1].Datatype)
	require.Equal(t, set.CAS, ds[1].CAS)
	require.EqualValues(t, 1, ds[1].Seqno)
	require.EqualValues(t, 8, ds[2].Collection)
	require.EqualValues(t, 9, ds[2].Flags)
	require.Equal(t, "w", string(ds[2].Value))
	require.InDelta(t, time.Now().Unix()+100, ds[2].Expiry, 5)

	log := len(c.ApplyLog("default"))
	require.NoError(t, c.Flush("default"))
	require.Empty(t, c.Documents("default"))
	require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("b")).Status)
	require.Len(t, c.ApplyLog("default"), log)
}

func TestReplicaLagDecidesWhatAFailoverLoses(t *testing.T) {
	for name, row := range map[string]struct {
		lag     time.Duration
		durable bool
		want    memd.Status
	}{
		"no lag":                 {0, false, memd.StatusSuccess},
		"lag":                    {time.Hour, false, memd.StatusKeyNotFound},
		"lag, durable":           {time.Hour, true, memd.StatusSuccess},
		"a lag that is negative": {-time.Second, false, memd.StatusSuccess},
	} {
		t.Run(name, func(t *testing.T) {
			c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
			require.Error(t, c.SetReplicaLag("absent", row.lag))
			require.NoError(t, c.SetReplicaLag("default", row.lag))
			active, replica := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
			p := storePacket(memd.OpSet, "k", "v")
			if row.durable {
				p.Magic, p.Frames = memd.MagicReqExt, []byte{0x11, byte(memd.DurabilityMajority)}
			}
			require.Equal(t, memd.StatusSuccess, active.call(p).Status)
			require.Equal(t, row.want, replica.call(memd.Packet{Opcode: memd.OpGetReplica, Key: docKey("k")}).Status)
			require.NoError(t, c.Failover(0))
			require.Equal(t, row.want, replica.call(getPacket("k")).Status)
			require.Len(t, c.ApplyLog("default"), 1)
		})
	}
}

func TestMovesLoseNothingWhateverTheLag(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	require.NoError(t, c.SetReplicaLag("default", time.Hour))
	active, replica := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, active.call(storePacket(memd.OpSet, "k", "v")).Status)
	require.NoError(t, c.MoveVBucket("default", 0, 1))
	require.Equal(t, memd.StatusSuccess, replica.call(getPacket("k")).Status)
	require.Equal(t, memd.StatusSuccess, replica.call(storePacket(memd.OpSet, "k", "w")).Status)
	require.NoError(t, c.RemoveNode(1))
	p := active.call(getPacket("k"))
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, "w", string(p.Value))
}

func TestApplyLogLimit(t *testing.T) {
	c := mock.Start(t)
	require.Error(t, c.LimitApplyLog("absent", 1))
	require.NoError(t, c.LimitApplyLog("default", 2))
	r := login(t, c, baseFeatures...)
	for _, key := range []string{"a", "b", "c"} {
		require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, key, "v")).Status)
	}
	log := c.ApplyLog("default")
	require.Len(t, log, 2)
	require.Equal(t, "c", log[1].Key)
	require.NoError(t, c.LimitApplyLog("default", -1))
	require.Len(t, c.ApplyLog("default"), 2)
}
