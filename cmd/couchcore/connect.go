package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/couchcore/couchcore/core"
)

// clusterFlags are those of every command that connects to a cluster.
type clusterFlags struct {
	Connect       string        `short:"c" placeholder:"CONNSTR" help:"The cluster, as in couchbase://host1,host2 (default: $COUCHCORE_CONNECT)."`
	Username      string        `short:"u" help:"The user name (default: $COUCHCORE_USERNAME)."`
	Password      string        `short:"p" help:"The password; - reads it from standard input, where other users of the machine do not see it (default: $COUCHCORE_PASSWORD)."`
	Token         string        `help:"A bearer token, as in JWT, instead of a name and a password; - reads it from standard input (default: $COUCHCORE_TOKEN)."`
	Bucket        string        `short:"b" help:"The bucket (default: the connection string's, or \"default\")."`
	Timeout       time.Duration `help:"${timeout}"`
	Retry         string        `default:"fast-fail" placeholder:"STRATEGY" help:"fast-fail, best-effort or @policy.json (default: fast-fail)."`
	MostAttempts  int           `placeholder:"N" help:"How many attempts, the first included, a policy file may ask for (default: 5)."`
	TLSCA         string        `name:"tls-ca" placeholder:"FILE" help:"Trust the certificates in this PEM file and no others (default: the system's)."`
	TLSCert       string        `name:"tls-cert" placeholder:"FILE" help:"Show the server the certificate in this PEM file (default: none)."`
	TLSKey        string        `name:"tls-key" placeholder:"FILE" help:"The PEM file with the key of --tls-cert (default: the same file)."`
	TLSSkipVerify bool          `name:"tls-skip-verify" help:"Do not check the server's certificate (default: no)."`
	AllowPlain    bool          `help:"Allow PLAIN without TLS, and HTTP requests with the password to nodes that only the map names (default: no)."`
	Verbose       bool          `short:"v" help:"Write to standard error how the operation went, or what happened to connections (default: no)."`
	Log           string        `enum:",debug,info,warn,error" default:"" placeholder:"LEVEL" help:"Write the client's log to standard error: debug, info, warn or error (default: none)."`
}

// scopeFlag is for commands whose request names a scope.
type scopeFlag struct {
	Scope string `help:"The scope (default: _default)."`
}

// connectFlags are those of commands for documents.
type connectFlags struct {
	clusterFlags
	scopeFlag
	Collection string `help:"The collection (default: _default)."`
}

// config makes the client's configuration. Every error of it is one of usage.
func (f *clusterFlags) config(a *app) (core.Config, error) {
	connect := or(f.Connect, a.env("COUCHCORE_CONNECT"))
	if connect == "" {
		return core.Config{}, usagef("no cluster: give --connect, or set COUCHCORE_CONNECT")
	}
	cfg, err := core.ParseConnString(connect)
	if err != nil {
		return core.Config{}, usagef("%v", err)
	}
	if err := f.setAuth(a, &cfg); err != nil {
		return core.Config{}, err
	}
	cfg.Bucket = or(f.Bucket, cfg.Bucket, "default")
	if f.Timeout < 0 {
		return core.Config{}, usagef("--timeout is negative")
	}
	strategy, err := strategyOf(f.Retry, f.MostAttempts)
	if err != nil {
		return core.Config{}, err
	}
	if err := strategy.into(&cfg); err != nil {
		return core.Config{}, err
	}
	if f.Log != "" {
		var level slog.Level
		if err := level.UnmarshalText([]byte(f.Log)); err != nil {
			return core.Config{}, usagef("--log: %v", err)
		}
		f.logTo(a, &cfg, level)
	}
	if err := f.setTLS(&cfg); err != nil {
		return core.Config{}, err
	}
	if !cfg.Auth.Token.Empty() && !cfg.TLS.Enabled {
		return core.Config{}, usagef("--token is sent over TLS only: use couchbases://")
	}
	if a.tune != nil {
		a.tune(&cfg)
	}
	return cfg, nil
}

