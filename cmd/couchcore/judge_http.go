package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// httpSubject is a request to a service and what it met.
type httpSubject struct {
	service    httpsvc.Service
	method     string // of a management request
	idempotent bool
	prepared   bool // the client keeps the statement's plan
	answered   bool // with what follows
	example    bool // the same, but the user has not named the answer
	status     int
	code       int    // the service's own, 0 for none
	after      string // Retry-After, "" for none
	body       []byte
	why        retry.Reason // when nothing was answered
	lost       bool
}

// node is the one that the requests are sent to.
const node = "the-node:1"

var errUnreachable = errors.New("the node cannot be reached")

// meet implements subject: a real client sends a real request over a pipe to a node that answers what is asked about.
func (x *httpSubject) meet(j *judge) error {
	ctx, cancel := context.WithTimeout(context.Background(), noDeadline)
	defer cancel()
	j.decided = cancel
	n := &fakeNode{x: x, met: &j.met}
	c := httpx.New(httpx.Options{
		Dial: n.dial, Endpoints: x.endpoints(j), Credentials: x.credentials(j), Orchestrator: j.orch,
		Health:       &health.Record{},
		JitterSource: func() float64 { return 0 }, Agent: "couchcore", ConnectTimeout: time.Minute,
		Timeout: func(httpsvc.Service) time.Duration { return noDeadline },
	})
	defer n.wg.Wait()
	defer c.Close()
	if !x.answered && !x.lost {
		j.why(x.why)
	}
	return x.send(ctx, j, c)
}

// hedgeable implements subject.
func (x *httpSubject) hedgeable() bool {
	switch x.service {
	case httpsvc.Query:
		return (&query.Request{Readonly: x.idempotent}).Idempotent()
	case httpsvc.Analytics:
		return (&analytics.Request{Readonly: x.idempotent}).Idempotent()
	case httpsvc.Search, httpsvc.Views:
		return true
	case httpsvc.Management, httpsvc.Eventing, httpsvc.Backup, httpsvc.Index:
	}
	return httpsvc.Reads(x.method, x.idempotent)
}

// hedged implements subject.
func (x *httpSubject) hedged(_ int, err error) error { return err }

// mayMove implements subject.
func (x *httpSubject) mayMove() bool { return false }

// lines implements subject.
func (x *httpSubject) lines(kind string) [][2]string {
	if !x.answered {
		return nil
	}
	text := fmt.Sprintf("HTTP %d %s", x.status, http.StatusText(x.status))
	if x.after != "" {
		text += "  Retry-After: " + x.after
	}
	lines := [][2]string{{"answer", strings.TrimSpace(text)}}
	if x.code != 0 {
		lines = append(lines, [2]string{"code", fmt.Sprintf("%d  %s", x.code, kind)})
	}
	return lines
}

// send sends the request and reads its answer to the end.
func (x *httpSubject) send(ctx context.Context, j *judge, d httpsvc.Doer) error {
	if !x.answered && !x.example && !x.lost && !x.unsent() {
		d = saying{d, x.why}
	}
	switch x.service {
	case httpsvc.Query:
		r := &query.Request{Statement: "SELECT 1", Readonly: x.idempotent, Prepare: x.prepared}
		inOne := func(string) (has, known bool) { return true, true } // the plan is made and run by one request
		return drain(query.NewService(query.ServiceOptions{Supports: inOne}).Run(ctx, d, r))
	case httpsvc.Analytics:
		return drain(analytics.Run(ctx, d, &analytics.Request{Statement: "SELECT 1", Readonly: x.idempotent}))
	case httpsvc.Search:
		return drain(search.Run(ctx, d, &search.Request{Index: "index", Query: map[string]any{}}, nil))
	case httpsvc.Views:
		return drain(views.Run(ctx, d, &views.Request{Bucket: "bucket", Design: "design", View: "view"}))
	case httpsvc.Management, httpsvc.Eventing, httpsvc.Backup, httpsvc.Index:
	}
	resp, err := d.Do(ctx, &httpsvc.Request{
		Service: x.service, Operation: j.x.op, Method: x.method, Path: "/", Idempotent: x.idempotent,
	})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.Status >= http.StatusBadRequest {
		err = &givenError{resp.Status}
	}
	return err
}

// drain reads rows to their end: an error may stand behind the last one.
func drain[R interface {
	Next() bool
	Err() error
	Close() error
}](rows R, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

// saying gives every answer the same reason.
type saying struct {
	httpsvc.Doer
	why retry.Reason
}

// Do implements httpsvc.Doer.
func (s saying) Do(ctx context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	own := *r
	own.Judge = func(*httpsvc.Response) (httpsvc.Verdict, error) {
		return httpsvc.Verdict{Reason: s.why, Err: errors.New(s.why.String())}, nil
	}
	return s.Doer.Do(ctx, &own)
}

// givenError is an answer that the client gives to the caller as it is, although it is no good one.
type givenError struct{ status int }

func (e *givenError) Error() string { return fmt.Sprintf("status %d", e.status) }

// Unwrap gives the kind.
func (e *givenError) Unwrap() error {
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		return cberr.AuthenticationFailure
	}
	return cberr.Couchbase
}

// unsent reports whether the reason is one that is met before anything is sent, and that can be made to happen.
func (x *httpSubject) unsent() bool {
	switch x.why { //nolint:exhaustive // the others are answers
	case retry.SocketNotAvailable, retry.ServiceNotAvailable, retry.CredentialsFetchFailed:
		return true
	}
	return false
}

func (x *httpSubject) endpoints(j *judge) func(topology.Service, string) ([]string, bool) {
	return func(topology.Service, string) ([]string, bool) {
		if x.why == retry.ServiceNotAvailable {
			j.met = true
			return nil, true
		}
		return []string{node}, true
	}
}

func (x *httpSubject) credentials(j *judge) func(context.Context, httpsvc.Service, string, bool) (httpx.Credentials,
	error,
) {
	return func(context.Context, httpsvc.Service, string, bool) (httpx.Credentials, error) {
		if x.why == retry.CredentialsFetchFailed {
			j.met = true
			return httpx.Credentials{}, errors.New("the provider of credentials failed")
		}
		return httpx.Credentials{Username: "user", Password: core.NewSecret("password")}, nil
	}
}

// fakeNode answers the first request with what is asked about.
type fakeNode struct {
	x   *httpSubject
	met *bool
	wg  sync.WaitGroup
}

func (n *fakeNode) dial(context.Context, string, string) (net.Conn, error) {
	*n.met = true
	if n.x.why == retry.SocketNotAvailable {
		return nil, errUnreachable
	}
	ours, theirs := net.Pipe()
	n.wg.Go(func() { n.serve(theirs) })
	return ours, nil
}

func (n *fakeNode) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil || n.x.lost {
		return
	}
	status := max(n.x.status, http.StatusOK)
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(n.x.body))
	body := n.x.body
	if req.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		body = nil
	}
	if n.x.after != "" {
		head += "Retry-After: " + n.x.after + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return
	}
	if _, err := c.Write(body); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r) // until the client closes it
}
