package field_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// TestTelemetryEndpoint_D158: an endpoint of the configuration is told instead of the cluster. It gets no credentials
// but its own, and every command an answer.
func TestTelemetryEndpoint_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.AppTelemetry())
		answers := make(chan string, 10)
		c := collect(t, m, func(ctx context.Context, ws *websocket.Conn) {
			for _, msg := range [][]byte{{0x00}, {0x07}, {}, {0x00, 'x'}} {
				status, text, err := command(ctx, ws, msg...)
				if err != nil {
					answers <- err.Error()
					return
				}
				answers <- string('0'+rune(status)) + text
			}
			_, _, _ = ws.Read(ctx) // until the client closes
		})
		cl := toCollector(t, c)
		time.Sleep(time.Second)
		require.Equal(t, "0", nextOf(t, answers))
		require.Equal(t, "1", nextOf(t, answers), "an unknown command")
		require.Equal(t, "1", nextOf(t, answers), "an empty message")
		require.Equal(t, "0", nextOf(t, answers))
		require.Empty(t, m.TelemetryClients())
		require.Len(t, c.times(), 1)
		path, authorization := c.request(0)
		require.Equal(t, "/telemetry", path)
		require.Empty(t, authorization)
		require.NoError(t, cl.Close())
		_ = toCollector(t, c, func(cfg *core.Config) {
			cfg.Observe.AppTelemetry.Username, cfg.Observe.AppTelemetry.Password = "u", core.NewSecret("p")
		})
		time.Sleep(time.Second)
		_, authorization = c.request(1)
		require.Equal(t, "Basic dTpw", authorization)
	})
}

// TestTelemetryBackoff_D158: the pauses between attempts begin at 100 ms and double up to the longest.
func TestTelemetryBackoff_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		c := collect(t, m, nil)
		cl := toCollector(t, c, func(cfg *core.Config) { cfg.Observe.AppTelemetry.Backoff = time.Second })
		time.Sleep(5 * time.Second)
		got := c.times()
		require.NoError(t, cl.Close())
		for i, want := range []time.Duration{0, 100, 300, 700, 1500, 2500, 3500, 4500} {
			require.Equal(t, want*time.Millisecond, got[i]-got[0], "%v", got)
		}
		require.Len(t, got, 8)
	})
	// A server that takes connections and closes them at once does not make them come more often.
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		c := collect(t, m, func(_ context.Context, ws *websocket.Conn) { _ = ws.CloseNow() })
		_ = toCollector(t, c)
		time.Sleep(time.Hour)
		require.Less(t, len(c.times()), 20)
	})
	// Nor does a cluster that announces maps with other endpoints all the time.
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Virtual(), mock.AppTelemetry())
		m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/_appTelemetry"}, mock.Answer{Status: 503})
		_, _ = telling(t, m)
		for i := range 200 {
			m.SetAppTelemetry(i%2 == 0)
			time.Sleep(50 * time.Millisecond)
		}
		tries := 0
		for _, r := range m.ServiceLog(mock.ManagementService) {
			if r.Path == "/_appTelemetry" {
				tries++
			}
		}
		require.Positive(t, tries)
		require.Less(t, tries, 30)
	})
}

// TestTelemetryAfterNewCredentials_D277: new credentials end the pause of up to an hour behind refused ones.
func TestTelemetryAfterNewCredentials_D277(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.AppTelemetry())
		var right atomic.Bool
		c, _ := telling(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "", core.Secret{}
			cfg.Auth.Credentials = func(ctx context.Context) (core.Credentials, error) {
				cr := core.Credentials{
					Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
				}
				if core.LoginTargetOf(ctx).Service != "kv" && !right.Load() {
					cr.Password = core.NewSecret("wrong")
				}
				return cr, nil
			}
		})
		time.Sleep(5 * time.Hour)
		require.Empty(t, m.TelemetryClients())
		right.Store(true)
		c.RenewLogins()
		time.Sleep(time.Second)
		require.Len(t, m.TelemetryClients(), 1)
	})
}

