package observe_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/internal/observe"
)

var getTarget = observe.Target{
	Service: "kv", Operation: "get", Bucket: "travel", Scope: "inventory",
	Collection: "airline",
}

// text prints attributes in a form to compare with.
func text(m map[attribute.Key]attribute.Value) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[string(k)] = v.String()
	}
	return out
}

func TestStableKeysAreTheConventions(t *testing.T) {
	for field, want := range map[observe.Field]attribute.Key{
		observe.FieldSystem:             semconv.DBSystemNameKey,
		observe.FieldOperation:          semconv.DBOperationNameKey,
		observe.FieldBucket:             semconv.DBNamespaceKey,
		observe.FieldCollectionStandard: semconv.DBCollectionNameKey,
		observe.FieldError:              semconv.ErrorTypeKey,
		observe.FieldStatus:             semconv.DBResponseStatusCodeKey,
		observe.FieldTransport:          semconv.NetworkTransportKey,
		observe.FieldServerAddress:      semconv.ServerAddressKey,
		observe.FieldServerPort:         semconv.ServerPortKey,
		observe.FieldPeerAddress:        semconv.NetworkPeerAddressKey,
		observe.FieldPeerPort:           semconv.NetworkPeerPortKey,
	} {
		require.Equal(t, []attribute.Key{want}, field.Keys(observe.Stable))
	}
	require.Equal(t, semconv.SchemaURL, observe.SchemaURL)
	require.Equal(t, "couchbase", semconv.DBSystemNameCouchbase.Value.AsString())
}

func TestEveryFactHasANameAndBothHasThemAll(t *testing.T) {
	seen := map[attribute.Key]observe.Field{}
	for f := observe.FieldSystem; f <= observe.FieldRetryDelay; f++ {
		both := f.Keys(observe.Both)
		require.NotEmpty(t, both, "field %d", f)
		require.Subset(t, both, f.Keys(observe.Stable))
		require.Subset(t, both, f.Keys(observe.Legacy))
		for _, k := range both {
			require.NotContains(t, seen, k, "one name, one fact")
			seen[k] = f
		}
	}
	require.Equal(t, "stable legacy both unknown",
		fmt.Sprint(observe.Stable, " ", observe.Legacy, " ", observe.Both, " ", observe.Conventions(7)))
}

func TestSpansOfAnOperationThatWasRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &tracers{}
		i := observe.New(observe.Options{TracerProvider: r, Version: "1.2.3"})
		i.SetCluster("prod", "ab12")
		require.Equal(t, observe.ScopeName, r.scope)
		require.Equal(t, "1.2.3", r.config.InstrumentationVersion())
		require.Equal(t, observe.SchemaURL, r.config.SchemaURL())

		target := getTarget
		target.Durability = "majority"
		ctx, op := i.StartOperation(t.Context(), target)
		d := op.Dispatch(ctx, observe.Dispatch{
			Server: "n1", ServerPort: 11210, Peer: "10.0.0.9", PeerPort: 21210,
			LocalID: "A/B",
		})
		d.End(observe.Attempt{Opaque: 47, HasOpaque: true, Status: "0x86"})
		op.Retry("KV_TEMPORARY_FAILURE", 1, 1500*time.Microsecond)
		d = op.Dispatch(ctx, observe.Dispatch{Server: "n1", ServerPort: 11210})
		time.Sleep(3 * time.Millisecond) // of the virtual clock
		d.End(observe.Attempt{Opaque: 48, HasOpaque: true, ServerDuration: 120 * time.Microsecond})
		op.End(t.Context(), observe.Outcome{Retries: 1})

		require.Len(t, r.spans, 3)
		outer, first, second := r.spans[0], r.spans[1], r.spans[2]
		for _, s := range r.spans {
			require.Equal(t, trace.SpanKindClient, s.kind)
			require.Equal(t, 1, s.ended, "every span ends once")
		}
		require.Equal(t, "get", outer.name)
		require.Equal(t, map[string]string{
			"db.system.name": "couchbase", "couchbase.cluster.name": "prod", "couchbase.cluster.uuid": "ab12",
			"couchbase.service": "kv", "db.operation.name": "get", "db.namespace": "travel",
			"couchbase.scope.name":      "inventory",
			"couchbase.collection.name": "airline", "db.collection.name": "airline", "couchbase.durability": "majority",
		}, text(outer.start))
		require.Equal(t, map[string]string{"couchbase.retries": "1"}, text(outer.late))
		require.Equal(t, codes.Ok, outer.status)
		require.Equal(t, 3*time.Millisecond, outer.elapsed)
		require.Len(t, outer.events, 1)
		require.Equal(t, map[string]string{
			"couchbase.retry.reason": "KV_TEMPORARY_FAILURE", "couchbase.retry.attempt": "1",
			"couchbase.retry.delay_us": "1500",
		}, text(outer.events[0]))

		require.Equal(t, "dispatch_to_server", first.name)
		require.Equal(t, outer.id, first.parent)
		require.Equal(t, outer.id, second.parent)
		require.Equal(t, map[string]string{
			"db.system.name": "couchbase", "couchbase.cluster.name": "prod", "couchbase.cluster.uuid": "ab12",
			"network.transport": "tcp", "server.address": "n1", "server.port": "11210",
			"network.peer.address": "10.0.0.9", "network.peer.port": "21210", "couchbase.local_id": "A/B",
		}, text(first.start))
		require.Equal(t, map[string]string{"couchbase.operation_id": "47", "db.response.status_code": "0x86"},
			text(first.late))
		require.Equal(t, map[string]string{"couchbase.operation_id": "48", "couchbase.server_duration": "120"},
			text(second.late))
		require.Equal(t, codes.Unset, first.status, "only the operation's span has a status")
	})
}

