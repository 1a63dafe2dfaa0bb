package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// What services do with every kind of request, and how what they answer is read. Rows are numbered: a request
// gives those of one answer, from the first on, and all of them when it ends without an error (P5).

// asking is a request to a service, in the ledger.
type asking struct {
	token        string
	limit        time.Duration
	began, ended time.Duration
	got          int           // rows
	odd          bool          // they were not those of one answer
	slept        time.Duration // by the reader of the rows
	err          error
	of           mock.Service
	prepared     bool // a plan is kept, which is a request of its own
	calm         bool // it began when the faults had long stopped, and nothing of the plan keeps it from its service
	retries      int
	reasons      retry.Reasons
}

// row is one of an answer. All is how many it has.
type row struct {
	N   int `json:"n"`
	All int `json:"all"`
}

// rows are those of an answer.
func rows(all int) (rs []string) {
	for n := range all {
		rs = append(rs, fmt.Sprintf(`{"n":%d,"all":%d}`, n, all))
	}
	return rs
}

// served is the name by which is counted what a service has done.
func served(s mock.Service, name string) string {
	return "48 " + [...]string{
		mock.QueryService: "query", mock.AnalyticsService: "analytics", mock.SearchService: "search",
		mock.ViewsService: "views",
	}[s] + ": " + name
}

// deliveries are what any service does.
func deliveries() []execution {
	later := func(status int, seconds string) mock.Answer {
		h := http.Header{}
		if seconds != "" {
			h.Set("Retry-After", seconds)
		}
		return mock.Answer{Status: status, Header: h, Body: []byte("busy")}
	}
	elsewhere := mock.Answer{
		Status: http.StatusTemporaryRedirect, Header: http.Header{"Location": {"http://" + emptyAddr + ":8093/query"}},
		Body: []byte("there"),
	}
	zipped := mock.Answer{Header: http.Header{"Content-Encoding": {"gzip"}}} // its body is the run's, see execute
	trickling := mock.Answer{Mutated: 1, Rows: rows(5), Chunk: 9, Trickle: 17 * time.Millisecond}
	return []execution{
		{"48a cut off in a row", true, 2, mock.Answer{Mutated: 1, Rows: rows(20), CutBytes: 200}},
		{"48a cut off between rows", true, 2, mock.Answer{Mutated: 1, Rows: rows(6), CutRows: 3}},
		{"executed, then closed", true, 1, mock.Answer{Close: true}},
		{"executed, and no answer", true, 1, mock.Answer{Never: true}},
		{"not executed, then closed", false, 1, mock.Answer{Close: true}},
		{"48c 503, and when to come back", false, 2, later(http.StatusServiceUnavailable, "1")},
		{"48c 503, come back at once", false, 1, later(http.StatusServiceUnavailable, "0")},
		{"503", false, 1, later(http.StatusServiceUnavailable, "")},
		{"429", false, 2, later(http.StatusTooManyRequests, "")},
		{"48d sent elsewhere", false, 1, elsewhere},
		{"48e the body trickles", true, 2, trickling},
		{packedAnswer, true, 1, zipped},
	}
}

// hits are what the search service does.
func hits() []execution {
	return append(deliveries(),
		execution{"found", true, 10, mock.Answer{Rows: rows(3)}},
		execution{"too many", false, 3, mock.Answer{Status: http.StatusTooManyRequests, Body: []byte(
			`{"error":"num_concurrent_requests"}`,
		)}})
}

// entries are what the views do.
func entries() []execution {
	return append(deliveries(),
		execution{"found", true, 10, mock.Answer{Rows: rows(3)}},
		execution{"48b rows, then an error", true, 2, mock.Answer{Rows: rows(3), Errors: []mock.ServiceError{
			{Message: "timeout"},
		}}},
		execution{"no active partition", false, 3, mock.Answer{Status: http.StatusFound, Header: http.Header{
			"Location": {"http://" + emptyAddr + ":8092/"},
		}, Body: []byte("{}")}},
		execution{"missing for now", false, 3, mock.Answer{Status: http.StatusNotFound, Body: []byte(
			`{"error":"not_found","reason":"missing"}`,
		)}})
}

// services are those that the runs ask, and what they do.
var services = map[mock.Service]func() []execution{
	mock.QueryService: executions, mock.AnalyticsService: analyses, mock.SearchService: hits,
	mock.ViewsService: entries,
}

