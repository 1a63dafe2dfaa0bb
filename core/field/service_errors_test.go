package field_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/views"
)

// The error of a request to a service says once that its time is over, and then what the last attempt met, as that of a
// key-value operation does.
func TestAServicesErrorNamesItsEndOnce_D179(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := mocked(t, m)
		none := drain(c.Bucket("default").View(within(t, time.Second), &views.Request{Design: "none", View: "none"}))
		m.Script(mock.ServiceMatch{Service: mock.QueryService}, mock.Answer{Status: 429})
		busy := drain(c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"}))
		m.Script(mock.ServiceMatch{Service: mock.ManagementService}, mock.Answer{Status: 503})
		_, closed := c.Do(within(t, time.Second), &core.HTTPRequest{
			Service: core.Management, Method: "GET", Path: "/pools", Idempotent: true,
		})
		for _, err := range []error{none, busy, closed} {
			require.ErrorContains(t, err, "unambiguous timeout on ")
			require.ErrorContains(t, err, "waiting for a retry")
			require.NotContains(t, err.Error(), "operation timed out")
		}
		require.Regexp(t, ", because: view not found$", none.Error())
	})
}
