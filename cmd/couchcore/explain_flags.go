package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// kvSubject reads the flags about an answer of the service kv.
func (c *explainCmd) kvSubject() (*kvSubject, error) {
	switch {
	case c.Code != "" || c.HTTP != "" || c.RetryAfter != "":
		return nil, usagef("explain: answers of kv have a --status, neither --code nor --http nor --retry-after")
	case c.Prepared:
		return nil, usagef("explain: --prepared is about statements of query")
	case count(c.Status != "", c.Reason != "", c.LostSocket) != 1:
		return nil, usagef("explain: give one of --status, --reason and --lost-socket")
	}
	x := &kvSubject{
		spec: specOf(strings.ToLower(c.Op)), idempotent: c.Idempotent || c.Readonly, cas: c.WithCAS, lost: c.LostSocket,
		body: c.Body != "", absentOK: slices.Contains(absentOK, strings.ToLower(c.Op)),
	}
	if x.spec == nil {
		return nil, usagef("explain: --op %q is not an operation of this build: choose one of %s", c.Op,
			strings.Join(opNames(), " "))
	}
	if c.Body != "" {
		if _, err := os.Stat(c.Body); err != nil {
			return nil, usagef("explain: --body: %v", err)
		}
	}
	if c.ErrorMap != "" {
		raw, err := os.ReadFile(c.ErrorMap)
		if err != nil {
			return nil, usagef("explain: --error-map: %v", err)
		}
		if x.errors, err = errormap.Parse(raw, 0); err != nil {
			return nil, usagef("explain: --error-map %s: %v", c.ErrorMap, err)
		}
	}
	var err error
	if x.why, err = c.reason(); err != nil {
		return nil, err
	}
	x.lost = x.lost || x.why == retry.SocketClosedWhileInFlight
	if c.Status != "" {
		x.answered = true
		x.status, err = parseStatus(c.Status)
	}
	return x, err
}

// requestsOf are the verbs that send requests of another name.
var requestsOf = map[string]string{
	"stats": "stat", "scan": "range-scan-create", "get-any-replica": "get-replica", "get-all-replicas": "get-replica",
	"get-meta": "exists", "get-or-null": "get",
}

// absentOK are the verbs that take a missing document for an answer.
var absentOK = []string{"get-or-null", "exists"}

// specOf finds the row of a verb, nil for none.
func specOf(verb string) *call.Spec {
	if name, ok := requestsOf[verb]; ok {
		verb = name
	}
	return call.SpecByName(verb)
}

// httpServices are the names of the services with HTTP.
var httpServices = map[string]httpsvc.Service{
	"query": httpsvc.Query, "search": httpsvc.Search, "views": httpsvc.Views, "analytics": httpsvc.Analytics,
	"management": httpsvc.Management, "eventing": httpsvc.Eventing, "backup": httpsvc.Backup,
	"index": httpsvc.Index,
}

// byMethod are the services whose operations are HTTP methods.
var byMethod = []httpsvc.Service{httpsvc.Management, httpsvc.Eventing, httpsvc.Backup, httpsvc.Index}

// methods are their operations.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// httpSubject reads the flags about an answer of a service with HTTP.
func (c *explainCmd) httpSubject() (*httpSubject, error) {
	x := &httpSubject{
		idempotent: c.Idempotent || c.Readonly, prepared: c.Prepared, lost: c.LostSocket,
		after: c.RetryAfter,
	}
	var ok bool
	if x.service, ok = httpServices[c.Service]; !ok {
		return nil, usagef("explain: --service %q: there are kv, query, search, views, analytics, management, "+
			"eventing, backup and index", c.Service)
	}
	if slices.Contains(byMethod, x.service) {
		if x.method = strings.ToUpper(c.Op); !slices.Contains(methods, x.method) {
			return nil, usagef("explain: --op %q: the operations of %s are %s", c.Op, c.Service,
				strings.Join(methods, " "))
		}
	} else if !strings.EqualFold(c.Op, "query") && !strings.EqualFold(c.Op, c.Service) {
		return nil, usagef("explain: --op %q: the operation of %s is query", c.Op, c.Service)
	}
	x.answered = c.Code != "" || c.HTTP != ""
	switch {
	case c.Prepared && x.service != httpsvc.Query:
		return nil, usagef("explain: --prepared is about statements of query")
	case c.Status != "" || c.ErrorMap != "" || c.WithCAS:
		return nil, usagef("explain: --status, --error-map and --with-cas are about answers of kv; %s has --code and "+
			"--http", c.Service)
	case count(x.answered, c.Reason != "", c.LostSocket) != 1:
		return nil, usagef("explain: give one of --code, --http, --reason and --lost-socket")
	case !x.answered && (c.Body != "" || c.RetryAfter != ""):
		return nil, usagef("explain: --body and --retry-after belong to an answer: give --code or --http")
	}
	if x.answered {
		return x, c.answer(x)
	}
	var err error
	if x.why, err = c.reason(); err != nil {
		return nil, err
	}
	x.lost = x.lost || x.why == retry.SocketClosedWhileInFlight
	x.exemplify()
	return x, nil
}

