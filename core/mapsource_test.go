package core_test

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// mapless makes the nodes answer requests for a map over key-value connections as servers that have no such request.
func mapless(m *mock.Cluster) *mock.Injection {
	return m.Inject(only(memd.OpGetClusterConfig, 0), mock.Status(memd.StatusUnknownCommand))
}

// mapPaths are the paths that were asked of the management services, with how often.
func mapPaths(m *mock.Cluster) map[string]int {
	paths := map[string]int{}
	for _, r := range m.ServiceLog(mock.ManagementService) {
		paths[r.Path]++
	}
	return paths
}

// A server that gives no maps over key-value connections, of a bucket or of the cluster, gives them over HTTP: one at
// once, and then a stream that brings every newer one. No request for a map is in vain.
func TestMapsComeOverHTTPWhereConnectionsBringNone(t *testing.T) {
	for name, status := range map[string]memd.Status{
		"unknown command": memd.StatusUnknownCommand,
		"not supported":   memd.StatusNotSupported,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
				m.Inject(only(memd.OpGetClusterConfig, 0), mock.Status(status))
				b := open(t, m).Bucket("default")
				began := time.Now()
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
				require.NoError(t, err)
				require.Zero(t, time.Since(began))
				require.NoError(t, b.WaitReady(ctx(t)))
				time.Sleep(time.Second)
				require.Equal(t, map[string]int{"/pools/default/b/default": 1, "/pools/default/bs/default": 1},
					mapPaths(m))

				key := keyOn(t, b, m.Node(0).Addr())
				vb, _, _ := b.Locate(key)
				require.NoError(t, m.MoveVBucket("default", int(vb), 1))
				time.Sleep(10 * time.Millisecond)
				_, rev := m.Revision()
				mp, _ := b.Map()
				require.Equal(t, rev, mp.Rev, "the stream brings it")
				before := m.Frames(memd.OpGetClusterConfig)
				time.Sleep(20 * time.Second)
				require.Equal(t, before, m.Frames(memd.OpGetClusterConfig))
				require.NotZero(t, m.Frames(memd.OpNoop), "nodes are asked whether they are still there")
				require.Equal(t, 1, mapPaths(m)["/pools/default/bs/default"])
			})
		})
	}
}

// D30: that a node has no map yet is no sign that it gives none.
func TestANodeWithoutAMapYetIsNotAskedOverHTTP_D30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		none := m.Inject(only(memd.OpGetClusterConfig, 0), mock.Status(memd.StatusKeyNotFound))
		b := open(t, m).Bucket("default")
		time.Sleep(2 * time.Second)
		none.Remove()
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 5 * time.Second}})
		require.NoError(t, err)
		require.Empty(t, mapPaths(m))
	})
}

// The cluster's own map comes over HTTP as well, for requests to services.
func TestTheClustersMapComesOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Virtual())
		mapless(m)
		c := open(t, m)
		resp, err := c.Do(ctx(t), &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, c.WaitReady(ctx(t)))
		synctest.Wait() // the stream is asked for when a map is there, which is when the cluster is ready
		require.NotZero(t, mapPaths(m)["/pools/default/nodeServicesStreaming"])
	})
}

// bootstrap_on says where maps come from, and so does the scheme http with a port of its own.
func TestBootstrapOn(t *testing.T) {
	for _, c := range []struct {
		s          string
		kv, stream bool // maps are asked for over key-value connections; a stream is left open
		mapless    bool
	}{
		{s: "couchbase://10.0.0.1", kv: true},
		{s: "http://10.0.0.1", kv: true},
		{s: "10.0.0.1:8091", kv: true},
		{s: "couchbase://10.0.0.1?bootstrap_on=cccp", kv: true},
		{s: "couchbase://10.0.0.1?bootstrap_on=http", stream: true},
		{s: "http://10.0.0.1:8091?bootstrap_on=http", stream: true},
		{s: "http://10.0.0.1?bootstrap_on=http", stream: true, mapless: true},
		{s: "http://10.0.0.1", stream: true, mapless: true, kv: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual())
			if c.mapless {
				mapless(m)
			}
			b := openString(t, m, c.s).Bucket("default")
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err, c.s)
			require.NoError(t, b.WaitReady(ctx(t)))
			time.Sleep(10 * time.Second)
			require.Equal(t, c.kv, m.Frames(memd.OpGetClusterConfig) > 0, c.s)
			require.Equal(t, c.stream, len(mapPaths(m)) > 0, c.s)
		})
	}
	synctest.Test(t, func(t *testing.T) { // no other way was allowed
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		mapless(m)
		b := openString(t, m, "couchbase://10.0.0.1?bootstrap_on=cccp").Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: quick})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Empty(t, mapPaths(m))
	})
	// the port is the data service's own: where the management service is, is not known
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		mapless(m)
		b := openString(t, m, "couchbase://10.0.0.1:12000", func(c *core.Config) {
			c.Net.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return m.Dial(ctx, network, "10.0.0.1:11210")
			}
		}).Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: quick})
		require.ErrorContains(t, err, "http://host:port")
	})
}

