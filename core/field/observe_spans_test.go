package field_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// names are the stable and the older name of each attribute (SDK RFC 67, revision 27); "" where a form has none.
var names = map[string][2]string{
	"system": {"db.system.name", "db.system"}, "cluster": {"couchbase.cluster.name", "db.couchbase.cluster_name"},
	"cluster uuid": {"couchbase.cluster.uuid", "db.couchbase.cluster_uuid"},
	"service":      {"couchbase.service", "db.couchbase.service"}, "bucket": {"db.namespace", "db.name"},
	"scope":      {"couchbase.scope.name", "db.couchbase.scope"},
	"collection": {"couchbase.collection.name", "db.couchbase.collection"},
	"standard":   {"db.collection.name", ""}, "retries": {"couchbase.retries", "db.couchbase.retries"},
	"durability": {"couchbase.durability", "db.couchbase.durability"}, "statement": {"db.query.text", "db.statement"},
	"operation": {"db.operation.name", "db.operation"}, "error": {"error.type", "outcome"},
	"status":      {"db.response.status_code", ""},
	"transport":   {"network.transport", "net.transport"},
	"server time": {"couchbase.server_duration", "db.couchbase.server_duration"},
	"local id":    {"couchbase.local_id", "db.couchbase.local_id"},
	"id":          {"couchbase.operation_id", "db.couchbase.operation_id"},
	"server":      {"server.address", "net.peer.name"}, "server port": {"server.port", "net.peer.port"},
	"peer": {"network.peer.address", ""}, "peer port": {"network.peer.port", ""},
	"local": {"", "net.host.name"}, "local port": {"", "net.host.port"},
}

// form is the number of a convention in names.
type form int

// require checks that a span has these attributes and no others; "*" is any text, "#" any whole number above 0, "us"
// one that may be 0.
func (f form) require(t *testing.T, s *keptSpan, want map[string]string) {
	t.Helper()
	keys := map[attribute.Key]string{}
	for name, v := range want {
		require.Contains(t, names, name)
		if key := names[name][f]; key != "" {
			keys[attribute.Key(key)] = v
		}
	}
	for key, v := range keys {
		got, ok := s.all[key]
		require.True(t, ok, "%s lacks %s", s.name, key)
		switch v {
		case "*":
			require.NotEmpty(t, got.AsString(), key)
		case "#":
			require.Positive(t, got.AsInt64(), key)
		case "us":
			require.Equal(t, attribute.INT64, got.Type(), key)
		default:
			require.Equal(t, v, got.String(), key)
		}
	}
	for key, v := range s.all {
		require.Contains(t, keys, key, "%s has it: %s", s.name, v.String())
	}
}

