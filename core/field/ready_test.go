package field_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// refuses answers an opcode with a status on a node.
func refuses(n *scripted.Node, op memd.Opcode, status memd.Status) {
	n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != op {
			return false
		}
		s.Reply(p, status, nil, nil)
		return true
	})
}

// One seed is not of the cluster any more and refuses, another one works and is slower: waiting ends when that one is
// ready.
func TestOneSeedThatRefusesDoesNotEndWaitReady_D130(t *testing.T) {
	for name, refusal := range map[string]struct {
		op     memd.Opcode
		status memd.Status
	}{
		"the bucket": {memd.OpSelectBucket, memd.StatusAccess},
		"the login":  {memd.OpSASLAuth, memd.StatusAuthError},
	} {
		t.Run(name, func(t *testing.T) {
			virtualScripted(t, 2, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
				s.Map = func(_ *scripted.Node, bucket string) []byte {
					return s.Render(scripted.Spec{Bucket: bucket, Live: []int{1}})
				}
				refuses(s.Nodes[0], refusal.op, refusal.status)
				s.Nodes[1].SetHook(func(_ *scripted.Session, p *memd.Packet) bool {
					if p.Opcode == memd.OpHello {
						time.Sleep(100 * time.Millisecond)
					}
					return false
				})
				c := open(t, s, saslPlainOnly("pw"), change)
				b := c.Bucket("default")
				require.NoError(t, b.WaitReady(within(t, 2*time.Second)))
				require.NoError(t, upsert(t, b))
				require.NoError(t, c.WaitReady(within(t, 2*time.Second)))
			})
		})
	}
}

func saslPlainOnly(password string) func(*core.Config) {
	return func(cfg *core.Config) {
		cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.AllowPlain, cfg.Auth.Mechanisms = "u", core.NewSecret(password),
			true, []string{"PLAIN"}
	}
}

// Credentials that replace refused ones are used at once, and the refusals are forgotten.
func TestNewCredentialsAfterRefusals_D130(t *testing.T) {
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpSASLAuth || bytes.HasSuffix(p.Value, []byte("new")) {
			return false
		}
		s.Reply(p, memd.StatusAuthError, nil, nil)
		return true
	})
	c := open(t, s, saslPlainOnly("old"))
	b := c.Bucket("default")
	require.Eventually(t, func() bool { return s.Nodes[0].Accepted() > 4 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, c.SetCredentials(core.Credentials{Username: "u", Password: core.NewSecret("new")}))
	require.NoError(t, upsert(t, b))
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	require.NoError(t, c.WaitReady(context.Background()))
}

// What an attempt meets that was begun with the former roots, or as the former user, is not held against the new ones.
// Each attempt is held up in the program's Dial until the new ones are there.
func TestOldAttemptsAfterNewCredentials_D273(t *testing.T) {
	for name, c := range map[string]struct {
		before func(m *mock.Cluster, cfg *core.Config)
		after  func(m *mock.Cluster, c *core.Cluster) error
	}{
		"roots": {
			func(m *mock.Cluster, cfg *core.Config) {
				cfg.Seeds.Hosts = []string{m.Node(0).TLSAddr(), m.Node(1).TLSAddr()}
				cfg.TLS = core.TLSConfig{Enabled: true, Config: &tls.Config{RootCAs: x509.NewCertPool()}}
			},
			func(m *mock.Cluster, c *core.Cluster) error {
				err := c.SetTLS(trusted(m))
				c.RenewLogins()
				return err
			},
		},
		"bucket": {
			func(_ *mock.Cluster, cfg *core.Config) {
				cfg.Auth.Username, cfg.Auth.Password = "stranger", core.NewSecret("password")
			},
			func(_ *mock.Cluster, c *core.Cluster) error {
				return c.SetCredentials(core.Credentials{
					Username: "Administrator", Password: core.NewSecret("password"),
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.TLS(),
					mock.User("Administrator", "password"), mock.User("stranger", "password", "other"))
				held := make(chan struct{})
				client := onMock(t, m, func(cfg *core.Config) {
					c.before(m, cfg)
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						<-held
						return m.Dial(ctx, network, addr)
					}
				})
				b := client.Bucket("default")
				synctest.Wait()
				require.NoError(t, c.after(m, client))
				ready, called := make(chan error, 1), make(chan error, 1)
				go func() { ready <- b.WaitReady(fresh(t)) }()
				go func() {
					_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
					called <- err
				}()
				synctest.Wait()
				close(held)
				require.NoError(t, <-ready)
				require.NoError(t, <-called)
			})
		})
	}
}

// A user that may not use the bucket is replaced by one that may: calls from then on wait for the new one's login.
func TestAnotherUserMayUseTheBucket_D273(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(),
			mock.User("Administrator", "password"), mock.User("stranger", "password", "other"))
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "stranger", core.NewSecret("password")
		})
		b := c.Bucket("default")
		require.ErrorIs(t, b.WaitReady(fresh(t)), cberr.BucketAccess)
		require.NoError(t, c.SetCredentials(core.Credentials{
			Username: "Administrator", Password: core.NewSecret("password"),
		}))
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, b.WaitReady(fresh(t)))
	})
}

// The connection for requests that need an order gets further than the others, and is refused then: calls that the
// others' failure explains still end because of it.
func TestTheOrderedConnectionEndsNoCondition_D278(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual(), mock.TLS())
		b := onMock(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts = []string{m.Node(0).TLSAddr()}
			cfg.TLS = core.TLSConfig{Enabled: true, Config: trusted(m)}
		}).Bucket("default")
		require.NoError(t, b.WaitReady(fresh(t)))
		require.NoError(t, m.SetCertificate(mock.OtherAuthorityCertificate))
		m.DisconnectAll()
		time.Sleep(20 * time.Second) // to the longest pauses
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TLSFailure)
		require.NoError(t, m.SetCertificate(mock.RotatedCertificate))
		require.NoError(t, m.SetPassword(mock.DefaultUser, "another"))
		ordered := kv.Start(context.Background(), b, kv.GetFailoverLog{Common: kv.Common{Retry: retry.BestEffort{}}})
		time.Sleep(10 * time.Millisecond)
		_, err = kv.Do(within(t, 20*time.Millisecond), b, kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TLSFailure)
		require.NotErrorIs(t, err, cberr.Timeout)
		ordered.Cancel()
	})
}
