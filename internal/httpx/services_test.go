package httpx_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// answer is one answer of a scripted service.
type answer struct {
	status int
	body   string
	after  string // Retry-After
}

// script gives the answers in turn, the last one for ever.
func script(answers ...answer) http.HandlerFunc {
	var n atomic.Int32
	return func(rw http.ResponseWriter, _ *http.Request) {
		a := answers[min(int(n.Add(1)), len(answers))-1]
		if a.after != "" {
			rw.Header().Set("Retry-After", a.after)
		}
		if a.status >= 300 && a.status <= 399 {
			rw.Header().Set("Location", "http://n1:80/elsewhere")
		}
		rw.WriteHeader(a.status)
		_, _ = rw.Write([]byte(a.body))
	}
}

// anyRows is what the rows of all services have in common.
type anyRows interface {
	Next() bool
	Row() []byte
	Err() error
	Close() error
}

// service runs one request of a service to its end.
type service struct {
	name string
	good string // an answer with the rows {"n":1} and {"n":2}
	run  func(w *world, writes bool, own retry.Strategy) (anyRows, error)
}

var allServices = []service{
	{"query", `{"results":[{"n":1},{"n":2}],"status":"success"}`, func(w *world, writes bool, own retry.Strategy) (anyRows, error) {
		r, err := query.NewService(query.ServiceOptions{}).Run(w.t.Context(), w.client, &query.Request{
			Statement: "x",
			Readonly:  !writes, Retry: own,
		})
		return orNil(r, err)
	}},
	{"analytics", `{"results":[{"n":1},{"n":2}],"status":"success"}`, func(w *world, writes bool, own retry.Strategy) (anyRows, error) {
		r, err := analytics.Run(w.t.Context(), w.client, &analytics.Request{
			Statement: "x", Readonly: !writes,
			Retry: own,
		})
		return orNil(r, err)
	}},
	{"search", `{"hits":[{"n":1},{"n":2}],"status":{"total":1}}`, func(w *world, _ bool, own retry.Strategy) (anyRows, error) {
		r, err := search.Run(w.t.Context(), w.client, &search.Request{Index: "i", Query: map[string]any{}, Retry: own},
			nil)
		return orNil(r, err)
	}},
	{"views", `{"total_rows":2,"rows":[{"n":1},{"n":2}]}`, func(w *world, _ bool, own retry.Strategy) (anyRows, error) {
		r, err := views.Run(w.t.Context(), w.client, &views.Request{Bucket: "b", Design: "d", View: "v", Retry: own})
		return orNil(r, err)
	}},
}

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[R anyRows](r R, err error) (anyRows, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func drainRows(rows anyRows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		out = append(out, string(rows.Row()))
	}
	return out, rows.Err()
}

// listRow is a row of the RFC's list of answers, or of what is near it.
type listRow struct {
	service string
	status  int
	body    string
	reason  retry.Reason // Unknown: not retried
	kind    error
}

func coded(format string, codes ...any) string { return fmt.Sprintf(format, codes...) }

