package promises_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
)

// clusterCalls are calls that no bucket is needed for.
var clusterCalls = map[string]func(ctx context.Context, c *core.Cluster) error{
	"query":       calls["query"],
	"raw request": calls["raw request"],
	"analytics": func(ctx context.Context, c *core.Cluster) error {
		rows, err := c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1"})
		if err == nil {
			err = rows.Close()
		}
		return err
	},
	"search": func(ctx context.Context, c *core.Cluster) error {
		rows, err := c.Search(ctx, &search.Request{Index: "i", Query: []byte(`{"match_all":{}}`)})
		if err == nil {
			err = rows.Close()
		}
		if errors.Is(err, cberr.IndexNotFound) { // the service has said so
			err = nil
		}
		return err
	},
	"buckets": func(ctx context.Context, c *core.Cluster) error {
		_, err := c.Buckets(ctx)
		return err
	},
	"hedged query": func(ctx context.Context, c *core.Cluster) error {
		resp, err := c.Do(ctx, &core.HTTPRequest{
			Service: core.Query, Method: "GET", Path: "/admin/ping", Hedge: &core.Hedge{
				MaxAttempts: 2,
				Delay:       time.Millisecond,
			},
		})
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	},
	"ping": func(ctx context.Context, c *core.Cluster) error {
		_, err := c.Ping(ctx, core.PingOptions{})
		return err
	},
}

// A bucket that nothing can be had of, for whatever reason, stops no call that needs no bucket: the cluster has a way
// to its map of its own.
func TestABucketThatCannotBeOpenedStopsNoClusterCall(t *testing.T) {
	answers := func(op memd.Opcode, s memd.Status) func(m *mock.Cluster) {
		return func(m *mock.Cluster) {
			m.Inject(mock.Match{Opcodes: []memd.Opcode{op}, Bucket: "default"}, mock.Status(s))
			m.Inject(mock.Match{
				Opcodes: []memd.Opcode{op},
				Func:    func(p *memd.Packet) bool { return string(p.Key) == "default" },
			}, mock.Status(s))
		}
	}
	for name, c := range map[string]struct {
		bucket string
		spoil  func(m *mock.Cluster)
		change func(*core.Config)
	}{
		"misspelt": {bucket: "defualt"},
		"no access": {bucket: "default", change: func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "app", core.NewSecret("secret")
		}},
		"not found": {bucket: "default", spoil: answers(memd.OpSelectBucket, memd.StatusKeyNotFound)},
		"too many connections": {bucket: "default", spoil: answers(memd.OpSelectBucket,
			memd.StatusRateLimitedMaxConnections)},
		"no map of it": {bucket: "default", spoil: answers(memd.OpGetClusterConfig,
			memd.StatusKeyNotFound)},
		"the other seed is silent": {bucket: "defualt", spoil: func(m *mock.Cluster) { silence(m, 1) }},
		"maps come over HTTP alone": {
			bucket: "defualt",
			change: func(cfg *core.Config) { cfg.Maps.Bootstrap = core.BootstrapHTTP },
		},
	} {
		for call, run := range clusterCalls {
			t.Run(name+", "+call, func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *mock.Cluster) {
					if c.spoil != nil {
						c.spoil(m)
					}
					change := c.change
					if change == nil {
						change = func(*core.Config) {}
					}
					cl := client(t, m, change)
					cl.Bucket(c.bucket)
					began := time.Now()
					require.NoError(t, run(within(t, 10*time.Second), cl))
					if call != "ping" || name != "the other seed is silent" { // a silent node is pinged, too
						require.Less(t, time.Since(began), atOnce)
					}
					time.Sleep(20 * time.Second)
					require.NoError(t, run(within(t, 10*time.Second), cl))
				}, mock.User("app", "secret", "other"), mock.User(mock.DefaultUser, mock.DefaultPassword))
			})
		}
	}
}

// The way is there for as long as it takes: all nodes are replaced after the bucket was dropped.
func TestClusterCallsOutliveTheirBucketAndItsNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		cl := client(t, m, func(cfg *core.Config) { cfg.Auth.AllowPlain = true }) // the new nodes are not named
		b := cl.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		require.NoError(t, m.DropBucket("default"))
		time.Sleep(time.Second)
		require.NoError(t, calls["query"](within(t, time.Second), cl))
		m.AddNode()
		m.AddNode()
		require.NoError(t, m.Rebalance())
		time.Sleep(5 * time.Second)
		for node := range 2 {
			require.NoError(t, m.RemoveNode(node))
			time.Sleep(5 * time.Second)
			require.NoError(t, calls["query"](within(t, time.Second), cl))
		}
	}, mock.Bucket("other", 64))
}

// The way of its own costs nothing while a bucket works.
func TestAWorkingBucketNeedsNoOtherWay(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}}, mock.Delay(100*time.Millisecond))
		cl := client(t, m)
		b := cl.Bucket("default")
		require.NoError(t, calls["query"](within(t, time.Second), cl))
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		require.NoError(t, calls["query"](within(t, time.Second), cl))
		require.Equal(t, 2, m.Node(0).Connections()+m.Node(1).Connections())
		_, err := kv.Do(within(t, time.Second), b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
	})
}

// A statement that a bucket does not matter for is not kept from a bucket's trouble by another one that is still being
// opened.
func TestAQueryBesideABucketThatIsSlowToOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		m.Inject(mock.Match{
			Opcodes: []memd.Opcode{memd.OpSelectBucket},
			Func:    func(p *memd.Packet) bool { return string(p.Key) == "default" },
		}, mock.DropReply())
		cl := client(t, m)
		cl.Bucket("default")
		cl.Bucket("defualt")
		began := time.Now()
		rows, err := cl.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		require.Less(t, time.Since(began), atOnce)
	})
}
