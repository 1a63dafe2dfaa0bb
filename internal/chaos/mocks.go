package chaos

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// mockOptions are those of a node's process that holds a mock of its own, in rounds whose scenario says so. Each
// process has the same cluster, of whose nodes it runs one: the cluster map gives the addresses of the others'
// processes. What it has executed is in its journal, which outlives it. Its documents do not.
type mockOptions struct {
	Node    int        `json:"node"`
	Ports   [nodes]int `json:"ports"` // the first port of each node's process; the next one is with TLS
	Journal string     `json:"journal"`
	Cert    []byte     `json:"cert"` // in PEM
	Key     []byte     `json:"key"`
}

// mockDelay is how late most answers of such a mock are, so that many mutations are in the journal and not answered
// when its process is killed.
const mockDelay = 5 * time.Millisecond

// holdMock starts the mock of this process, and gives the listeners for TLS their certificate.
func (n *node) holdMock() (*mock.Cluster, error) {
	o := n.o.Mock
	cert, err := tls.X509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, err
	}
	n.secure = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	m, err := mock.New(append(clusterOptions(), mock.Seed(1), mock.Journal(journal))...)
	if err != nil {
		return nil, err
	}
	for i, first := range o.Ports {
		err := m.SetAlternateAddress(i, &mock.AlternateAddress{
			Hostname: "127.0.0.1", Ports: map[string]int{"kv": first, "kvSSL": first + 1},
		})
		if err != nil {
			return nil, err
		}
	}
	m.Inject(mock.Match{Opcodes: documents, Probability: 0.8, Seed: 1}, mock.DelayReply(mockDelay))
	for i := range n.o.Ports {
		n.o.Ports[i].To = m.Node(o.Node).Addr()
	}
	return m, nil
}

// buildMocks starts the processes of a round whose nodes are mocks of their own.
func (rd *round) buildMocks() (err error) {
	if rd.journals, err = os.MkdirTemp("", "couchcore-chaos-"); err != nil {
		return err
	}
	cert, key, err := certificate()
	if err != nil {
		return err
	}
	rd.ca = string(cert)
	var ports [nodes]int
	for i := range rd.nodes {
		for ports[i] == 0 || slices.Contains(ports[:i], ports[i]) {
			if rd.nodes[i], err = rd.pick([2]string{}); err != nil {
				return err
			}
			ports[i] = portOf(rd.nodes[i].o.Ports[0].Listen)
		}
	}
	for i, n := range rd.nodes {
		n.o.Mock = &mockOptions{
			Node: i, Ports: ports, Journal: filepath.Join(rd.journals, strconv.Itoa(i)), Cert: cert, Key: key,
		}
		if err := rd.restart(n); err != nil {
			return err
		}
	}
	return nil
}

// applied is what the nodes have executed, by the log of the cluster or by the journals.
func (rd *round) applied() (all []mock.Applied, err error) {
	if rd.m != nil {
		if err := rd.m.Close(); err != nil { // what its nodes have begun is executed
			return nil, err
		}
		return rd.m.ApplyLog(bucketName), nil
	}
	for _, n := range rd.nodes {
		text, err := os.ReadFile(n.o.Mock.Journal)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			var e mock.Entry
			// A process that is killed may cut a line, which the next one's first line follows, of what it receives.
			if json.Unmarshal(line, &e) == nil && e.What == mock.EntryApplied {
				all = append(all, mock.Applied{Key: e.Key}) // each call of such a round writes a document of its own
			}
		}
	}
	return all, nil
}

// certificate is one of its own authority for the address that all processes have, with its key, in PEM.
func certificate() (cert, key []byte, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "chaos"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, secret.Public(), secret)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), nil
}
