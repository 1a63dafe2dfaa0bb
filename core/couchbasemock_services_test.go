package core_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/views"
)

// openServices is a cluster whose map is there.
func openServices(t *testing.T, m *testkit.CouchbaseMockServer) *core.Cluster {
	c := openCouchbaseMock(t, m, "secret")
	require.NoError(t, c.Bucket("default").WaitReady(longer(t)))
	return c
}

// TestCouchbaseMockQuery: its query service knows three statements, and plans.
func TestCouchbaseMockQuery(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, _ *core.Bucket) {
		c := openServices(t, m)
		all := func(r *query.Request) ([]string, error) {
			rows, err := c.Query(longer(t), r)
			if err != nil {
				return nil, err
			}
			var out []string
			for rows.Next() {
				out = append(out, string(rows.Row()))
			}
			return out, rows.Err()
		}
		rows, err := all(&query.Request{Statement: "SELECT MOCKROW"})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.JSONEq(t, `{"row":"value"}`, rows[0])
		rows, err = all(&query.Request{Statement: "SELECT EMPTYROW", Readonly: true})
		require.NoError(t, err)
		require.Empty(t, rows)
		_, err = all(&query.Request{Statement: "SELECT something"})
		require.ErrorIs(t, err, cberr.IndexFailure)
		var e *query.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 12003, e.Errors[0].Code)
		for range 2 {
			rows, err = all(&query.Request{Statement: "SELECT MOCKROW", Prepare: true})
			require.NoError(t, err)
			require.Len(t, rows, 1)
		}
		_, err = all(&query.Request{Prepared: "nobody", Retry: strictly{}})
		require.ErrorIs(t, err, cberr.PreparedStatementFailure)
	})
}

// TestCouchbaseMockViews runs its view engine over documents.
func TestCouchbaseMockViews(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, _ *core.Bucket) {
		c := openServices(t, m)
		b := c.Bucket("default")
		for key, value := range map[string]string{"a": `{"n":1}`, "b": `{"n":2}`, "c": `{"n":3}`} {
			_, err := kv.Do(longer(t), b, kv.Upsert{
				Key: []byte(key), Value: []byte(value),
				Datatype: memd.DatatypeJSON,
			})
			require.NoError(t, err)
		}
		resp, err := c.Do(longer(t), &core.HTTPRequest{
			Service: core.Views, Method: "PUT", Path: "/default/_design/d", ContentType: "application/json",
			Body: []byte(`{"views":{"v":{"map":"function(doc,meta){emit(meta.id,doc.n)}","reduce":"_sum"}}}`),
		})
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Less(t, resp.Status, 300, "%s", text)

		rows, err := b.View(longer(t), &views.Request{
			Design: "d", View: "v", Reduce: views.Off,
			Stale: views.StaleFalse, Order: views.Descending, Limit: 2,
		})
		require.NoError(t, err)
		var ids []string
		for rows.Next() {
			entry, err := rows.Entry()
			require.NoError(t, err)
			ids = append(ids, entry.ID)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, []string{"c", "b"}, ids)
		meta, err := rows.Meta()
		require.NoError(t, err)
		require.EqualValues(t, 3, meta.TotalRows)

		rows, err = b.View(longer(t), &views.Request{Design: "d", View: "v", Keys: []any{"a", "c"}})
		require.NoError(t, err)
		require.True(t, rows.Next())
		entry, err := rows.Entry()
		require.NoError(t, err)
		require.Equal(t, "4", string(entry.Value))
		require.NoError(t, rows.Close())

		_, err = b.View(longer(t), &views.Request{Design: "d", View: "absent", Retry: strictly{}})
		require.ErrorIs(t, err, cberr.ViewNotFound)
	})
}

// strictly retries nothing.
type strictly struct{}

func (strictly) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}

func (strictly) Inline() bool { return true }
