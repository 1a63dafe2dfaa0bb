package mock

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// ClientCertificate returns a certificate by which a client is user, on the TLS ports of KV and of the services,
// without a password. It is valid for as long as the cluster's own certificates. It fails without TLS.
func (c *Cluster) ClientCertificate(user string) (tls.Certificate, error) {
	if c.ca == nil {
		return tls.Certificate{}, fmt.Errorf("mock: the cluster has no TLS")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("mock: certificate: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user},
		NotBefore: c.ca.cert.NotBefore, NotAfter: c.ca.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.ca.cert, &key.PublicKey, c.ca.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("mock: certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
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

// tlsFor is the configuration of a service's TLS port.
func (c *Cluster) tlsFor(s Service) *tls.Config {
	if s == KVService || !c.set.http2 {
		return c.ca.server
	}
	out := c.ca.server.Clone()
	out.NextProtos = []string{"h2", "http/1.1"}
	return out
}
