package core_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// overTLS runs f in a bubble with a cluster of two nodes whose certificates its own authority has signed.
func overTLS(t *testing.T, f func(t *testing.T, m *mock.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual(), mock.TLS()))
	})
}

// request asks the cluster's management service for something.
func request(t *testing.T, c *core.Cluster) error {
	t.Helper()
	resp, err := c.Do(ctx(t), &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// S1, D19, fault 47: verification is on unless it was switched off by its own name. Roots that are not there are the
// system's, which do not know the test's authority, and never every authority. Each failure has its name in
// milliseconds.
func TestCertificatesAreVerified_S1_D19(t *testing.T) {
	for name, c := range map[string]struct {
		tls  func(m *mock.Cluster) *tls.Config
		says string
	}{
		"no configuration": {func(*mock.Cluster) *tls.Config { return nil }, "certificate"},
		"nil roots":        {func(*mock.Cluster) *tls.Config { return &tls.Config{} }, "certificate"},
		"empty roots": {
			func(*mock.Cluster) *tls.Config { return &tls.Config{RootCAs: x509.NewCertPool()} },
			"unknown authority",
		},
		"expired": {func(m *mock.Cluster) *tls.Config {
			c := trusting(m)
			c.Time = func() time.Time { return time.Now().AddDate(2, 0, 0) }
			return c
		}, "expired"},
		"another name": {func(m *mock.Cluster) *tls.Config {
			c := trusting(m)
			c.ServerName = "elsewhere.example.com"
			return c
		}, "elsewhere.example.com"},
		"right":        {trusting, ""},
		"not verified": {func(*mock.Cluster) *tls.Config { return &tls.Config{InsecureSkipVerify: true} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			overTLS(t, func(t *testing.T, m *mock.Cluster) {
				for _, bootstrap := range []core.Bootstrap{core.BootstrapKV, core.BootstrapHTTP} { // both protocols
					cl := open(t, m, tlsHosts, func(cfg *core.Config) {
						cfg.TLS.Enabled, cfg.TLS.Config, cfg.Maps.Bootstrap = true, c.tls(m), bootstrap
						cfg.Seeds.HTTPHosts = []string{m.Node(0).ManagementTLSAddr()}
					})
					began := time.Now()
					_, err := kv.Do(ctx(t), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
					if c.says == "" {
						require.NoError(t, err)
						require.NoError(t, request(t, cl))
						continue
					}
					require.ErrorIs(t, err, cberr.TLSFailure)
					require.ErrorContains(t, err, c.says)
					require.Less(t, time.Since(began), 50*time.Millisecond)
				}
			})
		})
	}
}

// The certificates of ca_cert_path are trusted beside those of the system, not instead of them.
func TestRootsAreTheSystemsAndTheGivenOnes(t *testing.T) {
	m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.TLS())
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, m.CA(), 0o600))
	cfg, err := core.ParseConnString(m.TLSConnString() + "?ca_cert_path=" + file)
	require.NoError(t, err)
	want, err := x509.SystemCertPool()
	require.NoError(t, err)
	require.True(t, want.AppendCertsFromPEM(m.CA()))
	require.True(t, want.Equal(cfg.TLS.Config.RootCAs))
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// S1, D21: one configuration for all protocols, and each of its fields counts for all: hooks, names, versions, client
// certificates.
func TestFieldsOfTLSCountForEveryProtocol_S1_D21(t *testing.T) {
	overTLS(t, func(t *testing.T, m *mock.Cluster) {
		var hooks sync.Map
		var states atomic.Int64
		cert, err := m.ClientCertificate("Administrator")
		require.NoError(t, err)
		c := open(t, m, tlsHosts, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "", core.Secret{} // the certificate does it
			cfg.TLS.Config = trusting(m)
			cfg.TLS.Config.Certificates = []tls.Certificate{cert}
			cfg.TLS.Config.MaxVersion = tls.VersionTLS12
			cfg.TLS.Config.ServerName = "localhost"
			cfg.TLS.Config.VerifyConnection = func(s tls.ConnectionState) error {
				states.Add(1)
				hooks.Store(s.ServerName, s.Version)
				return nil
			}
		})
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t))) // no further connection is on its way
		before := states.Load()
		require.NoError(t, request(t, c))
		require.Equal(t, before+1, states.Load())
		hooks.Range(func(name, version any) bool {
			require.Equal(t, "localhost", name)
			require.EqualValues(t, tls.VersionTLS12, version)
			return true
		})
	})
	overTLS(t, func(t *testing.T, m *mock.Cluster) {
		for _, bootstrap := range []core.Bootstrap{core.BootstrapKV, core.BootstrapHTTP} {
			c := open(t, m, tlsHosts, func(cfg *core.Config) {
				cfg.TLS.Config, cfg.Maps.Bootstrap, cfg.Seeds.HTTPHosts = trusting(m), bootstrap,
					[]string{m.Node(0).ManagementTLSAddr()}
				cfg.TLS.Config.VerifyConnection = func(tls.ConnectionState) error { return io.ErrNoProgress }
			})
			_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k"), Common: quick})
			require.ErrorIs(t, err, io.ErrNoProgress, bootstrap)
		}
	})
}

