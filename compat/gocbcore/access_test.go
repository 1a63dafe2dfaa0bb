package gocbcore_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/mock"
)

// An accessor is the program testdata/access, which uses gocbcore's own API.
type accessor struct{ *talk }

// accessProgram compiles it, with a module in the place of gocbcore's unless it is "".
func accessProgram(t *testing.T, module string) (binary string) {
	t.Helper()
	dir, run := gocbProgram(t, module, readFile(t, "testdata/access/main.go"))
	binary = filepath.Join(dir, "access")
	run("build", "-o", binary, ".")
	return binary
}

// does has the program do something, and wants it to succeed.
func (a accessor) does(t *testing.T, line string) {
	t.Helper()
	require.Equal(t, "ok", a.says(t, line), line)
}

func (a accessor) says(t *testing.T, line string) string {
	t.Helper()
	_, err := fmt.Fprintln(a.in, line)
	require.NoError(t, err)
	return a.line(t)
}

// pemFile writes PEM to a file.
func pemFile(t *testing.T, text []byte) (name string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.pem")
	require.NoError(t, err)
	_, err = f.Write(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return f.Name()
}

// clientCertificate are the files of a certificate by which a client is user, and of its key.
func clientCertificate(t *testing.T, m *mock.Cluster, user string) (cert, key string) {
	t.Helper()
	c, err := m.ClientCertificate(user)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	return pemFile(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})),
		pemFile(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// logins are the connections to the bucket, all of which must be of that user.
func logins(m *mock.Cluster, user string) (ids []uint64, all bool) {
	for _, c := range m.Connections() {
		if c.Bucket == "" {
			continue
		}
		if c.User != user {
			return nil, false
		}
		ids = append(ids, c.Conn)
	}
	return ids, len(ids) > 0
}

// become waits until all connections to the bucket are of that user, and are others than before unless that is nil.
func become(t *testing.T, m *mock.Cluster, user string, before []uint64) (now []uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		ids, all := logins(m, user)
		now = ids
		old := slices.ContainsFunc(before, func(id uint64) bool { return slices.Contains(ids, id) })
		return all && len(ids) >= 2 && !old
	}, 20*time.Second, 10*time.Millisecond, "%v", m.Connections())
	return now
}

// TestSecurityIsReplaced replaces roots, passwords, users, tokens and certificates of clients that are open, by
// gocbcore's own ReconfigureSecurity, Reauthenticate and ForceReconnect, of an agent and of a group of agents.
func TestSecurityIsReplaced(t *testing.T) {
	testkit.RequireInterop(t)
	binary := accessProgram(t, assembled(t, newest()))
	for _, kind := range []string{"agent", "group"} {
		t.Run(kind, func(t *testing.T) { replaceSecurity(t, binary, kind) })
	}
}

func replaceSecurity(t *testing.T, binary, kind string) {
	t.Helper()
	stranger := mock.Start(t, mock.Nodes(1), mock.TLS())
	m := mock.Start(t, mock.Nodes(2), mock.TLS(), mock.Bucket("default", 64),
		mock.User("Administrator", "password"), mock.User("other", "secret", "default"),
		mock.Token("t1", "Administrator"), mock.Token("t2", "other"))
	good, bad := pemFile(t, m.CA()), pemFile(t, stranger.CA())

	// Roots: with others the nodes are not trusted, with the right ones the client gets ready.
	a := accessor{talkTo(t, binary, kind, m.TLSConnString(), "password", "", bad)}
	require.NotEqual(t, "ok", a.line(t))
	a.does(t, "roots "+good)
	a.does(t, "set k")
	a.does(t, "management")
	ids := become(t, m, "Administrator", nil)

	// A password: of the same user, of another one, and a wrong one.
	require.NoError(t, m.SetPassword("Administrator", "new"))
	a.does(t, "password "+good+" Administrator new")
	ids = become(t, m, "Administrator", ids)
	a.does(t, "set k")
	a.does(t, "management")
	a.does(t, "password "+good+" other secret")
	become(t, m, "other", ids)
	a.does(t, "set k")

	// Tokens: after a password over new connections, after a token over those that are open.
	a.does(t, "token "+good+" t1")
	ids = become(t, m, "Administrator", nil)
	a.does(t, "set k")
	a.does(t, "management")
	a.does(t, "token "+good+" t2")
	require.Equal(t, ids, become(t, m, "other", nil))
	a.does(t, "set k")

	// Certificates.
	cert, key := clientCertificate(t, m, "Administrator")
	a.does(t, "certificate "+good+" "+cert+" "+key)
	ids = become(t, m, "Administrator", ids)
	a.does(t, "set k")
	a.does(t, "management")

	a.does(t, "reconnect")
	become(t, m, "Administrator", ids)
	a.does(t, "set k")

	// Roots that do not trust the nodes any more, and back.
	a.does(t, "roots "+bad)
	require.Contains(t, a.says(t, "management"), "certificate")
	a.does(t, "roots "+good)
	a.does(t, "management")
	a.does(t, "set k")
	a.end(t)
}
