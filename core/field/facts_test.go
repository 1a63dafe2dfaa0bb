package field_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// What an SDK reports of a call: both ends of its connection, the connection's id, and the id of the collection.
func TestAnErrorNamesItsConnectionAsAResultDoes_D186(t *testing.T) {
	_, b := factsCluster(t)
	ctx := within(t, 10*time.Second)
	done, err := kv.Do(ctx, b, kv.Upsert{
		Common: kv.Common{Scope: "s", Collection: "c"}, Key: []byte("k"), Value: []byte("1"),
	})
	require.NoError(t, err)
	require.NotEmpty(t, done.Connection())
	require.NotEmpty(t, done.LocalAddr())

	_, err = kv.Do(ctx, b, kv.Get{Common: kv.Common{Scope: "s", Collection: "c"}, Key: []byte("none")})
	var e *kv.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, done.Endpoint(), e.Endpoint)
	require.Equal(t, done.Connection(), e.Connection)
	require.Equal(t, done.LocalAddr(), e.LocalAddr)
	require.NotZero(t, e.CollectionID)
	said := kv.ResultOf(e)
	require.Equal(t, e.Opaque, said.Opaque())
	require.NotEqual(t, done.Opaque(), said.Opaque())
	_, told := said.ServerDuration()
	require.True(t, told)

	_, err = kv.Do(ctx, b, kv.Get{Key: []byte("none")})
	require.ErrorAs(t, err, &e)
	require.Zero(t, e.CollectionID)
}

// What a program knows a cluster and a bucket by, in the newest map and in one that does not change.
func TestMapsNameTheirClusterAndBucket_D186(t *testing.T) {
	c, b := factsCluster(t)
	m, ok := b.Map()
	require.True(t, ok)
	require.NotEmpty(t, m.BucketUUID)
	require.NotEmpty(t, m.ClusterUUID)

	l, err := b.Layout(within(t, time.Second))
	require.NoError(t, err)
	epoch, rev := l.Version()
	uuid, name := l.Cluster()
	require.Equal(t, core.Map{
		Epoch: epoch, Rev: rev, VBuckets: l.NumVBuckets(), Replicas: l.NumReplicas(), Nodes: m.Nodes,
		BucketUUID: l.BucketUUID(), ClusterUUID: uuid, ClusterName: name,
	}, m)

	has, known := c.Capability("search", "vectorSearch")
	require.True(t, has)
	require.True(t, known)
	has, known = c.Capability("search", "nothing")
	require.False(t, has)
	require.True(t, known)
}

// factsCluster is a client that is ready, of a mock with one node and the collection s.c.
func factsCluster(t *testing.T) (*core.Cluster, *core.Bucket) {
	m := mock.Start(t, mock.Nodes(1), mock.User("u", "p"), mock.Bucket("default", 16, mock.WithCollection("s", "c")))
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth = core.AuthConfig{Username: "u", Password: core.NewSecret("p")}
	c := openConfig(t, cfg)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	return c, b
}
