// Command prometheus serves the metrics of a client, busy with a mock cluster, at http://127.0.0.1:2112/metrics. The
// dashboard in the directory above, grafana.json, shows them: import it into Grafana, with a Prometheus data source
// that scrapes that address.
//
//	cd examples/observability && go run ./prometheus
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, "127.0.0.1:2112"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, addr string) error {
	m, err := mock.New(mock.Nodes(2), mock.Bucket("default", 64))
	if err != nil {
		return err
	}
	defer m.Close()
	registry := prometheus.NewRegistry()
	handler, cluster, err := observed(m, registry)
	if err != nil {
		return err
	}
	defer cluster.Close()
	go work(ctx, m, cluster.Bucket("default")) // it ends with ctx
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("http://%s/metrics\n", addr)
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// observed is a client whose metrics the handler serves.
func observed(m *mock.Cluster, registry *prometheus.Registry) (http.Handler, *core.Cluster, error) {
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	cfg, err := core.ParseConnString(m.ConnString())
	if err != nil {
		return nil, nil, err
	}
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cfg.Observe.MeterProvider = metric.NewMeterProvider(metric.WithReader(exporter))
	cluster, err := core.Open(context.Background(), cfg)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), cluster, err
}

// work writes and reads, and now and then the nodes refuse.
func work(ctx context.Context, m *mock.Cluster, b *core.Bucket) {
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Probability: 0.1}, mock.Status(memd.StatusTmpFail))
	for i := 0; ctx.Err() == nil; i++ {
		key := []byte(fmt.Sprintf("k%d", i%1000))
		_, _ = kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("{}")})
		_, _ = kv.Do(ctx, b, kv.Get{Key: key})
		time.Sleep(time.Millisecond)
	}
}
