package mock

import (
	"crypto/ecdsa"
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

// authority is the certificate authority of one cluster and the configuration of its servers.
type authority struct {
	pem    []byte
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	server *tls.Config
}

// newAuthority makes an authority and one certificate for every address that a node can have. now comes from the
// caller's clock, which starts in the year 2000 inside a synctest bubble.
func newAuthority(now time.Time) (*authority, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "couchcore mock authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "couchcore mock node"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for i := range maxNodes {
		leaf.IPAddresses = append(leaf.IPAddresses, net.IPv4(10, 0, 0, byte(i+1)))
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	signed, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, fmt.Errorf("mock: certificate: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(signed)
	return &authority{
		cert: signed, key: caKey,
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		server: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}},
			ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: clients, Time: time.Now,
		},
	}, nil
}
