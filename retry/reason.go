package retry

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
)

// Reason says why an attempt of an operation failed in a way that a retry might cure. Its zero value is Unknown.
type Reason uint8

// The reasons. Their names and first two flags are those of Couchbase SDK RFC 0049; it leaves room for others.
const (
	Unknown Reason = iota
	SocketNotAvailable
	ServiceNotAvailable
	NodeNotAvailable
	CircuitBreakerOpen
	EndpointNotWritable
	WriteFailed
	KVNotMyVBucket
	KVCollectionOutdated
	ViewsNoActivePartition
	CollectionMapRefreshInProgress
	BucketNotReady
	NotReady
	KVErrorMapRetryIndicated
	KVLocked
	KVSyncWriteInProgress
	KVSyncWriteReCommitInProgress
	KVTemporaryFailure
	AnalyticsTemporaryFailure
	SearchTooManyRequests
	ServiceResponseCodeIndicated
	SocketClosedWhileInFlight
	QueryPreparedStatementFailure
	QueryIndexNotFound
	QueryErrorRetryable
	QueryTransactionBufferFull
	ViewsTemporaryFailure
	AuthenticationError
	TLSError
	BucketAccessError
	ScopeNotFound
	CollectionNotFound
	CredentialsFetchFailed
	EvaluationIndicated

	reasonCount
)

// Kind is a coarse class of failure, for strategies and budgets that treat classes differently.
type Kind uint8

// The kinds, as smithy's SDKs tell them apart.
const (
	ServerSide Kind = iota // the server failed
	ClientSide             // the client failed before a server's logic saw the request
	Throttling             // the server asks for less
	Timeout                // no answer came
)

// OwnKind is the first kind of a program's own, for Again and for the costs of its budgets. It may use every number
// from here on.
const OwnKind Kind = 16