// setAuth sets who logs in. A token goes before a name and a password of the environment.
func (f *clusterFlags) setAuth(a *app, cfg *core.Config) error {
	token, err := f.secret(a, "the token", f.Token, "COUCHCORE_TOKEN")
	if err != nil {
		return err
	}
	cfg.Auth.AllowPlain = cfg.Auth.AllowPlain || f.AllowPlain
	if token != "" {
		if f.Username != "" || f.Password != "" {
			return usagef("--token excludes --username and --password")
		}
		cfg.Auth.Token = core.NewSecret(token)
		return nil
	}
	cfg.Auth.Username = or(f.Username, a.env("COUCHCORE_USERNAME"))
	password, err := f.secret(a, "the password", f.Password, "COUCHCORE_PASSWORD")
	cfg.Auth.Password = core.NewSecret(password)
	return err
}

// secret is what a flag gives, standard input for -, or the environment.
func (f *clusterFlags) secret(a *app, what, flag, variable string) (string, error) {
	if flag != "-" {
		return or(flag, a.env(variable)), nil
	}
	if a.stdinTaken {
		return "", usagef("standard input cannot be both %s and something else: set %s", what, variable)
	}
	a.stdinTaken = true
	text, err := readLine(a.stdin)
	if err != nil {
		return "", usagef("%s cannot be read: %v", what, err)
	}
	return text, nil
}

func (f *clusterFlags) setTLS(cfg *core.Config) error {
	if f.TLSCA == "" && !f.TLSSkipVerify && f.TLSCert == "" && f.TLSKey == "" {
		return nil
	}
	if !cfg.TLS.Enabled {
		return usagef("--tls-ca, --tls-cert, --tls-key and --tls-skip-verify need TLS: use couchbases://")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.TLS.Config != nil {
		t = cfg.TLS.Config.Clone()
	}
	if f.TLSCA != "" {
		pem, err := os.ReadFile(f.TLSCA)
		if err != nil {
			return usagef("--tls-ca: %v", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return usagef("--tls-ca: %s has no PEM certificate", f.TLSCA)
		}
	}
	if f.TLSCert == "" && f.TLSKey != "" {
		return usagef("--tls-key needs --tls-cert")
	}
	if f.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(f.TLSCert, or(f.TLSKey, f.TLSCert))
		if err != nil {
			return usagef("--tls-cert: %v", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	t.InsecureSkipVerify = f.TLSSkipVerify
	cfg.TLS.Config = t
	return nil
}

// openBucket connects. The caller closes the cluster.
func (f *clusterFlags) openBucket(a *app) (*core.Cluster, *core.Bucket, error) {
	cfg, err := f.config(a)
	if err != nil {
		return nil, nil, err
	}
	return open(&cfg)
}

// openTold is openBucket for commands that have no more to say with -v than the client has.
func (f *clusterFlags) openTold(a *app) (*core.Cluster, *core.Bucket, error) {
	cfg, err := f.config(a)
	if err != nil {
		return nil, nil, err
	}
	f.tell(a, &cfg)
	return open(&cfg)
}

func open(cfg *core.Config) (*core.Cluster, *core.Bucket, error) {
	c, err := core.Open(context.Background(), *cfg)
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	return c, c.Bucket(cfg.Bucket), nil
}

// tell makes a client say on standard error what becomes of its connections, with -v.
func (f *clusterFlags) tell(a *app, cfg *core.Config) {
	if f.Verbose && f.Log == "" {
		f.logTo(a, cfg, slog.LevelDebug)
	}
}

// logTo has a client write its log to standard error.
func (f *clusterFlags) logTo(a *app, cfg *core.Config, level slog.Level) {
	cfg.Observe.Log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// readLine reads all of r up to the first line break.
func readLine(r io.Reader) (string, error) {
	all, err := io.ReadAll(io.LimitReader(r, 64<<10))
	line, _, _ := bytes.Cut(all, []byte("\n"))
	return strings.TrimSuffix(string(line), "\r"), err
}

// or is the first text that is not empty.
func or(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
