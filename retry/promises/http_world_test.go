package promises_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// answered is an answer of a service, with headers as name and value in turn.
func answered(status int, body string, header ...string) mock.Answer {
	a := mock.Answer{Status: status, Body: []byte(body), Header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.Header.Set(header[i], header[i+1])
	}
	return a
}

// busy is 503 with a Retry-After of so many seconds.
func busy(seconds int) mock.Answer {
	return answered(http.StatusServiceUnavailable, "busy", "Retry-After", strconv.Itoa(seconds))
}

// done is a raw request's good answer.
func done() mock.Answer { return answered(http.StatusOK, "{}") }

// manager has raw requests to the manager answered, one after the other, the last one for ever.
func (w *world) manager(answers ...mock.Answer) *mock.Script {
	return w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/x"}, answers...)
}

// arrivals are when requests with the path came to a service, since began, in milliseconds.
func (w *world) arrivals(s mock.Service, path string, began time.Time) []int {
	at := []int{}
	for _, r := range w.m.ServiceLog(s) {
		if r.Path == path {
			at = append(at, int(r.At.Sub(began)/ms))
		}
	}
	return at
}

// do sends a raw request and reads its answer.
func (w *world) do(r core.HTTPRequest) (status int, err error) {
	if r.Path == "" {
		r.Path = "/x"
	}
	resp, err := w.c.Do(context.Background(), &r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Status, err
}

// rowsOf are the rows of any service.
type rowsOf interface {
	Next() bool
	Err() error
	Close() error
}

// drained reads rows to their end.
func drained[R rowsOf](rows R, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
		continue
	}
	return errors.Join(rows.Err(), rows.Close())
}

// rowServices sends a request that only reads to each service with rows.
var rowServices = map[mock.Service]func(ctx context.Context, c *core.Cluster) error{
	mock.QueryService: func(ctx context.Context, c *core.Cluster) error {
		return drained(c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true}))
	},
	mock.AnalyticsService: func(ctx context.Context, c *core.Cluster) error {
		return drained(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: true}))
	},
	mock.SearchService: func(ctx context.Context, c *core.Cluster) error {
		return drained(c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{"match": "x"}}))
	},
	mock.ViewsService: func(ctx context.Context, c *core.Cluster) error {
		return drained(c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v"}))
	},
}
