package core_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"regexp"
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

const canary = "canary-8c1f"

// recorder keeps what the client writes to its sockets.
type recorder struct {
	mu  sync.Mutex
	all bytes.Buffer
}

type recordedConn struct {
	net.Conn
	r *recorder
}

func (c recordedConn) Write(b []byte) (int, error) {
	c.r.mu.Lock()
	c.r.all.Write(b)
	c.r.mu.Unlock()
	return c.Conn.Write(b)
}

func (r *recorder) dial(next func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context,
	string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return recordedConn{nc, r}, nil
	}
}

func tlsHosts(cfg *core.Config) {
	for i, h := range cfg.Seeds.Hosts {
		cfg.Seeds.Hosts[i] = strings.Replace(h, ":11210", ":11207", 1)
	}
}

func trusting(m *mock.Cluster) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(m.CA())
	return &tls.Config{RootCAs: pool}
}

// D17, P14: whatever the server offers and whatever else is set, the password crosses an unencrypted socket only when
// AllowPlain says so.
func TestD17PasswordNeverCrossesAPlaintextSocketInTheClear(t *testing.T) {
	for _, offered := range [][]string{
		nil,
		{"PLAIN"},
		{"SCRAM-SHA1"},
		{"SCRAM-SHA256", "PLAIN"},
		{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"},
	} {
		for _, wanted := range [][]string{nil, {"PLAIN"}, {"SCRAM-SHA256"}, {"PLAIN", "SCRAM-SHA1"}} {
			for _, allow := range []bool{false, true} {
				for _, encrypted := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						opts := []mock.Option{
							mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual(), mock.TLS(),
							mock.User("app", canary),
						}
						if offered != nil {
							opts = append(opts, mock.Mechanisms(offered...))
						}
						m := mock.Start(t, opts...)
						var r recorder
						c := open(t, m, func(cfg *core.Config) {
							cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Mechanisms, cfg.Auth.AllowPlain = "app",
								core.NewSecret(canary), wanted, allow
							cfg.Net.Dial = r.dial(cfg.Net.Dial)
							if encrypted {
								tlsHosts(cfg)
								cfg.TLS.Config = trusting(m)
							}
						})
						_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{
							Key:    []byte("k"),
							Common: kv.Common{Timeout: 100 * time.Millisecond},
						})
						r.mu.Lock()
						seen := bytes.Contains(r.all.Bytes(), []byte(canary))
						r.mu.Unlock()
						if encrypted || !allow {
							require.False(t, seen, "offered %v, wanted %v", offered, wanted)
						}
						saslPlainOnly := len(offered) == 1 && offered[0] == "PLAIN"
						if saslPlainOnly && !encrypted && !allow || offered != nil && !common(offered, wanted) {
							require.NotErrorIs(t, err, cberr.DocumentNotFound)
						} else if allow || encrypted || wanted == nil || len(wanted) > 1 || wanted[0] != "PLAIN" {
							if common(except(offered, !allow && !encrypted), except(wanted, !allow && !encrypted)) {
								require.ErrorIs(t, err, cberr.DocumentNotFound,
									"offered %v, wanted %v, allow %v, encrypted %v", offered, wanted, allow, encrypted)
							}
						}
						require.NoError(t, c.Close())
					})
				}
			}
		}
	}
}

