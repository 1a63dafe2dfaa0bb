package httpx_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/observe"
)

// spans counts the spans that were started and ended, by name.
type spans struct {
	noop.TracerProvider
	mu      sync.Mutex
	started map[string]int
	ended   map[string]int
	events  int
	status  codes.Code
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{s: s} }

type tracer struct {
	noop.Tracer
	s *spans
}

func (t tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[name]++
	sp := &span{s: s, name: name}
	return trace.ContextWithSpan(ctx, sp), sp
}

type span struct {
	noop.Span
	s    *spans
	name string
}

func (*span) IsRecording() bool { return true }

func (sp *span) End(...trace.SpanEndOption) {
	sp.s.mu.Lock()
	defer sp.s.mu.Unlock()
	sp.s.ended[sp.name]++
}

func (sp *span) AddEvent(string, ...trace.EventOption) { sp.s.events++ }

func (sp *span) SetStatus(c codes.Code, _ string) { sp.s.status = c }

// TestSpansEndInEveryOutcomeD114GR10: one for the request and one for each attempt, however they end.
func TestSpansEndInEveryOutcomeD114GR10(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tc := range map[string]struct {
		handler  http.HandlerFunc
		attempts int
		change   func(w *world, r *httpsvc.Request, cancel func())
		status   codes.Code
	}{
		"good":    {statuses("200"), 1, nil, codes.Ok},
		"retried": {statuses("503/1", "429/1", "200"), 3, nil, codes.Ok},
		"timeout": {
			silent, 1, func(_ *world, r *httpsvc.Request, _ func()) { r.Timeout = time.Second },
			codes.Error,
		},
		"canceled": {silent, 1, func(_ *world, _ *httpsvc.Request, cancel func()) {
			time.AfterFunc(time.Second,
				cancel)
		}, codes.Error},
		"parked": {statuses("503/30"), 1, func(_ *world, _ *httpsvc.Request,
			cancel func(),
		) {
			time.AfterFunc(time.Second, cancel)
		}, codes.Error},
		"closed": {silent, 1, func(w *world, _ *httpsvc.Request, _ func()) {
			time.AfterFunc(time.Second,
				w.client.Close)
		}, codes.Error},
		"no service": {silent, 0, func(w *world, r *httpsvc.Request, _ func()) {
			w.nodes, r.Timeout = nil,
				time.Second
		}, codes.Error},
		"lost": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1,
			func(_ *world, r *httpsvc.Request, _ func()) {
				r.Method = "POST"
			}, codes.Error,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &spans{started: map[string]int{}, ended: map[string]int{}}
				w := newWorld(t, tc.handler, setup{options: func(o *httpx.Options) {
					o.Instruments = observe.New(observe.Options{TracerProvider: s})
				}})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := get("/a")
				r.Operation = "ping"
				if tc.change != nil {
					tc.change(w, r, cancel)
				}
				_, _, _ = w.doCtx(ctx, r)
				require.Equal(t, 1, s.started["ping"])
				require.Equal(t, tc.attempts, s.started["dispatch_to_server"])
				require.Equal(t, s.started, s.ended)
				require.Equal(t, tc.status, s.status)
				require.Equal(t, max(tc.attempts-1, 0), s.events*toInt(name != "no service"))
			})
		})
	}
}

// TestPoolSettingsReachTheTransportD118: the number of connections, how many stay open unused, and for how long.
func TestPoolSettingsReachTheTransportD118(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, most := 0, 0
		var mu sync.Mutex
		w := newWorld(t, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
		}, setup{options: func(o *httpx.Options) { o.MaxConns, o.MaxIdle, o.IdleTimeout = 4, 3, 4*time.Second }})
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				_, _, err := w.do(get("/a"))
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 4, most)
		require.Equal(t, 3*time.Second, time.Since(w.began))
		synctest.Wait()
		require.Len(t, w.net.Links(), 3)
		time.Sleep(3 * time.Second)
		require.Len(t, w.net.Links(), 3)
		time.Sleep(2 * time.Second)
		require.Empty(t, w.net.Links())
	})
	synctest.Test(t, func(t *testing.T) { // all nodes together
		w := newWorld(t, statuses("200"), setup{nodes: []string{"n1:80", "n2:80"}, options: func(o *httpx.Options) {
			o.MaxIdleTotal, o.IdleTimeout = 1, time.Minute
		}})
		for range 2 {
			_, _, err := w.do(get("/a"))
			require.NoError(t, err)
		}
		got := w.requests()
		require.NotEqual(t, got[0].node, got[1].node)
		synctest.Wait()
		require.Len(t, w.net.Links(), 1)
	})
	synctest.Test(t, func(t *testing.T) { // a node that takes no connection costs its own time, not the request's
		w := newWorld(t, statuses("200"), setup{nodes: []string{"n1:80", "n2:80"}, options: func(o *httpx.Options) {
			o.ConnectTimeout = 2 * time.Second
		}})
		w.net.Partition("10.1.0.1", "n2")
		_, _, err := w.do(get("/a"))
		require.NoError(t, err)
		_, _, err = w.do(get("/a"))
		require.NoError(t, err)
		require.InDelta(t, 2*time.Second, time.Since(w.began), float64(10*time.Millisecond))
	})
}
