package testkit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	mockStartLimit   = 60 * time.Second // a JVM on a loaded two-core machine
	mockCommandLimit = 20 * time.Second
)

// MockOptions says what cluster CouchbaseMock starts. The zero value is three nodes, one replica, 64 vbuckets and one
// bucket "default" without a password.
type MockOptions struct {
	Nodes    int
	Replicas int      // 0 means 1; -1 means none
	VBuckets int      // a power of two
	Buckets  []string // NAME:PASSWORD:couchbase or NAME:PASSWORD:memcache; trailing parts may be left out
	NoCCCP   bool     // starts with GET_CLUSTER_CONFIG and configs in NOT_MY_VBUCKET switched off
}

// CouchbaseMockServer is a running CouchbaseMock and the control connection to it. One goroutine at a time may use it.
type CouchbaseMockServer struct {
	// RESTPort is the port of its management, views and query services on loopback. The fixed credentials are
	// Administrator and password.
	RESTPort int

	t       testing.TB
	control net.Conn
	lines   *bufio.Reader
}

// CouchbaseMock starts the real CouchbaseMock for the calling test and calls run with it. It skips the test unless
// COUCHCORE_INTEROP is 1, and fails it when Java, Maven or the jar is missing. Because that server's REST port binds
// every interface, the body runs as Contained describes: in another process, which has only a loopback interface.
// The server is stopped when run returns.
func CouchbaseMock(t *testing.T, o MockOptions, run func(t *testing.T, m *CouchbaseMockServer)) {
	t.Helper()
	RequireInterop(t)
	java := Program(t, "java", "default-jre-headless")
	jar := couchbaseMockJar(t) // before the namespace, which has no way to the outside
	Contained(t, func(t *testing.T) {
		t.Helper()
		run(t, startCouchbaseMock(t, java, jar, o))
	})
}

// couchbaseMockJar runs the script that resolves the jar, so that there is one place that knows its version.
func couchbaseMockJar(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "interop", "couchbasemock.sh"))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("resolve CouchbaseMock: %v\n%s", err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

func (o MockOptions) args(monitor string) []string {
	number := func(n, byDefault int) string {
		switch {
		case n == 0:
			n = byDefault
		case n < 0:
			n = 0
		}
		return strconv.Itoa(n)
	}
	buckets := o.Buckets
	if len(buckets) == 0 {
		buckets = []string{"default"}
	}
	args := []string{
		"-h", "127.0.0.1", "-p", "0", "-n", number(o.Nodes, 3), "-R", number(o.Replicas, 1), "-v",
		number(o.VBuckets, 64),
		"-b", strings.Join(buckets, ","), "--harakiri-monitor", monitor,
	}
	if !o.NoCCCP {
		args = append(args, "-c")
	}
	return args
}

func startCouchbaseMock(t testing.TB, java, jar string, o MockOptions) *CouchbaseMockServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for CouchbaseMock: %v", err)
	}
	defer func() { _ = l.Close() }()
	args := append([]string{"-jar", jar}, o.args(l.Addr().String())...)
	p := startProcess(t, exec.CommandContext(t.Context(), java, args...))

	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(mockStartLimit))
	go func() { // a process that dies at once must not cost the whole limit
		<-p.done
		_ = l.Close()
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("CouchbaseMock did not connect to its control port: %v\n%s", err, p.output())
	}
	t.Cleanup(func() { _ = conn.Close() }) // which also ends the process
	m := &CouchbaseMockServer{t: t, control: conn, lines: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(mockStartLimit))
	text, err := m.lines.ReadString(0)
	if err != nil {
		t.Fatalf("CouchbaseMock did not report its port: %v\n%s", err, p.output())
	}
	m.RESTPort, err = strconv.Atoi(strings.TrimSuffix(text, "\x00"))
	if err != nil {
		t.Fatalf("CouchbaseMock reported the port %q", text)
	}
	return m
}

// Command sends one control command (MOCKINFO, OPFAIL, HICCUP, TRUNCATE, FAILOVER, RESPAWN ...) and returns the payload
// of the answer. It fails the test when the answer is not ok. A nil payload is an empty one. It blocks until the answer
// is there, 20 s at most.
func (m *CouchbaseMockServer) Command(name string, payload any) json.RawMessage {
	m.t.Helper()
	out, err := m.TryCommand(name, payload)
	if err != nil {
		m.t.Fatalf("CouchbaseMock: %v", err)
	}
	return out
}

// TryCommand is Command for a test that expects a refusal: it returns it as an error instead of failing.
func (m *CouchbaseMockServer) TryCommand(name string, payload any) (json.RawMessage, error) {
	if payload == nil {
		payload = struct{}{}
	}
	line, err := json.Marshal(map[string]any{"command": name, "payload": payload})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	_ = m.control.SetDeadline(time.Now().Add(mockCommandLimit))
	if _, err := m.control.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := m.lines.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var answer struct {
		Payload json.RawMessage `json:"payload"`
		Status  string          `json:"status"`
		Error   string          `json:"error"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s answered %q: %w", name, text, err)
	}
	if !strings.HasPrefix(answer.Status, "o") {
		return nil, fmt.Errorf("%s refused: %s", name, answer.Error)
	}
	return answer.Payload, nil
}

// Ports returns the KV ports of the bucket's nodes on loopback, in the order of their index. An empty name is
// "default".
func (m *CouchbaseMockServer) Ports(bucket string) []int {
	m.t.Helper()
	var payload any
	if bucket != "" {
		payload = map[string]any{"bucket": bucket}
	}
	var ports []int
	if err := json.Unmarshal(m.Command("GET_MCPORTS", payload), &ports); err != nil {
		m.t.Fatalf("CouchbaseMock: GET_MCPORTS: %v", err)
	}
	return ports
}

// Addresses is Ports as host:port.
func (m *CouchbaseMockServer) Addresses(bucket string) []string {
	m.t.Helper()
	var out []string
	for _, p := range m.Ports(bucket) {
		out = append(out, net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
	}
	return out
}

// process is a foreign server with the end of what it printed. startProcess starts it; the test's cleanup kills it
// and waits for it.
type process struct {
	done chan struct{} // closed when it has ended

	mu  sync.Mutex
	buf []byte
}

func startProcess(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		_ = cmd.Wait() // it is always killed, so its exit status says nothing
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
	})
	return p
}

// Write keeps the last 64 KiB of what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf = append(p.buf, b...)
	if over := len(p.buf) - 64<<10; over > 0 {
		p.buf = append(p.buf[:0], p.buf[over:]...)
	}
	return len(b), nil
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.buf)
}
