package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
)

// brokenMock is a mock cluster of two nodes with small buckets.
func brokenMock(t *testing.T, opts ...mock.Option) *mock.Cluster {
	t.Helper()
	return mock.Start(t, append([]mock.Option{mock.Nodes(2), mock.VBuckets(16)}, opts...)...)
}

// to connects to an address as the administrator.
func to(scheme, addr string, more ...string) []string {
	return login(append([]string{"-c", scheme + "://" + addr}, more...)...)
}

// notConnected is how a sentence about a node begins, as a pattern.
func notConnected(addr string) string { return "node " + at(addr) + " is not connected: " }

// keyOn is a key whose active copy a node has.
func keyOn(t *testing.T, m *mock.Cluster, addr string) string {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	c, err := core.Open(context.Background(), cfg)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx))
	for i := range 10_000 {
		key := "k" + strings.Repeat("x", i%7) + string(rune('a'+i%26))
		if _, nodes, ok := b.Locate([]byte(key)); ok && nodes[0] == addr {
			return key
		}
	}
	t.Fatal("no key")
	return ""
}

// certFor is a certificate for a host until a time, and the file that makes it trusted.
func certFor(t *testing.T, host string, until time.Time) (cert tls.Certificate, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "own"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
	}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca
}

// serveTLS is a node that shows a certificate, and ends.
func serveTLS(t *testing.T, host string, until time.Time) (addr, ca string) {
	t.Helper()
	cert, ca := certFor(t, host, until)
	return serve(t, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	}, func(nc net.Conn) { _, _ = io.CopyN(io.Discard, nc, 1) }), ca
}

// dialFails is a resolver that fails for every name.
func dialFails(err error) func(*core.Config) {
	return func(cfg *core.Config) {
		cfg.Net.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
	}
}

