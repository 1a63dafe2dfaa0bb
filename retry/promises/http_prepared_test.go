package promises_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// TestCB62AMissingIndexIsRetriedWhateverWayTheStatementRuns: error code 5000 with "queryport.indexNotFound" is in the
// RFC's list of answers for every statement, also for one that writes and that runs by a plan: nothing was executed.
func TestCB62AMissingIndexIsRetriedWhateverWayTheStatementRuns(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		var executed atomic.Int32
		c := services(t, func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Statement string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			switch {
			case strings.HasPrefix(body.Statement, "PREPARE "):
				_, _ = io.WriteString(w, `{"results":[{"name":"plan","encoded_plan":"e"}],"status":"success"}`)
			case executed.Add(1) <= 3:
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, `{"errors":[{"code":5000,"msg":"cause: queryport.indexNotFound"}],"status":"errors"}`)
			default:
				_, _ = io.WriteString(w, `{"results":[],"status":"success"}`)
			}
		})
		rows, err := c.Query(within(t, 2*time.Second), &query.Request{Statement: "DELETE FROM a", Prepare: prepare})
		require.NoError(t, err, "prepared %v", prepare)
		require.EqualValues(t, 4, executed.Load())
		require.True(t, rows.RetryInfo().Reasons.Has(retry.QueryIndexNotFound))
		require.Equal(t, 3, rows.RetryInfo().Counted)
		require.NoError(t, rows.Close())
	}
}
