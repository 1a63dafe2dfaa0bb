package observe

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// prepared is everything about a target that is the same for each of its operations, in the form that the API takes.
type prepared struct {
	given  Target // as lookup was asked for it
	target Target
	labels int32 // the number of the cluster's labels that it has
	start  []trace.SpanStartOption
	common []attribute.KeyValue // for inner spans
	stable metricSets
	legacy metricSets

	attempt attemptSets
}

// attemptKey is what attempts of one target differ in.
type attemptKey struct{ peer, errorName string }

// attemptLimit bounds the sets of one target; beyond it the peer is left out.
const attemptLimit = 1024

// attemptSets holds the options of the attempts' histogram, made on first use.
type attemptSets struct {
	c  Conventions
	kv []attribute.KeyValue

	mu   sync.Mutex
	sets map[attemptKey][]metric.RecordOption
}

func (m *attemptSets) options(k attemptKey) []metric.RecordOption {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.sets[k]; o != nil {
		return o
	}
	if len(m.sets) >= attemptLimit {
		k.peer = ""
		if o := m.sets[k]; o != nil {
			return o
		}
	}
	a := attrs{c: m.c, kv: append([]attribute.KeyValue(nil), m.kv...)}
	a.text(FieldPeerAddress, k.peer)
	if k.errorName != "" || m.c != Stable {
		a.outcome(k.errorName)
	}
	o := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(a.kv...))}
	if len(m.sets) < attemptLimit+errorNameLimit {
		if m.sets == nil {
			m.sets = map[attemptKey][]metric.RecordOption{}
		}
		m.sets[k] = o
	}
	return o
}

// errorNameLimit bounds the error names of one target; the table of errors is smaller.
const errorNameLimit = 128

// OtherError is the name of an error that has none.
const OtherError = "_OTHER"

// metricSets holds the options of a histogram's record for each error name, made on first use.
type metricSets struct {
	c       Conventions // Stable or Legacy
	kv      []attribute.KeyValue
	success []metric.RecordOption

	mu     sync.Mutex
	failed map[string][]metric.RecordOption
}

func (m *metricSets) init(c Conventions, kv []attribute.KeyValue) {
	m.c, m.kv = c, kv
	m.success = m.build("")
}

func (m *metricSets) build(errorName string) []metric.RecordOption {
	a := attrs{c: m.c, kv: append([]attribute.KeyValue(nil), m.kv...)}
	a.outcome(errorName)
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(a.kv...))}
}

func (m *metricSets) options(errorName string) []metric.RecordOption {
	if errorName == "" {
		return m.success
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.failed[errorName]; o != nil {
		return o
	}
	if len(m.failed) >= errorNameLimit && errorName != OtherError {
		errorName = OtherError
	}
	o := m.build(errorName)
	if m.failed == nil {
		m.failed = map[string][]metric.RecordOption{}
	}
	m.failed[errorName] = o
	return o
}

// lookup returns what is prepared for t, without an allocation after its first use.
func (i *Instruments) lookup(ctx context.Context, t Target) *prepared {
	if p := (*i.prepared.Load())[t]; p != nil {
		return p
	}
	p, cut := i.prepare(t)
	if cut && i.told.CompareAndSwap(false, true) {
		i.o.Log.Warn(ctx, MsgAttributeLimit)
	}
	return p
}

// prepare makes and keeps what lookup did not find. cut says that the collection was left out, because too many
// targets are kept already.
func (i *Instruments) prepare(t Target) (p *prepared, cut bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := *i.prepared.Load()
	if len(old) >= preparedLimit && old[t] == nil {
		t.Collection, cut = "", true
	}
	if p := old[t]; p != nil {
		return p, cut
	}
	p = newPrepared(t, i.cluster, i.o.Conventions)
	p.labels = i.labels.Load()
	if len(old) >= 2*preparedLimit { // too many even without collections: this one is not kept
		return p, cut
	}
	next := make(map[Target]*prepared, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	next[t] = p
	i.prepared.Store(&next)
	return p, cut
}

// Name is an operation's name in spans, metrics and reports: get_and_lock of get-and-lock.
func Name(operation string) string { return strings.ReplaceAll(operation, "-", "_") }

func newPrepared(t Target, cluster clusterLabels, c Conventions) *prepared {
	given := t
	t.Operation = Name(t.Operation)
	p := &prepared{given: given, target: t}

	common := attrs{c: c}
	common.text(FieldSystem, system)
	common.text(FieldClusterName, cluster.name)
	common.text(FieldClusterUUID, cluster.uuid)
	p.common = common.kv

	span := attrs{c: c, kv: append([]attribute.KeyValue(nil), common.kv...)}
	t.describe(&span)
	span.text(FieldCollectionStandard, t.Collection)
	span.text(FieldDurability, t.Durability)
	p.start = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(span.kv...)}

	for _, m := range []struct {
		c   Conventions
		set *metricSets
	}{{Stable, &p.stable}, {Legacy, &p.legacy}} {
		a := attrs{c: m.c}
		a.text(FieldSystem, system)
		a.text(FieldClusterName, cluster.name)
		a.text(FieldClusterUUID, cluster.uuid)
		t.describe(&a)
		m.set.init(m.c, a.kv)
	}
	attempt := attrs{c: c, kv: append([]attribute.KeyValue(nil), common.kv...)}
	attempt.text(FieldService, t.Service)
	attempt.text(FieldOperation, t.Operation)
	p.attempt = attemptSets{c: c, kv: attempt.kv}
	return p
}

// describe adds what spans and metrics both say of a target.
func (t *Target) describe(a *attrs) {
	a.text(FieldService, t.Service)
	a.text(FieldOperation, t.Operation)
	a.text(FieldBucket, t.Bucket)
	a.text(FieldScope, t.Scope)
	a.text(FieldCollection, t.Collection)
}
