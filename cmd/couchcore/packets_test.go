package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
)

// The capture has a login, a durable write, a refused read and a push, which a test of internal/packets has written.
const captureFile = "testdata/talk.pcapng"

func TestPacketsOfACapture(t *testing.T) {
	r := couchcore("packets", captureFile)
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, `12:00:00.002000 #1 -> HELLO 0x1 {"a":"example"} 6 B Collections XError Tracing
12:00:00.003000 #1 <- HELLO 0x1 SUCCESS 6 B Collections XError Tracing 1.00 ms
12:00:00.004000 #1 -> SASL_AUTH 0x2 PLAIN 13 B
12:00:00.005000 #1 <- SASL_AUTH 0x2 SUCCESS 1.00 ms
12:00:00.006000 #1 -> SET 0x3 airline_10 vb 41 collection 0x8 2 B [durability 1 within 2250 ms]
12:00:00.007000 #1 <- SET 0x3 SUCCESS cas 0x18eb96f2f0c20000 1.00 ms of which the node 0.31 ms
12:00:00.008000 #1 -> GET 0x4 airline_10 vb 41 collection 0x8
12:00:00.009000 #1 <- GET 0x4 ETMPFAIL (KV_TEMPORARY_FAILURE) 47 B warming up (ref ab12) 1.00 ms
12:00:00.010000 #1 <- CLUSTERMAP_CHANGE_NOTIFICATION 0x9 travel map 1.12
`, r.stdout)
	file, err := os.ReadFile(captureFile)
	require.NoError(t, err)
	require.Contains(t, string(file), "hunter2", "the capture has a password")
	require.Equal(t, r, cmd{stdin: string(file)}.run("packets", "-"))
}

func TestPacketsAreRedactedAndChosen(t *testing.T) {
	r := couchcore("packets", captureFile, "--redact")
	require.Zero(t, r.code)
	require.NotContains(t, r.stdout, "airline")
	require.NotContains(t, r.stdout, "warming up")
	require.Contains(t, r.stdout, "GET 0x4 (10 bytes) vb 41")
	require.Contains(t, r.stdout, "SASL_AUTH 0x2 PLAIN")

	r = couchcore("packets", captureFile, "--failures")
	require.Equal(t, 1, strings.Count(r.stdout, "\n"))

	r = couchcore("packets", captureFile, "--json")
	require.Zero(t, r.code)
	var all []map[string]any
	for line := range strings.Lines(r.stdout) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		all = append(all, m)
	}
	require.Len(t, all, 9)
	require.Equal(t, map[string]any{
		"time": "2026-11-26T12:00:00.007Z", "connection": 1.0, "client": "10.0.0.1:41000", "node": "10.0.0.9:11210",
		"kind": "answer", "opcode": "SET", "opaque": 3.0, "status": "SUCCESS", "cas": "0x18eb96f2f0c20000",
		"took_us": 1000.0, "server_us": all[5]["server_us"],
	}, all[5])
	require.Equal(t, "0x8", all[4]["collection_id"])
	require.Equal(t, []any{"durability 1 within 2250 ms"}, all[4]["frames"])
}

func TestPacketsRefusesWhatItCannotRead(t *testing.T) {
	couchcore("packets").failsWith(t, exitUsage, "name a capture, or a node with --node")
	couchcore("packets", captureFile, "--node", "h:1").failsWith(t, exitUsage, "name a capture, or a node")
	couchcore("packets", captureFile, "--listen", "127.0.0.1:0").failsWith(t, exitUsage, "--listen belongs to --node")
	couchcore("packets", "--node", "h:1", "--ports", "1").failsWith(t, exitUsage, "--ports belongs to a capture")
	couchcore("packets", "testdata/missing.pcap").failsWith(t, exitFailed, "testdata/missing.pcap")
	couchcore("packets", "testdata/reasons.txt").failsWith(t, exitFailed, "reading the capture: ")
	couchcore("packets", captureFile, "--ports", "1").failsWith(t, exitFailed, "name the nodes' ports with --ports")
	couchcore("packets", "--node", "h").failsWith(t, exitUsage, `--node "h" is not a host and a port`)
	couchcore("packets", "--node", "127.0.0.1:1", "--listen", "256.0.0.1:0").failsWith(t, exitFailed, "256.0.0.1")
}

func TestPacketsThroughAProxy(t *testing.T) {
	m := startMockCommand(t, "--nodes", "2", "--vbuckets", "16", "--exit-on-stdin-close")
	spec, err := core.ParseSpec(m.ready["connection_string"].(string))
	require.NoError(t, err)
	host, _ := json.Marshal(spec.Hosts[0].Port)
	node := net.JoinHostPort(spec.Hosts[0].Host, string(host))

	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run([]string{"packets", "--node", node, "--exit-on-stdin-close", "--json"}, in, stdout, io.Discard,
			func(string) string { return "" })
		_ = stdout.Close()
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	var ready map[string]string
	require.NoError(t, json.Unmarshal(lines.Bytes(), &ready))
	require.Equal(t, node, ready["node"])
	seen := make(chan int, 1)
	go func() { // ends with the proxy
		n := 0
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"opcode":"SET"`) {
				n++
			}
		}
		seen <- n
	}()
	for _, key := range []string{"a", "b", "c", "d"} {
		r := cmd{env: map[string]string{"COUCHCORE_PASSWORD": "password"}}.run("kv", "upsert", key, "1", "-c",
			"couchbase://"+ready["listening"], "-u", "Administrator")
		require.Zero(t, r.code, r.stderr)
	}
	require.NoError(t, stdin.Close())
	select {
	case c := <-code:
		require.Zero(t, c)
	case <-time.After(10 * time.Second):
		t.Fatal("the proxy did not end")
	}
	require.Equal(t, 8, <-seen, "four requests and their answers")
}
