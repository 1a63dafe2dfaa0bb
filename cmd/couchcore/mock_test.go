package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mockProcess is a mock command that runs.
type mockProcess struct {
	ready map[string]any
	stdin io.Closer
	code  chan int
}

// startMockCommand runs the mock command until the test ends its input or its arguments end it.
func startMockCommand(t *testing.T, args ...string) *mockProcess {
	t.Helper()
	p, text := tryMockCommand(t, args...)
	require.NotNil(t, p, "%s", text)
	return p
}

// tryMockCommand is startMockCommand for arguments that a busy machine may refuse: without a mock it returns what
// the command wrote to its standard error.
func tryMockCommand(t *testing.T, args ...string) (*mockProcess, string) {
	t.Helper()
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	var text strings.Builder // read after code has been received
	p := &mockProcess{stdin: stdin, code: make(chan int, 1)}
	go func() {
		code := run(append([]string{"mock"}, args...), in, stdout, &text, func(string) string { return "" })
		p.code <- code
		_ = stdout.Close()
	}()
	t.Cleanup(func() { _ = stdin.Close() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		<-p.code
		return nil, text.String()
	}
	require.NoError(t, json.Unmarshal(lines.Bytes(), &p.ready))
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p, ""
}

func (p *mockProcess) ends(t *testing.T) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	select {
	case code := <-p.code:
		require.Zero(t, code)
	case <-deadline.C:
		t.Fatal("the mock did not end")
	}
}

func TestMockSaysWhereItIs(t *testing.T) {
	p := startMockCommand(t, "--nodes", "2", "--vbuckets", "16", "--tls", "--bucket", "a", "--bucket", "b:ephemeral",
		"--bucket", "m:memcached",
		"--username", "u", "--password", "pw", "--exit-on-stdin-close")
	hasKeys(t, p.ready, "connection_string", "tls_connection_string", "ca_file", "management", "control",
		"control_api", "console", "username", "password", "buckets")
	require.Equal(t, []any{"a", "b", "m"}, p.ready["buckets"])
	require.Len(t, p.ready["management"], 2)
	ca := p.ready["ca_file"].(string)
	c := cmd{env: map[string]string{"COUCHCORE_USERNAME": "u", "COUCHCORE_PASSWORD": "pw"}}
	require.Zero(t, c.run("kv", "upsert", "k", "v", "-b", "b", "-c", p.ready["connection_string"].(string)).code)
	r := c.run("kv", "get", "k", "-b", "b", "-c", p.ready["tls_connection_string"].(string), "--tls-ca", ca)
	require.Equal(t, "v", r.stdout, r.stderr)
	require.NoError(t, p.stdin.Close())
	p.ends(t)
	_, err := os.Stat(ca)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestMockObeysControlCommands(t *testing.T) {
	p := startMockCommand(t, "--nodes", "2", "--vbuckets", "4", "--exit-on-stdin-close")
	control := p.ready["control"].(string)
	require.Equal(t, p.ready["management"].([]any)[0].(string)+"/mock/", control)
	resp, err := http.Get(control + "get_mcports")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	var answer struct {
		Status  string `json:"status"`
		Payload []int  `json:"payload"`
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	require.Equal(t, "ok", answer.Status)
	require.Len(t, answer.Payload, 2)
	require.NoError(t, p.stdin.Close())
	p.ends(t)
}

func TestMockTellsItsMonitorThePortAndEndsWithIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	got := make(chan string, 1)
	conns := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			close(got)
			return
		}
		r := bufio.NewReader(conn)
		text, _ := r.ReadString(0)
		got <- text
		_, _ = io.WriteString(conn, "{\"command\":\"MOCKINFO\"}\n")
		text, _ = r.ReadString('\n')
		got <- text
		conns <- conn
	}()
	p := startMockCommand(t, "--nodes", "1", "--replicas", "0", "--vbuckets", "4", "--harakiri-monitor",
		l.Addr().String())
	port, info := <-got, <-got
	require.Contains(t, info, `"ok"`)
	require.True(t, strings.HasSuffix(port, "\x00"), "%q", port)
	require.True(t, strings.HasSuffix(p.ready["management"].([]any)[0].(string), ":"+strings.TrimSuffix(port, "\x00")))
	require.NoError(t, (<-conns).Close())
	p.ends(t)
}

func TestMockDefaultsAreThreeNodes(t *testing.T) {
	p := startMockCommand(t, "--exit-on-stdin-close")
	require.Len(t, p.ready["management"], 3)
	require.Equal(t, "Administrator", p.ready["username"])
	require.Equal(t, "password", p.ready["password"])
	require.Equal(t, []any{"default"}, p.ready["buckets"])
	r := couchcore("hash", "k", "--json", "-u", "Administrator", "-p", "password", "-c",
		p.ready["connection_string"].(string))
	require.InDelta(t, 1024, r.object(t)["vbuckets"], 0)
	require.NoError(t, p.stdin.Close())
	p.ends(t)
}

// With --port the cluster comes back where it was, and its journal goes on.
func TestMockComesBackAtItsPorts(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	args := []string{"--nodes", "1", "--vbuckets", "4", "--exit-on-stdin-close"}
	probe := startMockCommand(t, args...)
	at, err := url.Parse(probe.ready["management"].([]any)[0].(string))
	require.NoError(t, err)
	require.NoError(t, probe.stdin.Close())
	probe.ends(t)
	high, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	values := []string{"one", "two"}
	var port string
	for try := 0; len(values) > 0; try++ {
		if len(values) == 2 { // a program beside this one may have one of the fourteen ports
			port = strconv.Itoa(20000 + (high+try*14)%10000)
		}
		p, text := tryMockCommand(t, append(args, "--port", port, "--journal", journal)...)
		if p == nil {
			require.Contains(t, text, "address already in use")
			require.Less(t, try, 100, "no free ports: %s", text)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		require.Equal(t, "http://127.0.0.1:"+port, p.ready["management"].([]any)[0])
		c := cmd{env: map[string]string{}}
		require.Zero(t, c.run("kv", "insert", "k", values[0], "-u", "Administrator", "-p", "password", "-c",
			p.ready["connection_string"].(string)).code)
		require.NoError(t, p.stdin.Close())
		p.ends(t)
		values = values[1:]
	}
	lines, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(lines), `"what":"received"`))
	require.Equal(t, 2, strings.Count(string(lines), `"what":"applied"`))
	require.Contains(t, string(lines), `"token":"two"`)
}

func TestMockUsage(t *testing.T) {
	for args, text := range map[string]string{
		"--nodes 0": "couchcore: mock: 0 nodes, want 1 to 64\n", "--vbuckets 0": `couchcore: mock: bucket "default" has 0 vbuckets, want 1 to 1024` + "\n",
		"--frames 0": "couchcore: mock: --frames: 0, want 1 or more\n", "--control 0.0.0.0:0": `couchcore: mock: control: address "0.0.0.0:0", want one of the loopback interface` + "\n",
		"--bucket a:b":           `couchcore: mock: bucket type "b": there are couchbase, ephemeral and memcached` + "\n",
		"--harakiri-monitor foo": "couchcore: mock: --harakiri-monitor: address foo: missing port in address\n",
	} {
		r := couchcore(append([]string{"mock"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, r.code)
		require.Equal(t, text, r.stderr)
	}
}