// TestTelemetryHasNewRoots_D277: an endpoint of the configuration is asked with the newest settings of TLS.
func TestTelemetryHasNewRoots_D277(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.AppTelemetry(), mock.TLS())
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.TLS.Config = &tls.Config{RootCAs: x509.NewCertPool()}
			told := &cfg.Observe.AppTelemetry
			told.Endpoint = "wss://" + m.Node(0).ManagementTLSAddr() + "/_appTelemetry"
			told.Username, told.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		})
		time.Sleep(5 * time.Hour)
		require.Empty(t, m.TelemetryClients())
		require.NoError(t, c.SetTLS(trusted(m)))
		c.RenewLogins()
		time.Sleep(time.Second)
		require.Len(t, m.TelemetryClients(), 1)
	})
}

// TestTelemetryPings_D158: the client answers pings, and pings itself; an endpoint that does not answer is left.
func TestTelemetryPings_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		var mu sync.Mutex
		pinged := []error{}
		c := collect(t, m, func(ctx context.Context, ws *websocket.Conn) {
			go func() {
				err := ws.Ping(ctx)
				mu.Lock()
				pinged = append(pinged, err)
				mu.Unlock()
			}()
			for {
				if _, _, err := ws.Read(ctx); err != nil {
					return
				}
			}
		})
		cl := toCollector(t, c)
		time.Sleep(10*time.Minute + time.Second) // not in the moment of a ping
		require.Len(t, c.times(), 1, "pings are answered: the connection stays")
		mu.Lock()
		require.Equal(t, []error{nil}, pinged)
		mu.Unlock()
		require.NoError(t, cl.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		c := collect(t, m, func(ctx context.Context, _ *websocket.Conn) { // does not read
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
		})
		cl := toCollector(t, c, func(cfg *core.Config) {
			cfg.Observe.AppTelemetry.PingInterval, cfg.Observe.AppTelemetry.PingTimeout = 3*time.Second, time.Second
		})
		time.Sleep(4*time.Second + 200*time.Millisecond)
		require.Len(t, c.times(), 2, "a ping without an answer ends the connection")
		require.NoError(t, cl.Close())
	})
}

// TestTelemetryLimits_D158: a message that is longer than a command ends the connection, and a server that sends
// commands without end gets so many answers a second.
func TestTelemetryLimits_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		ended := make(chan websocket.StatusCode, 100)
		c := collect(t, m, func(ctx context.Context, ws *websocket.Conn) {
			_ = ws.Write(ctx, websocket.MessageBinary, make([]byte, 2<<10))
			_, _, err := ws.Read(ctx)
			ended <- websocket.CloseStatus(err)
		})
		cl := toCollector(t, c)
		time.Sleep(time.Second)
		require.Equal(t, websocket.StatusMessageTooBig, nextOf(t, ended))
		require.NoError(t, cl.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		var mu sync.Mutex
		answers := 0
		c := collect(t, m, func(ctx context.Context, ws *websocket.Conn) {
			go func() {
				for ws.Write(ctx, websocket.MessageBinary, []byte{0}) == nil {
				}
			}()
			for {
				if _, _, err := ws.Read(ctx); err != nil {
					return
				}
				mu.Lock()
				answers++
				mu.Unlock()
			}
		})
		cl := toCollector(t, c)
		time.Sleep(time.Second)
		mu.Lock()
		require.InDelta(t, 100, answers, 5)
		mu.Unlock()
		require.NoError(t, cl.Close())
	})
}

// TestTelemetryLosesNothing_D158: what a report did not reach its reader with is in the next one.
func TestTelemetryLosesNothing_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		reports, first := make(chan string, 10), true
		c := collect(t, m, func(ctx context.Context, ws *websocket.Conn) {
			if first { // the command and the end of the connection are on their way together
				first = false
				time.Sleep(time.Second)
				return
			}
			_, text, _ := command(ctx, ws, 0)
			reports <- text
			_, _, _ = ws.Read(ctx)
		})
		cl := toCollector(t, c)
		time.Sleep(500 * time.Millisecond) // until it is connected
		require.NoError(t, upsert(t, cl.Bucket("default")))
		time.Sleep(5 * time.Second)
		require.Contains(t, nextOf(t, reports), `bucket="default"} 1`)
	})
}

