package core_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// outside makes a cluster's maps name addresses on a network "external" too: 203.0.113.N with ports of its own. They
// lead to the nodes, as the dialer that is given back knows; missing has the numbers of nodes that are not there.
func outside(m *mock.Cluster, missing ...int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
		text := string(rep.Value)
	nodes:
		for i := range m.Nodes() {
			for _, j := range missing {
				if i == j {
					continue nodes
				}
			}
			host := fmt.Sprintf(`"hostname":"10.0.0.%d","nodeUUID"`, i+1)
			alternate := fmt.Sprintf(`"alternateAddresses":{"external":{"hostname":"203.0.113.%d","ports":{"kv":31210,"mgmt":30091}}},`, i+1)
			text = strings.Replace(text, host, alternate+host, 1)
		}
		rep.Value = []byte(text)
	}))
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if tail, ok := strings.CutPrefix(addr, "203.0.113."); ok {
			return m.Dial(ctx, network, "10.0.0."+strings.NewReplacer(":31210", ":11210", ":30091",
				":8091").Replace(tail))
		}
		return m.Dial(ctx, network, addr)
	}
}

// The network of the address that gave the first map is the one that the nodes are reached on, unless the configuration
// names one; services too.
func TestTheNetworkFollowsFromTheSeed(t *testing.T) {
	for _, c := range []struct{ s, want string }{
		{"couchbase://203.0.113.1:31210", "203.0.113."},
		{"couchbase://10.0.0.1", "10.0.0."},
		{"couchbase://10.0.0.1?network=external", "203.0.113."},
		{"couchbase://203.0.113.1:31210?network=default", "10.0.0."},
		{"couchbase://203.0.113.1:31210?network=auto", "203.0.113."},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
			dial := outside(m)
			cl := openString(t, m, c.s, func(cfg *core.Config) { cfg.Net.Dial, cfg.Auth.AllowPlain = dial, true })
			b := cl.Bucket("default")
			for i := range 64 {
				res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte{byte(i)}})
				require.NoError(t, err, c.s)
				require.True(t, strings.HasPrefix(res.Endpoint(), c.want), "%s: %s", c.s, res.Endpoint())
			}
			resp, err := cl.Do(ctx(t), &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, strings.HasPrefix(resp.Endpoint, c.want), resp.Endpoint)
		})
	}
}

// D14: a node that has no address on the network keeps its place: its keys have no reachable node, and those of the
// nodes behind it in the list are where they belong.
func TestANodeWithoutAnAddressOnTheNetworkKeepsItsPlace_D14(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual())
		dial := outside(m, 1)
		b := openString(t, m, "couchbase://203.0.113.1:31210",
			func(cfg *core.Config) { cfg.Net.Dial = dial }).Bucket("default")
		used := map[string]int{}
		for i := range 64 {
			res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte{byte(i)}, Common: kv.Common{Retry: never}})
			if err != nil {
				info, ok := retry.InfoOf(err)
				require.True(t, ok)
				require.Equal(t, retry.NodeNotAvailable, info.Reason)
			} else {
				require.Zero(t, res.RetryInfo().Transparent, "no node has refused it")
			}
			used[res.Endpoint()]++
		}
		require.Len(t, used, 3)
		require.NotZero(t, used[""])
		require.NotZero(t, used["203.0.113.3:31210"])
	})
}

// $HOST and absent host names are the host that gave the map, in brackets where an address needs them.
func TestThePlaceholderIsTheHostThatGaveTheMap(t *testing.T) {
	for _, host := range []string{"10.0.0.1", "2001:db8::1"} {
		for _, name := range []string{`$HOST`, ``} {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
				m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
					text := strings.ReplaceAll(string(rep.Value), `"hostname":"10.0.0.1"`, `"hostname":"`+name+`"`)
					rep.Value = []byte(strings.ReplaceAll(text, "10.0.0.1:", "$HOST:"))
				}))
				b := openString(t, m, "couchbase://"+core.HostPort{Host: host}.String(), func(cfg *core.Config) {
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						require.Equal(t, net.JoinHostPort(host, "11210"), addr)
						return m.Dial(ctx, network, "10.0.0.1:11210")
					}
				}).Bucket("default")
				res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
				require.NoError(t, err)
				require.Equal(t, net.JoinHostPort(host, "11210"), res.Endpoint())
			})
		}
	}
}

// Buckets have from one to 1024 vbuckets, in any number.
func TestAnyNumberOfVBuckets(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64, 100, 128, 1000, 1024} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", n), mock.Virtual())
			b := open(t, m).Bucket("default")
			for i := range 50 {
				res, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "key-%d", i)})
				require.NoError(t, err)
				require.Zero(t, res.RetryInfo().Transparent)
			}
		})
	}
}
