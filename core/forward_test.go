package core_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// forwarding makes maps say that every vbucket of the two nodes moves to the second one, until it is removed.
func forwarding(m *mock.Cluster, vbuckets int) *mock.Injection {
	forward := strings.TrimSuffix(strings.Repeat("[1],", vbuckets), ",")
	old := regexp.MustCompile(`"vBucketMapForward":[^"]*\]\]`)
	return m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
		text := old.ReplaceAllString(string(rep.Value), "")
		rep.Value = []byte(strings.Replace(text, `"vBucketMap":`, fmt.Sprintf(`"vBucketMapForward":[%s],"vBucketMap":`, forward), 1))
	}))
}

// A call that its node refuses, and that no newer map has another node for, goes where its vbucket moves to: at once,
// and without an attempt. It stays there until a newer map says something else.
func TestRefusedCallsFollowTheForwardMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual())
		next := forwarding(m, 64)
		b := open(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		key, away := keyOn(t, b, m.Node(0).Addr()), keyOn(t, b, m.Node(1).Addr())
		refuse := func(node, times int) *mock.Injection {
			return m.Inject(mock.Match{Nodes: []int{node}, Opcodes: []memd.Opcode{memd.OpSet}, Times: times},
				mock.Status(memd.StatusNotMyVBucket))
		}
		there := m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpSet}},
			mock.Reply(func(_, _ *memd.Packet) {}))
		refused := refuse(0, 0)

		began := time.Now()
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
		require.Equal(t, m.Node(1).Addr(), res.Endpoint())
		require.Zero(t, time.Since(began))
		require.Equal(t, 0, res.RetryInfo().Counted)
		require.Equal(t, 1, res.RetryInfo().Transparent)
		before := m.Frames(memd.OpSet)
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: away})
		require.NoError(t, err)
		require.Equal(t, before+1, m.Frames(memd.OpSet), "the map itself is right for it")

		// Refused there as well, it waits as long as any other, and does not go to and fro.
		there.Remove()
		both := refuse(1, 0)
		before = refused.Fired()
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Timeout: time.Second}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, before+1, refused.Fired())
		require.Less(t, both.Fired(), 8)

		// A newer map that has no such plan any more is obeyed.
		next.Remove()
		refused.Remove()
		f := kv.Start(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{
			Timeout: 9 * time.Second,
			Retry:   retry.BestEffort{},
		}})
		m.BumpRevision()
		res, err = f.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, m.Node(0).Addr(), res.Endpoint())
	})
}

// Whole rebalances with maps that announce where vbuckets go lose nothing either.
func TestRebalanceWithForwardMaps(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		stop := load(t, b)
		for range 3 {
			node := m.AddNode()
			require.NoError(t, m.Rebalance())
			time.Sleep(time.Second)
			require.NoError(t, m.RemoveNode(node))
			time.Sleep(time.Second)
		}
		require.NotZero(t, stop())
	}, mock.Latency(time.Millisecond))
}
