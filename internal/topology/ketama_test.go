package topology_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/topology"
)

// memcachedBucket is a map of a memcached bucket with nodes on the given hosts.
func memcachedBucket(t testing.TB, hosts ...string) *topology.Snapshot {
	nodes, ext := "{}", ""
	for i, h := range hosts {
		if i > 0 {
			nodes, ext = nodes+",{}", ext+","
		}
		ext += fmt.Sprintf(`{"hostname":%q,"services":{"kv":11210,"mgmt":8091}}`, h)
	}
	return parse(t, `{"rev":1,"uuid":"u","nodeLocator":"ketama","nodes":[`+nodes+`],"nodesExt":[`+ext+`]}`)
}

func TestD15RingPointsAndKeyHashes(t *testing.T) {
	points := topology.Points("192.168.1.101:11210")
	require.Len(t, points, 160)
	require.Equal(t, []uint32{2797020385, 2914209347, 237247010, 1832269339}, points[:4])
	require.Equal(t, uint32(3675831724), topology.KetamaHash([]byte("foo")))
}

func TestD15TheRingCarriesItsNodesAndEverySearchEnds(t *testing.T) {
	hosts := []string{"192.168.1.104", "192.168.1.101", "192.168.1.103", "192.168.1.102"} // not sorted
	s := memcachedBucket(t, hosts...)
	require.Equal(t, topology.LocatorKetama, s.Locator)
	require.False(t, s.HasVBuckets())
	ring := s.RingHashes()
	require.Len(t, ring, 160*len(hosts))
	require.True(t, slices.IsSorted(ring))

	owner := map[uint32]int{}
	for i, h := range hosts {
		for _, p := range topology.Points(h + ":11210") {
			owner[p] = i
		}
	}
	require.Len(t, owner, len(ring), "no two points of these nodes are equal")
	for i, p := range ring {
		require.Equal(t, owner[p], s.RingIndex(p))
		require.Equal(t, owner[ring[(i+1)%len(ring)]], s.RingIndex(p+1))
	}
	first := owner[ring[0]]
	require.Equal(t, first, s.RingIndex(0))
	require.Equal(t, first, s.RingIndex(math.MaxUint32))
}

// The same nodes in another order hold the same keys, and a node that leaves moves its own keys only.
func TestKetamaIndexFollowsTheNodes(t *testing.T) {
	a, b := memcachedBucket(t, "n1", "n2", "n3"), memcachedBucket(t, "n3", "n1", "n2")
	fewer := memcachedBucket(t, "n1", "n2")
	counts := map[string]int{}
	for i := range 3000 {
		key := fmt.Appendf(nil, "key-%d", i)
		host := a.Nodes[a.KetamaIndex(key)].Host
		counts[host]++
		require.Equal(t, host, b.Nodes[b.KetamaIndex(key)].Host)
		if host != "n3" {
			require.Equal(t, host, fewer.Nodes[fewer.KetamaIndex(key)].Host)
		}
	}
	require.Len(t, counts, 3)
	for host, n := range counts {
		require.Greater(t, n, 500, host)
	}
	require.Equal(t, -1, parse(t, `{"nodeLocator":"ketama","nodesExt":[{"services":{"mgmt":1}}]}`).KetamaIndex([]byte("k")))
}
