package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Each metric that the dashboard names is one that Prometheus scrapes.
func TestTheDashboardShowsWhatIsScraped(t *testing.T) {
	m, err := mock.New(mock.Nodes(1), mock.Bucket("default", 16))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	handler, cluster, err := observed(m, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
	if _, err := kv.Do(ctx, cluster.Bucket("default"), kv.Upsert{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	raw, err := os.ReadFile("../grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 6 {
		t.Fatal("the dashboard lacks panels")
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`\b(db|couchbase)_client_\w+`).FindAllString(target.Expr, -1) {
				if !strings.Contains(w.Body.String(), "\n"+name) {
					t.Errorf("%s: %s is not in\n%s", p.Title, name, w.Body.String())
				}
			}
		}
	}
}
