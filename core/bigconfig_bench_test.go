package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

const firstRev = 1_000_000 // of the maps, far above the mock's own

// bigConfig makes maps of the mock's bucket with ninety-seven further nodes, three replicas and a revision of one's
// choice, about 300 KB each. The mock's own vbuckets stay where they are.
func bigConfig(b *testing.B, m *mock.Cluster) func(rev int64) []byte {
	b.Helper()
	var j map[string]any
	require.NoError(b, json.Unmarshal(m.ConfigJSON("default"), &j))
	servers := j["vBucketServerMap"].(map[string]any)
	exts, addrs := j["nodesExt"].([]any), servers["serverList"].([]any)
	for i := len(addrs); i < 100; i++ {
		host := fmt.Sprintf("127.0.0.%d", 100+i)
		exts = append(exts, map[string]any{"hostname": host, "services": map[string]any{
			"kv": 1, "mgmt": 2, "n1ql": 3,
			"fts": 4, "cbas": 5,
		}})
		addrs = append(addrs, host+":1")
	}
	rows := servers["vBucketMap"].([]any)
	for vb := range rows {
		rows[vb] = []any{rows[vb].([]any)[0], 3 + vb%97, 3 + (vb+1)%97, 3 + (vb+2)%97}
	}
	j["nodesExt"], servers["serverList"], servers["numReplicas"] = exts, addrs, 3
	j["rev"] = firstRev
	raw, err := json.MarshalIndent(j, "", "            ")
	require.NoError(b, err)
	b.Logf("maps of %d bytes", len(raw))
	field := fmt.Appendf(nil, `"rev": %d`, firstRev)
	require.Equal(b, 1, bytes.Count(raw, field))
	return func(rev int64) []byte { return bytes.Replace(raw, field, fmt.Appendf(nil, `"rev": %d`, rev), 1) }
}

// BenchmarkGetsWhileMapsCome is a read over TCP: with nothing else going on, and while twenty newer maps of a hundred
// nodes come every second, which another node's answers carry. The nodes that are new in the maps refuse connections.
// p99-us is what most reads stay below, max-us what the slowest took.
func BenchmarkGetsWhileMapsCome(b *testing.B) {
	for name, maps := range map[string]bool{"quiet": false, "maps": true} {
		b.Run(name, func(b *testing.B) {
			m, err := mock.New(mock.Nodes(3), mock.Bucket("default", 1024))
			require.NoError(b, err)
			defer func() { require.NoError(b, m.Close()) }()
			cfg, err := core.ParseConnString(m.ConnString())
			require.NoError(b, err)
			cfg.Auth.Username, cfg.Auth.Password, cfg.Maps.NoNotifications = "Administrator",
				core.NewSecret("password"), true
			cfg.Maps.PollInterval = time.Hour // its answers would have the mock's own map
			c, err := core.Open(b.Context(), cfg)
			require.NoError(b, err)
			defer func() { require.NoError(b, c.Close()) }()
			bucket := c.Bucket("default")
			require.NoError(b, bucket.WaitReady(b.Context()))
			calm, told := keyAt(b, bucket, m.Node(0).Addr()), keyAt(b, bucket, m.Node(1).Addr())
			_, err = kv.Do(b.Context(), bucket, kv.Upsert{Key: calm, Value: []byte("v")})
			require.NoError(b, err)
			var applied atomic.Int64
			stop, stopped := make(chan struct{}), make(chan struct{})
			if maps {
				big := bigConfig(b, m)
				go carryMaps(b, m, big, bucket, told, &applied, stop, stopped)
			} else {
				close(stopped)
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := kv.Do(b.Context(), bucket, kv.Get{Key: calm}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			close(stop)
			<-stopped
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-us")
			b.ReportMetric(float64(applied.Load()), "maps")
		})
	}
}

// carryMaps lets the node of key answer with newer maps until it is stopped.
func carryMaps(
	b *testing.B, m *mock.Cluster, big func(rev int64) []byte, bucket *core.Bucket, key []byte, applied *atomic.Int64,
	stop, stopped chan struct{},
) {
	defer close(stopped)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for rev := int64(firstRev); ; rev++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.NotMyVBucket(true,
			big(rev)))
		if _, err := kv.Do(b.Context(), bucket, kv.Upsert{Key: key, Value: []byte("v")}); err != nil {
			b.Error(err)
			return
		}
		if newest, ok := bucket.Map(); ok && newest.Rev == rev {
			applied.Add(1)
		}
	}
}

// keyAt is a key whose document is on the node.
func keyAt(b *testing.B, bucket *core.Bucket, addr string) []byte {
	b.Helper()
	for i := range 10000 {
		key := fmt.Appendf(nil, "key-%d", i)
		if _, nodes, ok := bucket.Locate(key); ok && nodes[0] == addr {
			return key
		}
	}
	b.Fatal("no key for " + addr)
	return nil
}