// responseList has every row of the retry RFC's list of answers, and those beside it that are not to be retried.
func responseList() []listRow {
	var list []listRow
	q := func(status, code int, remaining string, why retry.Reason, kind error) {
		list = append(list, listRow{"query", status, coded(`{"errors":[{"code":%d%s}],"status":"errors"}`, code, remaining), why, kind})
	}
	for _, status := range []int{200, 400, 500} {
		for _, code := range []int{4040, 4050, 4060, 4070, 4080, 4090} { // of a plan that the client does not keep
			q(status, code, `,"msg":"plan"`, retry.Unknown, cberr.PreparedStatementFailure)
		}
		q(status, 5000, `,"msg":"x queryport.indexNotFound y"`, retry.QueryIndexNotFound, cberr.IndexNotFound)
		q(status, 5001, `,"msg":"x queryport.indexNotFound y"`, retry.Unknown, cberr.InternalServerFailure)
		q(status, 5000, `,"msg":"other"`, retry.Unknown, cberr.InternalServerFailure)
		q(status, 12009, `,"msg":"x","retry":true`, retry.QueryErrorRetryable, cberr.DMLFailure)
		q(status, 12009, `,"msg":"x","retry":false`, retry.Unknown, cberr.DMLFailure)
		q(status, 12016, `,"msg":"x","retry":true`, retry.Unknown, cberr.IndexNotFound)
		q(status, 3000, `,"msg":"syntax"`, retry.Unknown, cberr.ParsingFailure)
		for code, kind := range map[int]error{
			23000: cberr.TemporaryFailure, 23003: cberr.TemporaryFailure,
			23007: cberr.JobQueueFull,
		} {
			list = append(list, listRow{"analytics", status, coded(`{"errors":[{"code":%d,"msg":"x"}]}`, code), retry.AnalyticsTemporaryFailure, kind})
		}
		list = append(list,
			listRow{"analytics", status, `{"errors":[{"code":24000,"msg":"x"}]}`, retry.Unknown, cberr.ParsingFailure},
			listRow{"analytics", status, `{"errors":[{"code":25000,"msg":"x","retriable":true}]}`, retry.AnalyticsTemporaryFailure, cberr.InternalServerFailure})
	}
	general := []listRow{
		{"", 503, "", retry.ServiceResponseCodeIndicated, nil},
		{"", 504, "", retry.ServiceResponseCodeIndicated, nil},
		{"", 502, "", retry.Unknown, cberr.Couchbase},
		{"", 418, "", retry.Unknown, cberr.Couchbase},
		{"", 401, "", retry.Unknown, cberr.AuthenticationFailure},
		{"", 302, "", retry.Unknown, cberr.Couchbase},
	}
	for _, s := range []string{"query", "analytics", "search"} {
		for _, r := range general {
			r.service = s
			list = append(list, r)
		}
	}
	list = append(list,
		listRow{"query", 429, "", retry.ServiceResponseCodeIndicated, nil}, listRow{
			"analytics", 429, "",
			retry.ServiceResponseCodeIndicated, nil,
		},
		listRow{"search", 429, "", retry.SearchTooManyRequests, nil}, listRow{"search", 429, `{"error":"num_concurrent_requests"}`, retry.SearchTooManyRequests, cberr.RateLimited},
		listRow{"search", 400, `{"error":"index not found"}`, retry.Unknown, cberr.IndexNotFound}, listRow{"search", 500, "x", retry.Unknown, cberr.InternalServerFailure},
		listRow{"search", 200, `{"status":"fail","error":"x"}`, retry.Unknown, cberr.Couchbase},
		listRow{"views", 302, "", retry.ViewsNoActivePartition, nil})
	for _, status := range []int{300, 301, 303, 307, 401, 408, 409, 412, 416, 417, 500, 501, 502, 503, 504} {
		list = append(list, listRow{"views", status, `{"error":"x","reason":"y"}`, retry.ViewsTemporaryFailure, nil})
	}
	return append(list,
		listRow{"views", 404, `{"error":"not_found","reason":"missing"}`, retry.ViewsTemporaryFailure, cberr.ViewNotFound},
		listRow{"views", 404, `{"error":"not_found","reason":"deleted"}`, retry.Unknown, cberr.ViewNotFound},
		listRow{"views", 500, `{"error":"{not_found, missing_named_view}","reason":"x"}`, retry.Unknown, cberr.ViewNotFound},
		listRow{"views", 500, `{"error":"badarg"}`, retry.Unknown, cberr.Couchbase},
		listRow{"views", 500, `{"error":"x","reason":"badarg"}`, retry.Unknown, cberr.Couchbase},
		listRow{"views", 400, `{"error":"x"}`, retry.Unknown, cberr.Couchbase},
		listRow{"views", 200, `{"rows":[],"errors":[{"from":"n","reason":"r"}]}`, retry.Unknown, cberr.Couchbase})
}

