package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The mock loads fixtures, says where its control API is, and the API loads them again.
func TestMockHasFixturesAndAControlAPI(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	dir := t.TempDir()
	place := filepath.Join(dir, "default", "s", "c")
	require.NoError(t, os.MkdirAll(place, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(place, "k.json"), []byte(`{"n":1}`), 0o600))
	file := filepath.Join(t.TempDir(), "more.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"buckets":{"default":{"documents":{"d":1}}}}`), 0o600))
	p := startMockCommand(t, "--nodes", "1", "--vbuckets", "4", "--exit-on-stdin-close", "--fixtures", dir,
		"--fixtures", file, "--frames", "3")
	connect := []string{"-u", "Administrator", "-p", "password", "-c", p.ready["connection_string"].(string)}
	api := p.ready["control_api"].(string)
	do := func(method, path, body string, answer any) {
		exchange{method: method, path: path, body: body, status: http.StatusOK, answer: answer}.run(t, api)
	}
	require.Equal(t, "1", couchcore(append([]string{"kv", "get", "d"}, connect...)...).stdout)
	do("POST", "/v1/buckets/default/flush", "", map[string]any{})
	do("POST", "/v1/fixtures/files", `{"path":"."}`, map[string]any{})
	read := append([]string{"kv", "get", "k", "--scope", "s", "--collection", "c"}, connect...)
	require.Equal(t, `{"n":1}`, couchcore(read...).stdout)
	do("GET", "/v1/counts?key=k", "", map[string]any{"total": 1.0})
	require.NoError(t, p.stdin.Close())
	p.ends(t)
}

// With --console there is a page on the control API, and the mock says where; without it there is no page.
func TestMockHasAConsole(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	p := startMockCommand(t, "--nodes", "1", "--vbuckets", "4", "--exit-on-stdin-close", "--console")
	require.Equal(t, p.ready["control_api"].(string)+"/console/", p.ready["console"])
	resp, err := http.Get(p.ready["console"].(string))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Content-Type"), "text/html")
	require.NoError(t, p.stdin.Close())
	p.ends(t)

	p = startMockCommand(t, "--nodes", "1", "--vbuckets", "4", "--exit-on-stdin-close")
	require.Empty(t, p.ready["console"])
	resp, err = http.Get(p.ready["control_api"].(string) + "/console/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.NoError(t, p.stdin.Close())
	p.ends(t)
}

// With --default-ports the first node is where a client looks that is told no port.
func TestMockOnTheDefaultPorts(t *testing.T) {
	ports := []int{8091, 8092, 8093, 8094, 8095, 8096, 11210, 18091, 18092, 18093, 18094, 18095, 18096, 11207}
	for _, port := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Skipf("port %d is taken: %v", port, err)
		}
		require.NoError(t, l.Close())
	}
	p := startMockCommand(t, "--nodes", "2", "--vbuckets", "4", "--tls", "--default-ports", "--exit-on-stdin-close")
	require.Equal(t, "http://127.0.0.1:8091", p.ready["management"].([]any)[0])
	require.True(t, strings.HasPrefix(p.ready["connection_string"].(string), "couchbase://127.0.0.1:11210,"))
	require.Contains(t, couchcore("mock", "--help").stdout, "8091 to 8096")
	for _, port := range ports {
		nc, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		require.NoError(t, err, "the help names every port that the node takes")
		require.NoError(t, nc.Close())
	}
	require.Zero(t, couchcore("kv", "upsert", "k", "v", "-u", "Administrator", "-p", "password",
		"-c", "couchbase://127.0.0.1").code)
	require.Equal(t, "v", couchcore("kv", "get", "k", "-u", "Administrator", "-p", "password",
		"-c", "couchbases://127.0.0.1", "--tls-ca", p.ready["ca_file"].(string)).stdout)
	require.NoError(t, p.stdin.Close())
	p.ends(t)
}

// With --couchbasemock the line is CouchbaseMock's: an account for each bucket, and no configuration over key-value
// unless it says so.
func TestMockTakesCouchbaseMocksCommandLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	monitors := make(chan net.Conn, 1)
	go func() {
		if nc, err := l.Accept(); err == nil {
			monitors <- nc
		}
		close(monitors)
	}()
	p := startMockCommand(t, "--couchbasemock", "--harakiri-monitor", l.Addr().String(), "--port", "0", "--nodes", "2",
		"--replicas", "1", "--vbuckets", "4", "--buckets", "default:pw:couchbase,open::couchbase,m::memcache", "--cccp")
	require.Equal(t, []any{"default", "open", "m"}, p.ready["buckets"])
	at := p.ready["connection_string"].(string)
	require.Zero(t, couchcore("kv", "upsert", "k", "v", "-u", "default", "-p", "pw", "-c", at).code)
	require.NotZero(t, couchcore("kv", "get", "k", "-u", "open", "-p", "", "-c", at, "--timeout", "2s").code)
	require.NoError(t, (<-monitors).Close())
	p.ends(t)

	for args, text := range map[string]string{
		"--couchbasemock --odd": "couchcore: mock: couchbasemock: there is no option --odd\n",
		"--nodes 1 --couchbasemock": "couchcore: mock: --couchbasemock must come first: " +
			"couchcore mock --couchbasemock OPTIONS\n",
		"--couchbasemock -p 0 -D /nosuch": "couchcore: mock: open /nosuch: no such file or directory\n",
	} {
		r := couchcore(append([]string{"mock"}, strings.Fields(args+" ")...)...)
		require.Equal(t, exitUsage, r.code, args)
		require.Equal(t, text, r.stderr)
	}
	require.Contains(t, couchcore("mock", "--couchbasemock", "--help").stdout, "--harakiri-monitor VALUE")
}

// Logs do not grow for ever: --frames limits those of mutations too.
func TestMockLimitsItsLogs(t *testing.T) {
	p := startMockCommand(t, "--nodes", "1", "--vbuckets", "4", "--frames", "3", "--exit-on-stdin-close")
	at := p.ready["connection_string"].(string)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		require.Zero(t, couchcore("kv", "upsert", key, "v", "-u", "Administrator", "-p", "password", "-c", at).code)
	}
	resp, err := http.Get(p.ready["control_api"].(string) + "/v1/logs/applied")
	require.NoError(t, err)
	var log struct{ Items []struct{ Key string } }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&log))
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, []struct{ Key string }{{"c"}, {"d"}, {"e"}}, log.Items)
	require.NoError(t, p.stdin.Close())
	p.ends(t)
}
