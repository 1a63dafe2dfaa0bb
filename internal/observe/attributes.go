package observe

import (
	"go.opentelemetry.io/otel/attribute"
)

// Conventions says under which names spans and metrics are made.
type Conventions uint8

// The conventions. The zero value is the stable names.
const (
	Stable Conventions = iota
	Legacy             // the names of SDKs made before the conventions were stable
	Both
)

var conventionNames = [...]string{Stable: "stable", Legacy: "legacy", Both: "both"}

func (c Conventions) String() string {
	if int(c) < len(conventionNames) {
		return conventionNames[c]
	}
	return "unknown"
}

// Field is one fact that spans or metrics carry: a row of the table of names.
type Field uint8

// The facts (SDK RFC 67 revision 27; OpenTelemetry semantic conventions 1.43.0).
const (
	FieldSystem Field = iota
	FieldClusterName
	FieldClusterUUID
	FieldService
	FieldOperation
	FieldBucket
	FieldScope
	FieldCollection
	FieldCollectionStandard
	FieldDurability
	FieldStatement
	FieldRetries
	FieldError
	FieldStatus
	FieldTransport
	FieldServerAddress
	FieldServerPort
	FieldPeerAddress
	FieldPeerPort
	FieldLocalAddress
	FieldLocalPort
	FieldLocalID
	FieldOperationID
	FieldServerDuration
	FieldRetryReason
	FieldRetryAttempt
	FieldRetryDelay
	FieldAtLeast
	FieldState
	fieldCount
)

// names of one fact; an empty name means that this form does not have it.
type fieldNames struct {
	stable attribute.Key
	legacy attribute.Key
}

var fields = [fieldCount]fieldNames{
	FieldSystem:             {"db.system.name", "db.system"},
	FieldClusterName:        {"couchbase.cluster.name", "db.couchbase.cluster_name"},
	FieldClusterUUID:        {"couchbase.cluster.uuid", "db.couchbase.cluster_uuid"},
	FieldService:            {"couchbase.service", "db.couchbase.service"},
	FieldOperation:          {"db.operation.name", "db.operation"},
	FieldBucket:             {"db.namespace", "db.name"},
	FieldScope:              {"couchbase.scope.name", "db.couchbase.scope"},
	FieldCollection:         {"couchbase.collection.name", "db.couchbase.collection"},
	FieldCollectionStandard: {"db.collection.name", ""}, // on spans only
	FieldDurability:         {"couchbase.durability", "db.couchbase.durability"},
	FieldStatement:          {"db.query.text", "db.statement"},
	FieldRetries:            {"couchbase.retries", "db.couchbase.retries"},
	FieldError:              {"error.type", "outcome"},
	FieldStatus:             {"db.response.status_code", ""},
	FieldTransport:          {"network.transport", "net.transport"},
	FieldServerAddress:      {"server.address", "net.peer.name"},
	FieldServerPort:         {"server.port", "net.peer.port"},
	FieldPeerAddress:        {"network.peer.address", ""},
	FieldPeerPort:           {"network.peer.port", ""},
	FieldLocalAddress:       {"", "net.host.name"},
	FieldLocalPort:          {"", "net.host.port"},
	FieldLocalID:            {"couchbase.local_id", "db.couchbase.local_id"},
	FieldOperationID:        {"couchbase.operation_id", "db.couchbase.operation_id"},
	FieldServerDuration:     {"couchbase.server_duration", "db.couchbase.server_duration"},
	FieldRetryReason:        {"couchbase.retry.reason", "couchbase.retry.reason"},
	FieldRetryAttempt:       {"couchbase.retry.attempt", "couchbase.retry.attempt"},
	FieldRetryDelay:         {"couchbase.retry.delay_us", "couchbase.retry.delay_us"},
	FieldState:              {"couchbase.connection.state", "couchbase.connection.state"},
	FieldAtLeast:            {"couchbase.retry.at_least", "couchbase.retry.at_least"},
}

// Keys returns the names of a fact under c: one, or two under Both where they differ, or none.
func (f Field) Keys(c Conventions) []attribute.Key {
	var out []attribute.Key
	n := fields[f]
	if c != Legacy && n.stable != "" {
		out = append(out, n.stable)
	}
	if c != Stable && n.legacy != "" && (c == Legacy || n.legacy != n.stable) {
		out = append(out, n.legacy)
	}
	return out
}

// Two values that the forms spell differently.
const (
	transportStable = "tcp"
	transportLegacy = "IP.TCP"
	outcomeSuccess  = "Success" // the old form's error name when there was none
)

// attrs gathers attributes under the names of one convention.
type attrs struct {
	c  Conventions
	kv []attribute.KeyValue
}

// text adds a fact unless it is empty: an unknown fact is left out.
func (a *attrs) text(f Field, v string) {
	if v == "" {
		return
	}
	for _, k := range f.Keys(a.c) {
		a.kv = append(a.kv, k.String(v))
	}
}

func (a *attrs) number(f Field, v int64) {
	for _, k := range f.Keys(a.c) {
		a.kv = append(a.kv, k.Int64(v))
	}
}

// transport adds how the socket runs, whose value differs between the forms too.
func (a *attrs) transport() {
	n := fields[FieldTransport]
	if a.c != Legacy {
		a.kv = append(a.kv, n.stable.String(transportStable))
	}
	if a.c != Stable {
		a.kv = append(a.kv, n.legacy.String(transportLegacy))
	}
}

// outcome adds the name of the error; only the old form has one for success.
func (a *attrs) outcome(name string) {
	n := fields[FieldError]
	if a.c != Legacy && name != "" {
		a.kv = append(a.kv, n.stable.String(name))
	}
	if a.c != Stable {
		if name == "" {
			name = outcomeSuccess
		}
		a.kv = append(a.kv, n.legacy.String(name))
	}
}
