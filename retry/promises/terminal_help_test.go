package promises_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// atOnce is the longest time that a failure may take whose cause is known: nothing waits for a timer in it.
const atOnce = 50 * time.Millisecond

// inBubble runs f with a mock of two nodes in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, m *mock.Cluster), opts ...mock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all := []mock.Option{mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual()}
		f(t, mock.Start(t, append(all, opts...)...))
	})
}

// client is a cluster of the client's on a mock, with the right password.
func client(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword), m.Dial
	for _, f := range change {
		f(&cfg)
	}
	return openConfig(t, cfg)
}

// wrongPassword gives the client a password that every node refuses.
func wrongPassword(cfg *core.Config) { cfg.Auth.Password = core.NewSecret("wrong") }

// encrypted has the client speak TLS and trust the mock's authority.
func encrypted(m *mock.Cluster) func(*core.Config) {
	return func(cfg *core.Config) {
		for i, h := range cfg.Seeds.Hosts {
			cfg.Seeds.Hosts[i] = strings.Replace(h, ":11210", ":11207", 1)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(m.CA())
		cfg.TLS.Config = &tls.Config{RootCAs: pool}
	}
}

// trustsNoCA has the client refuse every certificate.
func trustsNoCA(cfg *core.Config) { cfg.TLS.Config.RootCAs = x509.NewCertPool() }

// silence keeps a node's addresses from ever answering.
func silence(m *mock.Cluster, node int) {
	m.Network().Silence(m.Node(node).Addr())
	m.Network().Silence(strings.Replace(m.Node(node).Addr(), ":11210", ":11207", 1))
}

// calls are one call of each kind that needs a way to the cluster.
var calls = map[string]func(ctx context.Context, c *core.Cluster) error{
	"upsert": func(ctx context.Context, c *core.Cluster) error {
		_, err := kv.Do(ctx, c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		return err
	},
	"upsert in a collection": func(ctx context.Context, c *core.Cluster) error {
		_, err := kv.Do(ctx, c.Bucket("default"), kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Scope:      "s",
			Collection: "c",
		}})
		return err
	},
	"query": func(ctx context.Context, c *core.Cluster) error {
		rows, err := c.Query(ctx, &query.Request{Statement: "SELECT 1"})
		if err == nil {
			err = rows.Close()
		}
		return err
	},
	"raw request": func(ctx context.Context, c *core.Cluster) error {
		resp, err := c.Do(ctx, &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	},
}

// failsAtOnce requires that f fails with kind within limit, and without a timeout.
func failsAtOnce(t *testing.T, kind error, limit time.Duration, f func(ctx context.Context) error) {
	t.Helper()
	began := time.Now()
	err := f(within(t, 10*time.Second))
	require.ErrorIs(t, err, kind)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), limit)
}