// serves has the services answer requests that name a token in a way of their own.
func (w *world) serves() {
	w.asked, w.told, w.packed, w.hungUp = map[string]int{}, map[string]order{}, map[string]bool{}, map[string]int{}
	if w.asks {
		w.bomb = newBomb()
	}
	w.m.Script(mock.ServiceMatch{Service: mock.SearchService, Path: "/query"}, mock.Answer{
		Func: func(rq *mock.ServiceRequest) mock.Answer {
			var q struct{ Query string }
			_ = json.Unmarshal([]byte(rq.Member("query")), &q) // an empty token will do
			return w.execute(mock.SearchService, hits(), q.Query)
		},
	})
	w.m.Script(mock.ServiceMatch{Service: mock.ViewsService, Path: "/_view/"}, mock.Answer{
		Func: func(rq *mock.ServiceRequest) mock.Answer {
			return w.execute(mock.ViewsService, entries(), rq.Query.Get("key"))
		},
	})
}

// asksFor begins a request.
func (w *world) asksFor(of mock.Service, n int, r *source) asking {
	return asking{
		token: fmt.Sprintf("s-%d-%d", of, n), began: w.since(), of: of,
		limit: r.between(20*time.Millisecond, 1500*time.Millisecond),
	}
}

// rowReader is what every service's rows can.
type rowReader interface {
	Next() bool
	Row() []byte
	Err() error
	io.Closer
	RetryInfo() retry.Info
}

// gather reads the rows of a request, now and then slowly.
func (w *world) gather(a *asking, rows rowReader, err error) {
	slow := w.d.below(8, text("slow rows"), text(a.token)) == 0
	all := -1
	var info retry.Info
	if err == nil {
		info = rows.RetryInfo()
		for rows.Next() {
			var is row
			if json.Unmarshal(rows.Row(), &is) != nil || is.N != a.got || all >= 0 && is.All != all {
				a.odd = true
			}
			a.got, all = a.got+1, is.All
			if slow {
				d := w.d.between(time.Microsecond, 5*time.Millisecond, text("row"), text(a.token), uint64(a.got))
				sleep(context.Background(), d)
				a.slept += d
			}
		}
		_ = rows.Close()
		err = rows.Err()
	}
	a.odd = a.odd || err == nil && all >= 0 && all != a.got
	a.ended, a.err = w.since(), err
	var told interface{ RetryInfo() retry.Info }
	if errors.As(err, &told) {
		info = told.RetryInfo()
	}
	a.retries, a.reasons = info.Retries(), info.Reasons
}

// look makes requests that change nothing until ctx ends.
func (w *world) look(ctx context.Context, of mock.Service) {
	r := newSource(w.d, text("looks"), uint64(of))
	for n := 0; ; n++ {
		sleep(ctx, r.between(10*time.Millisecond, 250*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		a := w.asksFor(of, n, r)
		w.lookOnce(&a)
	}
}

// lookOnce makes such a request, and enters it into the ledger.
func (w *world) lookOnce(a *asking) {
	if a.of == mock.SearchService {
		got, err := w.c.Search(context.Background(), &search.Request{
			Index: "sim", Query: map[string]string{"query": a.token}, Timeout: a.limit,
		})
		w.gather(a, got, err)
	} else {
		got, err := w.b.View(context.Background(), &views.Request{
			Design: "sim", View: "all", Key: a.token, Timeout: a.limit,
		})
		w.gather(a, got, err)
	}
	w.mu.Lock()
	w.looked = append(w.looked, *a)
	w.mu.Unlock()
}

// checkAsked judges a request.
func (w *world) checkAsked(a *asking, what fmt.Stringer) {
	if took := a.ended - a.began - a.slept; took > a.limit+cancelSlack {
		w.report.violate("P1", "%s: it took %v", what, took)
	}
	if a.odd {
		w.report.violate("P5", "%s: the %d rows that it was given are not those of an answer", what, a.got)
	}
	w.checkPacked(a, what)
	w.checkInCalm(a, what)
}

// String is the line of a request that changes nothing.
func (a *asking) String() string {
	return fmt.Sprintf("request %s within %v -> %d rows (%v)", a.token, a.limit, a.got, a.err)
}

// checkLooked judges the requests that change nothing.
func (w *world) checkLooked() {
	for i := range w.looked {
		w.checkAsked(&w.looked[i], &w.looked[i])
	}
	if n := len(w.tap.dials[emptyAddr+":8092"]) + len(w.tap.dials[emptyAddr+":8093"]); n > 0 {
		w.report.violate("P13", "the client has followed a redirect, %d times", n)
	}
}

// planFaults make the plans of prepared statements useless.
func planFaults() (fs []fault) {
	add := func(name string, f func(w *world) int) {
		fs = append(fs, fault{name: name, begin: func(w *world, _ *source, _ string) func() int {
			n := f(w)
			return func() int { return n }
		}})
	}
	add("48 plans forgotten", func(w *world) int { return w.m.ForgetPrepared() })
	for _, code := range []int{4040, 4050, 4070, 4090} {
		add(fmt.Sprintf("48 plans fail with %d", code), func(w *world) int { return w.m.FailPrepared(code) })
	}
	return fs
}
