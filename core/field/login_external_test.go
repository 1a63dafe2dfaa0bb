package field_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
)

// overTLS makes a configuration for one account of a mock cluster with TLS, whose certificates are verified.
func overTLS(t testing.TB, m *mock.Cluster, name, password string) core.Config {
	t.Helper()
	cfg, err := core.ParseConnString(m.TLSConnString())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(m.CA()))
	cfg.Auth.Username, cfg.Auth.Password, cfg.TLS.Config = name, core.NewSecret(password), &tls.Config{RootCAs: roots}
	return cfg
}

// TestExternalUsersLogInBySASLPlain_D131: a server has nothing to prove a user of LDAP or PAM by, so it refuses SCRAM
// for them with the status of a wrong password, although it lists SCRAM.
func TestExternalUsersLogInBySASLPlain_D131(t *testing.T) {
	m := mock.Start(t, mock.TLS(), mock.User("local", "secret"), mock.ExternalUser("ldap", "secret"),
		mock.ExternalUser("reader", "secret", "default"))
	for name, mechanism := range map[string]string{"local": "SCRAM-SHA512", "ldap": "PLAIN", "reader": "PLAIN"} {
		b := openConfig(t, overTLS(t, m, name, "secret")).Bucket("default")
		require.NoError(t, b.WaitReady(within(t, 10*time.Second)), name)
		require.NoError(t, upsert(t, b))
		require.Equal(t, mechanism, b.Status()[0].Mechanism, name)

		wrong := openConfig(t, overTLS(t, m, name, "wrong"))
		require.ErrorIs(t, wrong.Bucket("default").WaitReady(within(t, 10*time.Second)), cberr.AuthenticationFailure,
			name)

		plaintext := openConfig(t, asUser(t, m, name, "secret"))
		err := plaintext.Bucket("default").WaitReady(within(t, 10*time.Second))
		if mechanism == "PLAIN" {
			require.ErrorIs(t, err, cberr.AuthenticationFailure, name)
		} else {
			require.NoError(t, err, name)
		}
		allowed := asUser(t, m, name, "secret")
		allowed.Auth.AllowPlain = true
		require.NoError(t, openConfig(t, allowed).Bucket("default").WaitReady(within(t, 10*time.Second)), name)
	}
}

// picky is a node over TLS that takes PLAIN alone, although it lists other mechanisms. It keeps what it was asked for.
type picky struct {
	*scripted.Cluster
	late bool // SCRAM is refused at its second step

	mu    sync.Mutex
	tried []string
}

