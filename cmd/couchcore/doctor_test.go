package main

import (
	"bytes"
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
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// brokenLine is where the doctor begins a new line because the last one was full.
var brokenLine = regexp.MustCompile(`\n {20,}`)

// examined runs the doctor with hooks; every wrong password here is this one, and it is never shown.
func examined(t *testing.T, hooks doctorHooks, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs, func(string) string { return "" })
	a.doctor = hooks
	code := a.run(append([]string{"doctor"}, args...))
	r := result{code, brokenLine.ReplaceAllString(out.String(), " "), errs.String()}
	require.NotContains(t, r.stdout+r.stderr, "sesame")
	require.NotContains(t, r.stdout+r.stderr, mock.DefaultPassword+" ")
	return r
}

// login are the flags of who may do everything.
func login(more ...string) []string {
	return append([]string{"-u", mock.DefaultUser, "-p", mock.DefaultPassword}, more...)
}

// passes is a finding without a fault. It has a warning where a machine with much else to do answers late.
const passes = `(?:ok  |warn)  `

// diagnosis is what a failed examination says: the step, the problem and what to change.
func diagnosis(t *testing.T, r result, step, what, change string) {
	t.Helper()
	require.Equal(t, exitFailed, r.code, r.stdout)
	flat := strings.Join(strings.Fields(r.stdout), " ")
	require.Regexp(t, `(?m)^FAIL  `+step, r.stdout)
	require.Contains(t, flat, what)
	require.Contains(t, flat, "what to change")
	require.Contains(t, flat, change)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"))
	require.Contains(t, r.stderr, "couchcore: doctor: "+step+": ")
}

func TestDoctorFindsNothing(t *testing.T) {
	m, _ := startMock(t)
	r := examined(t, doctorHooks{}, login("-c", m.ConnString())...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	golden(t, "doctor", steady(r.stdout)+r.stderr)

	r = examined(t, doctorHooks{}, login("-c", m.ConnString(), "--json")...)
	o := r.object(t)
	require.Equal(t, true, o["ok"])
	require.Equal(t, []any{}, o["skipped"])
	require.Len(t, o["steps"], len(doctorSteps))
	for i, s := range o["steps"].([]any) {
		step := s.(map[string]any)
		hasKeys(t, step, "name", "ok", "detail", "problems", "elapsed_ms")
		require.Equal(t, doctorSteps[i].name, step["name"])
		require.Equal(t, true, step["ok"])
		require.Equal(t, []any{}, step["problems"])
	}
}

func TestDoctorOverTLS(t *testing.T) {
	m, _ := startMock(t, mock.TLS())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, m.CA(), 0o600))
	r := examined(t, doctorHooks{}, login("-c", m.TLSConnString(), "--tls-ca", ca)...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^ok    TLS +127\.0\.0\.1:\d+ .* TLS 1\.3 \(.*, until \d{4}-\d\d-\d\d\)`, r.stdout)
	require.NotContains(t, r.stdout, "warn")

	r = examined(t, doctorHooks{}, login("-c", m.TLSConnString(), "--tls-skip-verify")...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^warn  TLS`, r.stdout)
	require.Contains(t, r.stdout, "certificates are not checked")

	diagnosis(t, examined(t, doctorHooks{}, login("-c", m.TLSConnString())...), "TLS", "unknown authority",
		"give the certificate of")

	at := func(d time.Duration) doctorHooks {
		return doctorHooks{now: func() time.Time { return time.Now().Add(d) }}
	}
	r = examined(t, at(360*24*time.Hour), login("-c", m.TLSConnString(), "--tls-ca", ca)...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `the certificate of 127\.0\.0\.1:\d+ ends in [45] days`, r.stdout)
	require.Regexp(t, `(?m)^warn  clock`, r.stdout)
	diagnosis(t, examined(t, at(400*24*time.Hour), login("-c", m.TLSConnString(), "--tls-ca", ca)...), "TLS", "expired",
		"renew the certificate, or correct the clock")
	diagnosis(t, examined(t, at(-30*24*time.Hour), login("-c", m.TLSConnString(), "--tls-ca", ca)...), "TLS",
		"not yet valid", "correct the clock")

	diagnosis(t, examined(t, doctorHooks{}, login("-c", strings.Replace(m.ConnString(), "couchbase:", "couchbases:",
		1))...), "TLS", "", "that port seems not to speak TLS")
	diagnosis(t, examined(t, doctorHooks{}, login("-c", strings.Replace(m.TLSConnString(), "couchbases:", "couchbase:",
		1), "--timeout", "2s")...), "HELLO", "the port speaks TLS", "write couchbases://")
}

