package field_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strconv"
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
	"github.com/couchcore/couchcore/mock"
)

// worksNow gives what a wait and a write that begin now come to.
func worksNow(t *testing.T, b *core.Bucket) (ready, called <-chan error) {
	t.Helper()
	waited, wrote := make(chan error, 1), make(chan error, 1)
	go func() { waited <- b.WaitReady(fresh(t)) }()
	go func() {
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		wrote <- err
	}()
	synctest.Wait()
	return waited, wrote
}

// What the ports for TLS have refused is forgotten when TLS is turned off, and maps are asked for on the other ports at
// once.
func TestMapsOverHTTPWhenTLSIsTurnedOff_D274(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.TLS())
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Seeds.HTTPHosts = []string{m.Node(0).ManagementTLSAddr(), m.Node(1).ManagementTLSAddr()}
			cfg.Seeds.Hosts, cfg.Maps.Bootstrap = nil, core.BootstrapHTTP
			cfg.TLS = core.TLSConfig{Enabled: true, Config: &tls.Config{RootCAs: x509.NewCertPool()}}
		})
		b := c.Bucket("default")
		require.ErrorIs(t, b.WaitReady(fresh(t)), cberr.TLSFailure)
		time.Sleep(30 * time.Second) // to the longest pauses
		require.NoError(t, c.EndTLS())
		began := time.Now()
		ready, called := worksNow(t, b)
		require.NoError(t, <-ready)
		require.NoError(t, <-called)
		require.Less(t, time.Since(began), time.Second)
	})
}

// TLS is turned on while one node after the other is asked for a map on the ports without TLS: those that are left are
// not asked for TLS there.
func TestMapsOverHTTPWhenTLSIsTurnedOn_D274(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.TLS())
		held := make(chan struct{})
		var first atomic.Bool
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Maps.Bootstrap = core.BootstrapHTTP
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if strings.HasSuffix(addr, ":8091") && !first.Swap(true) {
					<-held
					return nil, errors.New("down")
				}
				return m.Dial(ctx, network, addr)
			}
		})
		b := c.Bucket("default")
		synctest.Wait()
		require.NoError(t, c.SetTLS(trusted(m)))
		ready, called := worksNow(t, b)
		close(held)
		require.NoError(t, <-ready)
		require.NoError(t, <-called)
	})
}

// A node that does not answer on its port without TLS is not waited for when TLS is turned on.
func TestMapsOverHTTPAreNotWaitedForInVain_D274(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.TLS())
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Maps.Bootstrap = core.BootstrapHTTP
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if strings.HasSuffix(addr, ":8091") {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return m.Dial(ctx, network, addr)
			}
		})
		b := c.Bucket("default")
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, c.SetTLS(trusted(m)))
		began := time.Now()
		ready, called := worksNow(t, b)
		require.NoError(t, <-ready)
		require.NoError(t, <-called)
		require.Less(t, time.Since(began), time.Second)
	})
}

// Each connection is made once when TLS is turned on: those that are made at once have the newest logins.
func TestConnectionsAreMadeOnceWhenTLSIsTurnedOn_D274(t *testing.T) {
	const buckets = 8
	opts := []mock.Option{mock.Nodes(4), mock.Virtual(), mock.TLS()}
	for i := range buckets {
		opts = append(opts, mock.Bucket("b"+strconv.Itoa(i), 16))
	}
	for range 1 + rounds()/100 {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, opts...)
			var dialled atomic.Int64
			c := onMock(t, m, func(cfg *core.Config) {
				cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if strings.HasSuffix(addr, ":11207") {
						dialled.Add(1)
					}
					return m.Dial(ctx, network, addr)
				}
			})
			for i := range buckets {
				require.NoError(t, c.Bucket("b"+strconv.Itoa(i)).WaitReady(fresh(t)))
			}
			require.NoError(t, c.SetTLS(trusted(m)))
			time.Sleep(time.Minute)
			require.EqualValues(t, 4*buckets, dialled.Load())
		})
	}
}

// written keeps what is written to a connection.
type written struct {
	net.Conn
	to *bytes.Buffer
	mu *sync.Mutex
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.to.Write(b)
	w.mu.Unlock()
	return w.Conn.Write(b)
}

