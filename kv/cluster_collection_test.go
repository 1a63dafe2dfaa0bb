package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// B28: a collection's id that the caller knows is used without asking. One that no collection has fails at once, unless
// there are names that say which one it is now.
func TestAnIDFromTheCaller_B28(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		path := kv.Common{Scope: "s", Collection: "c"}
		at, err := kv.Do(testContext(t), b, kv.GetCollectionID{Path: "s.c"})
		require.NoError(t, err)
		lookups := m.Frames(memd.OpCollectionsGetID)
		byID, key := kv.Common{CollectionID: at.ID}, []byte("k")
		for name, op := range map[string]subject{
			"upsert": on("", kv.Upsert{Common: byID, Key: key, Value: []byte(`{"k":"k"}`), Flags: 0x02000006}), "get": on("", kv.Get{Common: byID, Key: key}),
			"lookup-in": on("", kv.LookupIn{Common: byID, Key: key, Specs: []kv.LookupSpec{kv.GetPath("k")}}),
			"observe":   on("", kv.Observe{Common: byID, Key: key}),
			"exists":    on("", kv.Exists{Common: byID, Key: key}),
		} {
			if name != "upsert" {
				_, err := kv.Do(testContext(t), b, kv.Upsert{Common: byID, Key: key, Value: []byte(`{"k":"k"}`), Flags: 0x02000006})
				require.NoError(t, err)
			}
			_, err := op.do(testContext(t), b)
			require.NoError(t, err, name)
		}
		require.Equal(t, []string{"k"}, scanned(t, b, kv.Scan{Common: byID}))
		require.Equal(t, lookups, m.Frames(memd.OpCollectionsGetID), "no node was asked")
		require.Equal(t, `{"k":"k"}`, read(t, b, path, "k"))
		_, err = kv.Do(testContext(t), b, kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.DocumentNotFound, "the default collection is another one")
		_, err = kv.Do(testContext(t), b, kv.Get{Common: byID, Key: bytesOf('k', kv.MaxKeyLenCollection+1)})
		require.ErrorIs(t, err, cberr.InvalidArgument)

		_, err = kv.Do(testContext(t), b, kv.Get{Common: kv.Common{CollectionID: 0x777}, Key: key})
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.CollectionNotFound)
		require.Zero(t, e.Retry.Retries())
		wrong := path
		wrong.CollectionID = 0x777
		res, err := kv.Do(testContext(t), b, kv.Get{Common: wrong, Key: key})
		require.NoError(t, err)
		require.Equal(t, 1, res.RetryInfo().Retries())
		for _, c := range []kv.Common{
			{Scope: "s", Collection: "none", CollectionID: 0x777},
			{Scope: "_default", Collection: "_default", CollectionID: 0x777},
		} {
			_, err = kv.Do(testContext(t), b, kv.Get{Common: c, Key: key})
			require.ErrorIs(t, err, map[bool]error{
				true:  cberr.CollectionNotFound,
				false: cberr.DocumentNotFound,
			}[c.Scope == "s"])
		}
	})
}
