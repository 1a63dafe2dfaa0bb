package kv_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// B45, T7: a memcached bucket takes what plain memcached knows, on the node that the key's hash names; the rest fails
// with the name of what it lacks.
func TestAMemcachedBucket_B45_T7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 0, mock.Memcached()), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		// Before the first map, too.
		key, v := []byte("k"), []byte("5")
		_, err = kv.Do(testContext(t), b, kv.Insert{Key: key, Value: v})
		require.NoError(t, err)
		require.NoError(t, b.WaitReady(testContext(t)))

		for name, op := range map[string]subject{
			"get": on("", kv.Get{Key: key}), "upsert": on("", kv.Upsert{Key: key, Value: v}),
			"replace": on("", kv.Replace{Key: key, Value: v}),
			"append":  on("", kv.Append{Key: key, Value: v}), "prepend": on("", kv.Prepend{Key: key, Value: v}),
			"increment": on("", kv.Increment{Key: key, Delta: 1}),
			"decrement": on("", kv.Decrement{Key: key, Delta: 1}),
			"touch":     on("", kv.Touch{Key: key}), "get-and-touch": on("", kv.GetAndTouch{Key: key}),
			"get-or-null": on("", kv.GetOrNull{Key: key}),
		} {
			_, err := op.do(testContext(t), b)
			require.NoError(t, err, name)
		}
		_, err = kv.Do(testContext(t), b, kv.Remove{Key: key})
		require.NoError(t, err)
		_, err = kv.Do(testContext(t), b, kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.DocumentNotFound)

		for name, c := range map[string]struct {
			op   subject
			kind *cberr.Kind
		}{
			"a replica":       {on("", kv.GetReplica{Key: key, Replica: 1}), cberr.FeatureNotAvailable},
			"sequence number": {on("", kv.ObserveSeqno{VBucket: 1}), cberr.FeatureNotAvailable},
			"a scan":          {on("", kv.RangeScanCreate{Range: &kv.ScanRange{}}), cberr.FeatureNotAvailable},
			"a collection": {
				on("", kv.Get{Common: kv.Common{Scope: "s", Collection: "c"}, Key: key}),
				cberr.FeatureNotAvailable,
			},
			"durability": {
				on("", kv.Upsert{Key: key, Value: v, Durability: memd.DurabilityMajority}),
				cberr.FeatureNotAvailable,
			},
			"a lock": {on("", kv.GetAndLock{Key: key}), cberr.UnsupportedOperation},
			"paths": {
				on("", kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetPath("a")}}),
				cberr.UnsupportedOperation,
			},
			"metadata":     {on("", kv.Exists{Key: key}), cberr.UnsupportedOperation},
			"observe":      {on("", kv.Observe{Key: key}), cberr.UnsupportedOperation},
			"any document": {on("", kv.GetRandom{}), cberr.UnsupportedOperation},
		} {
			began := time.Now()
			_, err := c.op.do(testContext(t), b)
			require.ErrorIs(t, err, c.kind, name)
			require.Zero(t, time.Since(began), "%s: at once", name)
		}

		s, err := topology.Parse(m.ConfigJSON("default"), "", topology.Options{})
		require.NoError(t, err)
		nodes := map[int]int{}
		for i := range 60 {
			key := fmt.Appendf(nil, "key-%d", i)
			res, err := kv.Do(testContext(t), b, kv.Upsert{Key: key, Value: v})
			require.NoError(t, err)
			n := s.KetamaIndex(key)
			require.Equal(t, m.Node(n).Addr(), res.Endpoint())
			nodes[n]++
		}
		require.Len(t, nodes, 3, "%v", nodes)

		// A node that leaves takes its keys along, and the others keep theirs.
		require.NoError(t, m.Failover(1))
		require.NoError(t, m.Rebalance())
		time.Sleep(time.Second)
		kept := 0
		for i := range 60 {
			res, err := kv.Do(testContext(t), b, kv.GetOrNull{Key: fmt.Appendf(nil, "key-%d", i)})
			require.NoError(t, err)
			if !res.Absent {
				kept++
			}
		}
		require.Equal(t, nodes[0]+nodes[2], kept)
	})
}
