package services

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxServiceBody = 32 << 20 // of a request; what is longer is answered with 413
	loggedRequests = 4096     // the newest are kept
	loggedBody     = 64 << 10 // of each
)

// Request is one HTTP request as a node received it. It is read-only.
type Request struct {
	Node    int
	Service Service
	Method  string
	Path    string // unescaped
	Query   url.Values
	Proto   string // "HTTP/1.1" or "HTTP/2.0"
	TLS     bool
	Remote  string // the client's address
	Header  http.Header
	Body    []byte // in the log at most its first 64 KiB
	User    string // who is asking, after authentication and cb-on-behalf-of; empty when that failed
	Login   string // whose credentials were used; empty when they were wrong
	At      time.Time

	// Query and analytics only. Statement is what is to be executed, also when the request names it as prepared, or
	// says PREPARE. Preparing says that the request prepares without executing.
	Statement string
	Prepared  string // the name under which the request asks for a prepared statement
	Preparing bool

	// Index is the search index that is asked, with "bucket.scope." before it in a scope; for views it is
	// "bucket/design document/view".
	Index string

	members map[string]json.RawMessage
	texts   map[string]bool // the members that a form or the query has, where all values are texts
}

// Member is a member of the request's JSON object, as JSON text, or a field of its form or query, as a JSON string;
// empty without one.
func (rq *Request) Member(name string) string { return string(rq.members[name]) }

// text is a member that is a string.
func (rq *Request) text(name string) string {
	var s string
	_ = json.Unmarshal(rq.members[name], &s) // another type reads as absent
	return s
}

// flag is a member that is true.
func (rq *Request) flag(name string) bool {
	s := string(rq.members[name])
	return s == "true" || s == `"true"`
}

// clone is a copy for the log.
func (rq *Request) clone() Request {
	out := *rq
	out.Body = bytes.Clone(rq.Body[:min(len(rq.Body), loggedBody)])
	return out
}

// Receive reads a request to a node whole. Without one it returns the HTTP status that says why.
func Receive(node int, s Service, r *http.Request) (*Request, int) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxServiceBody+1))
	switch {
	case err != nil:
		return nil, http.StatusBadRequest
	case len(body) > maxServiceBody:
		return nil, http.StatusRequestEntityTooLarge
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	rq := &Request{
		Node: node, Service: s, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Proto: r.Proto,
		TLS:    r.TLS != nil,
		Remote: r.RemoteAddr, Header: r.Header.Clone(), Body: body, At: time.Now(),
		members: map[string]json.RawMessage{}, texts: map[string]bool{},
	}
	return rq, 0
}

var errNotObject = errors.New("the body is not a JSON object")

// parse fills in the members: of a JSON body, of a form, and of the query, in this order of precedence.
func (rq *Request) parse() error {
	form := func(vs url.Values) {
		for k := range vs {
			if _, ok := rq.members[k]; !ok {
				rq.members[k] = parameterText(k, vs.Get(k))
				rq.texts[k] = true
			}
		}
	}
	switch {
	case len(rq.Body) == 0:
	case strings.HasPrefix(rq.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		vs, err := url.ParseQuery(string(rq.Body))
		if err != nil {
			return err
		}
		form(vs)
	default:
		if err := json.Unmarshal(rq.Body, &rq.members); err != nil || rq.members == nil {
			rq.members = map[string]json.RawMessage{}
			return errNotObject
		}
	}
	form(rq.Query)
	if rq.Service == Query {
		rq.lower()
	}
	return nil
}

// lower writes the names of parameters small, as the query service reads them. Those of the statement's own parameters
// stay.
func (rq *Request) lower() {
	for _, name := range slices.Collect(maps.Keys(rq.members)) {
		small := strings.ToLower(name)
		if _, both := rq.members[small]; both || strings.HasPrefix(name, "$") || strings.HasPrefix(name, "@") {
			continue
		}
		rq.members[small], rq.texts[small] = rq.members[name], rq.texts[name]
		delete(rq.members, name)
	}
}

// Log returns the newest requests, in order of arrival: those to ss, or to every service when none is named. 4096 are
// kept.
func (s *State) Log(ss ...Service) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, rq := range s.log {
		if len(ss) == 0 || slices.Contains(ss, rq.Service) {
			out = append(out, rq)
		}
	}
	return out
}

// keep puts the request into the log, once, when all is known about it and it is about to be answered.
func (x *Call) keep() {
	if x.kept {
		return
	}
	x.kept = true
	line := x.rq.clone()
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) >= loggedRequests {
		s.log = slices.Delete(s.log, 0, loggedRequests/4)
	}
	s.log = append(s.log, line)
}