// answer reads the flags that describe one.
func (c *explainCmd) answer(x *httpSubject) error {
	x.status = http.StatusOK
	rows := x.service == httpsvc.Query || x.service == httpsvc.Analytics
	text := c.HTTP
	if !rows && c.Code != "" { // their codes are HTTP's
		if text != "" && text != c.Code {
			return usagef("explain: the --code of an answer of %s is its --http status", c.Service)
		}
		text = c.Code
	}
	if text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 200 || n > 599 {
			return usagef("explain: %q is not an HTTP status of an answer: 200 to 599", text)
		}
		x.status = n
	}
	if strings.ContainsAny(c.RetryAfter, "\r\n") {
		return usagef("explain: --retry-after is one line")
	}
	if c.Body != "" {
		var err error
		if x.body, err = os.ReadFile(c.Body); err != nil {
			return usagef("explain: --body: %v", err)
		}
	} else if x.status < 300 && c.Code == "" {
		x.body = []byte(`{"status":"success","results":[],"hits":[],"rows":[]}`)
	}
	if !rows || c.Code == "" {
		return nil
	}
	n, err := strconv.ParseInt(c.Code, 0, 32)
	if err != nil || n <= 0 {
		return usagef("explain: --code %q is not a number above 0", c.Code)
	}
	return x.tellCode(int(n))
}

// tellCode puts the code into the answer's body: into an error list of its own, unless the body has one.
func (x *httpSubject) tellCode(code int) error {
	x.code = code
	if list := httpsvc.List(httpsvc.Object(x.body)["errors"]); len(list) > 0 {
		if n, ok := httpsvc.Int(httpsvc.Object(list[0])["code"]); !ok || n != code {
			return usagef("explain: the first error of the --body has not the --code %d", code)
		}
		return nil
	}
	x.body = errorBody(code, strings.TrimSpace(string(x.body)))
	return nil
}

// errorBody is an answer with one error.
func errorBody(code int, message string) []byte {
	// it never fails
	body, _ := json.Marshal(map[string]any{"errors": []any{map[string]any{"code": code, "msg": message}}})
	return body
}

var answersOfMethods = map[retry.Reason]httpSubject{
	retry.ServiceResponseCodeIndicated: {status: http.StatusTooManyRequests},
}

// examples are answers that have a reason, by service.
var examples = map[httpsvc.Service]map[retry.Reason]httpSubject{
	httpsvc.Query: {
		retry.QueryPreparedStatementFailure: {status: 200, body: errorBody(4040, ""), prepared: true},
		retry.QueryIndexNotFound:            {status: 200, body: errorBody(5000, "queryport.indexNotFound")},
		retry.QueryErrorRetryable:           {status: 200, body: []byte(`{"errors":[{"code":12000,"retry":true}]}`)},
		retry.ServiceResponseCodeIndicated:  {status: http.StatusTooManyRequests},
	},
	httpsvc.Analytics: {
		retry.AnalyticsTemporaryFailure:    {status: 200, body: errorBody(23000, "")},
		retry.ServiceResponseCodeIndicated: {status: http.StatusTooManyRequests},
	},
	httpsvc.Search: {
		retry.SearchTooManyRequests:        {status: http.StatusTooManyRequests},
		retry.ServiceResponseCodeIndicated: {status: http.StatusServiceUnavailable},
	},
	httpsvc.Views: {
		retry.ViewsNoActivePartition:       {status: http.StatusFound},
		retry.ViewsTemporaryFailure:        {status: http.StatusServiceUnavailable},
		retry.ServiceResponseCodeIndicated: {status: http.StatusTooManyRequests},
	},
	httpsvc.Management: answersOfMethods, httpsvc.Eventing: answersOfMethods, httpsvc.Backup: answersOfMethods,
	httpsvc.Index: answersOfMethods,
}

// exemplify takes an answer that has the reason, where there is one.
func (x *httpSubject) exemplify() {
	if e, ok := examples[x.service][x.why]; ok {
		x.status, x.body, x.prepared, x.example = e.status, e.body, x.prepared || e.prepared, true
	}
}
