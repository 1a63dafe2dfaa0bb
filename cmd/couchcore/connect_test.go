package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

func TestATokenLogsIn(t *testing.T) {
	m := brokenMock(t, mock.TLS(), mock.User("jwt", "x"), mock.Token("sesame-token", "jwt"))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, m.CA(), 0o600))
	at := []string{"wait", "-c", m.TLSConnString(), "--tls-ca", ca, "--timeout", "10s"}
	require.Zero(t, couchcore(append(at, "--token", "sesame-token")...).code)
	require.Zero(t, cmd{stdin: "sesame-token\n"}.run(append(at, "--token", "-")...).code)
	require.Zero(t, cmd{env: map[string]string{"COUCHCORE_TOKEN": "sesame-token"}}.run(at...).code)
	r := couchcore(append(at, "--token", "sesame-wrong")...)
	require.Equal(t, exitFailed, r.code, r.stderr)
	require.Contains(t, r.stderr, "the login is refused, wrong credentials")
	require.NotContains(t, r.stdout+r.stderr, "sesame")
	couchcore(append(at, "--token", "x", "-u", "u")...).failsWith(t, exitUsage, "--token excludes")
	couchcore("wait", "-c", m.ConnString(), "--token", "x").failsWith(t, exitUsage, "TLS")
}

func TestAClientCertificateIsRead(t *testing.T) {
	cert, ca := certFor(t, "client", time.Now().Add(time.Hour))
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	f := clusterFlags{Connect: "couchbases://h", TLSCert: ca, TLSKey: key, Retry: "fast-fail"}
	a := newApp(nil, nil, nil, func(string) string { return "" })
	cfg, err := f.config(a)
	require.NoError(t, err)
	require.Len(t, cfg.TLS.Config.Certificates, 1)

	couchcore("ping", "-c", "couchbases://h", "--tls-cert", ca).failsWith(t, exitUsage, "--tls-cert")
	couchcore("ping", "-c", "couchbases://h", "--tls-key", key).failsWith(t, exitUsage, "--tls-key needs --tls-cert")
	couchcore("ping", "-c", "couchbase://h", "--tls-cert", ca).failsWith(t, exitUsage, "need TLS")
}

func TestTheLogHasALevel(t *testing.T) {
	_, c := startMock(t)
	require.Contains(t, c.run("kv", "get-or-null", "k", "--log", "debug").stderr, "level=INFO")
	require.NotContains(t, c.run("kv", "get-or-null", "k", "--log", "error").stderr, "level=INFO")
	require.Empty(t, c.run("kv", "get-or-null", "k").stderr)
	c.run("kv", "get-or-null", "k", "--log", "loud").failsWith(t, exitUsage, "--log")
}

// A command's help has no flag that the command refuses.
func TestHelpHasNoFlagThatIsRefused(t *testing.T) {
	for command, flags := range map[string][]string{
		"ping": {"scope", "collection"}, "wait": {"scope", "collection"}, "diagnostics": {"scope", "collection"},
		"doctor": {"scope", "collection"}, "hash": {"scope", "collection"}, "view": {"scope", "collection"},
		"query": {"collection"}, "analytics": {"collection"}, "search": {"collection"},
	} {
		help := couchcore(command, "--help").stdout
		for _, f := range flags {
			require.NotContains(t, help, "--"+f+"=", command)
			couchcore(command, "--"+f, "x").failsWith(t, exitUsage, "unknown flag --"+f)
		}
	}
}