func TestStatusOfAnOperationSpan(t *testing.T) {
	for name, c := range map[string]struct {
		out    observe.Outcome
		status codes.Code
		late   map[string]string
	}{
		"success": {observe.Outcome{}, codes.Ok, map[string]string{"couchbase.retries": "0"}},
		"failure": {
			observe.Outcome{ErrorName: "AmbiguousTimeout", Retries: 2},
			codes.Error,
			map[string]string{"couchbase.retries": "2", "error.type": "AmbiguousTimeout"},
		},
		"an answer about the data": {
			observe.Outcome{ErrorName: "DocumentNotFound", Answer: true, Status: "0x01"},
			codes.Unset,
			map[string]string{
				"couchbase.retries": "0", "error.type": "DocumentNotFound",
				"db.response.status_code": "0x01",
			},
		},
	} {
		r := &tracers{}
		_, op := observe.New(observe.Options{TracerProvider: r}).StartOperation(t.Context(), getTarget)
		op.End(t.Context(), c.out)
		require.Equal(t, c.status, r.spans[0].status, name)
		require.Equal(t, c.late, text(r.spans[0].late), name)
	}
}

func TestNamesUnderEveryConvention(t *testing.T) {
	stable := map[string]string{
		"db.system.name": "couchbase", "couchbase.service": "kv", "db.operation.name": "get", "db.namespace": "travel",
		"couchbase.scope.name": "inventory", "couchbase.collection.name": "airline", "db.collection.name": "airline",
	}
	legacy := map[string]string{
		"db.system": "couchbase", "db.couchbase.service": "kv", "db.operation": "get", "db.name": "travel",
		"db.couchbase.scope": "inventory", "db.couchbase.collection": "airline",
	}
	both := map[string]string{}
	for _, m := range []map[string]string{stable, legacy} {
		for k, v := range m {
			both[k] = v
		}
	}
	for c, want := range map[observe.Conventions]map[string]string{
		observe.Stable: stable, observe.Legacy: legacy,
		observe.Both: both,
	} {
		r := &tracers{}
		i := observe.New(observe.Options{TracerProvider: r, Conventions: c})
		ctx, op := i.StartOperation(t.Context(), getTarget)
		op.Dispatch(ctx, observe.Dispatch{Server: "n1", ServerPort: 1, Local: "l", LocalPort: 2}).End(observe.Attempt{})
		op.End(t.Context(), observe.Outcome{})
		require.Equal(t, want, text(r.spans[0].start), c)
		inner := text(r.spans[1].start)
		if c != observe.Legacy {
			require.Equal(t, "tcp", inner["network.transport"])
			require.Equal(t, "n1", inner["server.address"])
		}
		if c != observe.Stable {
			require.Equal(t, "IP.TCP", inner["net.transport"])
			require.Equal(t, "n1", inner["net.peer.name"])
			require.Equal(t, "l", inner["net.host.name"])
			require.Equal(t, "Success", text(r.spans[0].late)["outcome"])
		}
	}
}

func TestDurationIsRecordedOncePerOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meters{}
		i := observe.New(observe.Options{MeterProvider: m, Conventions: observe.Both})
		for _, out := range []observe.Outcome{{}, {ErrorName: "DocumentNotFound", Answer: true}} {
			_, op := i.StartOperation(t.Context(), getTarget)
			time.Sleep(2500 * time.Microsecond)
			op.End(t.Context(), out)
		}
		h := m.histograms[observe.MetricDuration]
		require.Equal(t, "s", h.unit)
		require.InDelta(t, 0.00005, h.bounds[0], 0)
		require.InDelta(t, 75, h.bounds[len(h.bounds)-1], 0)
		require.Len(t, h.points, 2)
		require.InDelta(t, 0.0025, h.points[0].value, 1e-9)
		want := map[string]string{
			"db.system.name": "couchbase", "couchbase.service": "kv", "db.operation.name": "get",
			"db.namespace":         "travel",
			"couchbase.scope.name": "inventory", "couchbase.collection.name": "airline",
		}
		require.Equal(t, want, text(h.points[0].attrs))
		want["error.type"] = "DocumentNotFound"
		require.Equal(t, want, text(h.points[1].attrs))

		old := m.histograms[observe.MetricLegacyDuration]
		require.Equal(t, "us", old.unit)
		require.InDelta(t, 2500, old.points[0].value, 1e-6)
		require.Equal(t, "Success", text(old.points[0].attrs)["outcome"])
		require.Equal(t, "DocumentNotFound", text(old.points[1].attrs)["outcome"])
		require.NotContains(t, text(old.points[0].attrs), "db.system.name")
	})
}

func TestClusterLabelsFollowTheConfig(t *testing.T) {
	m := &meters{}
	i := observe.New(observe.Options{MeterProvider: m})
	for _, name := range []string{"", "a", "a", "b"} {
		i.SetCluster(name, "")
		_, op := i.StartOperation(t.Context(), getTarget)
		op.End(t.Context(), observe.Outcome{})
	}
	var got []string
	for _, p := range m.histograms[observe.MetricDuration].points {
		got = append(got, text(p.attrs)["couchbase.cluster.name"])
	}
	require.Equal(t, []string{"", "a", "a", "b"}, got)
}

func TestTheNumberOfAttributeSetsIsBounded(t *testing.T) {
	m := &meters{}
	i := observe.New(observe.Options{MeterProvider: m})
	for n := range 1001 {
		target := getTarget
		target.Collection = fmt.Sprint("c", n)
		_, op := i.StartOperation(t.Context(), target)
		op.End(t.Context(), observe.Outcome{})
	}
	points := m.histograms[observe.MetricDuration].points
	require.Equal(t, "c999", text(points[999].attrs)["couchbase.collection.name"])
	require.NotContains(t, text(points[1000].attrs), "couchbase.collection.name")

	for n := range 200 { // error names are bounded too
		_, op := i.StartOperation(t.Context(), getTarget)
		op.End(t.Context(), observe.Outcome{ErrorName: fmt.Sprint("E", n)})
	}
	points = m.histograms[observe.MetricDuration].points
	require.Equal(t, "_OTHER", text(points[len(points)-1].attrs)["error.type"])
}

func TestNothingIsMadeInsideASpanThatDoesNotRecord(t *testing.T) {
	r := &tracers{off: true}
	i := observe.New(observe.Options{TracerProvider: r})
	ctx, op := i.StartOperation(t.Context(), getTarget)
	op.Dispatch(ctx, observe.Dispatch{Server: "n1"}).End(observe.Attempt{})
	op.Retry("R", 1, time.Second)
	op.End(t.Context(), observe.Outcome{Retries: 1})
	require.Len(t, r.spans, 1)
	require.Empty(t, r.spans[0].late)
	require.Empty(t, r.spans[0].events)
	require.Equal(t, 1, r.spans[0].ended)
}

