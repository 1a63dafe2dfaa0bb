package field_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// named are the types of errors that public packages name and internal ones define.
var namedErrors = []reflect.Type{
	reflect.TypeFor[*core.NotReadyError](), reflect.TypeFor[*core.ConnectError](), reflect.TypeFor[*core.MapError](),
	reflect.TypeFor[*core.RequestError](), reflect.TypeFor[*core.ResponseError](), reflect.TypeFor[*core.PanicError](),
	reflect.TypeFor[*core.GoneError](), reflect.TypeFor[*core.ManagementError](), reflect.TypeFor[*kv.Error](),
	reflect.TypeFor[*kv.PathError](), reflect.TypeFor[*kv.ArgumentError](), reflect.TypeFor[*kv.FeatureError](),
	reflect.TypeFor[*kv.ResponseError](), reflect.TypeFor[*kv.CompressionError](),
}

// requirePublic checks that an error has a kind, and a type that a program can name.
func requirePublic(t *testing.T, what string, err error) {
	t.Helper()
	require.Error(t, err, what)
	require.NotNil(t, cberr.KindOf(err), "%s: %T has no kind: %v", what, err, err)
	kind := reflect.TypeOf(err)
	for _, n := range namedErrors {
		if kind == n {
			return
		}
	}
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	require.NotContains(t, kind.PkgPath(), "/internal/", "%s: %T", what, err)
}