// String is the kind's name in lower case.
func (k Kind) String() string {
	names := [...]string{ServerSide: "server", ClientSide: "client", Throttling: "throttling", Timeout: "timeout"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

type flags uint8

const (
	nonIdem  flags = 1 << iota // safe to retry an operation that is not idempotent
	always                     // retried under any strategy, which is not asked
	unseen                     // the server's logic never saw the request
	terminal                   // FastFailOnTerminalError gives up
	fault                      // counts against the node's throttle
	overload                   // the dear token of a budget
)

type reasonRow struct {
	name  string
	flags flags
	kind  Kind
}

// The flags that rows of one stage share.
const (
	local   = nonIdem | unseen            // met before anything was sent
	routing = nonIdem | unseen | always   // a server without the data sent it elsewhere
	verdict = nonIdem | unseen | terminal // retrying is unlikely to help
	failed  = nonIdem | fault             // a server in trouble refused it
	busy    = nonIdem | fault | overload  // a server in trouble says that it has too much to do
	held    = nonIdem                     // the item is busy, not the server
)

// reasons is the one table of reasons.
var reasons = [reasonCount]reasonRow{
	Unknown:                        {"UNKNOWN", 0, ServerSide},
	SocketNotAvailable:             {"SOCKET_NOT_AVAILABLE", local, ClientSide},
	ServiceNotAvailable:            {"SERVICE_NOT_AVAILABLE", local, ClientSide},
	NodeNotAvailable:               {"NODE_NOT_AVAILABLE", local, ClientSide},
	CircuitBreakerOpen:             {"CIRCUIT_BREAKER_OPEN", local, ClientSide},
	EndpointNotWritable:            {"ENDPOINT_NOT_WRITABLE", local, ClientSide},
	WriteFailed:                    {"WRITE_FAILED", local, ClientSide},
	KVNotMyVBucket:                 {"KV_NOT_MY_VBUCKET", routing, ClientSide},
	KVCollectionOutdated:           {"KV_COLLECTION_OUTDATED", routing, ClientSide},
	ViewsNoActivePartition:         {"VIEWS_NO_ACTIVE_PARTITION", routing, ClientSide},
	CollectionMapRefreshInProgress: {"COLLECTION_MAP_REFRESH_IN_PROGRESS", local, ClientSide},
	BucketNotReady:                 {"BUCKET_NOT_READY", local, ClientSide},
	NotReady:                       {"NOT_READY", local, ClientSide},
	KVErrorMapRetryIndicated:       {"KV_ERROR_MAP_RETRY_INDICATED", failed, ServerSide},
	KVLocked:                       {"KV_LOCKED", held, ServerSide},
	KVSyncWriteInProgress:          {"KV_SYNC_WRITE_IN_PROGRESS", held, ServerSide},
	KVSyncWriteReCommitInProgress:  {"KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS", held, ServerSide},
	KVTemporaryFailure:             {"KV_TEMPORARY_FAILURE", busy, Throttling},
	AnalyticsTemporaryFailure:      {"ANALYTICS_TEMPORARY_FAILURE", busy, Throttling},
	SearchTooManyRequests:          {"SEARCH_TOO_MANY_REQUESTS", busy, Throttling},
	ServiceResponseCodeIndicated:   {"SERVICE_RESPONSE_CODE_INDICATED", busy, Throttling},
	SocketClosedWhileInFlight:      {"SOCKET_CLOSED_WHILE_IN_FLIGHT", fault, Timeout},
	QueryPreparedStatementFailure:  {"QUERY_PREPARED_STATEMENT_FAILURE", failed, ServerSide},
	QueryIndexNotFound:             {"QUERY_INDEX_NOT_FOUND", failed, ServerSide},
	QueryErrorRetryable:            {"QUERY_ERROR_RETRYABLE", fault, ServerSide},
	QueryTransactionBufferFull:     {"QUERY_TRANSACTION_BUFFER_FULL", failed, ServerSide},
	ViewsTemporaryFailure:          {"VIEWS_TEMPORARY_FAILURE", failed, ServerSide},
	AuthenticationError:            {"AUTHENTICATION_ERROR", verdict, ClientSide},
	TLSError:                       {"TLS_ERROR", verdict, ClientSide},
	BucketAccessError:              {"BUCKET_ACCESS_ERROR", verdict, ClientSide},
	ScopeNotFound:                  {"SCOPE_NOT_FOUND", verdict, ClientSide},
	CollectionNotFound:             {"COLLECTION_NOT_FOUND", verdict, ClientSide},
	CredentialsFetchFailed:         {"CREDENTIALS_FETCH_FAILED", local, ClientSide},
	EvaluationIndicated:            {"EVALUATION_INDICATED", failed, ServerSide},
}

func (r Reason) has(f flags) bool { return r < reasonCount && reasons[r].flags&f != 0 }

// AllowsNonIdempotent reports whether an operation that is not idempotent may be retried for this reason.
func (r Reason) AllowsNonIdempotent() bool { return r.has(nonIdem) }

// AlwaysRetry reports whether the orchestrator retries without asking the strategy.
func (r Reason) AlwaysRetry() bool { return r.has(always) }

// Unseen reports whether the server's logic never saw the request. Such a retry is transparent: it counts neither as
// an attempt nor as a failure.
func (r Reason) Unseen() bool { return r.has(unseen) }

// Terminal reports whether FastFailOnTerminalError gives up for this reason.
func (r Reason) Terminal() bool { return r.has(terminal) }

// Fault reports whether the failure counts against the throttle of the node that answered.
func (r Reason) Fault() bool { return r.has(fault) }

// Overload reports whether the server said that it has too much to do, which costs a budget most.
func (r Reason) Overload() bool { return r.has(overload) }

// Kind is the class of failure that the reason usually belongs to. An answer may say otherwise: see Hint.Overload.
func (r Reason) Kind() Kind {
	if r < reasonCount {
		return reasons[r].kind
	}
	return ServerSide
}

// String is the reason's name in the RFC's form, as in "KV_NOT_MY_VBUCKET".
func (r Reason) String() string {
	if r < reasonCount {
		return reasons[r].name
	}
	return fmt.Sprintf("REASON_%d", uint8(r))
}

// Parse finds the reason with the given name, whatever its case.
func Parse(s string) (Reason, error) {
	for r := range reasonCount {
		if strings.EqualFold(reasons[r].name, s) {
			return r, nil
		}
	}
	return Unknown, fmt.Errorf("%q is not a retry reason", s)
}

// All yields every reason in the order of the table.
func All() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for r := range reasonCount {
			if !yield(r) {
				return
			}
		}
	}
}

// Reasons is a set of reasons. Its zero value is empty.
type Reasons uint64

// Has reports whether r is in the set.
func (s Reasons) Has(r Reason) bool { return r < 64 && s&(1<<r) != 0 }

// With is the set with r added.
func (s Reasons) With(r Reason) Reasons {
	if r >= 64 {
		return s
	}
	return s | 1<<r
}

// All yields the reasons of the set in the order of the table.
func (s Reasons) All() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for m := uint64(s); m != 0; m &= m - 1 {
			if !yield(Reason(bits.TrailingZeros64(m))) {
				return
			}
		}
	}
}

// String lists the names, separated by commas.
func (s Reasons) String() string {
	var b strings.Builder
	for r := range s.All() {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(r.String())
	}
	return b.String()
}