// ownCert is a certificate for a host, and the file that makes it trusted.
func ownCert(t *testing.T, host string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "own"}, DNSNames: []string{host}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "own.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// serve answers each connection with f until the test ends.
func serve(t *testing.T, wrap func(net.Listener) net.Listener, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	if wrap != nil {
		l = wrap(l)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f(nc)
			_ = nc.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return addr
}

func TestDoctorOnCertificates(t *testing.T) {
	cert, ca := ownCert(t, "db.example.com")
	read := func(nc net.Conn) { _, _ = io.CopyN(io.Discard, nc, 1) }
	addr := serve(t, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	}, read)
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbases://"+addr, "--tls-ca", ca)...), "TLS", "",
		"connect to a name that the certificate is for: db.example.com")

	old := serve(t, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10,
			MaxVersion: tls.VersionTLS11,
		})
	}, read)
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbases://"+old, "--tls-ca", ca)...), "TLS",
		"protocol version", "another version of TLS")

	cert, ca = ownCert(t, "localhost")
	addr = serve(t, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequireAnyClientCert,
		})
	}, read)
	_, port, _ := net.SplitHostPort(addr)
	r := examined(t, doctorHooks{}, login("-c", "couchbases://localhost:"+port+"?force_ipv4=true", "--tls-ca", ca)...)
	diagnosis(t, r, "HELLO", "certificate required", "it may want a client certificate")
}

func TestDoctorOnTheConnectionString(t *testing.T) {
	for text, what := range map[string]string{
		"couchbase://user:sesame@host": "user info", "couchbase://host:99999": "port",
		"couchbase://host?kv_timeout=soon": "kv_timeout",
		"https://host":                     "https", "couchbases://host?ca_cert_path=/nowhere": "ca_cert_path",
	} {
		r := examined(t, doctorHooks{}, "-c", text)
		diagnosis(t, r, "connection string", what, "write it as couchbase://")
		require.Contains(t, r.stdout, "\nskip  DNS, TCP, TLS, HELLO, authentication, bucket, config, nodes, "+
			"documents,\n      services, clock\n")
		o := examined(t, doctorHooks{}, "-c", text, "--json").object(t)
		require.Equal(t, false, o["ok"])
		require.Len(t, o["steps"], 1)
		require.Len(t, o["skipped"], len(doctorSteps)-1)
	}
	r := examined(t, doctorHooks{}, "-c", "couchbase://"+closedPort(t)+"?pass=sesame")
	require.Contains(t, r.stdout, "the option pass is unknown")

	for args, text := range map[string]string{
		"": "no cluster", "-c couchbase://h --retry never": "strategy",
		"-c couchbase://h --tls-skip-verify": "need TLS",
		"-c couchbase://h --scope s":         "unknown flag --scope", "-c couchbase://h --timeout=-1s": "--timeout",
		"--orphans /nowhere":    "--orphans",
		"-c couchbase://h more": "unexpected argument",
	} {
		examined(t, doctorHooks{}, strings.Fields(args)...).failsWith(t, exitUsage, text)
	}
}

// names is a resolver.
type names struct {
	srv   []*net.SRV
	hosts map[string][]string
	err   error
}

func (n names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	if len(n.srv) == 0 {
		return "", nil, n.failure(name)
	}
	return name, n.srv, nil
}

func (n names) LookupHost(_ context.Context, host string) ([]string, error) {
	if a := n.hosts[host]; a != nil {
		return a, nil
	}
	return nil, n.failure(host)
}

func (n names) failure(name string) error {
	if n.err != nil {
		return n.err
	}
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestDoctorOnNames(t *testing.T) {
	m, _ := startMock(t)
	const at = "couchbase://db.example.com"
	diagnosis(t, examined(t, doctorHooks{resolver: names{}}, login("-c", at)...), "DNS",
		"db.example.com cannot be looked up", "check the spelling")
	diagnosis(t, examined(t, doctorHooks{resolver: names{err: errors.New("server misbehaving")}}, login("-c", at)...),
		"DNS", "misbehaving",
		"see whether")

	host, port, _ := net.SplitHostPort(m.Node(0).Addr())
	p, err := strconv.Atoi(port)
	require.NoError(t, err)
	named := names{srv: []*net.SRV{{Target: host + ".", Port: uint16(p)}}}
	r := examined(t, doctorHooks{resolver: named}, login("-c", at)...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^ok    DNS +SRV 1 target `, r.stdout)
	require.Contains(t, r.stdout, "SRV eligible")

	r = examined(t, doctorHooks{resolver: names{}}, login("-c", m.ConnString()+",nobody.example.com")...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^warn  DNS`, r.stdout)
	require.Contains(t, r.stdout, "nobody.example.com cannot be looked up")
}

func TestDoctorOnTCP(t *testing.T) {
	m, _ := startMock(t)
	gone := closedPort(t)
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbase://"+gone)...), "TCP", gone+": connection refused",
		"nothing listens there")
	r := examined(t, doctorHooks{}, login("-c", "couchbase://"+gone+","+m.Node(0).Addr())...)
	require.Zero(t, r.code, "one host is enough")
	require.Regexp(t, `(?m)^warn  TCP`, r.stdout)

	d := &doctor{}
	for want, err := range map[string]error{
		"firewall":               &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"no way to that network": &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH},
		"reachable from here":    errors.New("otherwise"),
	} {
		require.Contains(t, d.dialAdvice(probed{addr: "h:1", err: err}), want)
	}
	require.Contains(t, d.dialAdvice(probed{addr: "h:8091", err: syscall.ECONNREFUSED}), "management service's")
	d.cfg.TLS.Enabled = true
	require.Contains(t, d.dialAdvice(probed{addr: "h:18093", err: syscall.ECONNREFUSED}), "11207")
	require.Equal(t, "no answer in time", reasonOf(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}))
}

