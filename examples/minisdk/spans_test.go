package minisdk_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/examples/minisdk"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// paths is a provider of traces that notes each span as its name behind those that it is in.
type paths struct {
	noop.TracerProvider
	mu  sync.Mutex
	all []string
}

type pathTracer struct {
	noop.Tracer
	*paths
}

type pathSpan struct {
	noop.Span
	path string
}

func (s *pathSpan) IsRecording() bool { return true }

func (p *paths) Tracer(string, ...trace.TracerOption) trace.Tracer { return pathTracer{paths: p} }

func (p pathTracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if outer, ok := trace.SpanFromContext(ctx).(*pathSpan); ok {
		name = outer.path + "/" + name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, name)
	return trace.ContextWithSpan(ctx, &pathSpan{path: name}), &pathSpan{path: name}
}

// An SDK with spans of its own shows each operation once, with its attempts below it.
func TestAnOperationHasOneSpan(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := mock.Start(t, mock.Nodes(1), mock.VBuckets(16))
	var spans paths
	cluster, err := minisdk.Connect(ctx, server.ConnString(), minisdk.Options{
		Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword), Tracers: &spans,
	})
	if err != nil {
		t.Fatal(err)
	}
	docs := cluster.Collection("default", "_default", "_default")
	server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
	if _, err := docs.Upsert(ctx, "a", 1, minisdk.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	discard := func(interface{ Scan(any) error }) error { return nil }
	if err := cluster.Query(ctx, "SELECT 1", minisdk.QueryOptions{}, discard); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Close(ctx); err != nil {
		t.Fatal(err)
	}
	spans.mu.Lock()
	defer spans.mu.Unlock()
	operations, attempts := 0, 0
	for _, path := range spans.all {
		switch {
		case path == "upsert", path == "query":
			operations++
		case path == "upsert/dispatch_to_server", path == "query/dispatch_to_server":
			attempts++
		case !strings.HasSuffix(path, "/request_encoding") || strings.Count(path, "/") != 1:
			t.Error("a span that is one too many:", path)
		}
	}
	if operations != 2 || attempts != 3 {
		t.Errorf("%d spans of operations, %d of attempts: %q", operations, attempts, spans.all)
	}
}
