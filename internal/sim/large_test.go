package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// large is a cluster's map with a hundred nodes and three replicas, of which the first nodes are those of the cluster.
func large(t *testing.T, m *mock.Cluster) []byte {
	t.Helper()
	var j map[string]any
	require.NoError(t, json.Unmarshal(m.ConfigJSON("default"), &j))
	_, rev := m.Revision()
	j["rev"] = rev + 1
	list := func(from map[string]any, name string) []any {
		l, ok := from[name].([]any)
		require.True(t, ok, name)
		return l
	}
	servers, ok := j["vBucketServerMap"].(map[string]any)
	require.True(t, ok)
	exts, nodes, addrs := list(j, "nodesExt"), list(j, "nodes"), list(servers, "serverList")
	first := len(addrs)
	for i := first; i < 100; i++ {
		host := fmt.Sprintf("10.0.9.%d", i)
		exts = append(exts, map[string]any{
			"hostname": host, "nodeUUID": fmt.Sprintf("%032x", i), "serverGroup": "Group 1",
			"services": map[string]any{
				"kv": 11210, "kvSSL": 11207, "mgmt": 8091, "mgmtSSL": 18091, "capi": 8092, "capiSSL": 18092,
				"n1ql": 8093, "n1qlSSL": 18093,
				"fts": 8094, "ftsSSL": 18094, "cbas": 8095, "cbasSSL": 18095, "projector": 9999,
			},
			"alternateAddresses": map[string]any{"external": map[string]any{
				"hostname": "x-" + host,
				"ports":    map[string]any{"kv": 1, "kvSSL": 2},
			}},
		})
		nodes = append(nodes, map[string]any{"hostname": host + ":8091", "ports": map[string]any{"direct": 11210}})
		addrs = append(addrs, host+":11210")
	}
	rows := list(servers, "vBucketMap")
	for vb := range rows {
		row, ok := rows[vb].([]any)
		require.True(t, ok)
		rows[vb] = []any{row[0], first + vb%90, first + (vb+1)%90, first + (vb+2)%90}
	}
	j["nodesExt"], j["nodes"], servers["serverList"], servers["numReplicas"] = exts, nodes, addrs, 3
	raw, err := json.MarshalIndent(j, "", "        ") // a pretty map is a large one
	require.NoError(t, err)
	return raw
}

// The map of a hundred nodes, most of which cannot be reached, is applied under load: calls to the nodes that have been
// there all the time take what they took before, and one request.
func TestLargeMapDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const latency = 200 * time.Microsecond
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Virtual(), mock.Latency(latency),
			mock.Bucket("default", rebalanceVBuckets))
		for i := 3; i < 100; i += 2 {
			m.Network().Silence(fmt.Sprintf("10.0.9.%d:11210", i)) // the others refuse
		}
		c := open(t, m, func(cfg *core.Config) { cfg.Maps.NoNotifications = true })
		defer func() { require.NoError(t, c.Close()) }()
		b := c.Bucket("default")
		ready, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, b.WaitReady(ready))

		raw := large(t, m)
		t.Logf("a map of %d bytes", len(raw))
		require.Greater(t, len(raw), 256<<10)
		in := m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSet}, Times: 1, Skip: 100},
			mock.NotMyVBucket(true, raw))
		told := m.Node(0).Addr()
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var calls, slow, retried int
		var workers sync.WaitGroup
		for id := range rebalanceWorkers {
			workers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					time.Sleep(time.Duration(1000+(id*7919+n*104729)%1000) * time.Microsecond)
					key := fmt.Appendf(nil, "k-%d-%d", id, n)
					began := time.Now()
					res, err := kv.Do(context.Background(), b, kv.Upsert{Key: key, Value: key})
					took := time.Since(began)
					mu.Lock()
					calls++
					if _, at, _ := b.Locate(key); err != nil || took != 2*latency {
						if took > 20*latency || at[0] != told {
							t.Errorf("%s on %s took %v: %v", key, at[0], took, err)
						}
						slow++
					}
					retried += res.RetryInfo().Retries()
					mu.Unlock()
				}
			})
		}
		time.Sleep(2 * time.Second)
		stop()
		workers.Wait()
		require.Equal(t, 1, in.Fired())
		newest, ok := b.Map()
		require.True(t, ok)
		require.Len(t, newest.Nodes, 100)
		require.Greater(t, calls, 20000)
		require.Equal(t, 1, retried, "only the call that was told of the map")
		// The one that was told, and what was behind the map on its connection.
		require.LessOrEqual(t, slow, 8, "calls that took longer than %v", 2*latency)
		require.Equal(t, calls+1, m.Frames(memd.OpSet))
	})
}
