package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// someNode has that many pipelines, none of them connected.
func someNode(connections int) *node {
	n := &node{r: &Router{}}
	for range connections {
		n.conns = append(n.conns, &pipeline{r: n.r, node: n})
	}
	return n
}

func someMap(t *testing.T) *topology.Snapshot {
	t.Helper()
	snap, err := topology.Parse([]byte(`{"rev":1,"name":"b","uuid":"u","nodeLocator":"vbucket","nodes":[
		{"hostname":"a:8091","ports":{"direct":1}},{"hostname":"b:8091","ports":{"direct":1}},{"hostname":"c:8091","ports":{"direct":1}}],
		"nodesExt":[{"services":{"kv":1,"mgmt":8091},"hostname":"a"},{"services":{"kv":1,"mgmt":8091},"hostname":"b"},
		{"services":{"kv":1,"mgmt":8091},"hostname":"c"}],
		"vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,"serverList":["a:1","b:1","c:1"],
		"vBucketMap":[[0],[1],[2],[-1],[0],[0],[2],[1]]}}`), "a", topology.Options{})
	require.NoError(t, err)
	return snap
}

// The fast path of a simple request leads where the slow path does, and a key always takes the same connection.
func TestASimpleRequestIsRoutedLikeAnyOther(t *testing.T) {
	a, b, several := someNode(1), someNode(1), someNode(3)
	snap, used, s := someMap(t), map[*pipeline]bool{}, surroundings{connected: func() *node { return nil }}
	for name, nodes := range map[string][]*node{
		"all but one": {a, b, nil}, "too few": {a}, "none": nil, "several connections": {several, b, nil},
	} {
		pk, served := &picker{snap: snap, nodes: nodes}, 0
		for hash := range uint32(1 << 12) {
			c := call.NewCall()
			c.Req.Opcode, c.Req.Key = memd.OpGet, []byte("k")
			c.Route.Hash = hash<<13 + hash
			want := pk.nodeFor(c, &s, 0)
			n, vb := pk.active(c.Route.Hash)
			require.Same(t, want.node, n, "%s: %d", name, hash)
			if n == nil {
				require.Equal(t, retry.NodeNotAvailable, want.why)
				continue
			}
			require.Equal(t, want.vbucket, vb)
			p := n.next(c)
			require.Same(t, p, n.next(c))
			used[p] = true
			served++
		}
		require.Equal(t, len(nodes) > 0, served > 0, name)
	}
	for _, p := range several.conns {
		require.True(t, used[p], "keys are spread over a node's connections")
	}
	n, _ := (&picker{snap: &topology.Snapshot{}, nodes: []*node{a}}).active(1)
	require.Nil(t, n, "no vbuckets")
}

// A call goes to a node, or waits for the map or the collection, or has a reason; a pick changes nothing.
func TestAPickIsATargetOrAReason(t *testing.T) {
	a, b, c := someNode(1), someNode(1), someNode(1)
	full := &picker{snap: someMap(t), nodes: []*node{a, b, c}}
	ids := collections.New(collections.Options{Lookup: func(collections.Path) {}})
	get := func(change func(c *call.Call)) *call.Call {
		call := call.NewCall()
		call.Req.Opcode, call.Req.Key = memd.OpGet, []byte("k")
		change(call)
		return call
	}
	nothing := func(*call.Call) {}
	anyNode := func(call *call.Call) { call.Req.Opcode, call.Req.Key = memd.OpNoop, nil }
	for name, x := range map[string]struct {
		pk        *picker
		call      *call.Call
		connected *node
		want      target
	}{
		"no map":                           {nil, get(nothing), a, target{wait: call.StageConfig}},
		"no map, any node, none connected": {nil, get(anyNode), nil, target{wait: call.StageConfig}},
		"no map, any node":                 {nil, get(anyNode), a, target{node: a}},
		"a key":                            {full, get(nothing), nil, target{node: a}},
		"a vbucket without a node": {
			full, get(func(c *call.Call) { c.Route.Hash = 3 << 16 }), nil,
			target{vbucket: 3, why: retry.NodeNotAvailable},
		},
		"an unknown collection": {
			full, get(func(c *call.Call) { c.In("s", "c") }), nil, target{wait: call.StageCollection},
		},
		"any node in turn": {full, get(anyNode), nil, target{node: b, turned: true}},
		"any node, none in the map": {
			&picker{snap: full.snap, nodes: []*node{nil}}, get(anyNode), c, target{node: c, turned: true},
		},
		"a node that has left": {
			full, get(func(c *call.Call) { anyNode(c); c.Req.Pinned, c.Req.Own().Node = true, 7 }), nil,
			target{why: retry.NodeNotAvailable},
		},
		"an empty map": {
			&picker{snap: &topology.Snapshot{}}, get(nothing), nil, target{why: retry.NotReady},
		},
	} {
		before := x.call.Route
		s := surroundings{ids: ids, connected: func() *node { return x.connected }}
		require.Equal(t, x.want, x.pk.pick(x.call, &s, 1), name)
		require.Equal(t, before, x.call.Route, name)
	}
}
