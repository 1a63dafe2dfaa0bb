package mock_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// dialTelemetry connects to a node as a client does.
func dialTelemetry(t *testing.T, m *mock.Cluster, name, password string) (*websocket.Conn, int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	require.NoError(t, err)
	if name != "" {
		r.SetBasicAuth(name, password)
	}
	ws, res, err := websocket.Dial( //nolint:bodyclose // Dial does
		t.Context(), "ws://"+m.Node(0).ManagementAddr()+"/_appTelemetry", &websocket.DialOptions{HTTPHeader: r.Header},
	)
	if err != nil {
		require.NotNil(t, res)
		return nil, res.StatusCode
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws, res.StatusCode
}

func TestTelemetryIsForAccounts(t *testing.T) {
	m := mock.Start(t, mock.User("Administrator", "password"), mock.User("app", "p", "default"), mock.AppTelemetry())
	for _, c := range []struct {
		name, password string
		status         int
	}{{"app", "p", 101}, {"Administrator", "password", 101}, {"app", "x", 401}, {"", "", 401}} {
		_, status := dialTelemetry(t, m, c.name, c.password)
		require.Equal(t, c.status, status, c.name)
	}
	m.SetAppTelemetry(false)
	_, status := dialTelemetry(t, m, "app", "p")
	require.Equal(t, 404, status)
	require.Contains(t, string(mock.Start(t, mock.AppTelemetry()).ConfigJSON("")), `"appTelemetryPath":"/_appTelemetry"`)
	require.NotContains(t, string(m.ConfigJSON("default")), "appTelemetryPath")
}

// A client is asked and answers; one that answers too late, with nothing, or unasked is dropped, as servers do.
func TestTelemetryClients(t *testing.T) {
	m := mock.Start(t, mock.AppTelemetry())
	ws, _ := dialTelemetry(t, m, mock.DefaultUser, mock.DefaultPassword)
	one := func() bool { return len(m.TelemetryClients()) == 1 }
	require.Eventually(t, one, 20*time.Second, time.Millisecond)
	uuid := nodeUUID(t, m)
	answers := make(chan []byte, 8)
	go func() {
		for {
			_, msg, err := ws.Read(context.Background())
			if err != nil || ws.Write(context.Background(), websocket.MessageBinary, <-answers) != nil {
				return
			}
			_ = msg
		}
	}()
	line := `sdk_kv_r_total{node_uuid="` + uuid + `",bucket="b"} 3`
	for range 2 {
		answers <- []byte("\x00" + line + "\nsdk_kv_r_total{node_uuid=\"other\"} 1\nnonsense\n")
		a := m.AskTelemetry(t.Context(), mock.TelemetryGet)
		require.Len(t, a, 1)
		require.NoError(t, a[0].Err)
	}
	sums, invalid := m.Telemetry()
	require.Len(t, sums, 1)
	require.Equal(t, int64(6), sums[0].Value)
	require.Equal(t, "b", sums[0].Label("bucket"))
	require.Len(t, invalid, 4)
	m.ClearTelemetry()
	answers <- []byte{1}
	require.Equal(t, byte(1), m.AskTelemetry(t.Context(), 9)[0].Status)
	sums, _ = m.Telemetry()
	require.Empty(t, sums)
	answers <- nil
	require.Error(t, m.AskTelemetry(t.Context(), mock.TelemetryGet)[0].Err)
	require.Empty(t, m.TelemetryClients())

	silent, _ := dialTelemetry(t, m, mock.DefaultUser, mock.DefaultPassword)
	require.Eventually(t, one, 20*time.Second, time.Millisecond)
	require.Error(t, m.AskTelemetry(t.Context(), mock.TelemetryGet)[0].Err)
	require.Empty(t, m.TelemetryClients())
	_ = silent.CloseNow()

	unasked, _ := dialTelemetry(t, m, mock.DefaultUser, mock.DefaultPassword)
	require.NoError(t, unasked.Write(t.Context(), websocket.MessageBinary, []byte{0}))
	_, _, err := unasked.Read(t.Context())
	require.Error(t, err)
}

func nodeUUID(t *testing.T, m *mock.Cluster) string {
	t.Helper()
	_, behind, ok := strings.Cut(string(m.ConfigJSON("")), `"nodeUUID":"`)
	require.True(t, ok)
	uuid, _, _ := strings.Cut(behind, `"`)
	return uuid
}

// Lines are read as ns_server reads them (its own tests of parse_metric_updates).
func TestParseTelemetry(t *testing.T) {
	for line, want := range map[string]*mock.TelemetryMetric{
		"": nil, " ": nil, "#": nil, " #": nil, "sdk_test x": nil, "sdk_tes:t 1": nil, "5dk_test 1": nil,
		"sdk_test 1 1 1":   nil,
		"sdk_test{} 1 1 1": nil, "sdk_test{a 1": nil, "sdk_test{label=y} 1": nil, `sdk_test{label="z} 1`: nil,
		`sdk_test{l="a,b"} 1`: nil, `sdk_test{l="a\"b"} 1`: nil, "sdk_test": nil, "sdk_test{}": nil, "sdk_test NaN": nil,
		"sdk_test 1":            {Name: "sdk_test", Value: 1},
		"sdk_test {} 1":         {Name: "sdk_test", Value: 1},
		"sdk_test{} 1e2":        {Name: "sdk_test", Value: 100},
		"sdk_test{} 1.2":        {Name: "sdk_test", Value: 1},
		"sdk_test{} 1 100000":   {Name: "sdk_test", Value: 1},
		"Sdk_t3st{} 1":          {Name: "Sdk_t3st", Value: 1},
		`t{le="0.1",l="v=w"} 1`: {Name: "t", Labels: map[string]string{"le": "0.1", "l": "v=w"}, Value: 1},
	} {
		metrics, invalid := mock.ParseTelemetry(line)
		if want == nil {
			require.Empty(t, metrics, line)
			trimmed := strings.TrimSpace(line)
			require.Equal(t, trimmed != "" && trimmed[0] != '#', len(invalid) == 1, line)
			continue
		}
		require.Empty(t, invalid, line)
		if want.Labels == nil {
			want.Labels = map[string]string{}
		}
		require.Equal(t, []mock.TelemetryMetric{*want}, metrics, line)
	}
}

func FuzzParseTelemetry(f *testing.F) {
	f.Add("sdk_kv_r_total{agent=\"a\",node_uuid=\"u\"} 42\n#\nx 1 2")
	f.Fuzz(func(t *testing.T, text string) {
		metrics, invalid := mock.ParseTelemetry(text)
		require.LessOrEqual(t, len(metrics)+len(invalid), strings.Count(text, "\n")+1)
	})
}
