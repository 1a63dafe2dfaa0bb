package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// member is one member of an answer's object, as JSON text.
type member struct{ name, text string }

// envelope is what stands around the rows of a service's answer.
type envelope struct {
	head []member
	rows string // the name of the rows' member
	tail func(rows, size int, took time.Duration) []member
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string cannot fail
	return string(b)
}

// envelope is the one of the request's service, changed by Members.
func (x *Call) envelope(a *Answer) envelope {
	var e envelope
	switch x.rq.Service {
	case Search:
		e = x.searchEnvelope(a)
	case Views:
		e = x.viewEnvelope(a)
	default:
		e = x.queryEnvelope(a)
	}
	names := slices.Sorted(maps.Keys(a.Members))
	known := map[string]bool{}
	replace := func(ms []member) []member {
		var out []member
		for _, m := range ms {
			known[m.name] = true
			if text, ok := a.Members[m.name]; ok {
				m.text = text
			}
			if m.text != "" {
				out = append(out, m)
			}
		}
		return out
	}
	e.head = replace(e.head)
	tail := e.tail
	e.tail = func(rows, size int, took time.Duration) []member {
		out := replace(tail(rows, size, took))
		for _, name := range names {
			if !known[name] && a.Members[name] != "" {
				out = append(out, member{name, a.Members[name]})
			}
		}
		return out
	}
	return e
}

// queryEnvelope is that of query and analytics.
func (x *Call) queryEnvelope(a *Answer) envelope {
	e := envelope{rows: "results", head: []member{{"requestID", quote(freshUUID())}}}
	if id := x.rq.text("client_context_id"); id != "" {
		e.head = append(e.head, member{"clientContextID", quote(id)})
	}
	e.head = append(e.head, member{"signature", `{"*":"*"}`}, member{"prepared", x.prepared})
	e.tail = func(rows, size int, took time.Duration) []member {
		errs := a.Errors
		status := "success"
		if len(errs) > 0 {
			status = "errors"
			if errs[0].Code == queryTimedOut || errs[0].Code == analyticsTimedOut {
				status = "timeout"
			}
		}
		var ms []member
		if len(errs) > 0 {
			ms = append(ms, member{"errors", x.errorList(errs, true)})
		}
		if len(a.Warnings) > 0 {
			ms = append(ms, member{"warnings", x.errorList(a.Warnings, false)})
		}
		ms = append(ms, member{"status", quote(status)})
		if x.rq.Service == Analytics || string(x.rq.members["metrics"]) != "false" {
			ms = append(ms, member{"metrics", x.metrics(a, rows, size, took)})
		}
		if p := x.rq.text("profile"); p == "phases" || p == "timings" {
			ms = append(ms, member{"profile", `{"phaseTimes":{"run":"1ms"},"phaseCounts":{},"executionTimings":{}}`})
		}
		return ms
	}
	return e
}

func (x *Call) metrics(a *Answer, rows, size int, took time.Duration) string {
	s := fmt.Sprintf(`{"elapsedTime":%q,"executionTime":%q,"resultCount":%d,"resultSize":%d`, took, took, rows, size)
	if x.rq.Service == Analytics {
		s += fmt.Sprintf(`,"processedObjects":%d`, rows)
	} else {
		s += `,"serviceLoad":1`
	}
	for _, count := range []struct {
		name string
		n    int
	}{{"mutationCount", a.Mutated}, {"errorCount", len(a.Errors)}, {"warningCount", len(a.Warnings)}} {
		if count.n > 0 {
			s += fmt.Sprintf(`,%q:%d`, count.name, count.n)
		}
	}
	return s + "}"
}

