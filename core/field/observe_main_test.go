package field_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// spans is a provider of traces that keeps every span.
type spans struct {
	noop.TracerProvider
	mu    sync.Mutex
	all   []*keptSpan
	scope [2]string // the tracer's name and version
}

// keptSpan is a span with the one that it is in.
type keptSpan struct {
	noop.Span
	of         *spans
	name       string
	parent     *keptSpan
	start, all map[attribute.Key]attribute.Value // those given at start, and all of them
	status     codes.Code
	ended      int
}

type keepingTracer struct {
	noop.Tracer
	of *spans
}

func (s *spans) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	c := trace.NewTracerConfig(o...)
	s.scope = [2]string{name, c.InstrumentationVersion()}
	return keepingTracer{of: s}
}

func (tr keepingTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context,
	trace.Span,
) {
	c := trace.NewSpanStartConfig(o...)
	s := &keptSpan{of: tr.of, name: name, start: map[attribute.Key]attribute.Value{}}
	s.parent, _ = trace.SpanFromContext(ctx).(*keptSpan)
	for _, a := range c.Attributes() {
		s.start[a.Key] = a.Value
	}
	s.all = maps.Clone(s.start)
	tr.of.mu.Lock()
	defer tr.of.mu.Unlock()
	tr.of.all = append(tr.of.all, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *keptSpan) IsRecording() bool { return true }

func (s *keptSpan) SetStatus(c codes.Code, _ string) { s.status = c }

func (s *keptSpan) SetAttributes(kv ...attribute.KeyValue) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for _, a := range kv {
		s.all[a.Key] = a.Value
	}
}

func (s *keptSpan) End(...trace.SpanEndOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.ended++
}

// take gives the spans so far, each of which has ended once, and forgets them.
func (s *spans) take(t *testing.T) []*keptSpan {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	for _, sp := range all {
		require.Equal(t, 1, sp.ended, sp.name)
	}
	return all
}

// tree writes spans as their names, each behind those that it is in.
func tree(all []*keptSpan) (paths []string) {
	for _, s := range all {
		path := s.name
		for p := s.parent; p != nil; p = p.parent {
			path = p.name + "/" + path
		}
		paths = append(paths, path)
	}
	return paths
}

// mocked is a client of the mock that is ready, and its spans.
func mocked(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) (*core.Cluster, *spans) {
	t.Helper()
	rec := &spans{}
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword), m.Dial
	cfg.Observe.TracerProvider = rec
	for _, c := range change {
		c(&cfg)
	}
	c := openConfig(t, cfg)
	require.NoError(t, c.Bucket("default").WaitReady(within(t, 5*time.Second)))
	return c, rec
}
