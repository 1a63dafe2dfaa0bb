package conn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
)

// certified are the two sides of TLS for the host "peer".
func certified(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"peer"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), // bubbles begin in the year 2000
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	curves := []tls.CurveID{tls.X25519} // the fastest: there are thousands of handshakes
	server = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true,
		MinVersion: tls.VersionTLS13, CurvePreferences: curves,
	}
	return server, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13, CurvePreferences: curves}
}

// records is a socket below TLS. When it is armed, it lets the first write through, during which it calls hook. Of the
// writes after that it takes limit bytes and passes them on; then it fails: with the write that reaches the limit if it
// is hasty, although that may have gone through whole, and otherwise with the one that goes beyond it.
type records struct {
	net.Conn
	limit int
	hasty bool
	hook  func()

	armed atomic.Bool
	begun bool
	ends  []int // of the writes, as TLS made them
	taken int
}

func (r *records) Write(b []byte) (int, error) {
	if !r.armed.Load() {
		return r.Conn.Write(b)
	}
	if !r.begun {
		r.begun = true
		r.hook()
		return r.Conn.Write(b)
	}
	if r.taken == r.limit {
		return 0, errBroken
	}
	r.ends = append(r.ends, r.taken+len(b))
	n, err := r.Conn.Write(b[:min(len(b), r.limit-r.taken)])
	if r.taken += n; err == nil && (n < len(b) || r.hasty && r.taken == r.limit) {
		err = errBroken
	}
	return n, err
}

// brokenRecords sends a batch of mixed requests over TLS, whose socket fails after limit bytes; one that does not is
// closed. It gives the verdicts, what the peer could read, and where the records of the batch end.
func brokenRecords(t *testing.T, server, client *tls.Config, limit int, hasty bool,
) (v *verdicts, executed map[string]bool, ends []int) {
	near, far := net.Pipe()
	defer time.AfterFunc(time.Second, func() { _ = near.Close() }).Stop() // of virtual time: all are waiting then
	var text []byte
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		text, _ = io.ReadAll(tls.Server(far, server)) // up to a record that is not whole
		_, _ = io.Copy(io.Discard, far)
	}()
	v = newVerdicts()
	r := &records{Conn: near, limit: limit, hasty: hasty}
	d := &dispatcher{base: time.Now(), pool: make(chan *call.Call, 1)}
	o := over(r)
	o.TLS = client
	cn, err := conn.Connect(t.Context(), "peer:1", &conn.Options{Options: o, Base: d.base, Handler: v})
	require.NoError(t, err)
	d.cn = cn
	var fs []func()
	once := make(chan struct{})
	r.hook = func() {
		defer close(once)
		for i := range 32 {
			fs = append(fs, begin(t, d, i%3, fmt.Appendf(nil, "key-%02d", i), 3*i))
		}
	}
	r.armed.Store(true)
	serveUntilLost(t, d, once)
	for _, wait := range fs {
		wait()
	}
	_ = near.Close()
	<-heard
	return v, keys(t, text), r.ends
}

// The same over TLS, for every number of bytes of the records: a request is in flight when the socket has taken the
// record that it ends in, and unsent when it has not, because nothing reads a record that is not whole. crypto/tls
// counts the records that were written without an error. A socket that has taken one whole, and fails all the same, is
// one more case for each record.
func TestD38FailedWriteOverTLSIsJudgedByRecord_D235(t *testing.T) {
	server, client := certified(t)
	synctest.Test(t, func(t *testing.T) {
		_, _, ends := brokenRecords(t, server, client, 1<<20, false)
		require.Greater(t, len(ends), 1, "the batch has several records")
		size, inFlight, unsent := slices.Max(ends), 0, 0
		judge := func(k int, hasty bool) {
			v, executed, _ := brokenRecords(t, server, client, k, hasty)
			for i := range 32 {
				key := fmt.Sprintf("key-%02d", i)
				if executed[key] != v.lost[key] || executed[key] == v.unsent[key] {
					t.Fatalf("%d bytes, hasty %v: %s executed %v, judged lost %v, unsent %v", k, hasty, key,
						executed[key], v.lost[key], v.unsent[key])
				}
				if executed[key] {
					inFlight++
				}
			}
			unsent += len(v.unsent)
		}
		for k := range size + 1 {
			judge(k, false)
		}
		for _, k := range ends {
			judge(k, true)
		}
		require.Positive(t, inFlight)
		require.Positive(t, unsent)
	})
}
