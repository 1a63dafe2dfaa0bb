package field_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// asked are the metrics that the clients of a mock report when they are asked now, by name and the labels that are
// named in short.
func asked(t *testing.T, m *mock.Cluster) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for _, a := range m.AskTelemetry(t.Context(), mock.TelemetryGet) {
		require.NoError(t, a.Err)
		require.Zero(t, a.Status)
		metrics, invalid := mock.ParseTelemetry(a.Text)
		require.Empty(t, invalid)
		for i := range metrics {
			name := metrics[i].Name
			if le := metrics[i].Label("le"); le != "" {
				name += " " + le
			}
			out[name] += metrics[i].Value
		}
	}
	return out
}

// telling is mocked for a client that may show its password without TLS.
func telling(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) (*core.Cluster, *spans) {
	t.Helper()
	allow := func(cfg *core.Config) { cfg.Auth.AllowPlain = true }
	return mocked(t, m, append([]func(*core.Config){allow}, change...)...)
}

// counting waits until the clients that are connected count: one that answers a command does.
func counting(t *testing.T, m *mock.Cluster) {
	t.Helper()
	const unknown = 0x07
	for _, a := range m.AskTelemetry(t.Context(), unknown) {
		require.NoError(t, a.Err)
	}
}

// connects waits, in virtual time, until so many clients of application telemetry are connected.
func connects(t *testing.T, m *mock.Cluster, clients int) {
	t.Helper()
	for range 100 {
		if len(m.TelemetryClients()) == clients {
			counting(t, m)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Len(t, m.TelemetryClients(), clients)
}

// collector is a program that collects application telemetry, on its own port of a mock's network.
type collector struct {
	m        *mock.Cluster
	url      string
	handle   func(ctx context.Context, ws *websocket.Conn)
	mu       sync.Mutex
	began    time.Time
	requests []time.Duration // when they came
	headers  []http.Header
	paths    []string
}

// collect serves one that handles connections with f, which has closed the connection when it returns. With a nil f it
// refuses to open a websocket.
func collect(t *testing.T, m *mock.Cluster, f func(ctx context.Context, ws *websocket.Conn)) *collector {
	t.Helper()
	l, err := m.Network().Listen("10.0.0.99:9090")
	require.NoError(t, err)
	c := &collector{m: m, url: "ws://10.0.0.99:9090/telemetry", handle: f, began: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{
		Handler: c, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		cancel()
		_ = srv.Close()
		<-done
	})
	return c
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests = append(c.requests, time.Since(c.began))
	c.headers, c.paths = append(c.headers, r.Header.Clone()), append(c.paths, r.RequestURI)
	c.mu.Unlock()
	if c.handle == nil {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	ctx := r.Context().Value(http.ServerContextKey).(*http.Server).BaseContext(nil)
	c.handle(ctx, ws)
	_ = ws.CloseNow()
}

// times are when requests have come.
func (c *collector) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.requests...)
}

// request gives the path and the credentials of the n-th request that has come.
func (c *collector) request(n int) (path, authorization string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paths[n], c.headers[n].Get("Authorization")
}

// toCollector is a client that tells a collector.
func toCollector(t *testing.T, c *collector, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cl, _ := mocked(t, c.m, append([]func(*core.Config){func(cfg *core.Config) {
		cfg.Observe.TracerProvider, cfg.Observe.AppTelemetry.Endpoint = nil, c.url
	}}, change...)...)
	return cl
}

// command sends a message and gives the status and the text of the answer.
func command(ctx context.Context, ws *websocket.Conn, msg ...byte) (status byte, text string, err error) {
	if err = ws.Write(ctx, websocket.MessageBinary, msg); err != nil {
		return 0, "", err
	}
	_, answer, err := ws.Read(ctx)
	if err != nil || len(answer) == 0 {
		return 0, "", err
	}
	return answer[0], strings.TrimSpace(string(answer[1:])), nil
}

// nextOf is the next value of a channel; it must come within a minute.
func nextOf[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing has come")
	}
	return v
}
