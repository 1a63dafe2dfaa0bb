package field_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// sockets are those that a client has open, by the ports that they lead to.
type sockets struct {
	next func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	open map[string]int
}

func (s *sockets) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := s.next(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	s.count(port, 1)
	return &socket{Conn: nc, close: sync.OnceFunc(func() { s.count(port, -1) })}, nil
}

func (s *sockets) count(port string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[port] += n
}

func (s *sockets) ports() (ports []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for port, n := range s.open {
		if n > 0 {
			ports = append(ports, port)
		}
	}
	return ports
}

type socket struct {
	net.Conn
	close func()
}

func (s *socket) Close() error {
	s.close()
	return s.Conn.Close()
}

// trusted is a configuration of TLS with the mock's roots.
func trusted(m *mock.Cluster) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(m.CA())
	return &tls.Config{RootCAs: pool}
}

// kindOfPort says which ports speak TLS.
var kindOfPort = map[string]bool{
	"11210": false, "8091": false, "8093": false, "11207": true, "18091": true, "18093": true,
}

// TLS is turned on and off while a client is open and while it works: no call fails, later calls use the other ports,
// and no connection of the former kind stays.
func TestTLSIsTurnedOnAndOff_D174(t *testing.T) {
	for _, way := range []core.Bootstrap{core.BootstrapBoth, core.BootstrapHTTP} {
		t.Run(string(way), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
				s := &sockets{next: m.Dial}
				c := onMock(t, m, func(cfg *core.Config) { cfg.Net.Dial, cfg.Maps.Bootstrap = s.dial, way })
				require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Second)))
				defer busy(t, c)()
				for range 2 {
					require.NoError(t, c.SetTLS(trusted(m)))
					requireKind(t, c, s, true)
					require.NoError(t, c.EndTLS())
					requireKind(t, c, s, false)
					require.NoError(t, c.EndTLS())
				}
			})
		})
	}
}

// TLS is turned on when the last connection has just been made: what is still done for that one ends none of the new
// nodes.
func TestTLSIsTurnedAsSoonAsReady_D268(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
		for range rounds() {
			c := onMock(t, m, func(*core.Config) {})
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(within(t, time.Second)))
			require.NoError(t, c.SetTLS(trusted(m)))
			require.NoError(t, b.WaitReady(within(t, time.Second)))
			require.NoError(t, c.Close())
		}
	})
}

// busy has writes run until end is called, none of which may fail.
func busy(t *testing.T, c *core.Cluster) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				_, err := kv.Do(context.Background(), c.Bucket("default"), kv.Upsert{Key: []byte{byte(w), byte(i)}})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

func requireKind(t *testing.T, c *core.Cluster, s *sockets, encrypted bool) {
	t.Helper()
	of := func(addr string) bool {
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.Contains(t, kindOfPort, port)
		return kindOfPort[port]
	}
	res, err := kv.Do(within(t, time.Second), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, encrypted, of(res.Endpoint()))
	rows, err := c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"})
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.Equal(t, encrypted, of(rows.Endpoint()))
	require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Second)))
	time.Sleep(15 * time.Second) // calls under way have ended, and HTTP connections without use are closed
	for _, port := range s.ports() {
		require.Equal(t, encrypted, kindOfPort[port], port)
	}
}

// What would send a token in the clear, or what the configuration forbids, is refused; a missing configuration is a
// mistake, not the end of TLS.
func TestTLSIsNotTurnedOffByMistake_D174(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
		for _, change := range []func(*core.Config){
			func(cfg *core.Config) { cfg.TLS.Required = true },
			func(cfg *core.Config) {
				cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret("t")
			},
		} {
			c := onMock(t, m, func(cfg *core.Config) {
				cfg.TLS.Config = trusted(m)
				change(cfg)
			})
			var ce *core.ConfigError
			require.ErrorAs(t, c.EndTLS(), &ce)
			require.ErrorAs(t, c.SetTLS(nil), &ce)
		}
	})
}

// A provider of credentials says which mechanisms may be used for each login, and is told whether it is encrypted.
func TestAProviderNamesTheMechanisms_D174(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
		var asked sync.Map
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Auth.AllowPlain = true
			cfg.Auth.Credentials = func(ctx context.Context) (core.Credentials, error) {
				to := core.LoginTargetOf(ctx)
				asked.Store(to.Encrypted, true)
				cr := core.Credentials{
					Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
					Mechanisms: []string{"SCRAM-SHA1"},
				}
				if to.Encrypted {
					cr.Mechanisms = []string{"PLAIN"}
				}
				return cr, nil
			}
		})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		require.Equal(t, "SCRAM-SHA1", b.Status()[0].Mechanism)
		require.NoError(t, c.SetTLS(trusted(m)))
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		require.Equal(t, "PLAIN", b.Status()[0].Mechanism)
		for _, encrypted := range []bool{false, true} {
			_, was := asked.Load(encrypted)
			require.True(t, was)
		}
	})
}
