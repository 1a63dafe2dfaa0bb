package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// Seeds that the map does not name are left as soon as a node is connected, though its map is known and brings nothing
// new.
func TestSeedsAreLeftWhenANodeIsConnected(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		// the maps that came with the first connections have been considered, and leave nothing more
		time.Sleep(time.Second)
		r.nodes.mu.Lock()
		r.nodes.reach("10.0.0.9:11210")
		r.nodes.mu.Unlock()
		time.Sleep(time.Second)
		require.Len(t, r.Status(), 3)
		r.Disconnect(r.Logins()[0].Connection, errLeft)
		time.Sleep(time.Second)
		require.Len(t, r.Logins(), 2)
		require.Len(t, r.Status(), 2)

		r.o.Resolve = func(context.Context) ([]string, error) { return []string{"10.0.0.9:11210"}, nil }
		r.nodes.resolve()
		require.Len(t, r.Status(), 2, "the nodes of a lookup that has taken its time are not asked any more")
	}, mock.Nodes(2))
}

// As many nodes as a large cluster has connect for the first time at once, and the others one by one.
func TestNewNodesConnectAtAPace(t *testing.T) {
	var n newcomers
	now := time.Hour // of a client that has run for some time
	for range newNodes {
		require.Zero(t, n.wait(now))
		n.take(now)
	}
	for range 10 {
		require.Equal(t, newNodeEvery, n.wait(now))
		now += newNodeEvery
		n.take(now)
	}
	now += newNodes * newNodeEvery
	require.Zero(t, n.wait(now))
}
