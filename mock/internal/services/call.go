package services

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Call is one request to a service, on the goroutine of its connection.
type Call struct {
	s    *State
	w    http.ResponseWriter
	r    *http.Request
	rq   *Request
	may  func(bucket string) bool // what the user may use
	kept bool                     // in the log

	using    string // the expression behind EXECUTE ... USING
	keyValue string // the key-value operation of a transaction that EXECUTE names
	prepared string // the name, as JSON, of a statement that was prepared to be executed at once
}

// Call begins the answer to a request that Receive has read. may says which buckets the user may use; it is not asked
// before there is one.
func (s *State) Call(w http.ResponseWriter, r *http.Request, rq *Request, may func(bucket string) bool) *Call {
	return &Call{s: s, w: w, r: r, rq: rq, may: may}
}

// Serve answers the request of a user to a service other than management: by a script, or as the service does.
func (x *Call) Serve() {
	switch x.rq.Service {
	case Search:
		x.search()
	case Views:
		x.views()
	case Eventing:
		x.eventing()
	default:
		x.query()
	}
}

// Manage answers a request of the management service: by a script, or by what next has for it. w and r are those that
// next gets.
func (x *Call) Manage(w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.keep()
	s, a := x.s.scriptFor(x.rq)
	switch {
	case a != nil && !a.Default:
		x.reply(s, a)
		return
	case a != nil && a.Rewrite != nil:
		captured := &capture{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(captured, r)
		a.Default, a.Body, a.Status, a.Header = false, captured.body.Bytes(), captured.status, captured.header
		x.reply(s, a)
		return
	case a != nil:
		o := &outlet{x: x, a: a}
		if a.Close || a.Never && !x.hold(nil) || a.Hold && !x.hold(s) || o.wait(a.Delay) == broken {
			x.abort()
			return
		}
	}
	next.ServeHTTP(w, r)
}

// Pong answers a ping.
func (x *Call) Pong() { x.reply(nil, &Answer{Body: []byte(`{"status":"OK"}`)}) }

// Elsewhere is the path to which a request is sent on; empty for one that can be answered. The search service's router
// does that to paths with two slashes in a row, before it looks who is asking.
func (rq *Request) Elsewhere() string {
	if rq.Service != Search || !strings.Contains(rq.Path, "//") {
		return ""
	}
	clean := path.Clean("/" + rq.Path)
	if strings.HasSuffix(rq.Path, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// Redirect sends the client elsewhere.
func (x *Call) Redirect() {
	to := url.URL{Path: x.rq.Elsewhere(), RawQuery: x.rq.Query.Encode()}
	x.reply(nil, &Answer{
		Status: http.StatusMovedPermanently, Header: http.Header{"Location": {to.String()}}, Body: []byte{},
	})
}

// IsPing reports whether a request is one of those that answer anyone: the services' own, management not included.
func (rq *Request) IsPing() bool {
	switch rq.Service {
	case Query, Analytics:
		return rq.Path == "/admin/ping"
	case Search:
		return rq.Path == "/api/ping"
	case Views:
		return rq.Path == "/"
	default:
		return false
	}
}

// Refuse is each service's own way to say that the credentials are wrong, or that they may not act for another.
func (x *Call) Refuse() {
	status := http.StatusUnauthorized
	if x.rq.Login != "" {
		status = http.StatusForbidden
	}
	x.w.Header().Set("WWW-Authenticate", `Basic realm="mock"`)
	a := &Answer{Status: status}
	switch x.rq.Service {
	case Query:
		a.Errors = []Error{{Code: 13014, Message: "User does not have credentials to run queries."}}
	case Analytics:
		a.Errors = []Error{{Code: 20000, Message: "Unauthorized user."}}
	case Views:
		a.Errors = []Error{{Message: "unauthorized", Reason: "password required"}}
	case Eventing:
		refused := refuseEventing(status)
		a = &refused
	default:
		a.Body = []byte{}
	}
	x.reply(nil, a)
}

// scripted answers the request by a script, if there is one for it. other is what the answer is without a script.
func (x *Call) scripted(other func() Answer) {
	x.keep()
	s, a := x.s.scriptFor(x.rq)
	if a == nil {
		made := other()
		x.reply(nil, &made)
		return
	}
	if a.Default {
		made := other()
		a.overlay(&made)
		a = &made
	}
	x.reply(s, a)
}

// overlay lays what a says about the delivery over another answer.
func (a *Answer) overlay(on *Answer) {
	if a.Status != 0 {
		on.Status = a.Status
	}
	if on.Header == nil {
		on.Header = http.Header{}
	}
	for k, vs := range a.Header {
		on.Header[k] = vs
	}
	for k, v := range a.Members {
		if on.Members == nil {
			on.Members = map[string]string{}
		}
		on.Members[k] = v
	}
	on.Mutated += a.Mutated
	on.Warnings, on.RowsLast, on.Hold = append(on.Warnings, a.Warnings...), a.RowsLast, a.Hold
	on.Delay, on.RowDelay, on.Chunk, on.Trickle = a.Delay, a.RowDelay, a.Chunk, a.Trickle
	on.CutRows, on.CutBytes, on.StallRows, on.StallBytes = a.CutRows, a.CutBytes, a.StallRows, a.StallBytes
	on.Never, on.Close, on.Deadline, on.Rewrite = a.Never, a.Close, a.Deadline, a.Rewrite
}

func jsonInto(b []byte, v any) error {
	if len(b) == 0 {
		return errNotObject
	}
	return json.Unmarshal(b, v)
}
