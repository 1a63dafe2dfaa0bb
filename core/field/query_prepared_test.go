package field_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// forgetful is a query service that has forgotten every plan: the first execution of each plan that it makes fails.
type forgetful struct {
	made, executed atomic.Int32
	code           string
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Statement, Prepared string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case strings.HasPrefix(body.Statement, "PREPARE "):
		f.made.Add(1)
		_, _ = io.WriteString(w, `{"results":[{"name":"plan","encoded_plan":"e"}],"status":"success"}`)
	case f.executed.Add(1) == 1:
		w.WriteHeader(http.StatusNotFound) // as query 8.0.1 does, without a hint
		_, _ = io.WriteString(w, `{"errors":[{"code":`+f.code+`,"msg":"No such prepared statement"}],"status":"fatal"}`)
	default:
		_, _ = io.WriteString(w, `{"results":[1],"status":"success"}`)
	}
}

// TestOnlyAPlanOfTheClientsOwnIsMadeAgain_D123: a plan that the statement or the request names is the user's, and
// nothing that the client could send again makes it.
func TestOnlyAPlanOfTheClientsOwnIsMadeAgain_D123(t *testing.T) {
	for _, code := range []string{"4040", "4050", "4060", "4070", "4080", "4090"} {
		for name, r := range map[string]*query.Request{
			"the statement names a plan": {Statement: "EXECUTE nosuch"},
			"and only reads":             {Statement: "EXECUTE nosuch", Readonly: true},
			"the request names a plan":   {Prepared: "nosuch"},
			"an ordinary statement":      {Statement: "SELECT 1", Readonly: true},
		} {
			t.Run(code+" "+name, func(t *testing.T) {
				f := &forgetful{code: code}
				c := services(t, f.ServeHTTP)
				r.Retry = retry.BestEffort{}
				err := runQuery(within(t, 2*time.Second), c, r)
				require.ErrorIs(t, err, cberr.PreparedStatementFailure)
				require.NotErrorIs(t, err, cberr.Timeout)
				require.False(t, ambiguous(t, err), "%v", err)
				require.EqualValues(t, 1, f.executed.Load())
				require.Zero(t, f.made.Load())
			})
		}
		t.Run(code+" the client keeps the plan", func(t *testing.T) {
			f := &forgetful{code: code}
			c := services(t, f.ServeHTTP)
			err := runQuery(within(t, 2*time.Second), c, &query.Request{Statement: "UPDATE a SET b = 1", Prepare: true})
			require.NoError(t, err)
			require.EqualValues(t, 2, f.executed.Load())
			require.EqualValues(t, 2, f.made.Load())
		})
	}
}
