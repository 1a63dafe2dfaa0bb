package mock_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestNetworkOfAClusterHasFaults proves that the faults reach a cluster's own network, from the first byte on.
func TestNetworkOfAClusterHasFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Latency(time.Millisecond))
		c.Network().OnLink(func(l *mock.Link) { l.Down().SetPieces(func(int) int { return 1 }, time.Microsecond) })
		r := login(t, c, baseFeatures...)
		down := c.Network().Links()[0].Down()
		begin, before := time.Now(), down.Delivered()
		p := r.call(memd.Packet{Opcode: memd.OpNoop})
		require.Equal(t, memd.StatusSuccess, p.Status)
		gaps := time.Duration(down.Delivered() - before - 1)
		require.GreaterOrEqual(t, int(gaps), memd.HeaderLen-1)
		require.Equal(t, 2*time.Millisecond+gaps*time.Microsecond, time.Since(begin), "byte by byte")
		c.Network().OnLink(nil)
	})
	require.Nil(t, mock.Start(t).Network())
}

// A mock is for tests: its password is public.
func TestAMockListensOnLoopback(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64))
	for i := range 2 {
		for name, addr := range map[string]string{
			"key-value": c.Node(i).Addr(), "management": c.Node(i).ManagementAddr(),
			"query": c.Node(i).ServiceAddr(mock.QueryService),
		} {
			host, _, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			require.True(t, net.ParseIP(host).IsLoopback(), "%s: %s", name, addr)
		}
	}
}
