package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/packets"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestTopCountsWhatNodesDo(t *testing.T) {
	l := loads{}
	take := l.take
	take(packets.Record{Node: "a:1", Conn: 1, Kind: packets.Note, Detail: "connected"})
	for i := range 100 {
		take(packets.Record{Node: "a:1", Conn: 1, Kind: packets.Request, Opcode: memd.OpGet})
		take(packets.Record{
			Node: "a:1", Conn: 1, Kind: packets.Answer, Opcode: memd.OpGet, Answered: true,
			Took: time.Duration(i+1) * time.Millisecond,
		})
	}
	take(packets.Record{Node: "a:1", Conn: 1, Kind: packets.Request})
	take(packets.Record{Node: "a:1", Conn: 1, Kind: packets.Answer, Status: memd.StatusTmpFail})
	take(packets.Record{Node: "a:1", Conn: 1, Kind: packets.Request})
	take(packets.Record{Node: "b:1", Conn: 2, Kind: packets.Note, Detail: "connected"})
	take(packets.Record{Node: "b:1", Conn: 2, Kind: packets.Request})
	take(packets.Record{Node: "b:1", Conn: 2, Kind: packets.Note, Detail: "the node ends the connection"})
	require.Equal(t, []topRow{
		{
			Node: "a:1", Connections: 1, InFlight: 1, OpsPerS: 50.5, P50US: 50_000, P99US: 99_000, MaxUS: 100_000,
			Failures: 1, Reasons: map[string]int{"KV_TEMPORARY_FAILURE": 1},
		},
		{Node: "b:1", Reasons: map[string]int{}},
	}, l.rows(2*time.Second))
	require.Equal(t, []topRow{
		{Node: "a:1", Connections: 1, InFlight: 1, Reasons: map[string]int{}}, {Node: "b:1", Reasons: map[string]int{}},
	}, l.rows(time.Second), "a table counts from the last one on")
}

func TestTopShowsACluster(t *testing.T) {
	m := mock.Start(t, mock.Nodes(2), mock.VBuckets(16))
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 3}, mock.Status(memd.StatusTmpFail))
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run([]string{
			"top", "--node", m.Node(0).Addr(), "--interval", "50ms", "--json", "--exit-on-stdin-close",
		}, in, stdout, io.Discard, func(string) string { return "" })
		_ = stdout.Close()
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	var ready struct{ Listening string }
	require.NoError(t, json.Unmarshal(lines.Bytes(), &ready))

	cfg, err := core.ParseConnString("couchbase://" + ready.Listening)
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = kv.Do(ctx, c.Bucket("default"), kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: time.Minute}})
	require.NoError(t, err)
	_, err = kv.Do(ctx, c.Bucket("default"), kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: time.Minute}})
	require.NoError(t, err)

	refused, connections := 0, 0
	for refused < 3 && lines.Scan() {
		var table struct{ Nodes []topRow }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &table))
		for _, n := range table.Nodes {
			refused += n.Reasons["KV_TEMPORARY_FAILURE"]
			connections = max(connections, n.Connections)
		}
	}
	require.Equal(t, 3, refused)
	require.Positive(t, connections)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	require.NoError(t, stdin.Close())
	require.Equal(t, exitOK, <-code)
}

// On a terminal a table takes the place of the last one, and it fits 80 columns as long as nothing fails.
func TestTopRefreshesInPlace(t *testing.T) {
	var out strings.Builder
	a := newApp(nil, &out, io.Discard, func(string) string { return "" })
	a.terminal = true
	rows := []topRow{{Node: "127.0.0.1:11210", OpsPerS: 123456, P50US: 210, P99US: 2900}}
	require.NoError(t, (&topCmd{}).table(a, rows))
	require.True(t, strings.HasPrefix(out.String(), clearScreen))
	for _, line := range strings.Split(strings.TrimPrefix(out.String(), clearScreen), "\n") {
		require.Less(t, len(line), 81, line)
	}
	couchcore("top", "--node", "h:1", "--interval", "1ms").failsWith(t, exitUsage, "--interval is at least 10ms")
}
