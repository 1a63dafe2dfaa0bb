package httpx_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a request as a server got it.
type seen struct {
	node   string
	at     time.Duration // since the world began
	method string
	uri    string
	header http.Header
	body   string
}

// world is a client and the nodes that it may ask, on a network in memory.
type world struct {
	t      *testing.T
	net    *mock.Network
	client *httpx.Client
	health health.Record
	orch   *retry.Orchestrator
	began  time.Time
	nodes  []string
	tls    *tls.Config // of the servers

	mu  sync.Mutex
	got []seen
}

// setup is what a test changes of the usual world.
type setup struct {
	nodes   []string // n1:80 unless told
	retry   retry.Options
	options func(*httpx.Options)
	tls     *tls.Config
	raw     func(net.Conn) // instead of an HTTP server
}

// newWorld starts a node for each name; all of them answer with handler.
func newWorld(t *testing.T, handler http.HandlerFunc, s setup) *world {
	t.Helper()
	if s.nodes == nil {
		s.nodes = []string{"n1:80"}
	}
	if s.retry.JitterSource == nil {
		s.retry.JitterSource = func() float64 { return 0 }
	}
	w := &world{
		t: t, net: mock.NewNetwork(mock.NetworkOptions{}), orch: retry.New(s.retry), began: time.Now(),
		nodes: s.nodes, tls: s.tls,
	}
	for _, n := range s.nodes {
		w.serve(n, handler, s.raw)
	}
	o := httpx.Options{
		Dial: func(ctx context.Context, _, addr string) (net.Conn, error) { return w.net.Dial(ctx, addr) },
		Credentials: func(context.Context, httpsvc.Service, string, bool) (httpx.Credentials, error) {
			return httpx.Credentials{Username: "Administrator", Password: observe.NewSecret("password")}, nil
		},
		Endpoints:    func(topology.Service, string) ([]string, bool) { return w.nodes, true },
		Orchestrator: w.orch, Health: &w.health, JitterSource: func() float64 { return 0 }, Agent: "couchcore",
	}
	if s.options != nil {
		s.options(&o)
	}
	w.client = httpx.New(o)
	t.Cleanup(w.client.Close)
	return w
}

func (w *world) serve(node string, handler http.HandlerFunc, raw func(net.Conn)) {
	l, err := w.net.Listen(node)
	require.NoError(w.t, err)
	if raw != nil {
		w.serveRaw(l, raw)
		return
	}
	if w.tls != nil {
		l = tls.NewListener(l, w.tls)
	}
	server := &http.Server{
		TLSConfig: w.tls, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.mu.Lock()
			w.got = append(w.got, seen{
				node, time.Since(w.began), r.Method, r.RequestURI, r.Header.Clone(),
				string(body),
			})
			w.mu.Unlock()
			handler(rw, r)
		}),
	}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(served)
	}()
	w.t.Cleanup(func() {
		server.Close()
		<-served
	})
}

func (w *world) serveRaw(l net.Listener, raw func(net.Conn)) {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				raw(nc)
				nc.Close()
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		w.net.ResetAll()
		all.Wait()
	})
}

// requests are what the nodes got so far.
func (w *world) requests() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]seen(nil), w.got...)
}

// count is the number of the request that is being answered, from 1.
func (w *world) count() int { return len(w.requests()) }

// do sends a request and reads its answer.
func (w *world) do(r *httpsvc.Request) (status int, body string, err error) {
	w.t.Helper()
	return w.doCtx(w.t.Context(), r)
}

func (w *world) doCtx(ctx context.Context, r *httpsvc.Request) (status int, body string, err error) {
	w.t.Helper()
	resp, err := w.client.Do(ctx, r)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	require.NoError(w.t, resp.Body.Close())
	return resp.Status, string(data), err
}

// at are the moments at which requests came.
func at(requests []seen) []time.Duration {
	out := []time.Duration{}
	for _, s := range requests {
		out = append(out, s.at)
	}
	return out
}

func get(path string) *httpsvc.Request { return &httpsvc.Request{Method: "GET", Path: path} }

// post is a request that is not idempotent.
func post(path, body string) *httpsvc.Request {
	return &httpsvc.Request{
		Method: "POST", Path: path, ContentType: "application/json",
		Body: func(time.Duration) ([]byte, error) { return []byte(body), nil },
	}
}

func streamOf(body string, again func() (io.ReadCloser, error)) *httpsvc.Stream {
	return &httpsvc.Stream{Body: io.NopCloser(strings.NewReader(body)), Again: again, Length: -1}
}
