package field_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// rowsOf are the rows of any service.
type rowsOf interface {
	Next() bool
	Row() []byte
	Err() error
	Close() error
}

// ask sends a request that only reads to each of the four services with rows.
func ask(t testing.TB, c *core.Cluster) map[string]func() (rowsOf, error) {
	ctx := within(t, 10*time.Second)
	return map[string]func() (rowsOf, error){
		"query": func() (rowsOf, error) {
			return given(c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true}))
		},
		"analytics": func() (rowsOf, error) {
			return given(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: true}))
		},
		"search": func() (rowsOf, error) {
			return given(c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{}}))
		},
		"views": func() (rowsOf, error) {
			return given(c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v"}))
		},
	}
}

func given[R rowsOf](rows R, err error) (rowsOf, error) {
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// TestRowsAndProfilesMayBeDeep_D129: a document may be as deep as its writer likes, and a profile nests by operator.
func TestRowsAndProfilesMayBeDeep_D129(t *testing.T) {
	for _, depth := range []int{65, 1024, 8191} {
		row := nested(depth)
		body := fmt.Sprintf(`{"results":[%[1]s],"hits":[%[1]s],"rows":[%[1]s],"profile":%[1]s,"status":"success"}`, row)
		c := services(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		for name, run := range ask(t, c) {
			rows, err := run()
			require.NoError(t, err, name)
			require.True(t, rows.Next(), "%s of %d levels: %v", name, depth, rows.Err())
			require.Len(t, rows.Row(), 2*depth)
			var v any
			require.NoError(t, json.Unmarshal(rows.Row(), &v))
			require.False(t, rows.Next())
			require.NoError(t, rows.Err(), "%s of %d levels", name, depth)
			if q, ok := rows.(*query.Rows); ok {
				meta, err := q.Meta()
				require.NoError(t, err)
				require.Equal(t, "success", meta.Status)
				require.Len(t, meta.Profile, 2*depth)
			}
		}
	}
}

// TestTheDepthOfRowsIsBounded_D129: the limit is an option, and what is deeper says so by name.
func TestTheDepthOfRowsIsBounded_D129(t *testing.T) {
	for _, limit := range []int{0, 8, 9000} {
		depth := limit + 1
		if limit == 0 {
			depth = 8193
		}
		c := services(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"results":[`+nested(depth)+`],"status":"success"}`)
		}, func(cfg *core.Config) { cfg.Limits.RowDepth = limit })
		err := runQuery(within(t, 5*time.Second), c, &query.Request{Statement: "SELECT 1"})
		require.ErrorIs(t, err, cberr.DecodingFailure)
		require.ErrorContains(t, err, fmt.Sprintf("limit %d", depth-1))
	}
}

// TestErrorListsMayBeLong_D129: the answer to a failed statement of 200 KiB repeats it, and its code decides as in a
// short one.
func TestErrorListsMayBeLong_D129(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	c := services(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"errors":[{"code":3000,"msg":"syntax error near `+long+`"}],"status":"fatal"}`)
	})
	err := runQuery(within(t, 5*time.Second), c, &query.Request{Statement: "SELEC " + long})
	require.ErrorIs(t, err, cberr.ParsingFailure)
	var failed *query.Error
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Errors, 1)
	require.Less(t, len(err.Error()), 2000, "the text of the error is short")
}
