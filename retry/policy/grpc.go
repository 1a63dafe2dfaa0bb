package policy

import (
	"strings"

	"github.com/couchcore/couchcore/retry"
)

// grpcStatus is one of gRPC's status codes and what it means here.
type grpcStatus struct {
	name   string
	reason retry.Reason // that it is in every service; Unknown: more than one, or no reason
	// the HTTP status that stands for it, by google/rpc/code.proto, where services with HTTP have a reason for that; 0:
	// none
	http  uint32
	write string // the reasons that it may stand for; "": it is never retried
}

// grpcStatuses are gRPC's status codes by number.
var grpcStatuses = [...]grpcStatus{
	{name: "OK"},
	{name: "CANCELLED"},
	{name: "UNKNOWN"},
	{name: "INVALID_ARGUMENT"},
	{name: "DEADLINE_EXCEEDED", http: 504, write: "SERVICE_RESPONSE_CODE_INDICATED for a gateway's timeout; the " +
		"call's own deadline ends it"},
	{name: "NOT_FOUND", write: "SCOPE_NOT_FOUND, COLLECTION_NOT_FOUND or QUERY_INDEX_NOT_FOUND"},
	{name: "ALREADY_EXISTS"},
	{name: "PERMISSION_DENIED", write: "BUCKET_ACCESS_ERROR"},
	{name: "RESOURCE_EXHAUSTED", http: 429, write: "KV_TEMPORARY_FAILURE, SEARCH_TOO_MANY_REQUESTS or " +
		"SERVICE_RESPONSE_CODE_INDICATED"},
	{name: "FAILED_PRECONDITION", write: "KV_LOCKED or QUERY_PREPARED_STATEMENT_FAILURE"},
	{name: "ABORTED", write: "KV_LOCKED, KV_SYNC_WRITE_IN_PROGRESS or KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS"},
	{name: "OUT_OF_RANGE"},
	{name: "UNIMPLEMENTED"},
	{name: "INTERNAL", write: "KV_ERROR_MAP_RETRY_INDICATED or QUERY_ERROR_RETRYABLE"},
	{name: "UNAVAILABLE", http: 503, write: "KV_TEMPORARY_FAILURE for a node that is busy, " +
		"SOCKET_CLOSED_WHILE_IN_FLIGHT for a lost " +
		"connection, SERVICE_RESPONSE_CODE_INDICATED or VIEWS_TEMPORARY_FAILURE for a service"},
	{name: "DATA_LOSS"},
	{name: "UNAUTHENTICATED", reason: retry.AuthenticationError},
}

// grpcStatusOf finds a status by its name in any case, nil for none.
func grpcStatusOf(name string) *grpcStatus {
	for i := range grpcStatuses {
		if strings.EqualFold(grpcStatuses[i].name, name) {
			return &grpcStatuses[i]
		}
	}
	return nil
}

// refusal says what to write instead of a status that stands for no single reason.
func (s *grpcStatus) refusal(where string) string {
	text := "is gRPC's " + s.name + ", which is "
	if s.write == "" {
		return text + "never retried"
	}
	return text + "no single reason in " + where + ": write " + s.write
}