func TestAnSDKOnTopOwnsTheOperation(t *testing.T) {
	r, m := &tracers{}, &meters{}
	i := observe.New(observe.Options{TracerProvider: r, MeterProvider: m, OuterIsCallers: true})
	sdk, span := r.Tracer("sdk").Start(t.Context(), "sdk")
	ctx, op := i.StartOperation(sdk, getTarget)
	op.Dispatch(ctx, observe.Dispatch{Server: "n1"}).End(observe.Attempt{})
	op.End(sdk, observe.Outcome{})
	require.Len(t, r.spans, 2)
	require.Equal(t, 1, r.spans[1].parent)
	require.Zero(t, r.spans[0].ended, "the caller ends its span")
	require.NotContains(t, m.histograms, observe.MetricDuration)
	span.End()

	_, op = i.StartOperation(t.Context(), getTarget) // no span of the caller's: nothing to hang on
	op.Dispatch(t.Context(), observe.Dispatch{}).End(observe.Attempt{})
	op.End(t.Context(), observe.Outcome{})
	require.Len(t, r.spans, 2)
}

func TestOptionsLeaveInnerSpansOut(t *testing.T) {
	r := &tracers{}
	i := observe.New(observe.Options{TracerProvider: r, NoInnerSpans: true})
	ctx, op := i.StartOperation(t.Context(), getTarget)
	op.Dispatch(ctx, observe.Dispatch{}).End(observe.Attempt{})
	op.End(t.Context(), observe.Outcome{})
	require.Len(t, r.spans, 1)
}

func TestProvidersThatPanicAreContained(t *testing.T) {
	r, m := &tracers{broken: true}, &meters{broken: true}
	i := observe.New(observe.Options{TracerProvider: r, MeterProvider: m})
	ctx, op := i.StartOperation(t.Context(), getTarget)
	require.NotNil(t, ctx)
	op.Dispatch(ctx, observe.Dispatch{}).End(observe.Attempt{})
	op.End(t.Context(), observe.Outcome{})
	require.EqualValues(t, 3, i.Panics(), "starting the span, recording both durations")

	r = &tracers{}
	i = observe.New(observe.Options{TracerProvider: r})
	_, op = i.StartOperation(t.Context(), getTarget)
	r.broken = true
	op.End(t.Context(), observe.Outcome{})
	require.EqualValues(t, 1, i.Panics())
}

func TestOffCostsNothing(t *testing.T) {
	require.Nil(t, observe.New(observe.Options{}))
	require.Nil(t, observe.New(observe.Options{
		TracerProvider: nooptrace.NewTracerProvider(), MeterProvider: noopmetric.NewMeterProvider(),
	}), "a no-op provider is the same as none")

	ctx := t.Context()
	for name, i := range map[string]*observe.Instruments{
		"off":     observe.New(observe.Options{}),
		"metrics": observe.New(observe.Options{MeterProvider: &meters{discard: true}}),
	} {
		once := func() {
			inner, op := i.StartOperation(ctx, getTarget)
			d := op.Dispatch(inner, observe.Dispatch{Server: "n1", ServerPort: 11210})
			d.End(observe.Attempt{Opaque: 1, HasOpaque: true})
			op.Retry("R", 1, time.Second)
			op.End(ctx, observe.Outcome{})
		}
		once()
		require.Zero(t, testing.AllocsPerRun(1000, once), name)
	}
	require.Zero(t, (*observe.Instruments)(nil).Panics())
	(*observe.Instruments)(nil).SetCluster("a", "b")
}

// An operation that is not observed is copied, too.
func TestAnOperationTakesWholePieces(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(observe.Operation{}), uintptr(64))
	require.Zero(t, unsafe.Sizeof(observe.Operation{})%16)
}

func BenchmarkOperationOff(b *testing.B) {
	i := observe.New(observe.Options{})
	b.ReportAllocs()
	for b.Loop() {
		_, op := i.StartOperation(b.Context(), getTarget)
		op.End(b.Context(), observe.Outcome{})
	}
}

func BenchmarkOperationMetrics(b *testing.B) {
	i := observe.New(observe.Options{MeterProvider: &meters{discard: true}})
	b.ReportAllocs()
	for b.Loop() {
		_, op := i.StartOperation(b.Context(), getTarget)
		op.End(b.Context(), observe.Outcome{})
	}
}
