package field_test

import (
	"context"
	"io"
	"net/http"
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

// oddBody is a body of the caller's whose methods do what its fields do.
type oddBody struct {
	read  func(p []byte) (int, error)
	close func() error
}

func (b oddBody) Read(p []byte) (int, error) { return b.read(p) }
func (b oddBody) Close() error               { return b.close() }

// A streamed body may panic, or claim to have read what it cannot have read: that fails its own request, on no
// goroutine of net/http's.
func TestOddBodiesOfRequests_D135(t *testing.T) {
	c := services(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	end := func([]byte) (int, error) { return 0, io.EOF }
	fine := func() error { return nil }
	for name, o := range map[string]struct {
		body   oddBody
		failed bool
	}{
		"Read panics":              {oddBody{func([]byte) (int, error) { panic("in Read") }, fine}, true},
		"Read gives more than all": {oddBody{func(p []byte) (int, error) { return len(p) + 1, nil }, fine}, true},
		"Read gives less than 0":   {oddBody{func([]byte) (int, error) { return -1, nil }, fine}, true},
		"Close panics":             {oddBody{end, func() error { panic("in Close") }}, false},
		"both panic": {oddBody{
			func([]byte) (int, error) { panic("in Read") },
			func() error { panic("in Close") },
		}, true},
		"Close does not come back": {oddBody{end, func() error { <-release; return nil }}, false},
	} {
		for how, ctx := range map[string]context.Context{"sent": within(t, 20*time.Second), "not sent": ended()} {
			limit := 20 * time.Second
			if name == "Close does not come back" { // the deadline ends it
				limit = 300 * time.Millisecond
			}
			t.Run(name+", "+how, func(t *testing.T) {
				err := soon(t, name, func() error {
					resp, err := c.Do(ctx, &core.HTTPRequest{
						Method: "PUT", Path: "/x", Stream: o.body,
						Timeout: limit,
					})
					if err == nil {
						err = resp.Body.Close()
					}
					return err
				})
				if name != "Close does not come back" { // the answer may be there before
					require.Equal(t, o.failed || how == "not sent", err != nil, "%v", err)
				}
			})
		}
	}
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// oddJSON is an argument whose encoder panics.
type oddJSON struct{}

func (oddJSON) MarshalJSON() ([]byte, error) { panic("in the encoder") }

// An argument that cannot be encoded is a bad argument, also when its encoder panics.
func TestArgumentsWhoseEncoderPanics_D135(t *testing.T) {
	s := &script{body: `{}`}
	c := services(t, s.ServeHTTP)
	for name, run := range map[string]func() error{
		"query": func() error {
			return runQuery(fresh(t), c, &query.Request{Statement: "SELECT 1", Positional: []any{oddJSON{}}})
		},
		"prepared": func() error {
			return runQuery(fresh(t), c, &query.Request{
				Statement: "SELECT 1", Prepare: true,
				Raw: map[string]any{"x": oddJSON{}},
			})
		},
		"analytics": func() error {
			return runAnalytics(fresh(t), c, &analytics.Request{
				Statement: "SELECT 1",
				Named:     map[string]any{"x": oddJSON{}},
			})
		},
		"search": func() error {
			_, err := c.Search(fresh(t), &search.Request{Index: "i", Query: oddJSON{}})
			return err
		},
		"views": func() error {
			_, err := c.Bucket("default").View(fresh(t), &views.Request{Design: "d", View: "v", Key: oddJSON{}})
			return err
		},
	} {
		err := run()
		require.ErrorIs(t, err, cberr.InvalidArgument, name)
		require.ErrorContains(t, err, "in the encoder", name)
	}
	require.Zero(t, s.requests.Load())
}