func TestDoctorOnHello(t *testing.T) {
	m, _ := startMock(t, mock.WithoutFeatures(memd.FeatureCollections))
	r := examined(t, doctorHooks{}, login("-c", m.ConnString())...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^warn  HELLO`, r.stdout)
	require.Contains(t, r.stdout, "does not grant Collections: only the default collection")

	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbase://"+m.Node(0).ManagementAddr())...), "HELLO",
		"the port speaks HTTP", "management or another service")
	r = examined(t, doctorHooks{}, login("-c", "couchbase://"+m.Node(0).ManagementAddr()+","+m.Node(0).Addr())...)
	require.Zero(t, r.code, "one host is enough")
	require.Contains(t, r.stdout, "the port speaks HTTP")
	closes := serve(t, nil, func(nc net.Conn) { _, _ = io.CopyN(io.Discard, nc, 1) })
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbase://"+closes)...), "HELLO", "",
		"if the port speaks TLS, write couchbases://")
	odd := serve(t, nil, func(nc net.Conn) { _, _ = io.WriteString(nc, strings.Repeat("SSH-2.0 ", 4)) })
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbase://"+odd)...), "HELLO", "", "not a key-value service")
	silent := serve(t, nil, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "couchbase://"+silent, "--timeout", "100ms")...), "HELLO",
		"no answer in time", "nothing comes back")
}

func TestDoctorOnLogins(t *testing.T) {
	m, _ := startMock(t, mock.User("reader", "sesame", "other"), mock.User(mock.DefaultUser, mock.DefaultPassword),
		mock.Bucket("default", 16), mock.Bucket("other", 16))
	at := m.ConnString()
	diagnosis(t, examined(t, doctorHooks{}, "-c", at, "-u", "reader", "-p", "sesame1"), "authentication", "AUTH_ERROR",
		"check --username (reader) and --password")
	diagnosis(t, examined(t, doctorHooks{}, "-c", at, "-u", "reader", "-p", "sesame"), "bucket", `SELECT_BUCKET "default" answered 0x24`, "give the user reader a role")
	diagnosis(t, examined(t, doctorHooks{}, login("-c", at, "-b", "nosuch")...), "bucket", `"nosuch"`, "check --bucket, or create it")
	for _, more := range []string{"-v", "--json"} {
		require.Zero(t, examined(t, doctorHooks{}, "-c", at, "-u", "reader", "-p", "sesame", "-b", "other", more).code)
	}
	r := examined(t, doctorHooks{}, "-c", at)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stdout, "give --username and --password")

	saslOnly, _ := startMock(t, mock.Mechanisms("PLAIN"))
	diagnosis(t, examined(t, doctorHooks{}, login("-c", saslOnly.ConnString())...), "authentication",
		"no common authentication mechanism", "the server takes PLAIN only")
	require.Zero(t, examined(t, doctorHooks{}, login("-c", saslOnly.ConnString(), "--allow-plain")...).code)
	require.Zero(t, examined(t, doctorHooks{}, login("-c", saslOnly.ConnString()+"?allow_plain=true")...).code)
}

// rewriteMap changes every map that the cluster sends over the key-value protocol.
func rewriteMap(m *mock.Cluster, f func(string) string) {
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Rewrite(func(_, rep *memd.Packet) {
		rep.Value = []byte(f(string(rep.Value)))
	}))
}

func TestDoctorOnMaps(t *testing.T) {
	m, _ := startMock(t)
	in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Status(memd.StatusUnknownCommand))
	diagnosis(t, examined(t, doctorHooks{}, login("-c", m.ConnString()+"?bootstrap_on=cccp", "--timeout", "300ms")...),
		"config",
		"no host gives a cluster map", "warming up")
	r := examined(t, doctorHooks{}, login("-c", "http://"+m.Node(0).ManagementAddr())...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^warn  config +epoch 1 rev 1, 2 nodes, 16 vbuckets, over HTTP `, r.stdout)
	require.Regexp(t, `(?m)^ok    clock +this machine's`, r.stdout)
	in.Remove()
	diagnosis(t, examined(t, doctorHooks{}, login("-c", m.ConnString()+"?network=external")...), "config", `no addresses on the network "external"`, "name one of default")
	rewriteMap(m, func(string) string { return "{" })
	diagnosis(t, examined(t, doctorHooks{}, login("-c", m.ConnString())...), "config", "cluster map: ",
		"something in between")
}

