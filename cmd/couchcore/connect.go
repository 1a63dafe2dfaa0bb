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

// connectFlags are those of every command that connects to a cluster.
type connectFlags struct {
	Connect       string        `short:"c" placeholder:"CONNSTR" help:"The cluster, as in couchbase://host1,host2 (default: $COUCHCORE_CONNECT)."`
	Username      string        `short:"u" help:"Who logs in (default: $COUCHCORE_USERNAME)."`
	Password      string        `short:"p" help:"The password; - reads it from standard input, where other users of the machine do not see it (default: $COUCHCORE_PASSWORD)."`
	Bucket        string        `short:"b" help:"The bucket (default: the connection string's, or \"default\")."`
	Scope         string        `help:"The scope (default: _default)."`
	Collection    string        `help:"The collection (default: _default)."`
	Timeout       time.Duration `help:"${timeout}"`
	Retry         string        `default:"fast-fail" placeholder:"STRATEGY" help:"fast-fail, best-effort or @policy.json (default: fast-fail)."`
	MostAttempts  int           `placeholder:"N" help:"The most attempts that a policy file may ask for (default: 5)."`
	TLSCA         string        `name:"tls-ca" placeholder:"FILE" help:"Trust the certificates in this PEM file and no others (default: the system's)."`
	TLSSkipVerify bool          `name:"tls-skip-verify" help:"Do not check the server's certificate (default: no)."`
	AllowPlain    bool          `help:"Allow PLAIN without TLS, and HTTP requests with the password to nodes that only the map names (default: no)."`
	Verbose       bool          `short:"v" help:"Say on standard error how the operation went, or what became of connections (default: no)."`
}

// config makes the client's configuration. Every error of it is one of usage.
func (f *connectFlags) config(a *app) (core.Config, error) {
	connect := or(f.Connect, a.env("COUCHCORE_CONNECT"))
	if connect == "" {
		return core.Config{}, usagef("no cluster: give --connect, or set COUCHCORE_CONNECT")
	}
	cfg, err := core.ParseConnString(connect)
	if err != nil {
		return core.Config{}, usagef("%v", err)
	}
	cfg.Auth.Username = or(f.Username, a.env("COUCHCORE_USERNAME"))
	password := or(f.Password, a.env("COUCHCORE_PASSWORD"))
	if f.Password == "-" {
		if a.stdinTaken {
			return core.Config{},
				usagef("standard input cannot be both the password and the value: set COUCHCORE_PASSWORD")
		}
		if password, err = readLine(a.stdin); err != nil {
			return core.Config{}, usagef("the password cannot be read: %v", err)
		}
	}
	cfg.Auth.Password = core.NewSecret(password)
	cfg.Bucket = or(f.Bucket, cfg.Bucket, "default")
	cfg.Auth.AllowPlain = cfg.Auth.AllowPlain || f.AllowPlain
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
	return cfg, f.setTLS(&cfg)
}

func (f *connectFlags) setTLS(cfg *core.Config) error {
	if f.TLSCA == "" && !f.TLSSkipVerify {
		return nil
	}
	if !cfg.TLS.Enabled {
		return usagef("--tls-ca and --tls-skip-verify need TLS: use couchbases://")
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
	t.InsecureSkipVerify = f.TLSSkipVerify
	cfg.TLS.Config = t
	return nil
}

// openBucket connects. The caller closes the cluster.
func (f *connectFlags) openBucket(a *app) (*core.Cluster, *core.Bucket, error) {
	cfg, err := f.config(a)
	if err != nil {
		return nil, nil, err
	}
	return open(&cfg)
}

// openTold is openBucket for commands that have no more to say with -v than the client has.
func (f *connectFlags) openTold(a *app) (*core.Cluster, *core.Bucket, error) {
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
func (f *connectFlags) tell(a *app, cfg *core.Config) {
	if f.Verbose {
		cfg.Observe.Log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
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
