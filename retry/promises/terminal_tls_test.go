package promises_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// identity is a server's certificate for 127.0.0.1, and a pool that trusts it.
func identity(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// forger signs something else than it is given.
type forger struct{ crypto.Signer }

func (f forger) Sign(r io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	other := append([]byte(nil), digest...)
	other[0] ^= 1
	return f.Signer.Sign(r, other, o)
}

// cleartextNode answers TLS with something else.
type cleartextNode struct{ net.Listener }

func (l cleartextNode) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err == nil {
		_, _ = io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n\r\n")
	}
	return nc, err
}

// tlsForms are all ways in which TLS can refuse: what the client and the server are configured with. The server's is
// nil for one that does not speak TLS.
func tlsForms(t *testing.T) map[string]func(client, server *tls.Config) {
	refuse := func(err error) func(client, _ *tls.Config) {
		return func(client, _ *tls.Config) {
			client.VerifyConnection = func(tls.ConnectionState) error { return err }
		}
	}
	return map[string]func(client, server *tls.Config){
		"untrusted certificate": func(client,
			_ *tls.Config,
		) {
			client.RootCAs = x509.NewCertPool()
		},
		"certificate of another host": func(client,
			_ *tls.Config,
		) {
			client.ServerName = "elsewhere.example.com"
		},
		"expired certificate": func(client,
			_ *tls.Config,
		) {
			client.Time = func() time.Time { return time.Now().AddDate(1, 0, 0) }
		},
		"VerifyConnection refuses":                  refuse(errors.New("not on the list")),
		"VerifyConnection refuses with EOF":         refuse(io.EOF),
		"VerifyConnection refuses with a timeout":   refuse(context.DeadlineExceeded),
		"VerifyConnection refuses as a socket does": refuse(&net.OpError{Op: "read", Err: syscall.ECONNRESET}),
		"VerifyConnection panics": func(client, _ *tls.Config) {
			client.VerifyConnection = func(tls.ConnectionState) error { panic("in the user's callback") }
		},
		"VerifyPeerCertificate refuses": func(client, _ *tls.Config) {
			client.VerifyPeerCertificate = func([][]byte,
				[][]*x509.Certificate,
			) error {
				return errors.New("not on the list")
			}
		},
		"VerifyPeerCertificate panics": func(client, _ *tls.Config) {
			client.VerifyPeerCertificate = func([][]byte,
				[][]*x509.Certificate,
			) error {
				panic("in the user's callback")
			}
		},
		"GetClientCertificate fails": func(client, server *tls.Config) {
			server.ClientAuth = tls.RequireAnyClientCert
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return nil,
					errors.New("no key")
			}
		},
		"GetClientCertificate panics": func(client, server *tls.Config) {
			server.ClientAuth = tls.RequireAnyClientCert
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
				error,
			) {
				panic("in the user's callback")
			}
		},
		"invalid signature, TLS 1.2": func(_, server *tls.Config) {
			server.MaxVersion = tls.VersionTLS12
			server.Certificates[0].PrivateKey = forger{server.Certificates[0].PrivateKey.(crypto.Signer)}
		},
		"invalid signature, TLS 1.3": func(_, server *tls.Config) {
			server.Certificates[0].PrivateKey = forger{server.Certificates[0].PrivateKey.(crypto.Signer)}
		},
		"certificate that cannot be parsed": func(_, server *tls.Config) {
			server.Certificates[0].Certificate = [][]byte{[]byte("no certificate")}
		},
		"protocol version": func(client, server *tls.Config) {
			client.MinVersion, server.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
		},
		"cipher suites": func(client, server *tls.Config) {
			client.MaxVersion, server.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			client.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
			server.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
		},
		"missing client certificate, TLS 1.2": func(_, server *tls.Config) {
			server.ClientAuth, server.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
		},
		"missing client certificate, TLS 1.3": func(_,
			server *tls.Config,
		) {
			server.ClientAuth = tls.RequireAnyClientCert
		},
		"a server that does not speak TLS": nil,
	}
}

