package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// pushed runs f in a bubble with a client that takes notifications and nodes that send the given kind of them.
func pushed(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket), without ...memd.Feature) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(), mock.WithoutFeatures(without...))
		b := open(t, m, func(c *core.Config) { c.Maps.NoNotifications = false }).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		f(t, m, b)
	})
}

// T2: a notification of either kind brings the new map at once, and one request for it at most. No call has to find out
// by itself.
func TestNodesTellOfNewMaps_T2(t *testing.T) {
	for name, without := range map[string]memd.Feature{
		"brief": memd.FeatureClustermapChange,
		"full":  memd.FeatureClustermapChangeBrief,
	} {
		t.Run(name, func(t *testing.T) {
			pushed(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				key := keyOn(t, b, m.Node(0).Addr())
				vb, _, _ := b.Locate(key)
				asked := m.Frames(memd.OpGetClusterConfig)
				require.NoError(t, m.MoveVBucket("default", int(vb), 1))
				time.Sleep(100 * time.Millisecond)
				_, rev := m.Revision()
				mp, _ := b.Map()
				require.Equal(t, rev, mp.Rev)
				want := 0
				if name == "brief" {
					want = 1 // three nodes have told of it
				}
				require.Equal(t, want, m.Frames(memd.OpGetClusterConfig)-asked)
				res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
				require.NoError(t, err)
				require.Zero(t, res.RetryInfo().Retries())
				require.Equal(t, m.Node(1).Addr(), res.Endpoint())
			}, without)
		})
	}
}

// T2, D30: a notification that is not newer than what is known costs nothing.
func TestAnOldNotificationCostsNothing_T2(t *testing.T) {
	pushed(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		asked := m.Frames(memd.OpGetClusterConfig)
		for range 100 {
			m.Push()
		}
		time.Sleep(time.Second)
		require.Equal(t, asked, m.Frames(memd.OpGetClusterConfig))
	})
}

// T1: while every node tells of new maps no node is asked for them, but every node is asked whether it is still there;
// a silent one is found out. Without notifications from one of them all are asked again.
func TestPollingRestsWhileAllNodesPush_T1(t *testing.T) {
	pushed(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		asked, noops := m.Frames(memd.OpGetClusterConfig), m.Frames(memd.OpNoop)
		time.Sleep(10*2500*time.Millisecond + time.Second)
		require.Equal(t, asked, m.Frames(memd.OpGetClusterConfig))
		require.Equal(t, noops+10, m.Frames(memd.OpNoop))
		links, hellos := m.Network().Links(), m.Frames(memd.OpHello)
		links[0].Up().Drop()
		links[0].Down().Drop()
		time.Sleep(15 * time.Second)
		for _, n := range b.Status() {
			require.True(t, n.Connected)
		}
		require.Equal(t, hellos+1, m.Frames(memd.OpHello))
		require.NoError(t, m.Kill(1))
		asked = m.Frames(memd.OpGetClusterConfig)
		time.Sleep(10 * time.Second)
		require.Greater(t, m.Frames(memd.OpGetClusterConfig), asked)
	})
}