// TLS is turned on while a request is made that was to go without it: before its credentials are asked for, or while
// they are. Nothing of them is written without TLS, and the provider is never told that they are encrypted when they
// are not. The request goes over TLS.
func TestNoSecretIsShownWhenTLSIsTurnedOn_D275(t *testing.T) {
	for name, shown := range map[string]core.Credentials{
		"a token":    {Token: core.NewSecret("TOKEN")},
		"a password": {Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword)},
	} {
		for when, before := range map[string]bool{"before": true, "while": false} {
			t.Run(name+" "+when, func(t *testing.T) { turnedWhileARequestIsMade(t, shown, before) })
		}
	}
}

func turnedWhileARequestIsMade(t *testing.T, shown core.Credentials, before bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.TLS())
		var mu sync.Mutex
		var sent bytes.Buffer
		var failed, held atomic.Bool
		inside, turned := make(chan struct{}), make(chan struct{})
		hold := func() {
			if !held.Swap(true) {
				inside <- struct{}{}
				<-turned
			}
		}
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts, cfg.Seeds.HTTPHosts = []string{m.Node(0).Addr()}, nil
			cfg.Auth.Username, cfg.Auth.Password = "", core.Secret{}
			cfg.Auth.Credentials = func(ctx context.Context) (core.Credentials, error) {
				switch to := core.LoginTargetOf(ctx); {
				case to.Service == "kv":
					return core.Credentials{
						Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
					}, nil
				case !before:
					hold()
				case !to.Encrypted:
					return core.Credentials{Username: "public"}, nil
				}
				return shown, nil
			}
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if before && strings.HasSuffix(addr, ":8091") && !failed.Swap(true) {
					return nil, errors.New("down") // the next attempt has the body made again
				}
				nc, err := m.Dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &written{nc, &sent, &mu}, nil
			}
		})
		require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
		asked := make(chan error, 1)
		go func() {
			rq := &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools", Idempotent: true}
			if before {
				rq.Stream = io.NopCloser(strings.NewReader("x"))
				rq.Again = func() (io.ReadCloser, error) {
					hold()
					return io.NopCloser(strings.NewReader("x")), nil
				}
			}
			res, err := c.Do(fresh(t), rq)
			if err == nil {
				_ = res.Body.Close()
			}
			asked <- err
		}()
		<-inside
		require.NoError(t, c.SetTLS(trusted(m)))
		close(turned)
		require.NoError(t, <-asked)
		mu.Lock()
		defer mu.Unlock()
		require.NotContains(t, sent.String(), "Authorization:")
	})
}

// What a node has refused to the former credentials is not named when the attempt with the new ones gets no answer.
func TestFormerRefusalsAreNotNamed_D276(t *testing.T) {
	for name, c := range map[string]struct {
		during bool
		way    core.Bootstrap
	}{
		"between attempts":  {false, core.BootstrapKV},
		"during an attempt": {true, core.BootstrapKV},
		"of maps over HTTP": {false, core.BootstrapHTTP},
		"during one of it":  {true, core.BootstrapHTTP},
	} {
		t.Run(name, func(t *testing.T) {
			way, during := c.way, c.during
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual())
				var late, hangs atomic.Bool
				c := onMock(t, m, func(cfg *core.Config) {
					cfg.Auth.Password, cfg.Maps.Bootstrap = core.NewSecret("wrong"), way
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if hangs.Load() {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						if late.Load() {
							time.Sleep(time.Second)
						}
						return m.Dial(ctx, network, addr)
					}
				})
				b := c.Bucket("default")
				require.ErrorIs(t, b.WaitReady(fresh(t)), cberr.AuthenticationFailure)
				late.Store(during)
				time.Sleep(4500 * time.Millisecond) // longer than the longest pause
				hangs.Store(true)
				require.NoError(t, c.SetCredentials(core.Credentials{
					Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
				}))
				_, err := kv.Do(within(t, 3*time.Second), b, kv.Upsert{
					Key: []byte("k"), Common: kv.Common{Timeout: 2500 * time.Millisecond},
				})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.NotErrorIs(t, err, cberr.AuthenticationFailure)
				err = b.WaitReady(within(t, 2*time.Second))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, cberr.AuthenticationFailure)
				for _, n := range b.Status() {
					require.NotErrorIs(t, n.Err, cberr.AuthenticationFailure)
				}
			})
		})
	}
}