func TestDoctorOverHTTP(t *testing.T) {
	m, _ := startMock(t)
	at := "http://" + m.Node(0).ManagementAddr()
	r := examined(t, doctorHooks{}, login("-c", at)...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^`+passes+`TCP +`+m.Node(0).ManagementAddr(), r.stdout)
	require.Regexp(t, `(?m)^`+passes+`nodes +`+m.Node(0).Addr(), r.stdout)
	diagnosis(t, examined(t, doctorHooks{}, "-c", at, "-u", "x", "-p", "sesame"), "HELLO", "authentication failure",
		"check --username (x)")
	diagnosis(t, examined(t, doctorHooks{}, login("-c", "http://"+closedPort(t))...), "TCP", "connection refused",
		"management port")
}

func TestDoctorOnNodes(t *testing.T) {
	m, _ := startMock(t, mock.Nodes(2))
	require.NoError(t, m.Kill(1))
	r := examined(t, doctorHooks{}, login("-c", "couchbase://"+m.Node(0).Addr())...)
	diagnosis(t, r, "nodes", m.Node(1).Addr()+": connection refused",
		"the client needs a way to every address in the map")
	require.Regexp(t, `(?m)^FAIL  services`, r.stdout, "the other nodes are examined all the same")
	require.NoError(t, m.FailoverHard(1))
	r = examined(t, doctorHooks{}, login("-c", "couchbase://"+m.Node(0).Addr())...)
	require.Zero(t, r.code, r.stdout)
	require.Regexp(t, `(?m)^warn  config`, r.stdout)
	require.Contains(t, r.stdout, "16 of 16 vbuckets lack replicas")
}

func TestDoctorOnAlternateAddresses(t *testing.T) {
	m, _ := startMock(t, mock.Nodes(1), mock.Replicas(0))
	_, port, _ := net.SplitHostPort(m.Node(0).Addr())
	_, wrong, _ := net.SplitHostPort(closedPort(t))
	real := regexp.MustCompile(`"kv":` + port)
	rewriteMap(m, func(s string) string {
		s = strings.Replace(s, `"nodesExt":[{`, `"nodesExt":[{"alternateAddresses":{"outside":{"hostname":"127.0.0.1","ports":{"KV":`+port+`}}},`, 1)
		return strings.Replace(real.ReplaceAllString(s, `"kv":`+wrong), `"KV":`, `"kv":`, 1)
	})
	// A name in front of the address keeps the client from finding the network by itself.
	hooks := doctorHooks{resolver: names{hosts: map[string][]string{"localhost": {"127.0.0.1"}}}}
	r := examined(t, hooks, login("-c", "couchbase://localhost:"+port+"?force_ipv4=true")...)
	diagnosis(t, r, "nodes", "127.0.0.1:"+wrong+": connection refused", "add ?network=outside to the connection string")
	require.Regexp(t, `(?m)^skip  documents, services, clock$`, r.stdout)
	require.Zero(t, examined(t, doctorHooks{}, login("-c", m.ConnString())...).code,
		"the address itself tells which network it is of")
}

func TestDoctorOnServices(t *testing.T) {
	m, _ := startMock(t)
	m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpNoop}}, mock.Status(memd.StatusInternal))
	r := examined(t, doctorHooks{}, login("-c", m.ConnString())...)
	diagnosis(t, r, "services", "kv "+m.Node(1).Addr()+": ", "see whether the service runs on that node")
	require.Contains(t, r.stdout, "kv 1 of 2, query 2 of 2")
	require.Contains(t, serviceAdvice((&core.NodeRefusedError{Addr: "127.0.0.1:1", Err: errors.New("x")}).Error()),
		"correct the address")
}

func TestDoctorOnTheClock(t *testing.T) {
	m, _ := startMock(t)
	hooks := doctorHooks{now: func() time.Time { return time.Now().Add(time.Hour) }}
	r := examined(t, hooks, login("-c", m.ConnString())...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^warn  clock`, r.stdout)
	require.Regexp(t, `differ by (1h0m\d+s|59m5\ds)`, r.stdout)
	require.Contains(t, r.stdout, "NTP")
}
