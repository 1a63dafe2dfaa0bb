package field_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// TestAServiceThatSaysAtOnceIsNotAskedWithoutEnd_D140: one call sent 9,075 requests a second.
func TestAServiceThatSaysAtOnceIsNotAskedWithoutEnd_D140(t *testing.T) {
	for name, header := range map[string]http.Header{
		"zero": {"Retry-After": {"0"}}, "a past date": {"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}},
		"zero ms": {"Grpc-Retry-Pushback-Ms": {"0"}},
	} {
		for status, strategy := range map[int]retry.Strategy{
			http.StatusTooManyRequests:    nil,
			http.StatusServiceUnavailable: retry.BestEffort{},
		} {
			s := &script{status: status, header: header}
			c := services(t, s.ServeHTTP)
			err := runQuery(within(t, 500*time.Millisecond), c, &query.Request{
				Statement: "DELETE FROM a",
				Retry:     strategy,
			})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout, name)
			require.Greater(t, s.requests.Load(), int32(2), name)
			require.Less(t, s.requests.Load(), int32(10), name)
		}
	}
}
