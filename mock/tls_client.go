package mock

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"time"
)

var errNoTLS = errors.New("mock: the cluster has no TLS")

// TLSConfig is a client's configuration that trusts the cluster's authority; nil without TLS.
func (c *Cluster) TLSConfig() *tls.Config {
	if c.ca == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.ca.pool()}
}

// ClientCertificate returns a certificate by which a client is user, on the TLS ports of KV and of the services,
// without a password. It is valid for as long as the cluster's own certificates. It fails without TLS.
func (c *Cluster) ClientCertificate(user string) (tls.Certificate, error) {
	if c.ca == nil {
		return tls.Certificate{}, errNoTLS
	}
	cert, err := c.ca.issue(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user},
		NotBefore: c.ca.cert.NotBefore, NotAfter: c.ca.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	return *cert, nil
}

// certified is the account of a client's certificate, nil without one. The caller holds the mutex.
func (c *Cluster) certified(s *tls.ConnectionState) *user {
	if s == nil || len(s.VerifiedChains) == 0 {
		return nil
	}
	return c.users[s.VerifiedChains[0][0].Subject.CommonName]
}

// HTTP2 makes the TLS ports of the services offer HTTP/2 beside HTTP/1.1.
func HTTP2() Option { return func(s *settings) { s.http2 = true } }

// tlsFor is the configuration of a service's TLS port of a node.
func (n *Node) tlsFor(s Service) *tls.Config {
	out := n.c.ca.server.Clone()
	out.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if cert := n.certificate.Load(); cert != nil {
			return cert, nil
		}
		return n.c.ca.leaf, nil
	}
	if s != KVService && n.c.set.http2 {
		out.NextProtos = []string{"h2", "http/1.1"}
	}
	return out
}
