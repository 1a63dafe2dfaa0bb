package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// TestCouchbaseMockMovedVBuckets learns of a new map from NOT_MY_VBUCKET answers alone.
func TestCouchbaseMockMovedVBuckets(t *testing.T) {
	couchbaseMockWith(t, testkit.MockOptions{}, noPoll, func(t *testing.T, m *testkit.CouchbaseMockServer,
		b *core.Bucket,
	) {
		ctx := longer(t)
		for _, node := range []int{0, 2} {
			m.Command("START_CMDLOG", map[string]any{"idx": node, "bucket": "default"})
		}
		for _, step := range []struct {
			command string
			nodes   int
		}{{"FAILOVER", 2}, {"RESPAWN", 3}} {
			before, _ := b.Map()
			alive := append(keysOf(t, m, b, 0, 40), keysOf(t, m, b, 2, 40)...)
			m.Command(step.command, map[string]any{"idx": 1, "rebalance": true})
			moved := 0
			for _, key := range alive {
				res, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte(step.command)})
				require.NoError(t, err)
				if res.RetryInfo().Reasons.Has(retry.KVNotMyVBucket) {
					moved++
					require.Equal(t, 0, res.RetryInfo().Counted, "the answer's map says where to go")
					require.Equal(t, 1, res.RetryInfo().Transparent)
				}
			}
			require.Positive(t, moved)
			after, _ := b.Map()
			require.Greater(t, after.Rev, before.Rev)
			require.Len(t, after.Nodes, step.nodes)
			for _, key := range alive {
				r, err := kv.Do(ctx, b, kv.Get{Key: key})
				require.NoError(t, err)
				require.Equal(t, step.command, string(r.Value))
			}
			t.Logf("%s: %d calls were sent to a former node", step.command, moved)
		}
		for _, node := range []int{0, 2} {
			log := commandLog(t, m, node)
			require.NotEmpty(t, log)
			asked := slices.ContainsFunc(log, func(r logged) bool { return r.Opcode == memd.OpGetClusterConfig })
			require.False(t, asked, "the map was not asked for")
		}
	})
}

// TestCouchbaseMockMovedVBucketsWithoutAMap has answers that do not say where to go, from nodes that do not give their
// map either: the call is retried until one does.
func TestCouchbaseMockMovedVBucketsWithoutAMap(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		alive := append(keysOf(t, m, b, 0, 40), keysOf(t, m, b, 2, 40)...)
		before, _ := b.Map()
		m.Command("SET_CCCP", map[string]any{"enabled": false})
		m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": true})
		var calls []kv.Future[kv.MutationResult]
		for _, key := range alive {
			calls = append(calls, kv.Start(ctx, b, kv.Upsert{Key: key, Value: []byte("v")}))
		}
		time.Sleep(500 * time.Millisecond)
		now, _ := b.Map()
		require.Equal(t, before.Rev, now.Rev)
		m.Command("SET_CCCP", map[string]any{"enabled": true})
		moved := 0
		for _, c := range calls {
			res, err := c.Wait(ctx)
			require.NoError(t, err)
			if res.RetryInfo().Reasons.Has(retry.KVNotMyVBucket) {
				moved++
				require.Greater(t, res.RetryInfo().Transparent, 1)
				require.Positive(t, res.RetryInfo().Waited)
			}
		}
		require.Positive(t, moved)
		now, _ = b.Map()
		require.Greater(t, now.Rev, before.Rev)
	})
}

// TestCouchbaseMockSilentNode has a node that stops answering and stays in everybody's map.
func TestCouchbaseMockSilentNode(t *testing.T) {
	often := func(c *core.Config) { c.Maps.PollInterval = time.Second }
	couchbaseMockWith(t, testkit.MockOptions{}, often, func(t *testing.T, m *testkit.CouchbaseMockServer,
		b *core.Bucket,
	) {
		ctx := longer(t)
		mine, theirs := keysOf(t, m, b, 1, 3), append(keysOf(t, m, b, 0, 20), keysOf(t, m, b, 2, 20)...)
		for _, key := range append(mine, theirs...) {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("1")})
			require.NoError(t, err)
		}
		m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": false})
		short := kv.Common{Timeout: 300 * time.Millisecond}
		get := kv.Start(ctx, b, kv.Get{Key: mine[0], Common: short})
		count := kv.Start(ctx, b, kv.Increment{Key: mine[1], Delta: 1, Common: short})
		patient := kv.Start(ctx, b, kv.Get{Key: mine[2], Common: kv.Common{Timeout: 25 * time.Second}})
		began := time.Now()
		for _, key := range theirs {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("2")})
			require.NoError(t, err)
		}
		t.Logf("%d writes to the other nodes in %v", len(theirs), time.Since(began))
		_, err := get.Wait(ctx)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		_, err = count.Wait(ctx)
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)

		// The map without it is found by polling. From then on nothing is sent, so nothing is in doubt.
		require.Eventually(t, func() bool {
			now, _ := b.Map()
			return len(now.Nodes) == 2
		}, 10*time.Second, 5*time.Millisecond)
		_, err = kv.Do(ctx, b, kv.Increment{Key: mine[1], Delta: 1, Common: short})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		info, _ := retry.InfoOf(err)
		require.True(t, info.Reasons.Has(retry.NodeNotAvailable), "%v", err)

		m.Command("RESPAWN", map[string]any{"idx": 1})
		// A read can wait for the node, or for whichever has its vbucket then. That one may not have the document: the
		// server moves vbuckets without their contents.
		if _, err = patient.Wait(ctx); err != nil {
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
		for _, key := range append(mine, theirs...) {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("3")})
			require.NoError(t, err)
		}
	})
}
