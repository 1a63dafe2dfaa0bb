package policy

import (
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/retry"
)

// grpcStatus is one of gRPC's status codes and what it means here.
type grpcStatus struct {
	name   string
	reason retry.Reason // the only one in every service; Unknown: there are more, or none
	// the HTTP status that stands for it, by google/rpc/code.proto, where services with HTTP have a reason for that; 0:
	// none
	http uint32
	may  []retry.Reason // what it may stand for, in one service or another; none: it is never retried
}

// grpcStatuses are gRPC's status codes by number.
var grpcStatuses = [...]grpcStatus{
	{name: "OK"},
	{name: "CANCELLED"},
	{name: "UNKNOWN"},
	{name: "INVALID_ARGUMENT"},
	{name: "DEADLINE_EXCEEDED", http: 504, may: []retry.Reason{retry.ServiceResponseCodeIndicated}},
	{name: "NOT_FOUND", may: []retry.Reason{
		retry.ScopeNotFound, retry.CollectionNotFound, retry.QueryIndexNotFound, retry.ViewsTemporaryFailure,
	}},
	{name: "ALREADY_EXISTS"},
	{name: "PERMISSION_DENIED", may: []retry.Reason{retry.BucketAccessError}},
	{name: "RESOURCE_EXHAUSTED", http: 429, may: []retry.Reason{
		retry.KVTemporaryFailure, retry.QueryTransactionBufferFull, retry.AnalyticsTemporaryFailure,
		retry.SearchTooManyRequests, retry.ServiceResponseCodeIndicated,
	}},
	{name: "FAILED_PRECONDITION", may: []retry.Reason{retry.KVLocked, retry.QueryPreparedStatementFailure}},
	{name: "ABORTED", may: []retry.Reason{
		retry.KVLocked, retry.KVSyncWriteInProgress, retry.KVSyncWriteReCommitInProgress, retry.QueryErrorRetryable,
	}},
	{name: "OUT_OF_RANGE"},
	{name: "UNIMPLEMENTED"},
	{name: "INTERNAL", may: []retry.Reason{
		retry.KVErrorMapRetryIndicated, retry.QueryErrorRetryable, retry.ViewsTemporaryFailure,
	}},
	{name: "UNAVAILABLE", http: 503, may: []retry.Reason{
		retry.KVTemporaryFailure, retry.AnalyticsTemporaryFailure, retry.ViewsTemporaryFailure,
		retry.ServiceResponseCodeIndicated, retry.SocketClosedWhileInFlight,
	}},
	{name: "DATA_LOSS"},
	{name: "UNAUTHENTICATED", reason: retry.AuthenticationError, may: []retry.Reason{retry.AuthenticationError}},
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

// write lists the reasons of a service that the status may stand for: of all services with "". It is empty
// without any.
func (st *grpcStatus) write(s retry.Service) string {
	var names []string
	for _, why := range st.may {
		if s == "" || arises(why, s) {
			names = append(names, why.String())
		}
	}
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " or " + names[n]
	}
	return strings.Join(names, "")
}

// arises says whether calls of a service can have a reason.
func arises(why retry.Reason, s retry.Service) bool {
	switch why { //nolint:exhaustive // the others bear the name of their service
	case retry.SocketClosedWhileInFlight, retry.AuthenticationError:
		return true
	case retry.ServiceResponseCodeIndicated:
		return s != retry.KV
	case retry.BucketAccessError, retry.ScopeNotFound, retry.CollectionNotFound:
		return s == retry.KV
	}
	return strings.HasPrefix(why.String(), strings.ToUpper(string(s))+"_")
}

// refusal says what to write instead of a status that is no reason by itself.
func (st *grpcStatus) refusal(s retry.Service) string {
	text := "is gRPC's " + st.name + ", which is "
	switch write := st.write(s); {
	case len(st.may) == 0:
		return text + "never retried"
	case write == "":
		return text + "never retried in " + where(s)
	default:
		return text + "no reason by itself in " + where(s) + ": write " + write
	}
}

// ambiguous says how to write a number that is a status of gRPC's and also one of the service's own, which the client
// retries as why.
func (st *grpcStatus) ambiguous(s retry.Service, number uint32, why retry.Reason) string {
	text := fmt.Sprintf("is ambiguous: it is gRPC's %s, and %s in %s: write \"%#02x\" for the latter", st.name, why,
		where(s), number)
	if write := st.write(s); write != "" {
		text += ", and for gRPC's " + write
	}
	return text
}

func where(s retry.Service) string {
	if s == "" {
		return "any service"
	}
	return fmt.Sprintf("the service %q", s)
}