// errorList is a list of errors or warnings as query and analytics write it.
func (x *Call) errorList(errs []Error, failed bool) string {
	parts := make([]string, len(errs))
	for i, e := range errs {
		parts[i] = e.Raw
		if e.Raw != "" {
			continue
		}
		s := fmt.Sprintf(`{"code":%d,"msg":%s`, e.Code, quote(e.Message))
		switch {
		case failed && x.rq.Service == Analytics:
			s += `,"retriable":` + strconv.FormatBool(e.Retry)
		case failed && (e.Retry || e.Code != unknownPrepared):
			s += `,"retry":` + strconv.FormatBool(e.Retry)
		}
		if e.Reason != "" {
			s += `,"reason":` + e.Reason
		}
		if e.Cause != "" {
			s += `,"cause":` + e.Cause
		}
		parts[i] = s + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (x *Call) searchEnvelope(a *Answer) envelope {
	return envelope{
		rows: "hits", head: []member{{"status", `{"total":1,"failed":0,"successful":1}`}},
		tail: func(rows, _ int, took time.Duration) []member {
			score := "0"
			if rows > 0 {
				score = "1"
			}
			return []member{
				{"total_hits", strconv.Itoa(rows)},
				{"max_score", score},
				{"took", strconv.FormatInt(int64(took), 10)},
				{"facets", "null"},
			}
		},
	}
}

func (x *Call) viewEnvelope(a *Answer) envelope {
	return envelope{
		rows: "rows", head: []member{{"total_rows", strconv.Itoa(len(a.Rows))}},
		tail: func(int, int, time.Duration) []member {
			if len(a.Errors) == 0 {
				return nil
			}
			var parts []string
			for _, e := range a.Errors {
				parts = append(parts, cmp.Or(e.Raw, fmt.Sprintf(`{"from":%s,"reason":%s}`, quote(x.s.host.ServiceAddr(x.rq.Node, Views)), quote(e.Message))))
			}
			return []member{{"errors", "[" + strings.Join(parts, ",") + "]"}}
		},
	}
}

// status is the answer's HTTP status.
func (x *Call) status(a *Answer) int {
	switch {
	case a.Status != 0:
		return a.Status
	case len(a.Errors) == 0 || len(a.Rows) > 0 || a.Stream != nil:
		return http.StatusOK
	}
	switch x.rq.Service {
	case Search, Eventing:
		return http.StatusBadRequest
	case Query, Analytics:
		if status, ok := x.missingKeyspace(a.Errors[0].Code); ok {
			return status
		}
		return queryStatus(a.Errors[0].Code)
	default:
		return http.StatusOK
	}
}

// queryStatus is the HTTP status of a query that fails before it has rows.
func queryStatus(code int) int {
	switch {
	case code == 1000:
		return http.StatusForbidden
	case code == queryTimedOut, code == analyticsTimedOut, code == 12009,
		code >= 5010 && code <= 5070:
		return http.StatusOK // found out while the answer is under way
	case code >= 1010 && code < 1100, code == 3000, code == 24000:
		return http.StatusBadRequest
	case code == 4000, code == 4040, code == 4050, code == 4060, code == 4070, code == 4080, code == 4090:
		return http.StatusNotFound
	case code == 4300:
		return http.StatusConflict
	case code >= 10000 && code < 11000, code == 13014, code >= 20000 && code < 21000:
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}

// failed is the whole body of a failure of search or views; nil when the envelope serves.
func (x *Call) failed(a *Answer, status int) []byte {
	if len(a.Errors) == 0 || status < 300 || len(a.Rows) > 0 || a.Stream != nil {
		return nil
	}
	e := a.Errors[0]
	switch x.rq.Service {
	case Search:
		return []byte(cmp.Or(e.Raw, fmt.Sprintf(`{"error":%s,"status":"fail","request":%s}`, quote(e.Message), cmp.Or(string(x.rq.Body), "null"))))
	case Views:
		return []byte(cmp.Or(e.Raw, fmt.Sprintf(`{"error":%s,"reason":%s}`, quote(e.Message), quote(e.Reason))))
	case Management:
		return []byte(cmp.Or(e.Raw, fmt.Sprintf(`{"errors":{"_":%s}}`, quote(e.Message))))
	case Eventing:
		return []byte(cmp.Or(e.Raw, fmt.Sprintf(`{"name":%s,"code":%d,"description":%s}`, quote(e.Reason), e.Code,
			quote(e.Message))))
	default:
		return nil
	}
}

// freshUUID returns 32 random hex digits.
func freshUUID() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

// toJSON is v as JSON; v is made of our own maps, strings and numbers, which cannot fail.
func toJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
