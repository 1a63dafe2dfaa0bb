package field_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// configOnly makes node 0 one that has the bucket's configuration and nothing else of it: all but what tells of that is
// refused with 0x0d (kv_engine, daemon/cookie.cc).
func configOnly(m *mock.Cluster) *mock.Injection {
	allowed := []memd.Opcode{memd.OpHello, memd.OpGetErrorMap, memd.OpGetClusterConfig, memd.OpSelectBucket}
	return m.Inject(mock.Match{Nodes: []int{0}, Bucket: "default", Func: func(rq *memd.Packet) bool {
		return !slices.Contains(allowed, rq.Opcode)
	}}, mock.Status(memd.StatusConfigOnly))
}

// allOn moves all vbuckets to a node.
func allOn(t *testing.T, m *mock.Cluster, node int) {
	t.Helper()
	for vb := range 16 {
		require.NoError(t, m.MoveVBucket("default", vb, node))
	}
}

// requestsAt counts requests that node 0 has received: those with an opcode, and those for documents.
func requestsAt(m *mock.Cluster, op memd.Opcode) (of, documents int) {
	for _, f := range m.FrameLog() {
		if f.Node != 0 {
			continue
		}
		if f.Opcode == op {
			of++
		}
		if f.Document != "" {
			documents++
		}
	}
	return of, documents
}

// writeKeys writes so many documents, each within 100 ms.
func writeKeys(t *testing.T, b *core.Bucket, n int) {
	t.Helper()
	for i := range n {
		_, err := kv.Do(within(t, 100*time.Millisecond), b, kv.Upsert{Key: fmt.Append(nil, "k", i)})
		require.NoError(t, err, i)
	}
}

// A node that has a bucket's configuration only gives the map, and gets no request for a document once the client knows
// that others have them. The client does not spin, whatever the node refuses.
func TestANodeWithTheConfigurationOnly(t *testing.T) {
	start := func(t *testing.T) *mock.Cluster {
		return mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.RecordFrames())
	}
	t.Run("it gives the map", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := start(t)
			allOn(t, m, 1)
			configOnly(m)
			b := openMock(t, m, func(cfg *core.Config) {
				cfg.Seeds.Hosts, cfg.Seeds.HTTPHosts = []string{m.Node(0).Addr()}, nil
			})
			writeKeys(t, b, 32)
			time.Sleep(time.Minute)
			writeKeys(t, b, 32)
			maps, documents := requestsAt(m, memd.OpGetClusterConfig)
			require.NotZero(t, maps)
			require.LessOrEqual(t, maps, 40, "it is asked for its map in turn with the other one")
			require.Zero(t, documents)
			logins, _ := requestsAt(m, memd.OpHello)
			require.LessOrEqual(t, logins, 2)
		})
	})
	t.Run("it loses the documents", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := start(t)
			allOn(t, m, 0)
			b := openMock(t, m, func(cfg *core.Config) {
				cfg.Maps.NoNotifications, cfg.Maps.PollInterval = true, time.Hour
			})
			writeKeys(t, b, 1)
			asked := m.Frames(memd.OpGetClusterConfig)
			_, before := requestsAt(m, memd.OpSet)
			allOn(t, m, 1)
			configOnly(m)
			writeKeys(t, b, 1)
			_, after := requestsAt(m, memd.OpSet)
			require.Greater(t, m.Frames(memd.OpGetClusterConfig), asked, "the refusal asks for the map")
			require.LessOrEqual(t, after-before, 3)
			writeKeys(t, b, 32)
			_, documents := requestsAt(m, memd.OpSet)
			require.Equal(t, after, documents)
		})
	})
	t.Run("its bucket cannot be selected", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := start(t)
			allOn(t, m, 1)
			in := m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSelectBucket}},
				mock.Status(memd.StatusConfigOnly))
			cfg, err := core.ParseConnString(m.ConnString())
			require.NoError(t, err)
			cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
			cfg.Net.Dial, cfg.Net.NodeFilter = m.Dial, core.AnyNode
			b := openConfig(t, cfg).Bucket("default")
			writeKeys(t, b, 32)
			time.Sleep(time.Minute)
			writeKeys(t, b, 32)
			tries, documents := requestsAt(m, memd.OpSelectBucket)
			require.NotZero(t, tries)
			require.LessOrEqual(t, tries, 60, "once a second at most")
			require.Zero(t, documents)
			in.Remove()
			allOn(t, m, 0)
			time.Sleep(10 * time.Second)
			writeKeys(t, b, 32)
			_, documents = requestsAt(m, memd.OpSelectBucket)
			require.NotZero(t, documents)
		})
	})
}
