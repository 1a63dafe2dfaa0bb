// Command observability shows what a client tells of itself: spans in an in-memory exporter of OpenTelemetry's SDK,
// metrics from a manual reader, a hook, and the report of slow operations in the log. It needs no server: the mock is
// one. It is a module of its own, so that couchcore does not require an SDK of OpenTelemetry's.
//
//	cd examples/observability && go run .
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hook prints operations as they end.
type hook struct{ out io.Writer }

func (hook) Begin(ctx context.Context, _ core.Operation) context.Context { return ctx }

func (h hook) End(_ context.Context, of core.Operation, how core.OperationEnd) {
	fmt.Fprintf(h.out, "hook    %s %s: %d attempts, %d retries, error %v\n", of.Service, of.Operation,
		len(how.Attempts), how.Retries, how.Err)
}

func run(ctx context.Context, out io.Writer) error {
	m, err := mock.New(mock.Nodes(1), mock.Bucket("default", 16))
	if err != nil {
		return err
	}
	defer m.Close()
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()

	cfg, err := core.ParseConnString(m.ConnString())
	if err != nil {
		return err
	}
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cfg.Observe.TracerProvider = trace.NewTracerProvider(trace.WithSyncer(spans))
	cfg.Observe.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	cfg.Observe.Hook = hook{out}
	cfg.Observe.Log = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: brief}))
	cfg.Observe.Thresholds.KV = 50 * time.Millisecond
	cluster, err := core.Open(ctx, cfg)
	if err != nil {
		return err
	}
	bucket := cluster.Bucket("default")
	if err := bucket.WaitReady(ctx); err != nil {
		return err
	}

	// The node refuses once, and takes its time for the second attempt.
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Delay(100*time.Millisecond))
	if _, err := kv.Do(ctx, bucket, kv.Upsert{Key: []byte("k"), Value: []byte("{}")}); err != nil {
		return err
	}
	if _, err := kv.Do(ctx, bucket, kv.Get{Key: []byte("k")}); err != nil {
		return err
	}
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &metrics); err != nil {
		return err
	}
	if err := cluster.Close(); err != nil { // which writes the last report
		return err
	}
	for _, s := range spans.GetSpans() {
		fmt.Fprintf(out, "span    %s, %s\n", s.Name, s.Status.Code)
	}
	var names []string
	for _, scope := range metrics.ScopeMetrics {
		for _, metric := range scope.Metrics {
			names = append(names, metric.Name)
		}
	}
	slices.Sort(names)
	fmt.Fprintf(out, "metrics %s\n", strings.Join(names, " "))
	return nil
}

// brief leaves out of the log what differs from run to run.
func brief(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
