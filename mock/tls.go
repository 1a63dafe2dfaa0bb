package mock

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is the certificate authority of one cluster, the nodes' usual certificate and the configuration of their
// ports.
type authority struct {
	pem    []byte
	cert   *x509.Certificate
	newKey func() (crypto.Signer, error)
	key    crypto.Signer
	leaf   *tls.Certificate
	server *tls.Config
}

// commonKey makes a key of the kind that every client understands.
func commonKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// evenKey makes a key whose signatures have the same length each, so that two runs of a test in virtual time send the
// same number of bytes. Not every client understands it, but those of a network in memory, which are written in Go, do.
func evenKey() (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// newAuthority makes an authority and one certificate for every address that a node can have. now comes from the
// caller's clock, which starts in the year 2000 inside a synctest bubble.
func newAuthority(now time.Time, newKey func() (crypto.Signer, error)) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "couchcore mock authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	a := &authority{
		cert: signed, newKey: newKey, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
	if a.leaf, err = a.issue(a.leafTemplate()); err != nil {
		return nil, err
	}
	a.server = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.pool(), Time: time.Now,
	}
	return a, nil
}

// pool has the authority's certificate alone.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// leafTemplate is the usual certificate of a node.
func (a *authority) leafTemplate() *x509.Certificate {
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "couchcore mock node"},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for i := range maxNodes {
		leaf.IPAddresses = append(leaf.IPAddresses, net.IPv4(10, 0, 0, byte(i+1)))
	}
	return leaf
}

// issue signs a certificate with a key of its own.
func (a *authority) issue(template *x509.Certificate) (*tls.Certificate, error) {
	key, err := a.newKey()
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Certificate is a kind of certificate that a node shows on its TLS ports.
type Certificate uint8

// The kinds of certificates. All but the first and the last make a client that verifies its servers refuse the node.
const (
	GoodCertificate           Certificate = iota
	ExpiredCertificate                    // has ended an hour ago
	FutureCertificate                     // begins in an hour
	OtherNameCertificate                  // is for elsewhere.example
	OtherAuthorityCertificate             // is signed by an authority that Cluster.CA does not have
	RotatedCertificate                    // is a new one, as good as the first
)

// SetCertificate lets nodes show a certificate of a kind to connections that begin from now on, on all of their TLS
// ports; without node numbers it is all nodes that there are. It fails without TLS.
func (c *Cluster) SetCertificate(kind Certificate, nodes ...int) error {
	if c.ca == nil {
		return errNoTLS
	}
	cert, err := c.ca.ofKind(kind, time.Now())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.orAll(nodes) {
		n, err := c.node(i)
		if err != nil {
			return err
		}
		n.certificate.Store(cert)
	}
	return nil
}

// ofKind issues a certificate of a kind.
func (a *authority) ofKind(kind Certificate, now time.Time) (*tls.Certificate, error) {
	template := a.leafTemplate()
	switch kind {
	case GoodCertificate:
		return a.leaf, nil
	case ExpiredCertificate:
		template.NotBefore, template.NotAfter = now.Add(-48*time.Hour), now.Add(-time.Hour)
	case FutureCertificate:
		template.NotBefore = now.Add(time.Hour)
	case OtherNameCertificate:
		template.DNSNames, template.IPAddresses = []string{"elsewhere.example"}, nil
	case OtherAuthorityCertificate:
		other, err := newAuthority(now, a.newKey)
		if err != nil {
			return nil, err
		}
		return other.leaf, nil
	case RotatedCertificate:
		template.SerialNumber = big.NewInt(now.UnixNano())
	default:
		return nil, fmt.Errorf("mock: unknown kind of certificate %d", kind)
	}
	return a.issue(template)
}