// TestEveryRowOfTheResponseListD115: each answer once, and then a good one. What is retried succeeds by its second
// request, for the reason that the list has; what is not fails at its first with its kind.
func TestEveryRowOfTheResponseListD115(t *testing.T) {
	for _, row := range responseList() {
		for _, s := range allServices {
			if s.name != row.service {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				about := fmt.Sprintf("%s %d %s", row.service, row.status, row.body)
				w := newWorld(t, script(answer{row.status, row.body, ""}, answer{200, s.good, ""}), setup{})
				rows, err := drainRows(s.run(w, false, nil))
				if row.reason == retry.Unknown {
					require.ErrorIs(t, err, row.kind, about)
					require.Equal(t, 1, w.count(), about)
				} else {
					require.NoError(t, err, about)
					require.Equal(t, []string{`{"n":1}`, `{"n":2}`}, rows)
					require.Equal(t, 2, w.count(), about)
				}
				for _, r := range w.requests() {
					require.NotEqual(t, "/elsewhere", r.uri, "a redirect is not followed: %s", about)
				}
				// The same with a strategy that refuses: the reason and the kind.
				asked := newRecording()
				w = newWorld(t, script(answer{row.status, row.body, ""}), setup{nodes: []string{"n2:80"}})
				_, err = drainRows(s.run(w, false, asked))
				require.Error(t, err)
				if row.kind != nil {
					require.ErrorIs(t, err, row.kind, about)
				}
				switch row.reason {
				case retry.Unknown:
					require.Empty(t, *asked.why, about)
				case retry.ViewsNoActivePartition:
					require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				default:
					require.Equal(t, []retry.Reason{row.reason}, *asked.why, about)
				}
			})
		}
	}
}

// TestTypedServicesInheritTheStrategyD79D83, and name their operation.
func TestTypedServicesInheritTheStrategyD79D83(t *testing.T) {
	for _, s := range allServices {
		synctest.Test(t, func(t *testing.T) {
			def := newRecording()
			w := newWorld(t, statuses("503/1"), setup{retry: retry.Options{Default: def}})
			_, err := drainRows(s.run(w, true, nil))
			require.Error(t, err)
			q := (*def.asked)[0]
			require.Equal(t, s.name+" "+s.name, string(q.Service)+" "+q.Operation)
			require.Equal(t, w.began.Add(75*time.Second), q.Deadline)
			require.NotEmpty(t, q.ID)
			require.Equal(t, s.name == "search" || s.name == "views", q.Idempotent)
			after, ok := q.Pushback.After()
			require.True(t, ok)
			require.Equal(t, time.Second, after)
		})
	}
}

// TestRowsThenErrors: the rows are given out, then the failure, and nothing is sent again. A search has its failures in
// its metadata.
func TestRowsThenErrors(t *testing.T) {
	for name, tail := range map[string]string{
		"query":     `{"results":[{"n":1}],"errors":[{"code":4040,"msg":"x","retry":true}],"status":"errors"}`,
		"analytics": `{"results":[{"n":1}],"errors":[{"code":23000,"msg":"x","retriable":true}]}`,
		"views":     `{"rows":[{"n":1}],"errors":[{"from":"n1","reason":"x"}]}`,
	} {
		for _, s := range allServices {
			if s.name != name {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, script(answer{200, tail, ""}), setup{})
				rows, err := drainRows(s.run(w, false, nil))
				require.Equal(t, []string{`{"n":1}`}, rows)
				require.ErrorIs(t, err, cberr.Couchbase)
				require.Equal(t, 1, w.count())
			})
		}
	}
}

// TestEveryServiceByItsDeadline: silence, and a refusal without end; in doubt is what writes and was not refused by a
// service that says when to come back.
func TestEveryServiceByItsDeadline(t *testing.T) {
	for _, s := range allServices {
		for _, writes := range []bool{false, true} {
			for handler, refused := range map[string]bool{"silent": false, "503": true, "503/30": true} {
				synctest.Test(t, func(t *testing.T) {
					h := statuses(handler)
					if !refused {
						h = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
					}
					w := newWorld(t, h, setup{})
					_, err := drainRows(s.run(w, writes, nil))
					writing := writes && (s.name == "query" || s.name == "analytics")
					var e interface{ Ambiguous() bool }
					require.ErrorAs(t, err, &e)
					require.Equal(t, writing && handler != "503/30", e.Ambiguous())
					switch {
					case writing && handler == "503": // not to be sent again
						require.Zero(t, time.Since(w.began))
						require.ErrorIs(t, err, cberr.Couchbase)
					case writing && !refused:
						require.ErrorIs(t, err, cberr.AmbiguousTimeout)
						require.Equal(t, 75*time.Second, time.Since(w.began))
					default:
						require.ErrorIs(t, err, cberr.UnambiguousTimeout)
						require.Equal(t, 75*time.Second, time.Since(w.began))
					}
				})
			}
		}
	}
}