func common(a, b []string) bool {
	if a == nil || b == nil {
		return true
	}
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

// except leaves PLAIN out.
func except(names []string, withSASLPlain bool) []string {
	if names == nil || !withSASLPlain {
		return names
	}
	out := []string{}
	for _, n := range names {
		if n != "PLAIN" {
			out = append(out, n)
		}
	}
	return out
}

// D18: a server that does not prove that it knows the password, or asks for too little or too much work, is refused.
func TestD18FakeServersAreRefused(t *testing.T) {
	change := func(old, repl string) func(req, rep *memd.Packet) {
		return func(_, rep *memd.Packet) {
			rep.Value = []byte(strings.Replace(string(rep.Value), old, repl, 1))
		}
	}
	for name, f := range map[string]struct {
		op memd.Opcode
		by func(req, rep *memd.Packet)
	}{
		"wrong signature": {memd.OpSASLStep, func(_, rep *memd.Packet) {
			rep.Value = []byte("v=" + base64.StdEncoding.EncodeToString(make([]byte, 64)))
		}},
		"no signature": {memd.OpSASLStep, func(_, rep *memd.Packet) { rep.Value = nil }},
		"foreign nonce": {
			memd.OpSASLAuth,
			func(_, rep *memd.Packet) { rep.Value = []byte("r=other,s=YWFhYWFhYWFhYWFh,i=4096") },
		},
		"one iteration":         {memd.OpSASLAuth, change("i=4096", "i=1")},
		"short salt":            {memd.OpSASLAuth, salted("YWI=")},
		"no salt":               {memd.OpSASLAuth, salted("")},
		"salt is not base64":    {memd.OpSASLAuth, salted("!!!!!!!!!!!!!!!!")},
		"ten million":           {memd.OpSASLAuth, change("i=4096", "i=10000000")},
		"iterations not number": {memd.OpSASLAuth, change("i=4096", "i=x")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
				m.Inject(only(f.op, 0), mock.Rewrite(f.by))
				_, err := kv.Do(ctx(t), open(t, m).Bucket("default"), kv.Get{
					Key:    []byte("k"),
					Common: kv.Common{Timeout: 200 * time.Millisecond},
				})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorContains(t, err, "SASL")
				require.Zero(t, m.Frames(memd.OpGet))
			})
		})
	}
}

// salted changes the salt of a server's first message.
func salted(to string) func(req, rep *memd.Packet) {
	return func(_, rep *memd.Packet) {
		rep.Value = regexp.MustCompile(`s=[^,]*`).ReplaceAll(rep.Value, []byte("s="+to))
	}
}

// TLS with the right roots works, on the virtual network and on sockets, and a wrong host name is TLS_ERROR.
func TestTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
		c := open(t, m, tlsHosts, func(cfg *core.Config) { cfg.TLS.Config = trusting(m) })
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		big := bytes.Repeat([]byte("x"), 3<<20)
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k"), Value: big})
		require.NoError(t, err)
		res, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.True(t, bytes.Equal(big, res.Value))
		wrong := open(t, m, tlsHosts, func(cfg *core.Config) {
			cfg.TLS.Config = trusting(m)
			cfg.TLS.Config.ServerName = "elsewhere.example.com"
		})
		_, err = kv.Do(ctx(t), wrong.Bucket("default"), kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TLSFailure)
	})
	m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.TLS())
	cfg, err := core.ParseConnString(m.TLSConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.TLS.Config = "Administrator", core.NewSecret("password"), trusting(m)
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 50 {
				if _, err := kv.Do(ctx(t), b, kv.Upsert{
					Key:   fmt.Appendf(nil, "%d-%d", i, j),
					Value: make([]byte, 100*j),
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Close())
}

// P13, S5: no secret in a log, an error or a printed configuration, in plain text, base64 or hex.
func TestNoSecretReachesAnyOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(locked{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.User("app", "right"))
		var kept core.Config
		c := open(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password, cfg.Observe.Log = "app", core.NewSecret(canary), log
			kept = *cfg
		})
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{
			Key:    []byte("k"),
			Common: kv.Common{Retry: retry.BestEffort{}},
		})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		_, werr := core.ParseConnString("couchbase://app:" + canary + "@h")
		require.Error(t, werr)
		synctest.Wait() // until the log is written
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&out, "%v %+v %#v %s %v %v", kept, kept, kept, kept.Auth.Password, err, werr)
		text := out.String()
		require.NotEmpty(t, text)
		for _, secret := range []string{
			canary, base64.StdEncoding.EncodeToString([]byte(canary)),
			hex.EncodeToString([]byte(canary)),
		} {
			require.NotContains(t, text, secret)
		}
		require.Contains(t, text, "reason=AUTHENTICATION_ERROR") // it was not silence that kept the secret
	})
}

type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
