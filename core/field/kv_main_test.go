package field_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
)

// openMock is bucket "default" of a mock cluster, after WaitReady.
func openMock(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) *core.Bucket {
	t.Helper()
	_, b := openBoth(t, m, change...)
	return b
}

// openBoth is openMock with the cluster that the bucket is of.
func openBoth(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) (*core.Cluster, *core.Bucket) {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
	cfg.Net.NodeFilter = core.AnyNode
	for _, f := range change {
		f(&cfg)
	}
	c := openConfig(t, cfg)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	return c, b
}

// virtualMock runs f in virtual time, with a mock of three nodes and one replica.
func virtualMock(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket), change ...func(*core.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")),
			mock.Virtual())
		f(t, m, openMock(t, m, change...))
	})
}

// virtualScripted runs f in virtual time, with scripted nodes on a network in memory.
func virtualScripted(t *testing.T, nodes int, f func(t *testing.T, s *scripted.Cluster, change func(*core.Config))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := mock.NewNetwork(mock.NetworkOptions{})
		s := &scripted.Cluster{Features: scripted.AllFeatures(), Listen: network.Listen}
		for range nodes {
			s.Add(t, "127.0.0.1:0")
		}
		f(t, s, func(c *core.Config) {
			c.Net.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) { return network.Dial(ctx, addr) }
		})
	})
}

// fresh is a context of its own for each call.
func fresh(t *testing.T) context.Context { t.Helper(); return within(t, 10*time.Second) }
