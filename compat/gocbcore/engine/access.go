//go:build ignore

package gocbcore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/core"
)

// access is who the client is, and whom it trusts.
type access struct {
	seed string
	tls  atomic.Bool

	lock       sync.Mutex
	roots      func() *x509.CertPool
	provider   AuthProvider
	mechanisms []AuthMechanism
}

func newAccess(config SecurityConfig, seeds []string) *access {
	a := &access{roots: config.TLSRootCAProvider, provider: config.Auth, mechanisms: config.AuthMechanisms}
	a.tls.Store(config.UseTLS)
	if len(seeds) > 0 {
		a.seed = seeds[0]
	}
	if !config.UseTLS && strings.HasSuffix(hostOf(a.seed), ".cloud.couchbase.com") {
		logWarnf("Capella is reached over TLS only: write couchbases:// in the connection string")
	}
	return a
}

func (a *access) auth() AuthProvider {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.provider
}

func (a *access) rootsNow() func() *x509.CertPool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.roots
}

// config is the part of the configuration that credentials come from. HTTP services get them without TLS too, as they
// do from gocbcore; PLAIN is used where the program has named it.
func (a *access) config() core.AuthConfig {
	return core.AuthConfig{Credentials: a.credentials, AllowPlain: true}
}

// names are the mechanisms that may be used. Without those of the program, PLAIN is one where the server's certificate
// is verified: a user of LDAP or PAM logs in by it.
func (a *access) names(encrypted bool) (names []string) {
	a.lock.Lock()
	list := a.mechanisms
	a.lock.Unlock()
	if len(list) == 0 {
		list = []AuthMechanism{ScramSha512AuthMechanism, ScramSha256AuthMechanism, ScramSha1AuthMechanism}
		if roots := a.rootsNow(); encrypted && (roots == nil || roots() != nil) {
			list = append(list, PlainAuthMechanism)
		}
	}
	for _, m := range list {
		if m != OAuthBearerAuthMechanism {
			names = append(names, string(m))
		}
	}
	return names
}

// loginServices are the services that credentials are asked for, by couchcore's names.
var loginServices = func() map[string]ServiceType {
	m := map[string]ServiceType{"kv": MemdService}
	for ours, theirs := range httpServices {
		m[theirs.String()] = ours
	}
	return m
}()

// credentials asks the program's provider, for each connection and each request.
func (a *access) credentials(ctx context.Context) (core.Credentials, error) {
	auth, to := a.auth(), core.LoginTargetOf(ctx)
	if cert, err := auth.Certificate(AuthCertRequest{Service: MemdService, Endpoint: a.seed}); err != nil {
		return core.Credentials{}, err
	} else if cert != nil {
		return core.Credentials{}, nil
	}
	req := AuthCredsRequest{Service: loginServices[to.Service], Endpoint: to.Endpoint}
	if req.Service != MemdService {
		req.Endpoint = scheme(to.Encrypted) + to.Endpoint
	}
	if j, ok := auth.(AuthProviderJWT); ok && j.ContainsJWT() {
		token, err := j.JWT(req)
		if err == nil && token == "" {
			err = errInvalidCredentials
		}
		return core.Credentials{Token: core.NewSecret(token)}, err
	}
	list, err := auth.Credentials(req)
	if err == nil && len(list) != 1 {
		err = errInvalidCredentials
	}
	if err != nil {
		return core.Credentials{}, err
	}
	return core.Credentials{
		Username: list[0].Username, Password: core.NewSecret(list[0].Password), Mechanisms: a.names(to.Encrypted),
	}, nil
}

// tlsConfig has the program's roots as they are now, and asks for the client's certificate at each handshake. A
// provider of roots that gives none turns verification off.
func (a *access) tlsConfig() *tls.Config {
	c := &tls.Config{
		MinVersion: minTLS,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := a.auth().Certificate(AuthCertRequest{Service: MemdService, Endpoint: a.seed})
			if cert == nil && err == nil {
				cert = &tls.Certificate{}
			}
			return cert, err
		},
	}
	if roots := a.rootsNow(); roots != nil {
		c.RootCAs = roots()
		c.InsecureSkipVerify = c.RootCAs == nil
		return c
	}
	if pool, err := x509.SystemCertPool(); err == nil {
		pool.AppendCertsFromPEM(capellaRootCA)
		c.RootCAs = pool
	}
	return c
}

// ReconfigureSecurityOptions are the settings that ReconfigureSecurity can change.
type ReconfigureSecurityOptions struct {
	UseTLS            bool
	TLSRootCAProvider func() *x509.CertPool
	Auth              AuthProvider
	AuthMechanisms    []AuthMechanism
	NoReconnect       bool // connections that are open stay as they are
}

// reconfigure replaces credentials, mechanisms and roots, and turns TLS on or off. Connections that stay of their kind
// are replaced, one after the other, unless that is not wanted.
func (c *client) reconfigure(opts ReconfigureSecurityOptions) error {
	if opts.UseTLS && opts.TLSRootCAProvider == nil {
		return wrapError(errInvalidArgument, "must provide TLSRootCAProvider when UseTLS is true")
	}
	c.access.lock.Lock()
	if opts.Auth != nil {
		c.access.provider = opts.Auth
	}
	if len(opts.AuthMechanisms) > 0 {
		c.access.mechanisms = opts.AuthMechanisms
	}
	if opts.UseTLS {
		c.access.roots = opts.TLSRootCAProvider
	}
	c.access.lock.Unlock()
	err := c.encrypt(opts.UseTLS)
	if err != nil {
		return wrapError(errInvalidArgument, err.Error())
	}
	if !opts.NoReconnect {
		c.cluster.RenewLogins()
	}
	return nil
}

func (c *client) encrypt(on bool) error {
	var err error
	if on {
		err = c.cluster.SetTLS(c.access.tlsConfig())
	} else {
		err = c.cluster.EndTLS()
	}
	if err == nil {
		c.access.tls.Store(on)
	}
	return err
}

// ReconfigureSecurity replaces the agent's credentials, mechanisms and roots, and turns TLS on or off.
func (agent *Agent) ReconfigureSecurity(opts ReconfigureSecurityOptions) error {
	return agent.client.reconfigure(opts)
}

// ReauthenticateOptions are the settings of Reauthenticate.
type ReauthenticateOptions struct {
	Deadline time.Time
}

// Reauthenticate sends the token anew over the connections that are open. Without a token it does nothing.
func (agent *Agent) Reauthenticate(ReauthenticateOptions) error {
	if a, ok := agent.client.access.auth().(AuthProviderJWT); ok && a.ContainsJWT() {
		agent.client.cluster.RenewLogins()
	}
	return nil
}

// ForceReconnect makes the connections log in again.
func (agent *Agent) ForceReconnect() { agent.client.cluster.RenewLogins() }
