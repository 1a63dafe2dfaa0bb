package core_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
	"github.com/couchcore/couchcore/views"
)

// TestViewsOverDocuments asks real map and reduce functions over the mock's documents for all that a request can say.
func TestViewsOverDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(),
			mock.Views(viewjs.New(viewjs.Options{})))
		c := open(t, m)
		b := c.Bucket("default")
		for i := range 10 {
			v := fmt.Sprintf(`{"n":%d,"kind":%q}`, i, []string{"even", "odd"}[i%2])
			_, err := kv.Do(ctx(t), b, kv.Upsert{
				Key: fmt.Appendf(nil, "d%d", i), Value: []byte(v),
				Datatype: memd.DatatypeJSON,
			})
			require.NoError(t, err)
		}
		const design = `{"views":{"v":{"map":"function(doc,meta){emit([doc.kind,doc.n],doc.n)}","reduce":"_sum"}}}`
		for _, name := range []string{"d", "dev_d"} {
			resp, err := c.Do(ctx(t), &core.HTTPRequest{
				Service: core.Views, Method: "PUT", Path: "/default/_design/{}", Args: []string{name},
				ContentType: "application/json", Body: []byte(design),
			})
			require.NoError(t, err)
			text, _ := io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())
			require.Less(t, resp.Status, 300, "%s", text)
		}
		ask := func(r views.Request) (ids, values []string, meta views.Meta) {
			r.Design, r.View, r.Stale = "d", "v", views.StaleFalse
			rows, err := b.View(ctx(t), &r)
			require.NoError(t, err)
			for rows.Next() {
				e, err := rows.Entry()
				require.NoError(t, err)
				ids, values = append(ids, e.ID), append(values, string(e.Value))
			}
			meta, err = rows.Meta()
			require.NoError(t, err)
			return ids, values, meta
		}
		mapOnly := views.Request{Reduce: views.Off}
		with := func(change func(*views.Request)) views.Request {
			r := mapOnly
			change(&r)
			return r
		}
		ids, _, meta := ask(mapOnly)
		require.Equal(t, strings.Fields("d0 d2 d4 d6 d8 d1 d3 d5 d7 d9"), ids)
		require.EqualValues(t, 10, meta.TotalRows)
		ids, _, _ = ask(with(func(r *views.Request) { r.Order, r.Limit, r.Skip = views.Descending, 3, 1 }))
		require.Equal(t, strings.Fields("d7 d5 d3"), ids)
		ids, _, _ = ask(with(func(r *views.Request) { r.StartKey, r.EndKey = []any{"even", 4}, []any{"odd", 3} }))
		require.Equal(t, strings.Fields("d4 d6 d8 d1 d3"), ids)
		ids, _, _ = ask(with(func(r *views.Request) {
			r.StartKey, r.EndKey, r.InclusiveEnd = []any{"even", 4}, []any{"odd", 3}, views.Off
		}))
		require.Equal(t, strings.Fields("d4 d6 d8 d1"), ids)
		ids, _, _ = ask(with(func(r *views.Request) { r.Key = []any{"odd", 5} }))
		require.Equal(t, []string{"d5"}, ids)
		var keys []any
		for i := range 200 { // too long for an address: they go into the body
			keys = append(keys, []any{"even", i})
		}
		ids, _, _ = ask(with(func(r *views.Request) { r.Keys = keys }))
		require.Equal(t, strings.Fields("d0 d2 d4 d6 d8"), ids)
		log := m.ServiceLog(mock.ViewsService)
		require.Equal(t, "POST", log[len(log)-1].Method)
		ids, values, _ := ask(views.Request{})
		require.Equal(t, []string{""}, ids)
		require.Equal(t, []string{"45"}, values)
		_, values, _ = ask(views.Request{GroupLevel: 1})
		require.Equal(t, []string{"20", "25"}, values)
		_, values, _ = ask(views.Request{Group: true})
		require.Len(t, values, 10)
		ids, _, _ = ask(with(func(r *views.Request) { r.Development = true }))
		require.Len(t, ids, 10)

		_, err := b.View(ctx(t), &views.Request{Design: "d", View: "nowhere", Retry: strictly{}})
		require.ErrorIs(t, err, cberr.ViewNotFound)
		_, err = b.View(ctx(t), &views.Request{Design: "nothing", View: "v", Retry: strictly{}})
		require.ErrorIs(t, err, cberr.ViewNotFound)
	})
}
