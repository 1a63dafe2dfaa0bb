package core_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// dialled keeps what was dialled.
type dialled struct {
	mu    sync.Mutex
	addrs map[string]int
}

func (d *dialled) dial(next func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context,
	string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.mu.Lock()
		if d.addrs == nil {
			d.addrs = map[string]int{}
		}
		d.addrs[addr]++
		d.mu.Unlock()
		return next(ctx, network, addr)
	}
}

func (d *dialled) host(host string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for a, k := range d.addrs {
		if h, _, _ := net.SplitHostPort(a); h == host {
			n += k
		}
	}
	return n
}

// hostile makes maps name another host instead of the second node.
func hostile(m *mock.Cluster, host string) {
	m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
		rep.Value = []byte(strings.ReplaceAll(string(rep.Value), "10.0.0.2", host))
	}))
}

// S7: addresses that lead to this machine, or to the metadata service beside it, are not dialled because a map says so.
// Calls to that node say why, those to the others go on.
func TestHostileAddressesInMapsAreNotDialled_S7(t *testing.T) {
	for host, says := range map[string]string{
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "localhost": "loopback",
		"::ffff:127.0.0.1": "loopback",
		"169.254.169.254":  "link-local", "fe80::1": "link-local", "0.0.0.0": "unspecified", "::": "unspecified",
		"224.0.0.1": "multicast",
		"10.0.0.2":  "",
	} {
		for _, encrypted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual(),
					mock.TLS())
				hostile(m, host)
				var d dialled
				c := open(t, m, func(cfg *core.Config) {
					cfg.Seeds.Hosts = cfg.Seeds.Hosts[:1]
					cfg.Net.Dial = d.dial(cfg.Net.Dial)
					if encrypted {
						tlsHosts(cfg)
						cfg.TLS.Config = trusting(m)
					}
				})
				b := c.Bucket("default")
				var failed error
				done := 0
				for i := range 64 {
					_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte{byte(i)}, Common: quick})
					if err != nil {
						failed = err
					} else {
						done++
					}
				}
				require.Greater(t, done, 16)
				if says == "" {
					require.NoError(t, failed)
					require.NotZero(t, d.host(host))
					return
				}
				require.ErrorIs(t, failed, cberr.UnambiguousTimeout)
				var refused *core.NodeRefusedError
				require.ErrorAs(t, failed, &refused)
				require.ErrorContains(t, failed, says)
				require.Zero(t, d.host(host), "%s was dialled", host)
				resp, err := c.Do(ctx(t), &core.HTTPRequest{Service: core.Query, Method: "GET", Path: "/admin/ping"})
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Zero(t, d.host(host))
			})
		}
	}
}

// A name is judged by the address that it turns out to have, and nothing is sent there.
func TestANameThatLeadsHomeIsRefused_S7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual())
		hostile(m, "evil.example.com")
		var r recorder
		home := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "evil.") {
				nc, err := r.dial(m.Dial)(ctx, network, "10.0.0.2:11210")
				return atHome{nc}, err
			}
			return m.Dial(ctx, network, addr)
		}
		b := open(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts, cfg.Net.Dial = cfg.Seeds.Hosts[:1],
				home
		}).Bucket("default")
		var failed error
		for i := range 64 {
			if _, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte{byte(i)}, Common: quick}); err != nil {
				failed = err
			}
		}
		require.ErrorContains(t, failed, "loopback")
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Zero(t, r.all.Len())
	})
}

type atHome struct{ net.Conn }

func (atHome) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 11210} }

// Whose hosts are on loopback themselves, by address or by name, finds the other nodes there.
func TestNodesBesideTheHostsAreNotRefused_S7(t *testing.T) {
	m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64))
	for _, host := range []string{"127.0.0.1", "localhost"} {
		cfg, err := core.ParseConnString("couchbase://" + strings.Replace(m.Node(0).Addr(), "127.0.0.1", host, 1) +
			"?force_ipv4=true")
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		require.NoError(t, c.Close())
	}
}

// The user's own filter decides instead, for key-value connections and for HTTP; it is not asked about the hosts of the
// configuration, and a panic in it refuses.
func TestTheUsersNodeFilter_S7(t *testing.T) {
	only, err := core.AllowNodes("10.0.0.1", "10.0.0.3/32")
	require.NoError(t, err)
	boom := errors.New("not that one")
	for name, c := range map[string]struct {
		filter func(string) error
		says   string
	}{
		"allow list": {only, "not among those allowed"},
		"callback": {func(addr string) error {
			if strings.HasPrefix(addr, "10.0.0.2:") {
				return boom
			}
			return nil
		}, "not that one"},
		"panic": {func(string) error { panic("in the filter") }, "in the filter"},
		"any":   {core.AnyNode, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual())
				var d dialled
				b := open(t, m, func(cfg *core.Config) {
					cfg.Seeds.Hosts, cfg.Net.NodeFilter, cfg.Net.Dial = cfg.Seeds.Hosts[:1], c.filter,
						d.dial(cfg.Net.Dial)
				}).Bucket("default")
				var failed error
				for i := range 64 {
					if _, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte{byte(i)}, Common: quick}); err != nil {
						failed = err
					}
				}
				require.NotZero(t, d.host("10.0.0.1"))
				if c.says == "" {
					require.NoError(t, failed)
					return
				}
				require.ErrorContains(t, failed, c.says)
				require.Zero(t, d.host("10.0.0.2"))
			})
		})
	}
}

func TestAllowNodes(t *testing.T) {
	f, err := core.AllowNodes("10.0.0.0/8", "*.db.example.com", "Other.example.com", "[2001:db8::1]", "2001:db8:1::/48")
	require.NoError(t, err)
	for addr, ok := range map[string]bool{
		"10.1.2.3:11210": true, "11.1.2.3:11210": false, "n1.db.example.com:11207": true,
		"N1.DB.example.com:11207": true,
		"db.example.com:1":        false, "evildb.example.com:1": false, "other.example.com:1": true,
		"[2001:db8::1]:1": true,
		"[2001:db8::2]:1": false, "[2001:db8:1::7]:1": true, "[::ffff:10.1.1.1]:1": true, "": false,
	} {
		require.Equal(t, ok, f(addr) == nil, addr)
	}
	for _, p := range []string{"", "10.0.0.0/33", "*", "a.*.b"} {
		_, err := core.AllowNodes(p)
		var e *core.ConfigError
		require.ErrorAs(t, err, &e, p)
	}
}