// A seed that runs no data service still tells of the nodes that do, if the scheme is http.
func TestASeedWithoutTheDataService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual(),
			mock.NodeServices(0, mock.QueryService))
		b := openString(t, m, "http://10.0.0.1").Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, b.WaitReady(ctx(t)))
		time.Sleep(5 * time.Second)
		before := len(m.ServiceLog(mock.ManagementService))
		time.Sleep(time.Minute)
		require.Len(t, m.ServiceLog(mock.ManagementService), before, "its node gives maps itself")
	})
}

// A stream takes no connection away from requests, however few they may have.
func TestStreamsOfMapsLeaveConnectionsToRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		mapless(m)
		c := open(t, m, func(cfg *core.Config) { cfg.HTTP.MaxConnections = 1 })
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		time.Sleep(time.Second)
		require.Equal(t, 1, mapPaths(m)["/pools/default/bs/default"])
		began := time.Now()
		require.NoError(t, request(t, c))
		require.Zero(t, time.Since(began))
	})
}

// The nodes that an SRV record names are asked for maps over HTTP too.
func TestMapsOverHTTPFromNodesOfAnSRVRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		mapless(m)
		cl := named(t, m, false, resolver(func(context.Context, string) ([]*net.SRV, error) { return records(m), nil }))
		_, err := kv.Do(ctx(t), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// Over real sockets, by the http scheme alone.
func TestHTTPSchemeWithAPortOverTCP(t *testing.T) {
	m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64))
	mapless(m)
	cfg, err := core.ParseConnString("http://" + m.Node(1).ManagementAddr())
	require.NoError(t, err)
	require.Empty(t, cfg.Seeds.Hosts)
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	for i := range 100 {
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "%d", i)})
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
}

// Maps over HTTPS: verified like everything else, and a certificate that is not trusted is named at once.
func TestMapsComeOverHTTPS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual(), mock.TLS())
		mapless(m)
		b := openString(t, m, "couchbases://10.0.0.1",
			func(c *core.Config) { c.TLS.Config = trusting(m) }).Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		for _, r := range m.ServiceLog(mock.ManagementService) {
			require.True(t, r.TLS)
		}
		stranger := openString(t, m, "couchbases://10.0.0.1?bootstrap_on=http").Bucket("default")
		began := time.Now()
		_, err = kv.Do(ctx(t), stranger, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TLSFailure)
		require.Less(t, time.Since(began), 50*time.Millisecond)
		require.ErrorIs(t, stranger.WaitReady(ctx(t)), cberr.TLSFailure)
	})
}

// A refused login, a bucket without access and one that is absent have their names, as they have over key-value
// connections.
func TestFailuresOfMapsOverHTTPHaveTheirNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Bucket("other", 8), mock.Virtual(),
			mock.User("Administrator", "password"), mock.User("app", "pw", "other"))
		for name, want := range map[string]struct {
			bucket, user, password string
			err                    error
		}{
			"password": {"default", "Administrator", "wrong", cberr.AuthenticationFailure},
			"access":   {"default", "app", "pw", cberr.BucketAccess},
		} {
			began := time.Now()
			c := openString(t, m, "http://10.0.0.1?bootstrap_on=http", func(c *core.Config) {
				c.Auth.Username, c.Auth.Password = want.user, core.NewSecret(want.password)
			})
			_, err := kv.Do(ctx(t), c.Bucket(want.bucket), kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, want.err, name)
			require.Less(t, time.Since(began), 50*time.Millisecond)
			require.ErrorIs(t, c.Bucket(want.bucket).WaitReady(ctx(t)), want.err)
			require.NoError(t, c.Close())
		}
		b := openString(t, m, "http://10.0.0.1?bootstrap_on=http").Bucket("later")
		f := kv.Start(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 8 * time.Second}})
		time.Sleep(time.Second)
		require.NoError(t, m.CreateBucket("later", 8))
		res, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.True(t, res.RetryInfo().Reasons.Has(retry.BucketNotReady))
	})
}

