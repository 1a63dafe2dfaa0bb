package field_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// A text that is not UTF-8 cannot be sent as JSON: the request is refused by the name of what has it, and nothing is
// sent. encoding/json would send another text in its place.
func TestTextsOfRequestsAreUTF8_D168(t *testing.T) {
	var requests atomic.Int32
	c := services(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(`{"results":[],"hits":[],"rows":[],"status":"success"}`))
	})
	b, bad := c.Bucket("default"), "k\xfe"
	ctx := within(t, 5*time.Second)
	for name, call := range map[string]func() error{
		"statement is": func() error { return drain(c.Query(ctx, &query.Request{Statement: bad})) },
		"$x is": func() error {
			return drain(c.Query(ctx, &query.Request{Statement: "SELECT $x", Named: map[string]any{"x": bad}}))
		},
		"args is": func() error {
			return drain(c.Analytics(ctx, &analytics.Request{Statement: "SELECT $1", Positional: []any{&bad}}))
		},
		"query is": func() error {
			return drain(c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{"match": []string{bad}}}))
		},
		"the value is": func() error { return drain(b.View(ctx, &views.Request{Design: "d", View: "v", Key: bad})) },
	} {
		err := call()
		require.ErrorIs(t, err, cberr.InvalidArgument, name)
		require.ErrorContains(t, err, name+" not UTF-8")
	}
	require.Zero(t, requests.Load())
	same := map[string]any{"x": "k\uFFFD", "y": json.RawMessage(`"\ufffd"`)}
	require.NoError(t, drain(c.Query(ctx, &query.Request{Statement: "SELECT $x", Named: same})))
	require.EqualValues(t, 1, requests.Load())
}
