package promises_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// These are the statements about gRPC's status codes in a policy file: a code counts where it means one thing, and
// elsewhere the error says what to write.

// codes is a file in gRPC's form with one retry policy, or hedging policy, for a service; "" is everything.
func codes(service, policy, list string) string {
	name := `{}`
	if service != "" {
		name = `{"service":"` + service + `"}`
	}
	if policy == "hedgingPolicy" {
		return `{"methodConfig":[{"name":[` + name + `],"hedgingPolicy":{"maxAttempts":2,"nonFatalStatusCodes":[` + list + `]}}]}`
	}
	return `{"methodConfig":[{"name":[` + name + `],"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s",
		"maxBackoff":"1s","backoffMultiplier":1,"retryableStatusCodes":[` + list + `]}}]}`
}

// TestANumberOfGRPCsAndOfKeyValueIsRefused: every number that is a status of gRPC's and one that the client retries in
// the service, for key-value and for everything, of retries and of hedges.
func TestANumberOfGRPCsAndOfKeyValueIsRefused(t *testing.T) {
	for number, want := range map[int][]string{
		7:  {"PERMISSION_DENIED", "KV_NOT_MY_VBUCKET", `"0x07"`, "BUCKET_ACCESS_ERROR"},
		8:  {"RESOURCE_EXHAUSTED", "BUCKET_NOT_READY", `"0x08"`, "KV_TEMPORARY_FAILURE"},
		9:  {"FAILED_PRECONDITION", "KV_LOCKED", `"0x09"`},
		12: {"UNIMPLEMENTED", "KV_ERROR_MAP_RETRY_INDICATED", `"0x0c"`},
		13: {"INTERNAL", "KV_ERROR_MAP_RETRY_INDICATED", `"0x0d"`},
	} {
		for _, service := range []string{"kv", ""} {
			for kind, field := range map[string]string{
				"retryPolicy": "retryableStatusCodes", "hedgingPolicy": "nonFatalStatusCodes",
			} {
				_, err := core.ParsePolicy([]byte(codes(service, kind, fmt.Sprintf(`"KV_LOCKED",%d`, number))))
				var pe *policy.ParseError
				require.ErrorAs(t, err, &pe, "%d in %q", number, service)
				require.Equal(t, "methodConfig[0]."+kind+"."+field+"[1]", pe.Path)
				require.Equal(t, fmt.Sprint(number), pe.Value)
				for _, part := range append(want, "ambiguous") {
					require.ErrorContains(t, err, part)
				}
			}
		}
		if number == 7 {
			continue // a routing reason is no matter of policies, but it may be listed
		}
		parsed(t, codes("kv", "retryPolicy", fmt.Sprintf(`"%#02x"`, number)))
		parsed(t, strings.NewReplacer("methodConfig", "operationConfig", "retryableStatusCodes", "retryableReasons").
			Replace(codes("kv", "retryPolicy", fmt.Sprint(number))))
	}
	_, err := core.ParsePolicy([]byte(`{"methodConfig":[{"name":[{"service":"query"},{"service":"kv"}],
		"hedgingPolicy":{"maxAttempts":2,"nonFatalStatusCodes":[8]}}]}`))
	require.ErrorContains(t, err, "ambiguous", "what is clear for one service of the entry is not for the other")
}

// TestNoNumberOfGRPCsIsTakenForAServicesOwn walks through all of gRPC's numbers in every service: each is refused, or
// is what its name is.
func TestNoNumberOfGRPCsIsTakenForAServicesOwn(t *testing.T) {
	for _, service := range []retry.Service{
		"kv", "query", "search", "analytics", "views", "management", "eventing", "backup", "",
	} {
		for number := 1; number <= 16; number++ {
			p, err := core.ParsePolicy([]byte(codes(string(service), "retryPolicy", fmt.Sprint(number))))
			name, byName := core.ParsePolicy([]byte(codes(string(service), "retryPolicy", `"`+grpcNames[number]+`"`)))
			if err != nil {
				require.ErrorContains(t, err, grpcNames[number])
				continue
			}
			require.NoError(t, byName)
			want, _ := name.For(service, "")
			have, _ := p.For(service, "")
			require.Equal(t, want.Text, have.Text, "%d in %q", number, service)
		}
	}
}

var grpcNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// TestWhatToWriteInsteadIsOfTheEntrysService: no other service's reason is proposed, and each that is proposed is
// taken.
func TestWhatToWriteInsteadIsOfTheEntrysService(t *testing.T) {
	services := []string{"kv", "query", "search", "analytics", "views", "management", "eventing", "backup"}
	for _, service := range services {
		for _, name := range grpcNames {
			_, err := core.ParsePolicy([]byte(codes(service, "retryPolicy", `"`+name+`"`)))
			if err == nil {
				continue
			}
			if !strings.Contains(err.Error(), ": write ") {
				require.ErrorContains(t, err, "never retried", "%s in %s", name, service)
				continue
			}
			_, list, _ := strings.Cut(err.Error(), ": write ")
			list, _, _ = strings.Cut(list, ": ")
			for _, why := range strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ") {
				parsed(t, codes(service, "retryPolicy", `"`+why+`"`))
				for _, other := range services {
					foreign := other != service && strings.HasPrefix(why, strings.ToUpper(other)+"_")
					require.False(t, foreign, "%s in %s: %v", name, service, err)
				}
			}
		}
	}
	_, err := core.ParsePolicy([]byte(codes("query", "retryPolicy", `"ABORTED"`)))
	require.ErrorContains(t, err, `in the service "query": write QUERY_ERROR_RETRYABLE`)
	_, err = core.ParsePolicy([]byte(codes("search", "retryPolicy", `"ABORTED"`)))
	require.ErrorContains(t, err, `never retried in the service "search"`)
}