func noHost(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// everything answers all requests of these opcodes with a status.
func everything(m *mock.Cluster, st memd.Status, ops ...memd.Opcode) {
	m.Inject(mock.Match{Opcodes: ops}, mock.Status(st))
}

// brokenSetUps are the set-ups by name.
var brokenSetUps = map[string]func(*testing.T) brokenSetUp{
	"a node is dead": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		key, dead := keyOn(t, m, m.Node(1).Addr()), m.Node(1).Addr()
		require.NoError(t, m.Kill(1))
		text := notConnected(dead) + "connection refused"
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()), data: []string{"kv", "get", key}, says: text, ready: text,
			doctor: "FAIL nodes .*" + at(dead) + ": connection refused what to change nothing listens there",
		}
	},
	"nothing listens": func(*testing.T) brokenSetUp {
		const gone = "127.0.0.1:1" // a free port may be that of another set-up in a moment
		text := notConnected(gone) + "connection refused"
		return brokenSetUp{
			args: to("couchbase", gone), says: text, ready: text,
			doctor: "FAIL TCP " + at(gone) + ": connection refused .*nothing listens there",
		}
	},
	"the port is HTTP's": func(t *testing.T) brokenSetUp {
		addr := brokenMock(t).Node(0).ManagementAddr()
		text := notConnected(addr) + "HELLO: the port speaks HTTP, not the key-value protocol"
		return brokenSetUp{
			args: to("couchbase", addr), says: text, ready: text,
			doctor: "FAIL HELLO .*the port speaks HTTP.* leave the port out",
		}
	},
	"the port is TLS's": func(t *testing.T) brokenSetUp {
		addr := brokenMock(t, mock.TLS()).Node(0).TLSAddr()
		text := notConnected(addr) + "HELLO: the port speaks TLS, and the connection is not encrypted"
		return brokenSetUp{
			args: to("couchbase", addr), says: text, ready: text,
			doctor: "FAIL HELLO .*the port speaks TLS.* write couchbases://",
		}
	},
	"the port is not TLS's": func(t *testing.T) brokenSetUp {
		addr := brokenMock(t).Node(0).Addr()
		text := notConnected(addr) + "TLS: .*the port (may|does) not speak TLS"
		return brokenSetUp{
			args: to("couchbases", addr), says: text, ready: text,
			doctor: "FAIL TLS .*that port seems not to speak TLS",
		}
	},
	"the port is HTTP's, and TLS is wanted": func(t *testing.T) brokenSetUp {
		addr := brokenMock(t).Node(0).ManagementAddr()
		text := notConnected(addr) + "TLS: the port speaks HTTP without TLS"
		return brokenSetUp{
			told: true,
			args: to("couchbases", addr), says: text, ready: text,
			doctor: "FAIL TLS .*that port seems not to speak TLS",
		}
	},
	"the port speaks something else": func(t *testing.T) brokenSetUp {
		addr := serve(t, nil, func(nc net.Conn) { _, _ = io.WriteString(nc, "SSH-2.0-OpenSSH_9.7 and more\r\n") })
		text := notConnected(addr) + "HELLO: the port speaks a protocol that the client does not know"
		return brokenSetUp{
			args: to("couchbase", addr), says: text, ready: text, doctor: "FAIL HELLO .*not a key-value service",
		}
	},
	"the port hangs up": func(t *testing.T) brokenSetUp {
		addr := serve(t, nil, func(nc net.Conn) { _, _ = io.CopyN(io.Discard, nc, 1) })
		text := notConnected(addr) + "HELLO: the other end has closed the connection without an answer"
		return brokenSetUp{
			args: to("couchbase", addr), says: text, ready: text,
			doctor: "FAIL HELLO .*the server closed the connection instead of answering",
		}
	},
	"a host is silent": func(t *testing.T) brokenSetUp {
		addr := serve(t, nil, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
		text := notConnected(addr) + "the attempt to connect is under way, without an answer for"
		return brokenSetUp{
			args: to("couchbase", addr), says: text, ready: text,
			doctor: "FAIL HELLO .*no answer in time .*nothing comes back",
		}
	},
	"the authority is unknown": func(t *testing.T) brokenSetUp {
		m := brokenMock(t, mock.TLS())
		addr := m.Node(0).TLSAddr()
		text := notConnected(addr) + "TLS: .*certificate signed by unknown authority"
		return brokenSetUp{
			told: true,
			args: to("couchbases", addr), says: text, ready: text,
			doctor: "FAIL TLS .*unknown authority .*give the certificate of",
		}
	},
	"the certificate is for another host": func(t *testing.T) brokenSetUp {
		addr, ca := serveTLS(t, "db.example.com", time.Now().Add(time.Hour))
		text := notConnected(addr) + "TLS: .*certificate .*127.0.0.1"
		return brokenSetUp{
			told: true,
			args: to("couchbases", addr, "--tls-ca", ca), says: text, ready: text,
			doctor: "FAIL TLS .*connect to a name that the certificate is for: db.example.com",
		}
	},
	"the certificate has expired": func(t *testing.T) brokenSetUp {
		addr, ca := serveTLS(t, "127.0.0.1", time.Now().Add(-time.Hour))
		text := notConnected(addr) + "TLS: .*certificate has expired"
		return brokenSetUp{
			told: true,
			args: to("couchbases", addr, "--tls-ca", ca), says: text, ready: text,
			doctor: "FAIL TLS .*expired .*renew the certificate, or correct the clock",
		}
	},
	"the password is wrong": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		text := notConnected(m.Node(0).Addr()) + "the login is refused, wrong credentials: " +
			"SASL_STEP answered 0x20 AUTH_ERROR"
		return brokenSetUp{
			told: true,
			args: []string{"-c", "couchbase://" + m.Node(0).Addr(), "-u", mock.DefaultUser, "-p", "sesame"},
			says: "get: authentication failure .*" + text, ready: "^not ready, because: " + text,
			doctor: "FAIL authentication .*wrong credentials.*check --username",
		}
	},
	"no credentials": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		text := `no credentials are given, and the bucket "default" needs some, or does not exist`
		return brokenSetUp{
			told: true,
			args: []string{"-c", "couchbase://" + m.Node(0).Addr()}, says: text, ready: text,
			doctor: "FAIL bucket .*" + text,
		}
	},
	"no common mechanism": func(t *testing.T) brokenSetUp {
		m := brokenMock(t, mock.Mechanisms("PLAIN"))
		text := `no common authentication mechanism: the server offers \[PLAIN\]`
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()), says: text, ready: text,
			doctor: "FAIL authentication .*" + text + ".*the server takes PLAIN only",
		}
	},
	"the bucket does not exist": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		text := `the bucket "nosuch" does not exist, or is not ready on this node: SELECT_BUCKET "nosuch" answered 0x01`
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr(), "-b", "nosuch"), says: text, ready: text,
			doctor: "FAIL bucket .*" + text + ".*check --bucket, or create it",
		}
	},
	"the bucket is not the user's": func(t *testing.T) brokenSetUp {
		m := brokenMock(t, mock.User("reader", "sesame", "other"), mock.Bucket("default", 16), mock.Bucket("other", 16))
		text := `the user may not use the bucket "default", or it does not exist: SELECT_BUCKET "default" answered 0x24`
		return brokenSetUp{
			told: true,
			args: []string{"-c", "couchbase://" + m.Node(0).Addr(), "-u", "reader", "-p", "sesame"}, says: text,
			ready: text, doctor: "FAIL bucket .*" + text + ".*give the user reader a role",
		}
	},
	"no addresses on the network": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		text := `no data node of it has an address without TLS on the network "external"`
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()+"?network=external"), says: text, ready: text,
			doctor: `FAIL config the nodes have no addresses on the network "external" .*leave \?network= out`,
		}
	},
	"the map cannot be read": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		rewriteMap(m, func(string) string { return "{" })
		text := "the cluster map from " + at(m.Node(0).Addr()) + " is not used: cluster map: "
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()+"?bootstrap_on=cccp"), says: text, ready: text,
			doctor: "FAIL config .*cluster map: .*something in between",
		}
	},
	"the map is another bucket's": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		rewriteMap(m, func(s string) string { return strings.Replace(s, `"name":"default"`, `"name":"other"`, 1) })
		text := "the cluster map from " + at(m.Node(0).Addr()) + ` is not used: it is of the bucket "other"`
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()+"?bootstrap_on=cccp"), says: text, ready: text,
			doctor: `FAIL documents .*it is of the bucket "other"`,
		}
	},
	"no node gives a map": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		everything(m, memd.StatusUnknownCommand, memd.OpGetClusterConfig)
		text := "no node has given a cluster map"
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()+"?bootstrap_on=cccp"), says: text, ready: text,
			doctor: "FAIL config no host gives a cluster map",
		}
	},
	"the host does not exist": func(*testing.T) brokenSetUp {
		text := `node db.example.com:11210 is not connected: the host name "db.example.com" does not exist`
		return brokenSetUp{
			args: to("couchbase", "db.example.com"), says: text, ready: text,
			hooks: doctorHooks{resolver: names{}},
			tune: func(cfg *core.Config) {
				dialFails(noHost("db.example.com"))(cfg)
				cfg.Seeds.Resolver = names{}
			},
			doctor: "FAIL DNS db.example.com cannot be looked up: .*check the spelling",
		}
	},
	"the SRV record is not answered": func(*testing.T) brokenSetUp {
		text := `the DNS SRV record _couchbase._tcp.db.example.com cannot be looked up: server misbehaving`
		failing := names{err: errors.New("server misbehaving")}
		return brokenSetUp{
			args: to("couchbase", "db.example.com"), says: text, ready: text,
			hooks: doctorHooks{resolver: failing},
			tune: func(cfg *core.Config) {
				dialFails(noHost("db.example.com"))(cfg)
				cfg.Seeds.Resolver = failing
			},
			doctor: "FAIL DNS the SRV record _couchbase._tcp.db.example.com cannot be looked up: server misbehaving",
		}
	},
	"the server is too old": func(t *testing.T) brokenSetUp {
		s := scripted.New(t, 1)
		s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
			switch p.Opcode {
			case memd.OpHello, memd.OpSelectBucket, memd.OpGetErrorMap, memd.OpGetClusterConfig:
				s.Reply(p, memd.StatusUnknownCommand, nil, nil)
				return true
			}
			return false
		})
		addr := s.Nodes[0].Addr()
		text := notConnected(addr) + "the server is too old, or not a Couchbase server: it does not " +
			"know buckets"
		return brokenSetUp{
			args: []string{"-c", "couchbase://" + addr + "?bootstrap_on=cccp"}, says: text, ready: text,
			doctor: "FAIL HELLO .*0x81 UNKNOWN_COMMAND.*the server is too old, or not a Couchbase server",
		}
	},
	"no node holds documents": func(t *testing.T) brokenSetUp {
		s := scripted.New(t, 1)
		s.Map = func(n *scripted.Node, bucket string) []byte {
			return s.Render(scripted.Spec{
				Bucket: bucket, Services: func(*scripted.Node) string { return `{"mgmt":1,"n1ql":1}` },
				NoMap: true,
			})
		}
		return brokenSetUp{
			args:   []string{"-c", "couchbase://" + s.Nodes[0].Addr() + "?bootstrap_on=cccp"},
			says:   "no node of the cluster map runs the key-value service",
			ready:  "not ready in time, because: no node of the cluster map runs the key-value service",
			doctor: "FAIL nodes no node of the map has a key-value port",
		}
	},
	"no node runs the query service": func(t *testing.T) brokenSetUp {
		m := brokenMock(t, mock.Services(mock.KVService, mock.ManagementService))
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()), data: []string{"query", "SELECT 1"},
			says:   "no node of the cluster map offers the service",
			doctor: "services kv 2 of 2, mgmt 2 of 2; no node offers query, search, analytics, views",
		}
	},
	"no durable writes": func(t *testing.T) brokenSetUp {
		m := brokenMock(t, mock.WithoutFeatures(memd.FeatureSyncReplication, memd.FeatureAltRequest))
		return brokenSetUp{
			told: true,
			args: to("couchbase", m.Node(0).Addr()),
			data: []string{"kv", "upsert", "k", "v", "--durability", "majority"},
			says: "feature not available", doctor: "warn HELLO .*no durable writes",
		}
	},
	"everything is a temporary failure": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		everything(m, memd.StatusTmpFail, memd.OpGet, memd.OpSet)
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()), says: "status 0x86 ETMPFAIL",
			doctor: "FAIL documents .*a write failed: .*0x86 ETMPFAIL.*memory quota",
		}
	},
	"a node swallows requests": func(t *testing.T) brokenSetUp {
		m := brokenMock(t)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet, memd.OpSet}}, mock.Drop())
		return brokenSetUp{
			args: to("couchbase", m.Node(0).Addr()), says: "timeout on .*waiting for the answer",
			doctor: "FAIL documents .*a write failed: .*takes the request and does not answer",
		}
	},
}