// S1: each node's certificate is verified for that node's host, whatever the others are called.
func TestEachHostIsVerifiedByItsOwnName_S1(t *testing.T) {
	overTLS(t, func(t *testing.T, m *mock.Cluster) {
		hostile(m, "10.0.9.9") // no certificate has this address
		c := open(t, m, tlsHosts, func(cfg *core.Config) {
			cfg.Seeds.Hosts, cfg.TLS.Config = cfg.Seeds.Hosts[:1], trusting(m)
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return m.Dial(ctx, network, strings.Replace(addr, "10.0.9.9", "10.0.0.2", 1))
			}
		})
		good, bad := 0, 0
		for i := range 64 {
			_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte{byte(i)}, Common: quick})
			if err == nil {
				good++
				continue
			}
			require.ErrorIs(t, err, cberr.TLSFailure)
			require.ErrorContains(t, err, "10.0.9.9")
			bad++
		}
		require.Greater(t, good, 16)
		require.Greater(t, bad, 16)
	})
}

// S1: nothing older than TLS 1.2 is spoken, over either protocol, even if the configuration would have it.
func TestNothingOlderThanTLS12_S1(t *testing.T) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{selfSigned(t)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	})
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	var done atomic.Int64
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				if nc.(*tls.Conn).HandshakeContext(t.Context()) == nil {
					done.Add(1)
				}
				_ = nc.Close()
			})
		}
	})
	for _, bootstrap := range []core.Bootstrap{core.BootstrapKV, core.BootstrapHTTP} {
		c, err := core.Open(t.Context(), core.Config{
			Seeds: core.SeedConfig{Hosts: []string{l.Addr().String()}, HTTPHosts: []string{l.Addr().String()}},
			TLS:   core.TLSConfig{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10}},
			Maps:  core.MapConfig{Bootstrap: bootstrap},
		})
		require.NoError(t, err)
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TLSFailure, bootstrap)
		require.NoError(t, c.Close())
	}
	require.Zero(t, done.Load())
}

// P14: with TLS every connection begins with its handshake, to ports that are for it, whatever fails and whatever maps
// leave out.
func TestTLSIsNeverDowngraded_P14(t *testing.T) {
	cleartext := []string{"11210", "8091", "8092", "8093", "8094", "8095"}
	for name, c := range map[string]struct {
		tls     func(m *mock.Cluster) *tls.Config
		prepare func(m *mock.Cluster)
	}{
		"right": {trusting, func(*mock.Cluster) {}},
		"untrusted": {
			func(*mock.Cluster) *tls.Config { return &tls.Config{RootCAs: x509.NewCertPool()} },
			func(*mock.Cluster) {},
		},
		"TLS ports refuse": {trusting, func(m *mock.Cluster) {
			for _, n := range m.Nodes() {
				m.Network().Refuse(n.TLSAddr())
				m.Network().Refuse(n.ManagementTLSAddr())
			}
		}},
		"maps without TLS ports": {trusting, func(m *mock.Cluster) {
			m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
				rep.Value = []byte(strings.ReplaceAll(string(rep.Value), "SSL", "XXX"))
			}))
		}},
		"no maps over connections": {trusting, func(m *mock.Cluster) { mapless(m) }},
	} {
		t.Run(name, func(t *testing.T) {
			overTLS(t, func(t *testing.T, m *mock.Cluster) {
				c.prepare(m)
				var mu sync.Mutex
				var firsts []byte
				var ports []string
				cl := open(t, m, tlsHosts, func(cfg *core.Config) {
					cfg.TLS.Config = c.tls(m)
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						_, port, _ := net.SplitHostPort(addr)
						mu.Lock()
						ports = append(ports, port)
						mu.Unlock()
						nc, err := m.Dial(ctx, network, addr)
						if err != nil {
							return nil, err
						}
						return &firstByte{Conn: nc, f: func(b byte) {
							mu.Lock()
							defer mu.Unlock()
							firsts = append(firsts, b)
						}}, nil
					}
				})
				for i := range 16 {
					// whatever comes of it
					_, _ = kv.Do(ctx(t), cl.Bucket("default"), kv.Upsert{Key: []byte{byte(i)}, Common: quick})
				}
				_, _ = cl.Do(ctx(t), &core.HTTPRequest{
					Service: core.Query, Method: "GET", Path: "/admin/ping",
					Timeout: time.Second,
				})
				time.Sleep(10 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				require.NotEmpty(t, ports)
				for _, p := range ports {
					require.False(t, slices.Contains(cleartext, p), p)
				}
				for _, b := range firsts {
					require.EqualValues(t, 22, b, "a handshake record")
				}
			})
		})
	}
}

