package bench

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// clusterSizes are the clusters that the responder plays, each with listeners of its own.
var clusterSizes = [...]int{1, 3, 20, 100}

// node is where a node of a cluster listens.
type node struct {
	Cleartext string `json:"plain"`
	TLS       string `json:"tls"`
	Query     string `json:"query"` // the same for all
}

// clusters are the nodes of each cluster, by its size, as the responder tells its parent.
type clusters struct {
	Nodes map[string][]node `json:"nodes"`
	CA    string            `json:"ca"` // the certificate, as PEM
}

// listening is what listen has opened so far.
type listening struct {
	r     *responder
	tls   *tls.Config
	open  []net.Listener
	conns sync.Map
	wg    sync.WaitGroup
}

// listen opens all clusters. The sessions end with their sockets, and the sockets with the process or with closeAll.
func (r *responder) listen() (where clusters, closeAll func(), err error) {
	cert, ca, err := certificate()
	if err != nil {
		return where, nil, err
	}
	l := &listening{r: r, tls: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	where = clusters{Nodes: map[string][]node{}, CA: ca}
	query, err := l.query()
	for i := 0; i < len(clusterSizes) && err == nil; i++ {
		n := clusterSizes[i]
		where.Nodes[strconv.Itoa(n)], err = l.cluster(n, query)
	}
	if err != nil {
		l.close()
		return where, nil, err
	}
	return where, l.close, nil
}

func (l *listening) close() {
	for _, o := range l.open {
		o.Close()
	}
	l.conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
	l.wg.Wait()
}

func (l *listening) socket() (net.Listener, error) {
	s, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for on the loopback interface
	if err == nil {
		l.open = append(l.open, s)
	}
	return s, err
}

// cluster opens two listeners for each of n nodes.
func (l *listening) cluster(n int, query string) ([]node, error) {
	nodes := make([]node, n)
	var cleartext, secure []net.Listener
	for i := range nodes {
		p, err := l.socket()
		if err != nil {
			return nil, err
		}
		s, err := l.socket()
		if err != nil {
			return nil, err
		}
		cleartext, secure = append(cleartext, p), append(secure, s)
		nodes[i] = node{p.Addr().String(), s.Addr().String(), query}
	}
	for i := range nodes {
		pace := &pacer{}
		l.accept(cleartext[i], func(nc net.Conn) net.Conn { return nc }, nodes, i, pace)
		l.accept(secure[i], func(nc net.Conn) net.Conn { return tls.Server(nc, l.tls) }, nodes, i, pace)
	}
	return nodes, nil
}

// accept has a session for each connection, until the listener is closed.
func (l *listening) accept(from net.Listener, wrap func(net.Conn) net.Conn, nodes []node, i int, pace *pacer) {
	l.wg.Go(func() {
		for {
			c, err := from.Accept()
			if err != nil {
				return
			}
			l.conns.Store(c, nil)
			l.wg.Go(func() {
				defer l.conns.Delete(c)
				defer c.Close()
				s := &session{r: l.r, nc: wrap(c), node: i, nodes: nodes, mode: modeCleartext, pace: pace}
				s.serve()
			})
		}
	})
}

// Rows of the query service: a statement's answer is a mebibyte of them.
const (
	queryRows = 1024
	queryRow  = 1024
)

// query opens the query service: it gives the same prepared rows to whatever it is asked.
func (l *listening) query() (string, error) {
	s, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for on the loopback interface
	if err != nil {
		return "", err
	}
	body := queryAnswer()
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body) // a client that has gone needs no answer
		}),
	}
	l.open = append(l.open, closer{s, server})
	l.wg.Go(func() { _ = server.Serve(s) })
	return s.Addr().String(), nil
}

// closer closes a server's connections with its listener.
type closer struct {
	net.Listener
	server *http.Server
}

func (c closer) Close() error { return errors.Join(c.server.Close(), c.Listener.Close()) }

func queryAnswer() []byte {
	var b bytes.Buffer
	b.WriteString(`{"requestID":"00000000-0000-0000-0000-000000000001","signature":{"*":"*"},"results":[` + "\n")
	for i := range queryRows {
		row := fmt.Sprintf(`%s{"id":"%06d","type":"airline","active":true,"score":%d.5,"tags":["a","b \"c\""],"text":"`,
			comma(i), i, i)
		b.WriteString(row)
		b.Write(value(queryRow - len(row) - len("\"}\n")))
		b.WriteString("\"}\n")
	}
	b.WriteString(`],"status":"success","metrics":{"elapsedTime":"1ms","executionTime":"1ms","resultCount":1024,` +
		`"resultSize":1048576,"serviceLoad":1}}`)
	return b.Bytes()
}

// certificate is one for 127.0.0.1 that signs itself.
func certificate() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(text), nil
}

// clusterMap is a map of all vbuckets, without replicas, as small as the clients accept it. One of them takes no map
// without management ports, so there is one, where nothing listens.
func clusterMap(m mode, nodes []node, self int) []byte {
	port := func(addr string) string {
		_, p, _ := net.SplitHostPort(addr) // our own addresses
		return p
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		`{"rev":1,"revEpoch":1,"name":%q,"uuid":"00000000000000000000000000000001","nodeLocator":"vbucket","nodes":[`,
		m)
	for i, n := range nodes {
		fmt.Fprintf(&b, `%s{"hostname":"127.0.0.1:8091","ports":{"direct":%s}}`, comma(i), port(n.Cleartext))
	}
	b.WriteString(`],"nodesExt":[`)
	for i, n := range nodes {
		query, this := "", ""
		if m == modeQuery {
			query = `,"n1ql":` + port(n.Query)
		}
		if i == self {
			this = `,"thisNode":true`
		}
		fmt.Fprintf(&b, `%s{"services":{"kv":%s,"kvSSL":%s,"mgmt":8091,"mgmtSSL":18091%s},"hostname":"127.0.0.1"%s}`,
			comma(i), port(n.Cleartext), port(n.TLS), query, this)
	}
	b.WriteString(`],"bucketCapabilitiesVer":"",` +
		`"bucketCapabilities":["collections","durableWrite","cbhello","cccp","nodesExt","xattr"],` +
		`"vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,"serverList":[`)
	for i, n := range nodes {
		fmt.Fprintf(&b, `%s"%s"`, comma(i), n.Cleartext)
	}
	b.WriteString(`],"vBucketMap":[`)
	for vb := range vbuckets {
		fmt.Fprintf(&b, "%s[%d]", comma(vb), nodeOf(uint16(vb), len(nodes)))
	}
	b.WriteString("]}}")
	return []byte(b.String())
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