func startPicky(t testing.TB, lists string, late bool) (p *picky, roots *x509.CertPool) {
	t.Helper()
	certificate, roots := certificateOf(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p = &picky{Cluster: &scripted.Cluster{Features: scripted.AllFeatures(), Mechanisms: lists}, late: late}
	n := p.AddListener(t, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	p.Map = func(_ *scripted.Node, bucket string) []byte {
		return p.Render(scripted.Spec{Bucket: bucket, Services: func(n *scripted.Node) string { return `{"kv":1,"kvSSL":` + strconv.Itoa(n.Port()) + `}` }})
	}
	n.SetHook(func(s *scripted.Session, pkt *memd.Packet) bool {
		switch {
		case pkt.Opcode == memd.OpSASLStep:
			s.Reply(pkt, memd.StatusAuthError, nil, nil)
			return true
		case pkt.Opcode != memd.OpSASLAuth:
			return false
		}
		p.mu.Lock()
		p.tried = append(p.tried, string(pkt.Key))
		p.mu.Unlock()
		switch {
		case string(pkt.Key) == "PLAIN":
			return false
		case p.late:
			nonce := string(pkt.Value[len("n,,n=ldap,r="):])
			s.Reply(pkt, memd.StatusAuthContinue, nil, []byte("r="+nonce+"x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=4000"))
		default:
			s.Reply(pkt, memd.StatusAuthError, nil, nil)
		}
		return true
	})
	return p, roots
}

// attempt logs in once and gives the mechanisms that were tried.
func (p *picky) attempt(t *testing.T, change func(*core.Config)) ([]string, error) {
	t.Helper()
	c := open(t, p.Cluster, func(cfg *core.Config) {
		cfg.Auth.Username, cfg.Auth.Password = "ldap", core.NewSecret("secret")
		change(cfg)
	})
	err := c.Bucket("default").WaitReady(within(t, 2*time.Second))
	require.NoError(t, c.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	tried := p.tried
	p.tried = nil
	return tried, err
}

// TestWhenSASLPlainFollowsScram_D131: PLAIN tells the server the password, so it follows a refusal only where it is
// certain who the server is, and where the server lists it.
func TestWhenSASLPlainFollowsScram_D131(t *testing.T) {
	const all = "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN"
	for name, c := range map[string]struct {
		lists     string
		late      bool
		change    func(*core.Config, *x509.CertPool)
		tried     []string
		succeeded bool
	}{
		"verified":          {all, false, verified, []string{"SCRAM-SHA512", "PLAIN"}, true},
		"refused late":      {all, true, verified, []string{"SCRAM-SHA512", "PLAIN"}, true},
		"only PLAIN listed": {"PLAIN", false, verified, []string{"SCRAM-SHA512", "PLAIN"}, true},
		"not listed": {
			"SCRAM-SHA512 SCRAM-SHA1", false, verified,
			[]string{"SCRAM-SHA512"},
			false,
		},
		"not verified":                    {all, false, unverified, []string{"SCRAM-SHA512"}, false},
		"not verified, only PLAIN listed": {"PLAIN", false, unverified, []string{"SCRAM-SHA512"}, false},
		"not verified, PLAIN second": {all, false, func(c *core.Config, p *x509.CertPool) {
			unverified(c, p)
			c.Auth.Mechanisms = []string{"SCRAM-SHA256", "PLAIN"}
		}, []string{"SCRAM-SHA256"}, false},
		"not verified, PLAIN by choice": {all, false, func(c *core.Config, p *x509.CertPool) {
			unverified(c, p)
			c.Auth.Mechanisms = []string{"PLAIN"}
		}, []string{"PLAIN"}, true},
		"PLAIN not wanted": {all, false, func(c *core.Config, p *x509.CertPool) {
			verified(c, p)
			c.Auth.Mechanisms = []string{"SCRAM-SHA512", "SCRAM-SHA1"}
		}, []string{"SCRAM-SHA512"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, roots := startPicky(t, c.lists, c.late)
			tried, err := p.attempt(t, func(cfg *core.Config) { c.change(cfg, roots) })
			if c.succeeded {
				require.NoError(t, err)
				require.Equal(t, c.tried, tried)
				return
			}
			require.Error(t, err)
			require.NotContains(t, tried, "PLAIN")
			require.Equal(t, c.tried[0], tried[0])
		})
	}
}

func verified(c *core.Config, roots *x509.CertPool) { c.TLS.Config = &tls.Config{RootCAs: roots} }

func unverified(c *core.Config, _ *x509.CertPool) {
	c.TLS.Config = &tls.Config{InsecureSkipVerify: true}
}

// certificateOf is a certificate for 127.0.0.1, and the roots that vouch for it.
func certificateOf(t testing.TB) (certificate tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler()) // it makes one
	defer s.Close()
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.TLS.Certificates[0], roots
}

// TestSASLMechForce_D131: the option that other clients have names the one mechanism to use. It does not allow PLAIN
// where the password could be overheard.
func TestSASLMechForce_D131(t *testing.T) {
	m := mock.Start(t, mock.TLS(), mock.ExternalUser("ldap", "secret"), mock.User("local", "secret"))
	forced := func(connString, name, mechanism string) core.Config {
		cfg, err := core.ParseConnString(connString + "?sasl_mech_force=" + mechanism)
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = name, core.NewSecret("secret")
		if cfg.TLS.Enabled {
			cfg.TLS.Config = overTLS(t, m, name, "secret").TLS.Config
		}
		return cfg
	}
	b := openConfig(t, forced(m.TLSConnString(), "ldap", "PLAIN")).Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	require.Equal(t, "PLAIN", b.Status()[0].Mechanism)
	require.Zero(t, m.Frames(memd.OpSASLStep))

	b = openConfig(t, forced(m.TLSConnString(), "local", "SCRAM-SHA1")).Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	require.Equal(t, "SCRAM-SHA1", b.Status()[0].Mechanism)

	err := openConfig(t, forced(m.TLSConnString(), "ldap", "SCRAM-SHA256")).Bucket("default").WaitReady(within(t,
		10*time.Second))
	require.ErrorIs(t, err, cberr.AuthenticationFailure, "nothing else is tried")

	b = openConfig(t, forced(m.ConnString(), "local", "PLAIN")).Bucket("default")
	require.ErrorContains(t, b.WaitReady(within(t, 300*time.Millisecond)), "no common authentication mechanism")

	_, err = core.ParseConnString("couchbase://h?sasl_mech_force=GSSAPI")
	var ce *core.ConnStringError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "sasl_mech_force", ce.Field)
}