// firstByte tells of the first byte that is written.
type firstByte struct {
	net.Conn
	f    func(byte)
	once sync.Once
}

func (c *firstByte) Write(b []byte) (int, error) {
	if len(b) > 0 {
		c.once.Do(func() { c.f(b[0]) })
	}
	return c.Conn.Write(b)
}

// Fault 47h: nonsense in a stream whose node has answered already is a lost socket: calls go on over a new connection,
// and no terminal condition is set.
func TestABrokenTLSStreamIsALostSocket_Fault47h(t *testing.T) {
	overTLS(t, func(t *testing.T, m *mock.Cluster) {
		var mu sync.Mutex
		var conns []*spoiled
		c := open(t, m, tlsHosts, func(cfg *core.Config) {
			cfg.TLS.Config = trusting(m)
			dial := cfg.Net.Dial
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, &spoiled{Conn: nc})
				return conns[len(conns)-1], nil
			}
		})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		mu.Lock()
		require.Len(t, conns, 2)
		for _, s := range conns {
			s.on.Store(true)
		}
		mu.Unlock()
		for i := range 16 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte{byte(i)}})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, conns, 4)
	})
}

// spoiled changes what is read once it is on.
type spoiled struct {
	net.Conn
	on atomic.Bool
}

func (s *spoiled) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.on.Load() && n > 0 {
		b[n-1] ^= 0xff
	}
	return n, err
}

// An idle connection is used again and again: nodes hear of each of a pool's connections, so that nothing between takes
// one for dead, and one that is dead is found out.
func TestIdleConnectionsAreKeptAlive(t *testing.T) {
	for _, pushes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
			b := open(t, m, func(cfg *core.Config) {
				cfg.KV.Connections, cfg.Maps.NoNotifications = 2,
					!pushes
			}).Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			for range 20 {
				time.Sleep(30 * time.Second)
				for _, s := range b.Status() {
					require.True(t, s.Connected)
					require.Less(t, time.Since(s.Activity), 6*2500*time.Millisecond+time.Second, "%s of %s", s.ID,
						s.Addr)
				}
			}
			hellos := m.Frames(memd.OpHello)
			for _, l := range m.Network().Links() {
				l.Up().Drop()
				l.Down().Drop()
			}
			time.Sleep(2 * time.Minute)
			require.Equal(t, hellos+6, m.Frames(memd.OpHello), "each was replaced")
		})
	}
}

// S1, S4: what is less than safe is said once: certificates that are not verified, a password that HTTP shows.
// RequireTLS refuses the latter.
func TestWhatIsLessThanSafeIsSaidOnce_S1_S4(t *testing.T) {
	const unverified, shown = "TLS verification is off", "Credentials sent over plaintext"
	for name, c := range map[string]struct {
		change            func(m *mock.Cluster, cfg *core.Config)
		unverified, shown int
	}{
		"plaintext": {func(*mock.Cluster, *core.Config) {}, 0, 1},
		"TLS": {func(m *mock.Cluster, cfg *core.Config) {
			tlsHosts(cfg)
			cfg.TLS.Config = trusting(m)
		}, 0, 0},
		"unverified": {func(_ *mock.Cluster, cfg *core.Config) {
			tlsHosts(cfg)
			cfg.TLS.Config = &tls.Config{InsecureSkipVerify: true}
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			overTLS(t, func(t *testing.T, m *mock.Cluster) {
				var l logs
				cl := open(t, m, func(cfg *core.Config) { c.change(m, cfg) },
					func(cfg *core.Config) { cfg.Observe.Log = l.logger() })
				for range 3 {
					_, err := kv.Do(ctx(t), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
					require.NoError(t, err)
				}
				require.Zero(t, strings.Count(l.String(), shown), "key-value connections show nothing")
				for range 3 {
					require.NoError(t, request(t, cl))
				}
				require.Equal(t, c.shown, strings.Count(l.String(), shown))
				require.Equal(t, c.unverified, strings.Count(l.String(), unverified))
			})
		})
	}
	_, err := core.Open(t.Context(), core.Config{TLS: core.TLSConfig{Required: true}})
	var e *core.ConfigError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "TLS.Required", e.Field)
	cl, err := core.Open(t.Context(), core.Config{TLS: core.TLSConfig{Required: true, Enabled: true}})
	require.NoError(t, err)
	require.NoError(t, cl.Close())
}