// A password that was wrong is not asked about for ever once it is right.
func TestHTTPMapsAfterARefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		var mu sync.Mutex
		password := "wrong"
		b := openString(t, m, "http://10.0.0.1?bootstrap_on=http", func(c *core.Config) {
			c.Auth.Credentials = func(context.Context) (core.Credentials, error) {
				mu.Lock()
				defer mu.Unlock()
				return core.Credentials{Username: "Administrator", Password: core.NewSecret(password)}, nil
			}
		}).Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		mu.Lock()
		password = "password"
		mu.Unlock()
		time.Sleep(5 * time.Second)
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// Servers before 2.5 know neither of the terse forms; one that has no stream is asked at the poll interval.
func TestFormsOfMapsOverHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		absent []string
		want   []string
	}{
		"verbose": {[]string{"/pools/default/b/", "/pools/default/bs/"}, []string{
			"/pools/default/buckets/default",
			"/pools/default/bucketsStreaming/default",
		}},
		"no stream": {
			[]string{"/pools/default/bs/", "/pools/default/bucketsStreaming/"},
			[]string{"/pools/default/b/default"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual())
				mapless(m)
				for _, p := range c.absent {
					m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: p},
						mock.Answer{Status: http.StatusNotFound, Body: []byte("not here")})
				}
				b := openString(t, m, "http://10.0.0.1").Bucket("default")
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
				require.NoError(t, err)
				time.Sleep(3 * time.Second)
				for _, p := range c.want {
					require.Contains(t, mapPaths(m), p)
				}
				key := keyOn(t, b, m.Node(0).Addr())
				vb, _, _ := b.Locate(key)
				require.NoError(t, m.MoveVBucket("default", int(vb), 1))
				time.Sleep(3 * time.Second)
				_, nodes, _ := b.Locate(key)
				require.Equal(t, m.Node(1).Addr(), nodes[0])
			})
		})
	}
}

// A stream that is cut, or has gone silent, or is as old as streams may become, is begun anew, at another node if its
// own is gone; a node that ends every stream at once is not asked again and again.
func TestStreamsOfMapsAreBegunAnew(t *testing.T) {
	stream := "/pools/default/bs/default"
	run := func(query string, f func(t *testing.T, m *mock.Cluster, b *core.Bucket)) {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual(), mock.Replicas(0))
			mapless(m)
			b := openString(t, m, "http://10.0.0.1,10.0.0.2?"+query).Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			time.Sleep(time.Second)
			f(t, m, b)
		})
	}
	run("config_idle_redial_timeout=30s", func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
		time.Sleep(100 * time.Second)
		require.Equal(t, 4, mapPaths(m)[stream])
	})
	run("http_redial_period=10s", func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
		time.Sleep(30 * time.Second)
		require.Equal(t, 4, mapPaths(m)[stream])
	})
	run("kv_timeout=9s", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		node := m.ServiceLog(mock.ManagementService)[len(m.ServiceLog(mock.ManagementService))-1].Node
		key := keyOn(t, b, m.Node(1-node).Addr())
		require.NoError(t, m.Kill(node))
		time.Sleep(time.Second)
		require.NoError(t, m.Failover(node))
		time.Sleep(5 * time.Second)
		_, rev := m.Revision()
		mp, _ := b.Map()
		require.Equal(t, rev, mp.Rev, "the other node tells of it")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
	})
	run("http_retry_delay=2s", func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
		m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: stream},
			mock.Answer{Body: []byte("{}\n\n\n\n")})
		m.Network().ResetAll()
		time.Sleep(time.Minute)
		require.Less(t, mapPaths(m)[stream], 60)
		require.Greater(t, mapPaths(m)[stream], 30)
	})
}