// Spans have the names and attributes of the RFC's table, in its units, under either convention and under both.
func TestSpansHaveTheRFCsAttributes_D153(t *testing.T) {
	for choice, fs := range map[core.Conventions][]form{
		core.ConventionsOfEnvironment: {0}, core.ConventionsStable: {0}, core.ConventionsLegacy: {1},
	} {
		inMock(t, func(t *testing.T, m *mock.Cluster) {
			c, rec := mocked(t, m, func(cfg *core.Config) { cfg.Observe.Conventions = choice })
			spansOf(t, m, c, rec, fs[0])
		})
	}
	inMock(t, func(t *testing.T, m *mock.Cluster) { // both: each name of each
		c, rec := mocked(t, m, func(cfg *core.Config) { cfg.Observe.Conventions = core.ConventionsBoth })
		_, err := kv.Do(within(t, time.Second), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		for _, s := range rec.take(t) {
			for name, keys := range names {
				if _, has := s.all[attribute.Key(keys[0])]; has && keys[1] != "" {
					require.Contains(t, s.all, attribute.Key(keys[1]), name)
				}
			}
		}
	})
}

// The connection string chooses names as the RFC's option does, and goes before the environment.
func TestTheConnectionStringChoosesNames_D153(t *testing.T) {
	t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "database/dup")
	for list, want := range map[string]core.Conventions{
		"DATABASE": core.ConventionsStable, "database/dup": core.ConventionsBoth,
		"HTTP,DATABASE,DATABASE_DUP": core.ConventionsBoth, "HTTP": core.ConventionsOfEnvironment,
	} {
		inMock(t, func(t *testing.T, m *mock.Cluster) {
			cfg, err := core.ParseConnString(m.ConnString() + "?observability_semantic_convention_opt_in=" + list)
			require.NoError(t, err)
			require.Equal(t, want, cfg.Observe.Conventions, list)
			c, rec := mocked(t, m, func(to *core.Config) { to.Observe.Conventions = cfg.Observe.Conventions })
			_, err = kv.Do(within(t, time.Second), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			_, older := rec.take(t)[0].all["db.couchbase.service"]
			require.Equal(t, want != core.ConventionsStable, older, list)
		})
	}
}

func spansOf(t *testing.T, m *mock.Cluster, c *core.Cluster, rec *spans, f form) {
	t.Helper()
	b := c.Bucket("default")
	everywhere := map[string]string{"system": "couchbase"}
	if info, ok := b.Map(); ok && info.ClusterName != "" {
		everywhere["cluster"] = info.ClusterName
	}
	if info, ok := b.Map(); ok && info.ClusterUUID != "" {
		everywhere["cluster uuid"] = info.ClusterUUID
	}
	with := func(more map[string]string) map[string]string {
		for k, v := range everywhere {
			more[k] = v
		}
		return more
	}
	transport := [...]string{"tcp", "IP.TCP"}[f]

	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
	res, err := kv.Do(within(t, time.Second), b, kv.Upsert{
		Key: []byte("k"), Value: []byte("v"), Durability: memd.DurabilityMajority,
	})
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(res.Endpoint())
	require.NoError(t, err)
	all := rec.take(t)
	require.Equal(t, []string{"upsert", "upsert/dispatch_to_server", "upsert/dispatch_to_server"}, tree(all))
	op := with(map[string]string{
		"service": "kv", "operation": "upsert", "bucket": "default", "scope": "_default", "collection": "_default",
		"standard": "_default", "durability": "majority", "retries": "1",
	})
	if f == 1 {
		op["error"] = "Success"
	}
	f.require(t, all[0], op)
	require.NotContains(t, all[0].start, attribute.Key(names["retries"][f]), "known at the end")
	require.Contains(t, all[0].start, attribute.Key(names["operation"][f]), "for samplers")
	require.Equal(t, codes.Ok, all[0].status)
	attempt := with(map[string]string{
		"transport": transport, "server": host, "server port": port, "peer": host, "peer port": port,
		"local": "*", "local port": "#", "local id": res.Connection(), "server time": "us",
	})
	attempt["id"] = strconv.Itoa(int(res.Opaque()))
	f.require(t, all[2], attempt)
	attempt["id"], attempt["status"] = "#", "0x86"
	f.require(t, all[1], attempt)
	require.Regexp(t, "^[0-9A-Fa-f]{16}/[0-9A-Fa-f]{16}$", res.Connection())

	_, err = kv.Do(within(t, time.Second), b, kv.Get{Key: []byte("none")})
	require.Error(t, err)
	all = rec.take(t)
	delete(op, "durability")
	op["operation"], op["error"], op["status"], op["retries"] = "get", "DocumentNotFound", "0x01", "0"
	f.require(t, all[0], op)
	require.Equal(t, codes.Unset, all[0].status, "it is an answer")

	require.NoError(t, drain(c.Query(within(t, time.Second), &query.Request{
		Statement: "SELECT 1 WHERE $1 = 1", Positional: []any{1}, Bucket: "default", Scope: "_default",
		ClientContextID: "me",
	})))
	all = rec.take(t)
	require.Equal(t, []string{"query", "query/request_encoding", "query/dispatch_to_server"}, tree(all))
	sql := with(map[string]string{
		"service": "query", "operation": "query", "bucket": "default", "scope": "_default",
		"statement": "SELECT 1 WHERE $1 = 1", "retries": "0",
	})
	if f == 1 {
		sql["error"] = "Success"
	}
	f.require(t, all[0], sql)
	f.require(t, all[1], with(map[string]string{}))
	f.require(t, all[2], with(map[string]string{
		"transport": transport, "server": "*", "server port": "#", "peer": "*", "peer port": "#", "local": "*",
		"local port": "#", "id": "me",
	}))
	require.NoError(t, drain(c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 'secret'"})))
	for _, s := range rec.take(t) {
		require.NotContains(t, s.all, attribute.Key(names["statement"][f]), "a literal may be a secret")
	}
}

// An SDK on top has operation spans of its own: there is no second one, its span is the attempts' parent, and it may
// name the tracer. Inner spans can be left out.
func TestAnSDKOnTopChoosesItsSpans_D153(t *testing.T) {
	run := func(t *testing.T, m *mock.Cluster, change func(*core.ObserveConfig), want ...string) *spans {
		t.Helper()
		c, rec := mocked(t, m, func(cfg *core.Config) { change(&cfg.Observe) })
		ctx, own := keepingTracer{of: rec}.Start(within(t, time.Second), "sdk")
		_, err := kv.Do(ctx, c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, drain(c.Query(ctx, &query.Request{Statement: "SELECT 1"})))
		require.NoError(t, kv.GetMulti(ctx, c.Bucket("default"), kv.Common{}, [][]byte{[]byte("k")})[0].Err)
		synctest.Wait()
		own.End()
		require.Equal(t, strings.Join(want, " "), strings.Join(tree(rec.take(t)), " "))
		return rec
	}
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		rec := run(t, m, func(o *core.ObserveConfig) {
			o.OuterIsCallers, o.Instrumentation, o.InstrumentationVersion = true, "my.sdk", "1.2.3"
		}, "sdk", "sdk/dispatch_to_server", "sdk/request_encoding", "sdk/dispatch_to_server", "sdk/dispatch_to_server")
		require.Equal(t, [2]string{"my.sdk", "1.2.3"}, rec.scope)
	})
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		rec := run(t, m, func(o *core.ObserveConfig) { o.NoInnerSpans = true },
			"sdk", "sdk/upsert", "sdk/query", "sdk/batch", "sdk/batch/get")
		require.Equal(t, [2]string{"com.couchbase.client.go", core.Version}, rec.scope)
	})
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		run(t, m, func(o *core.ObserveConfig) { o.OuterIsCallers, o.NoInnerSpans = true, true }, "sdk")
	})
}

// A span that a hook begins is the parent of the attempts' spans, when operation spans are the caller's.
func TestAHooksSpanIsTheParent_D153(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		h := &spanHook{}
		c, rec := mocked(t, m, func(cfg *core.Config) { cfg.Observe.OuterIsCallers, cfg.Observe.Hook = true, h })
		h.tracer.of = rec
		keys := [][]byte{nil, []byte("k")}
		require.Error(t, kv.GetMulti(within(t, time.Second), c.Bucket("default"), kv.Common{}, keys)[0].Err)
		synctest.Wait()
		require.Equal(t, []string{
			"my batch", "my batch/my get", "my batch/my get", "my batch/my get/dispatch_to_server",
		}, tree(rec.take(t)))
	})
}

// spanHook makes a span of each operation, as an SDK does that uses a hook for it.
type spanHook struct{ tracer keepingTracer }

func (h *spanHook) Begin(ctx context.Context, of core.Operation) context.Context {
	ctx, _ = h.tracer.Start(ctx, "my "+of.Operation)
	return ctx
}

func (h *spanHook) End(ctx context.Context, _ core.Operation, _ core.OperationEnd) {
	trace.SpanFromContext(ctx).End()
}
