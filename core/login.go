package core

import (
	"context"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/observe"
)

// logins gives the credentials of each connection and request, and counts those that replaced others.
type logins struct {
	log      observe.Log
	warned   sync.Once // that HTTP shows the password
	provider func(ctx context.Context) (Credentials, error)
	timeout  time.Duration
	tls      func() bool

	mu         sync.Mutex
	now        Credentials // without a provider
	generation uint64
}

func newLogins(cfg *Config, log observe.Log, encrypted func() bool) *logins {
	return &logins{
		log: log, provider: cfg.Auth.Credentials, timeout: cfg.Auth.Timeout, tls: encrypted,
		now: Credentials{Username: cfg.Auth.Username, Password: cfg.Auth.Password, Token: cfg.Auth.Token},
	}
}

// LoginTarget is whom credentials are for.
type LoginTarget struct {
	Service   string // "kv", or what String gives of a Service
	Endpoint  string // the node's "host:port"
	Encrypted bool   // they are sent over TLS
}

type targetKey struct{}

// LoginTargetOf is whom the credentials are for that Config.Auth.Credentials is asked for with ctx.
func LoginTargetOf(ctx context.Context) LoginTarget {
	t, _ := ctx.Value(targetKey{}).(LoginTarget)
	return t
}

// current gives the credentials of this moment.
func (l *logins) current(ctx context.Context, to LoginTarget) (cr Credentials, generation uint64, err error) {
	l.mu.Lock()
	cr, generation = l.now, l.generation
	l.mu.Unlock()
	if l.provider != nil {
		cr, err = l.ask(context.WithValue(ctx, targetKey{}, to))
	}
	if err == nil && cr.Username == "" && !cr.Password.Empty() {
		err = errNameless
	}
	return cr, generation, err
}

// ask calls the user's provider, which may panic, or not come back.
func (l *logins) ask(ctx context.Context) (Credentials, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, errProviderSlow)
	defer cancel()
	return answerOf(ctx, "the credentials provider", l.provider)
}

type loginError string

func (e loginError) Error() string { return string(e) }

const (
	errProviderSlow loginError = "the credentials provider has not answered in time"
	errNameless     loginError = "the credentials provider gave a Password without a Username"
)

// connection is for conn.Options.
func (l *logins) connection(ctx context.Context, addr string, encrypted bool) (handshake.Credentials, error) {
	cr, generation, err := l.current(ctx, LoginTarget{kvKey, addr, encrypted})
	return handshake.Credentials{
		Username: cr.Username, Password: cr.Password, Token: cr.Token, Mechanisms: cr.Mechanisms,
		Login: handshake.Login{Generation: generation, At: time.Now(), Expires: cr.Expires, Token: !cr.Token.Empty()},
	}, err
}

// request is for httpx.Options.
func (l *logins) request(ctx context.Context, service Service, addr string, encrypted bool) (httpx.Credentials, error) {
	cr, _, err := l.current(ctx, LoginTarget{service.String(), addr, encrypted})
	if !encrypted && cr.Username != "" {
		l.warned.Do(func() { l.log.Warn(ctx, observe.MsgPlaintextLogin) })
	}
	return httpx.Credentials{Username: cr.Username, Password: cr.Password, Token: cr.Token}, err
}

// rotate makes every connection's credentials old, and gives the number of the new ones. With other ones they take the
// place of the configuration's.
func (l *logins) rotate(cr *Credentials) (generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cr != nil {
		l.now = *cr
	}
	l.generation++
	return l.generation
}

// newest is the number of the newest credentials.
func (l *logins) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation
}

// check says why the credentials cannot replace the present ones.
func (l *logins) check(cr *Credentials) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.provider != nil:
		return &ConfigError{"Auth.Credentials", "is a provider: it gives the new ones, see RenewLogins"}
	case cr.Username == "" && !cr.Password.Empty():
		return &ConfigError{"Auth.Username", "is empty, and Auth.Password is set"}
	case kindOfLogin(cr) != kindOfLogin(&l.now):
		return &ConfigError{"Auth.Credentials", "would change from " + kindOfLogin(&l.now) + " to " + kindOfLogin(cr)}
	case !cr.Token.Empty() && !l.tls():
		return &ConfigError{"Auth.Token", "is sent over TLS only"}
	}
	return nil
}

// fixedToken reports whether the credentials are a token of the configuration's, or of SetCredentials.
func (l *logins) fixedToken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.provider == nil && !l.now.Token.Empty()
}

func kindOfLogin(cr *Credentials) string {
	switch {
	case !cr.Token.Empty():
		return "a token"
	case cr.Username != "":
		return "a name and a password"
	}
	return "nothing"
}

// SetCredentials replaces the configuration's name and password, or its token, by others of the same kind. New
// connections and requests use them at once, and nodes that have refused the old ones are connected to again without a
// pause, their refusals forgotten. Connections that are open log in again, by a token over the same connection, by a
// password by way of a new one that takes the place of the old, one after the other, and no call is lost for it. It
// does not wait for that. A *ConfigError says why it cannot be done.
func (c *Cluster) SetCredentials(cr Credentials) error {
	if err := c.logins.check(&cr); err != nil {
		return err
	}
	c.renewAll(c.logins.rotate(&cr))
	return nil
}

// RenewLogins makes open connections log in again as SetCredentials does, with what the configuration's provider gives
// them then. It does not wait for that. Called more often than an attempt to connect takes, it keeps refusals from
// ending calls: each is one of former credentials.
func (c *Cluster) RenewLogins() {
	c.renewAll(c.logins.rotate(nil))
}

func (c *Cluster) renewAll(generation uint64) {
	c.health.NewCredentials(generation)
	for _, b := range c.every() {
		b.router.Reconnect()
		b.source.hurry()
		b.renewer.wake()
	}
	c.telemetry.renew()
}
