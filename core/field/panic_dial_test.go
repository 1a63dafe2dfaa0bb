package field_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// onMock is a client of a mock in virtual time.
func onMock(t *testing.T, m *mock.Cluster, change func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword), m.Dial
	change(&cfg)
	return openConfig(t, cfg)
}

// writeAndQuery is a call to a document and then a query.
func writeAndQuery(t *testing.T, c *core.Cluster) (upserted, queried error) {
	t.Helper()
	_, upserted = kv.Do(within(t, 4*time.Second), c.Bucket("default"), kv.Upsert{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 3 * time.Second},
	})
	rows, queried := c.Query(within(t, 3*time.Second), &query.Request{Statement: "SELECT 1", Readonly: true})
	if queried == nil {
		queried = rows.Close()
	}
	return upserted, queried
}

// A dialer that panics, or gives nothing, fails the attempts that it was called for, over every protocol.
func TestADialerThatPanicsFailsItsAttempt_D143(t *testing.T) {
	for name, fail := range map[string]func() (net.Conn, error){
		"panics":        func() (net.Conn, error) { panic("in the user's dialer") },
		"gives nothing": func() (net.Conn, error) { return nil, nil },
	} {
		for _, times := range []int32{2, 1 << 30} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
					var kvDials, httpDials atomic.Int32
					upserted, queried := writeAndQuery(t, onMock(t, m, func(cfg *core.Config) {
						cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
							dials := &httpDials
							if strings.HasSuffix(addr, ":11210") {
								dials = &kvDials
							}
							if dials.Add(1) <= times {
								return fail()
							}
							return m.Dial(ctx, network, addr)
						}
					}))
					if times == 2 {
						require.NoError(t, upserted)
						require.NoError(t, queried)
						return
					}
					require.ErrorIs(t, upserted, cberr.UnambiguousTimeout)
					require.ErrorContains(t, upserted, "dial")
					require.ErrorIs(t, queried, cberr.UnambiguousTimeout)
				})
			})
		}
	}
}

// panicking is a part of a TLS configuration whose every method panics as long as it is on.
type panicking struct{ on *atomic.Bool }

func (p panicking) act() {
	if p.on.Load() {
		panic("in the user's callback")
	}
}

func (p panicking) Get(string) (*tls.ClientSessionState, bool) { p.act(); return nil, false }
func (p panicking) Put(string, *tls.ClientSessionState)        { p.act() }
func (p panicking) Write(b []byte) (int, error)                { p.act(); return len(b), nil }

// A callback of the TLS configuration that panics fails the handshake, and one whose loss harms nothing does not even
// that.
func TestATLSCallbackThatPanicsFailsItsHandshake_D143(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(t *tls.Config, p panicking)
		harmless bool
	}{
		"VerifyConnection": {change: func(t *tls.Config, p panicking) {
			t.VerifyConnection = func(tls.ConnectionState) error { p.act(); return nil }
		}},
		"VerifyPeerCertificate": {change: func(t *tls.Config, p panicking) {
			t.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { p.act(); return nil }
		}},
		"Time": {change: func(t *tls.Config, p panicking) {
			t.Time = func() time.Time { p.act(); return time.Now() }
		}},
		"KeyLogWriter":       {change: func(t *tls.Config, p panicking) { t.KeyLogWriter = p }},
		"ClientSessionCache": {change: func(t *tls.Config, p panicking) { t.ClientSessionCache = p }, harmless: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
				p := panicking{new(atomic.Bool)}
				p.on.Store(true)
				cl := onMock(t, m, func(cfg *core.Config) {
					for i, h := range cfg.Seeds.Hosts {
						cfg.Seeds.Hosts[i] = strings.Replace(h, ":11210", ":11207", 1)
					}
					pool := x509.NewCertPool()
					pool.AppendCertsFromPEM(m.CA())
					cfg.TLS.Config = &tls.Config{RootCAs: pool}
					c.change(cfg.TLS.Config, p)
				})
				upserted, queried := writeAndQuery(t, cl)
				if !c.harmless {
					require.ErrorIs(t, upserted, cberr.TLSFailure)
					require.ErrorContains(t, upserted, "panic")
					require.ErrorIs(t, queried, cberr.TLSFailure)
					p.on.Store(false)
					time.Sleep(10 * time.Second)
					upserted, queried = writeAndQuery(t, cl)
				}
				require.NoError(t, upserted)
				require.NoError(t, queried)
				p.on.Store(true) // connections to services are made anew
				time.Sleep(10 * time.Second)
				_, queried = writeAndQuery(t, cl)
				require.Equal(t, c.harmless, queried == nil, queried)
			})
		})
	}
}
