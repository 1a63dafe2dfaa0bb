package gocbcore_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/mock"
)

// counts are the counters of a report, by name and the labels that clients share, without those of durations. gocbcore
// does not know the uuid of a node that it has come to before the first map.
func counts(t *testing.T, text string, ours bool) map[string]int64 {
	t.Helper()
	metrics, invalid := mock.ParseTelemetry(text)
	require.Empty(t, invalid)
	out := map[string]int64{}
	for _, m := range metrics {
		if !strings.HasSuffix(m.Name, "_bucket") && !strings.HasSuffix(m.Name, "_sum") && m.Value > 0 {
			out[m.Name+" of "+m.Label("bucket")] += m.Value
			require.NotEmpty(t, m.Label("node"))
			require.Equal(t, ours, ours && m.Label("node_uuid") != "", text)
			require.NotEmpty(t, m.Label("agent"))
		}
	}
	return out
}

// TestReportsReachTheCluster: a program that has gocbcore's TelemetryReporter tells a cluster that asks for it the same
// counts as with gocbcore, until the reporter is closed; an agent and a group of agents.
func TestReportsReachTheCluster(t *testing.T) {
	testkit.RequireInterop(t)
	said := map[string][]map[string]int64{}
	for _, module := range []string{assembled(t, newest()), ""} {
		binary := accessProgram(t, module)
		for _, kind := range []string{"agent", "group"} {
			m := mock.Start(t, mock.Nodes(2), mock.AppTelemetry(), mock.Bucket("default", 64),
				mock.User("Administrator", "password"))
			a := accessor{talkTo(t, binary, kind, m.ConnString(), "password", "")}
			require.Equal(t, "ok", a.line(t))
			clients := func() int { return len(m.TelemetryClients()) }
			require.Eventually(t, func() bool { return clients() > 0 }, 10*time.Second, 10*time.Millisecond)
			m.AskTelemetry(t.Context(), mock.TelemetryGet) // one that answers counts; what it has counted is taken off
			for _, line := range []string{"set k", "get k", "get k", "query"} {
				a.does(t, line)
			}
			answers := m.AskTelemetry(t.Context(), mock.TelemetryGet)
			require.Len(t, answers, 1)
			require.NoError(t, answers[0].Err)
			said[kind] = append(said[kind], counts(t, answers[0].Text, module != ""))
			a.does(t, "no-reports")
			require.Eventually(t, func() bool { return clients() == 0 }, 10*time.Second, 10*time.Millisecond)
			a.does(t, "set k")
			a.end(t)
		}
	}
	for kind, both := range said {
		require.Equal(t, both[1], both[0], kind)
		require.Contains(t, slices.Collect(maps.Keys(both[0])), "sdk_kv_r_total of default")
	}
}

// TestReportsReachAnEndpointOfTheProgram: the reporter's own endpoint is told, whatever the cluster asks for, and gets
// no password.
func TestReportsReachAnEndpointOfTheProgram(t *testing.T) {
	testkit.RequireInterop(t)
	binary := accessProgram(t, assembled(t, newest()))
	reports, logins := make(chan string, 1), make(chan string, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logins <- r.Header.Get("Authorization")
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		for t.Context().Err() == nil {
			if ws.Write(t.Context(), websocket.MessageBinary, []byte{0}) != nil {
				return
			}
			_, text, err := ws.Read(t.Context())
			if err != nil {
				return
			}
			if strings.Contains(string(text), "sdk_kv_mutation") {
				reports <- string(text[1:])
			}
		}
	}))
	t.Cleanup(collector.Close)
	m := mock.Start(t, mock.Nodes(1), mock.AppTelemetry(), mock.Bucket("default", 64),
		mock.User("Administrator", "password"))
	endpoint := strings.Replace(collector.URL, "http", "ws", 1)
	a := accessor{talkTo(t, binary, "agent", m.ConnString(), "password", endpoint)}
	require.Equal(t, "ok", a.line(t))
	require.Empty(t, <-logins)
	for told := false; !told; {
		a.does(t, "set k") // those before the connection do not count
		select {
		case text := <-reports:
			require.NotZero(t, counts(t, text, true)["sdk_kv_r_total of default"])
			told = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	require.Empty(t, m.TelemetryClients())
	a.end(t)

	// One that is no endpoint costs the reports and nothing else.
	a = accessor{talkTo(t, binary, "agent", m.ConnString(), "password", "nonsense")}
	require.Equal(t, "ok", a.line(t))
	a.does(t, "set k")
	require.Empty(t, m.TelemetryClients())
	a.end(t)
}