// TestRetryAfterOfEveryService: the server's delay exactly.
func TestRetryAfterOfEveryService(t *testing.T) {
	for _, s := range allServices {
		for _, status := range []int{429, 503} {
			if s.name == "views" && status == 429 {
				continue // not one of theirs: the general rule
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, script(answer{status, "", "7"}, answer{200, s.good, ""}), setup{})
				_, err := drainRows(s.run(w, true, nil))
				require.NoError(t, err)
				require.Equal(t, []time.Duration{0, 7 * time.Second}, at(w.requests()), s.name)
			})
		}
	}
}

// TestTimeoutOfTheServiceIsRewritten: each attempt tells the service what is left.
func TestTimeoutOfTheServiceIsRewritten(t *testing.T) {
	for _, s := range allServices {
		if s.name == "views" {
			continue // it takes none
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, script(answer{503, "", "5"}, answer{200, s.good, ""}), setup{})
			_, err := drainRows(s.run(w, false, nil))
			require.NoError(t, err)
			want := [][2]string{{`"timeout":"1m15s"`, `"timeout":"1m10s"`}, {`"timeout":75000`, `"timeout":70000`}}[toInt(s.name == "search")]
			got := w.requests()
			require.Contains(t, got[0].body, want[0])
			require.Contains(t, got[1].body, want[1])
			require.Equal(t, strings.Replace(got[0].body, want[0], "", 1), strings.Replace(got[1].body, want[1], "", 1))
		})
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestErrorsOfEveryServiceTell: each is of its own type, with the node, the list and the retries, and as JSON.
func TestErrorsOfEveryServiceTell(t *testing.T) {
	for _, s := range allServices {
		synctest.Test(t, func(t *testing.T) {
			body := map[string]string{
				"query": `{"errors":[{"code":3000,"msg":"syntax"}]}`, "analytics": `{"errors":[{"code":24000,"msg":"syntax"}]}`,
				"search": `{"error":"syntax"}`, "views": `{"error":"syntax"}`,
			}[s.name]
			w := newWorld(t, script(answer{503, "", "1"}, answer{400, body, ""}), setup{})
			_, err := s.run(w, false, nil)
			require.Error(t, err)
			var qe *query.Error
			var ae *analytics.Error
			var se *search.Error
			var ve *views.Error
			require.True(t, errors.As(err, &qe) || errors.As(err, &ae) || errors.As(err, &se) || errors.As(err, &ve))
			text := err.Error()
			require.Contains(t, text, s.name)
			require.Contains(t, text, "n1:80")
			require.Contains(t, text, "after 1 retry")
			require.Contains(t, text, "syntax")
			info, ok := retry.InfoOf(err)
			require.True(t, ok)
			require.Equal(t, 1, info.Counted)
			data, jerr := json.Marshal(err)
			require.NoError(t, jerr)
			var m map[string]any
			require.NoError(t, json.Unmarshal(data, &m))
			require.EqualValues(t, 1, m["retry_attempts"])
			require.Equal(t, "n1:80", m["endpoint"])
			require.EqualValues(t, 400, m["http_status_code"])
			require.Equal(t, []any{info.Reason.String()}, m["retry_reasons"])
		})
	}
}

// TestZeroErrorsPrintD111: an error type without contents says something, unwraps and encodes.
func TestZeroErrorsPrintD111(t *testing.T) {
	for _, err := range []error{
		&query.Error{}, &query.Error{Errors: []query.ServerError{{}}}, &analytics.Error{},
		&analytics.Error{Errors: []analytics.ServerError{{}}},
		&search.Error{}, &views.Error{}, &views.Error{Errors: []views.ServerError{{}}}, &httpsvc.Error{},
		&httpsvc.ManagementError{},
	} {
		require.NotEmpty(t, err.Error())
		require.NotErrorIs(t, err, cberr.Timeout)
		switch err.(type) { //nolint:errorlint // the error itself
		case *httpsvc.Error, *httpsvc.ManagementError: // whose cause is the caller's
		default:
			require.ErrorIs(t, err, cberr.Couchbase)
		}
		data, jerr := json.Marshal(err)
		require.NoError(t, jerr)
		require.True(t, json.Valid(data))
	}
}
