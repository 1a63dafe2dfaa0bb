package field_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
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

// Results name the collection by the id that the request had, however the call was started, retried or not.
func TestResultsNameTheirCollection(t *testing.T) {
	m, b := factsMock(t)
	ctx := within(t, 10*time.Second)
	in := kv.Common{Scope: "s", Collection: "c"}
	asked, err := kv.Do(ctx, b, kv.GetCollectionID{Path: "s.c"})
	require.NoError(t, err)
	require.NotZero(t, asked.ID)
	require.Zero(t, asked.CollectionID(), "the operation itself is in no collection")

	put, err := kv.Do(ctx, b, kv.Upsert{Common: in, Key: []byte("k"), Value: []byte(`{"a":1}`)})
	require.NoError(t, err)
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Status(memd.StatusTmpFail))
	got, err := kv.Do(ctx, b, kv.Get{Common: in, Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, 1, got.RetryInfo().Retries())
	paths, err := kv.Do(ctx, b, kv.LookupIn{Common: in, Key: []byte("k"), Specs: []kv.LookupSpec{kv.GetPath("a")}})
	require.NoError(t, err)
	byID, err := kv.Do(ctx, b, kv.Get{Common: kv.Common{CollectionID: asked.ID}, Key: []byte("k")})
	require.NoError(t, err)
	future, err := kv.Start(ctx, b, kv.Get{Common: in, Key: []byte("k")}).Wait(ctx)
	require.NoError(t, err)
	batch := kv.Batch(ctx, b, []kv.Get{{Common: in, Key: []byte("k")}, {Key: []byte("k")}}, 2)
	require.NoError(t, batch[0].Err)
	for _, id := range []uint32{
		put.CollectionID(), got.CollectionID(), paths.CollectionID(), byID.CollectionID(), future.CollectionID(),
		batch[0].Result.CollectionID(),
	} {
		require.Equal(t, asked.ID, id)
	}
	elsewhere, err := kv.Do(ctx, b, kv.Upsert{Key: []byte("k")})
	require.NoError(t, err)
	require.Zero(t, elsewhere.CollectionID())
}

// Each result has these facts, so what few results have is apart.
func TestTheFactsOfAResultAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(kv.Result{}), uintptr(40))
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
	c, b, _ := openFacts(t)
	return c, b
}

// factsMock is the bucket of such a client, and its mock.
func factsMock(t *testing.T) (*mock.Cluster, *core.Bucket) {
	_, b, m := openFacts(t)
	return m, b
}

func openFacts(t *testing.T) (*core.Cluster, *core.Bucket, *mock.Cluster) {
	m := mock.Start(t, mock.Nodes(1), mock.User("u", "p"), mock.Bucket("default", 16, mock.WithCollection("s", "c")))
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth = core.AuthConfig{Username: "u", Password: core.NewSecret("p")}
	c := openConfig(t, cfg)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	return c, b, m
}
