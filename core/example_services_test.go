package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// withMock runs f with a mock cluster of two nodes and a client of it.
func withMock(f func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster)) {
	ctx := context.Background()
	server := got(mock.New(mock.Nodes(2), mock.VBuckets(16)))
	cfg := got(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cluster := got(core.Open(ctx, cfg))
	f(ctx, server, cluster)
	if err := errors.Join(cluster.Close(), server.Close()); err != nil {
		panic(err)
	}
}

func got[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleOpen() {
	ctx := context.Background()
	server := got(mock.New())
	defer server.Close()
	cfg, err := core.ParseConnString(server.ConnString() + "?kv_timeout=1s")
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	cfg.Retry.Strategy = retry.BestEffort{}
	cluster, err := core.Open(ctx, cfg) // it checks the configuration and does not wait
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()

	_, err = kv.Do(ctx, cluster.Bucket("default"), kv.Upsert{Key: []byte("k"), Value: []byte("{}")})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCluster_WaitReady() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		fmt.Println(cluster.WaitReady(ctx, core.Ready{Services: []string{"query"}}))
	})
	// Output: <nil>
}

func ExampleBucket_WaitReady() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		fmt.Println(cluster.Bucket("default").WaitReady(ctx))
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		err := cluster.Bucket("nosuch").WaitReady(ctx) // its text names what each node says
		fmt.Println(errors.Is(err, cberr.UnambiguousTimeout))
	})
	// Output:
	// <nil>
	// true
}

func ExampleCluster_Shutdown() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		writing := kv.Start(ctx, bucket, kv.Upsert{Key: []byte("k"), Value: []byte("{}")})

		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		fmt.Println(cluster.Shutdown(ctx))

		_, err := writing.Wait(ctx)
		fmt.Println("what was under way:", err)
		_, err = kv.Do(ctx, bucket, kv.Get{Key: []byte("k")})
		fmt.Println("what comes later:", errors.Is(err, retry.ErrClosed))
	})
	// Output:
	// <nil>
	// what was under way: <nil>
	// what comes later: true
}

func ExampleCluster_Search() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		server.ScriptSearch("hotels", mock.Answer{Rows: []string{`{"id":"hotel_1","score":1.5}`}})
		hits, err := cluster.Search(ctx, &search.Request{Index: "hotels", Query: map[string]any{"match": "sea view"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		for hits.Next() {
			var hit struct{ ID string }
			fmt.Println(hits.Scan(&hit), hit.ID)
		}
		fmt.Println(hits.Err())
	})
	// Output:
	// <nil> hotel_1
	// <nil>
}

func ExampleCluster_Analytics() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		server.ScriptAnalytics("SELECT", mock.Answer{Rows: []string{`{"n":42}`}})
		rows, err := cluster.Analytics(ctx, &analytics.Request{
			Statement: "SELECT COUNT(*) AS n FROM orders", Readonly: true,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		for rows.Next() {
			var row struct{ N int }
			fmt.Println(rows.Scan(&row), row.N)
		}
		fmt.Println(rows.Err())
	})
	// Output:
	// <nil> 42
	// <nil>
}

func ExampleBucket_View() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		server.ScriptView("by_total", mock.Answer{Rows: []string{`{"id":"order::1","key":7,"value":null}`}})
		rows, err := cluster.Bucket("default").View(ctx, &views.Request{Design: "orders", View: "by_total", Limit: 10})
		if err != nil {
			fmt.Println(err)
			return
		}
		for rows.Next() {
			var row struct{ ID string }
			fmt.Println(rows.Scan(&row), row.ID)
		}
		fmt.Println(rows.Err())
	})
	// Output:
	// <nil> order::1
	// <nil>
}

func ExampleCluster_Do() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		resp, err := cluster.Do(ctx, &core.HTTPRequest{
			Service: core.Management, Method: "GET", Path: "/pools/default/buckets/{}", Args: []string{"default"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		fmt.Println(resp.Status, len(text) > 0, err)
	})
	// Output: 200 true <nil>
}

func ExampleCluster_Buckets() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		buckets, err := cluster.Buckets(ctx)
		for _, b := range buckets {
			fmt.Println(b.Name, b.Type, b.VBuckets)
		}
		fmt.Println(err)
	})
	// Output:
	// default membase 16
	// <nil>
}

func ExampleBucket_Manifest() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		manifest, err := cluster.Bucket("default").Manifest(ctx)
		fmt.Println(manifest.Scopes[0].Name, err)
	})
	// Output: _default <nil>
}

func ExampleBucket_Layout() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		layout, err := cluster.Bucket("default").Layout(ctx)
		fmt.Println(layout.NumVBuckets(), layout.NodeIndex(layout.VBucket([]byte("airline_10")), 0) >= 0, err)
	})
	// Output: 16 true <nil>
}

func ExampleCluster_Ping() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		if err := cluster.Bucket("default").WaitReady(ctx); err != nil {
			fmt.Println(err)
		}
		report, err := cluster.Ping(ctx, core.PingOptions{Services: []string{"kv", "query"}})
		for _, p := range report.Services["kv"] {
			fmt.Println(p.State)
		}
		fmt.Println(len(report.Services["query"]), err)
	})
	// Output:
	// ok
	// ok
	// 2 <nil>
}

func ExampleCluster_PingService() {
	withMock(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		if err := cluster.Bucket("default").WaitReady(ctx); err != nil {
			fmt.Println(err)
		}
		for _, addr := range cluster.Endpoints(core.Query) {
			took, err := cluster.PingService(ctx, core.Query, addr)
			fmt.Println(took > 0, err)
		}
	})
	// Output:
	// true <nil>
	// true <nil>
}