// everyCall is every function of the API that fails where no cluster can be reached.
func everyCall(ctx context.Context, c *core.Cluster) map[string]func() error {
	b := c.Bucket("default")
	k, v := []byte("k"), []byte("v")
	rows := func(_ any, err error) error { return err }
	return map[string]func() error{
		"WaitReady":        func() error { return c.WaitReady(ctx) },
		"Bucket.WaitReady": func() error { return b.WaitReady(ctx) },
		"WaitReady of a service": func() error {
			return c.WaitReady(ctx, core.Ready{State: core.Degraded, Services: []string{"query"}})
		},
		"Layout":      func() error { return rows(b.Layout(ctx)) },
		"Ping":        func() error { return rows(c.Ping(ctx, core.PingOptions{})) },
		"PingService": func() error { return rows(c.PingService(ctx, core.Query, "127.0.0.1:1")) },
		"Manifest":    func() error { return rows(b.Manifest(ctx)) },
		"Buckets":     func() error { return rows(c.Buckets(ctx)) },
		"Do": func() error {
			return rows(c.Do(ctx, &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"}))
		},
		"Query":     func() error { return rows(c.Query(ctx, &query.Request{Statement: "SELECT 1"})) },
		"Analytics": func() error { return rows(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1"})) },
		"Search":    func() error { return rows(c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{}})) },
		"View":      func() error { return rows(b.View(ctx, &views.Request{Design: "d", View: "v"})) },
		"Get":       func() error { return rows(kv.Do(ctx, b, kv.Get{Key: k})) },
		"Upsert":    func() error { return rows(kv.Do(ctx, b, kv.Upsert{Key: k, Value: v})) },
		"Start":     func() error { return rows(kv.Start(ctx, b, kv.Get{Key: k}).Wait(ctx)) },
		"a wait that ends before its call": func() error {
			return rows(kv.Start(context.WithoutCancel(ctx), b, kv.Get{Key: k}).Wait(ctx))
		},
		"DoPolled": func() error {
			return rows(kv.DoPolled(ctx, b, kv.Upsert{Key: k, Value: v}, kv.PollDurability{PersistTo: 1}))
		},
		"GetAnyReplica": func() error { return rows(kv.GetAnyReplica(ctx, b, kv.GetReplica{Key: k})) },
		"GetMulti":      func() error { return kv.GetMulti(ctx, b, kv.Common{}, [][]byte{k})[0].Err },
		"StatAll":       func() error { return rows(kv.StatAll(ctx, b, kv.Stat{})) },
	}
}

// Every error of the API has a kind, and a type that a program can name.
func TestEveryErrorIsPublicAndHasAKind_D178(t *testing.T) {
	dead := func() *core.Cluster {
		return openConfig(t, core.Config{Seeds: core.SeedConfig{Hosts: []string{"127.0.0.1:1"}}})
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	late, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer stop()
	closed := dead()
	closed.Bucket("default")
	require.NoError(t, closed.Close())
	for name, s := range map[string]struct {
		c   *core.Cluster
		ctx context.Context
	}{
		"a dead node":           {dead(), within(t, 100*time.Millisecond)},
		"a context that ended":  {dead(), ended},
		"a deadline that ended": {dead(), late},
		"a closed client":       {closed, within(t, 5*time.Second)},
	} {
		for what, run := range everyCall(s.ctx, s.c) {
			requirePublic(t, name+": "+what, run())
		}
	}
	for what, err := range badArguments(t, dead()) {
		requirePublic(t, what, err)
		require.ErrorIs(t, err, cberr.InvalidArgument, what)
	}
	for what, ctx := range map[string]context.Context{"canceled": ended, "late": late} {
		_, err := core.Open(ctx, core.Config{})
		requirePublic(t, "Open "+what, err)
	}
}

// badArguments are errors of functions that cannot use what they are given.
func badArguments(t *testing.T, c *core.Cluster) map[string]error {
	t.Helper()
	errOf := func(_ any, err error) error { return err }
	ctx := within(t, time.Second)
	return map[string]error{
		"Open":            errOf(core.Open(ctx, core.Config{Limits: core.LimitConfig{InFlight: -1}})),
		"ParseConnString": errOf(core.ParseConnString("ftp://h:x")),
		"ParseSpec":       errOf(core.ParseSpec("couchbase://u@h")),
		"an option":       errOf(core.ParseConnString("couchbase://h?kv_timeout=soon")),
		"ParsePolicy":     errOf(core.ParsePolicy([]byte("{"))),
		"AllowNodes":      errOf(core.AllowNodes("10.0.0.0/99")),
		"SetCredentials":  c.SetCredentials(core.Credentials{Username: "u"}),
		"WaitReady":       c.WaitReady(ctx, core.Ready{State: core.Offline}),
		"Ping":            errOf(c.Ping(ctx, core.PingOptions{Services: []string{"x"}})),
		"Do":              errOf(c.Do(ctx, &core.HTTPRequest{Service: core.Query, Method: "GET", Path: "x"})),
		"a long key":      errOf(kv.Do(ctx, c.Bucket("b"), kv.Get{Key: []byte(strings.Repeat("k", 300))})),
		"a state":         (&query.MutationState{}).UnmarshalJSON([]byte(`{"b":{"x":[1,"1"]}}`)),
	}
}

// A wait that was given up says what it knows, and by what it has ended.
func TestAWaitThatEndsHasTheKindOfItsEnd_D178(t *testing.T) {
	c := openConfig(t, core.Config{Seeds: core.SeedConfig{Hosts: []string{"127.0.0.1:1"}}})
	b := c.Bucket("default")
	var waited *core.NotReadyError
	var met *core.ConnectError

	err := b.WaitReady(within(t, 200*time.Millisecond))
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorAs(t, err, &waited)
	require.ErrorAs(t, err, &met)
	require.Equal(t, "127.0.0.1:1", met.Addr)
	require.EqualError(t, err, "not ready in time, because: node 127.0.0.1:1 is not connected: connection refused")

	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
	err = b.WaitReady(ctx)
	require.ErrorIs(t, err, cberr.RequestCanceled)
	require.ErrorIs(t, err, why)

	done := make(chan error)
	go func() { done <- b.WaitReady(context.Background()) }()
	require.NoError(t, c.Close())
	err = <-done
	require.ErrorIs(t, err, cberr.RequestCanceled)
	require.ErrorIs(t, err, retry.ErrClosed)
}