// All forms of a failure of TLS are TLS_ERROR, over both protocols that bring cluster maps.
func TestEveryFormOfATLSFailureIsTLSError(t *testing.T) {
	for name, change := range tlsForms(t) {
		t.Run(name, func(t *testing.T) {
			cert, pool := identity(t)
			client, server := &tls.Config{RootCAs: pool}, &tls.Config{Certificates: []tls.Certificate{cert}}
			if change != nil {
				change(client, server)
			}
			for _, bootstrap := range []core.Bootstrap{core.BootstrapKV, core.BootstrapHTTP} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				if change == nil {
					l = cleartextNode{l}
				} else {
					l = tls.NewListener(l, server)
				}
				s := &scripted.Cluster{Features: scripted.AllFeatures()}
				s.AddListener(t, l)
				c := open(t, s, func(cfg *core.Config) {
					cfg.TLS.Config, cfg.Maps.Bootstrap = client, bootstrap
					if bootstrap == core.BootstrapHTTP {
						cfg.Seeds.HTTPHosts, cfg.Seeds.Hosts = cfg.Seeds.Hosts, nil
					}
				})
				_, err = kv.Do(within(t, 5*time.Second), c.Bucket("default"), kv.Get{
					Key:    []byte("k"),
					Common: kv.Common{Timeout: 4 * time.Second},
				})
				require.ErrorIs(t, err, cberr.TLSFailure, bootstrap)
				require.True(t, reasons(t, err).Has(retry.TLSError), bootstrap)
				require.NotErrorIs(t, err, cberr.Timeout, bootstrap)
				require.ErrorIs(t, c.Bucket("default").WaitReady(within(t, 5*time.Second)), cberr.TLSFailure)
			}
		})
	}
}

// A socket that is lost during the handshake says nothing of TLS.
func TestALostSocketIsNoTLSError(t *testing.T) {
	for name, cut := range map[string]func(nc net.Conn){
		"closed": func(nc net.Conn) { _ = nc.Close() },
		"reset":  func(nc net.Conn) { _ = nc.(*net.TCPConn).SetLinger(0); _ = nc.Close() },
		"closed in a record": func(nc net.Conn) {
			_, _ = io.WriteString(nc, "\x16\x03\x03\x00\x50abc")
			_ = nc.Close()
		},
		"closed in its head":   func(nc net.Conn) { _, _ = io.WriteString(nc, "\x16\x03"); _ = nc.Close() },
		"silent until it ends": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			go func() {
				for {
					nc, err := l.Accept()
					if err != nil {
						return
					}
					defer nc.Close()
					_, _ = nc.Read(make([]byte, 4096))
					cut(nc)
				}
			}()
			for _, bootstrap := range []core.Bootstrap{core.BootstrapKV, core.BootstrapHTTP} {
				cfg := core.Config{
					Net:  core.NetConfig{ConnectTimeout: 200 * time.Millisecond, NodeFilter: core.AnyNode},
					TLS:  core.TLSConfig{Enabled: true},
					Maps: core.MapConfig{Bootstrap: bootstrap},
				}
				if cfg.Seeds.Hosts = []string{l.Addr().String()}; bootstrap == core.BootstrapHTTP {
					cfg.Seeds.HTTPHosts, cfg.Seeds.Hosts = cfg.Seeds.Hosts, nil
				}
				_, err = kv.Do(within(t, 5*time.Second), openConfig(t, cfg).Bucket("default"), kv.Get{
					Key:    []byte("k"),
					Common: kv.Common{Timeout: 500 * time.Millisecond},
				})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.NotErrorIs(t, err, cberr.TLSFailure, bootstrap)
				require.NotContains(t, err.Error(), "TLS_ERROR")
			}
		})
	}
}