// TestTelemetryOverTLS_D158: with TLS the certificate is verified before the credentials are sent, and when TLS ends
// nothing is told any more. No line of the log shows them.
func TestTelemetryOverTLS_D158(t *testing.T) {
	m := mock.Start(t, mock.Nodes(1), mock.TLS(), mock.AppTelemetry())
	var mu sync.Mutex
	var lines bytes.Buffer
	cfg := overTLS(t, m, mock.DefaultUser, mock.DefaultPassword)
	cfg.Observe.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := openConfig(t, cfg)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	require.Eventually(t, func() bool { return len(m.TelemetryClients()) == 1 }, 10*time.Second, time.Millisecond)
	require.True(t, m.TelemetryClients()[0].TLS)
	counting(t, m)
	_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, int64(1), asked(t, m)["sdk_kv_r_total"])
	require.NoError(t, c.EndTLS())
	require.Eventually(t, func() bool { return len(m.TelemetryClients()) == 0 }, 20*time.Second, time.Millisecond,
		"it follows when TLS ends")
	require.NoError(t, c.Close())
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, lines.String(), "Application telemetry connected")
	require.NotContains(t, lines.String(), mock.DefaultPassword)
	require.NotContains(t, lines.String(), "Basic")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestTelemetryShowsNoPassword_D193: a map may not lead the client to show the password that the key-value service is
// proven only. Where the user has asked for HTTP seeds see it, and with AllowPlain every node.
func TestTelemetryShowsNoPassword_D193(t *testing.T) {
	for name, c := range map[string]struct {
		url   func(m *mock.Cluster) string
		allow bool
		nodes []int
	}{
		"key-value": {(*mock.Cluster).ConnString, false, nil},
		"HTTP":      {func(m *mock.Cluster) string { return "http://" + m.Node(0).ManagementAddr() }, false, []int{0}},
		"allowed":   {(*mock.Cluster).ConnString, true, []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Virtual(), mock.AppTelemetry())
				seen := map[int]bool{}
				for range 20 {
					cfg, err := core.ParseConnString(c.url(m))
					require.NoError(t, err)
					cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
					cfg.Auth.AllowPlain, cfg.Net.Dial = c.allow, m.Dial
					cl := openConfig(t, cfg)
					require.NoError(t, cl.Bucket("default").WaitReady(within(t, 5*time.Second)))
					time.Sleep(5 * time.Second)
					for _, told := range m.TelemetryClients() {
						seen[told.Node] = true
					}
					require.NoError(t, cl.Close())
					time.Sleep(time.Second)
				}
				require.ElementsMatch(t, c.nodes, slices.Collect(maps.Keys(seen)))
			})
		})
	}
}

// outside dials by the name that a node has on another network.
func outside(m *mock.Cluster, name string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host != name {
			return nil, &net.DNSError{Err: "no such host", Name: host}
		}
		return m.Dial(ctx, network, net.JoinHostPort("10.0.0.1", port))
	}
}

// TestTelemetryOnAnotherNetwork_D158: nodes that are reached by another address are named by both.
func TestTelemetryOnAnotherNetwork_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.AppTelemetry())
		require.NoError(t, m.SetAlternateAddress(0, &mock.AlternateAddress{Hostname: "node-0.example.com"}))
		c, _ := telling(t, m, func(cfg *core.Config) {
			cfg.Net.Network, cfg.Seeds.Hosts = "external", []string{"node-0.example.com:11210"}
			cfg.Net.Dial = outside(m, "node-0.example.com")
		})
		connects(t, m, 1)
		require.NoError(t, upsert(t, c.Bucket("default")))
		answers := m.AskTelemetry(t.Context(), mock.TelemetryGet)
		require.Contains(t, answers[0].Text, `node="10.0.0.1",alt_node="node-0.example.com",`)
	})
}