// A memcached bucket spreads its keys over the nodes as every other client does, and follows the nodes that come and
// go.
func TestMemcachedBuckets(t *testing.T) {
	for name, without := range map[string]bool{"maps over connections": false, "maps over HTTP": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Bucket("cache", 0, mock.Memcached()), mock.Virtual())
				if without {
					mapless(m)
				}
				b := open(t, m).Bucket("cache")
				require.NoError(t, b.WaitReady(ctx(t)))
				check := func(nodes ...int) {
					t.Helper()
					var addrs []string
					for _, n := range nodes {
						addrs = append(addrs, m.Node(n).Addr())
					}
					used := map[string]bool{}
					for i := range 200 {
						key := "key-" + strconv.Itoa(i)
						res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte(key), Value: []byte("v")})
						require.NoError(t, err)
						require.Equal(t, ketama(addrs, key), res.Endpoint(), key)
						got, err := kv.Do(ctx(t), b, kv.Get{Key: []byte(key)})
						require.NoError(t, err)
						require.Equal(t, res.CAS, got.CAS)
						used[res.Endpoint()] = true
					}
					require.Len(t, used, len(nodes))
				}
				check(0, 1, 2)
				require.Equal(t, 3, m.AddNode())
				require.NoError(t, m.Rebalance())
				time.Sleep(4 * time.Second)
				check(0, 1, 2, 3)
				require.NoError(t, m.RemoveNode(1))
				time.Sleep(4 * time.Second)
				check(0, 2, 3)
				_, err := kv.Do(ctx(t), b, kv.Increment{Key: []byte("n"), Delta: 1, Initial: new(uint64)})
				require.NoError(t, err)
				_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("absent")})
				require.ErrorIs(t, err, cberr.DocumentNotFound)
				if without {
					require.NotZero(t, mapPaths(m)["/pools/default/bs/cache"])
				} else {
					require.Empty(t, mapPaths(m))
				}
			})
		})
	}
}

// ketama is where memcached clients look for a key: 160 points of each node on a ring.
func ketama(addrs []string, key string) string {
	type point struct {
		at   uint32
		addr string
	}
	var ring []point
	for _, a := range addrs {
		for i := range 40 {
			sum := md5.Sum(fmt.Appendf(nil, "%s-%d", a, i))
			for p := range 4 {
				ring = append(ring, point{binary.LittleEndian.Uint32(sum[4*p:]), a})
			}
		}
	}
	slices.SortFunc(ring, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	sum := md5.Sum([]byte(key))
	for _, p := range ring {
		if p.at >= binary.LittleEndian.Uint32(sum[:]) {
			return p.addr
		}
	}
	return ring[0].addr
}

// Close ends a source of maps in every state: before the first answer, while it listens, while it waits to try again.
func TestCloseEndsTheSourceOfMaps(t *testing.T) {
	for name, prepare := range map[string]func(m *mock.Cluster){
		"silent":    func(m *mock.Cluster) { m.Network().Silence(m.Node(0).ManagementAddr()) },
		"refused":   func(m *mock.Cluster) { m.Network().Refuse(m.Node(0).ManagementAddr()) },
		"listening": func(*mock.Cluster) {},
		"no answer": func(m *mock.Cluster) {
			m.Script(mock.ServiceMatch{Service: mock.ManagementService}, mock.Answer{Never: true})
		},
		"trickles": func(m *mock.Cluster) {
			m.Script(mock.ServiceMatch{Service: mock.ManagementService},
				mock.Answer{Body: []byte(strings.Repeat(" ", 1<<20)), Chunk: 1, Trickle: time.Second})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []time.Duration{0, time.Millisecond, time.Second, 20 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
					prepare(m)
					c := openString(t, m, "http://10.0.0.1?bootstrap_on=http")
					f := kv.Start(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
					time.Sleep(after)
					began := time.Now()
					require.NoError(t, c.Close())
					require.Zero(t, time.Since(began))
					_, err := f.Wait(ctx(t))
					require.Error(t, err)
				})
			}
		})
	}
}
