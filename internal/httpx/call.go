package httpx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Error is a request that failed without an answer that could be given to the caller. It unwraps to its kind and cause.
type Error struct {
	Service, Method, Path string
	Endpoint              string
	InDoubt               bool
	Retry                 retry.Info
	Kind                  *cberr.Kind
	Cause                 error
}

func (e *Error) Error() string {
	s := e.Service + " " + e.Method + " " + e.Path + ": " + e.Kind.Error()
	if e.Endpoint != "" {
		s += " on " + e.Endpoint
	}
	if n := e.Retry.Retries(); n > 0 {
		s += " after " + strconv.Itoa(n) + " retries"
	}
	if e.Cause != nil {
		s += ", because: " + e.Cause.Error()
	}
	if e.InDoubt {
		s += "; it may have been applied"
	}
	return s
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// RetryInfo says how often and why the request was retried.
func (e *Error) RetryInfo() retry.Info { return e.Retry }

// Ambiguous reports whether the service may have executed the request.
func (e *Error) Ambiguous() bool { return e.InDoubt }

// call is one request on its way: an operation of the orchestrator. Its attempts run on the caller's goroutine; the
// orchestrator only wakes it.
type call struct {
	c        *Client
	r        *httpsvc.Request
	ctx      context.Context
	state    retry.State
	began    time.Time
	endpoint string
	avoid    map[string]bool
	attempts int

	again   chan struct{}
	done    chan struct{}
	err     error
	inDoubt bool
}

// Do sends the request until a service has answered it, at most until its deadline, and gives the answer whatever its
// status: only 429, and 503 and 504 where the rules allow it, are retried. It blocks for the headers; the body streams
// and must be closed. The error is an *Error.
func (c *Client) Do(ctx context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	return c.DoWith(ctx, r, nil)
}

// DoWith is Do with a strategy of its own; nil inherits the cluster's.
func (c *Client) DoWith(ctx context.Context, r *httpsvc.Request, s retry.Strategy) (*httpsvc.Response, error) {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = c.o.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	k := &call{c: c, r: r, ctx: ctx, began: time.Now(), again: make(chan struct{}, 1), done: make(chan struct{})}
	k.state.Idempotent = r.Idempotent || r.Method == http.MethodGet || r.Method == http.MethodHead
	k.state.Strategy = s
	k.state.Deadline, _ = ctx.Deadline()
	resp, err := k.run()
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &body{resp.Body, cancel}
	return resp, nil
}

// body ends the request's context with the body, so that nothing of the request outlives it.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

func (k *call) run() (*httpsvc.Response, error) {
	for {
		if resp := k.attempt(); resp != nil {
			if won, _ := k.state.Finish(); won {
				k.state.Settle(nil)
				return resp, nil
			}
			_ = resp.Body.Close()
		}
		select {
		case <-k.again:
		case <-k.done:
			return nil, k.failure()
		case <-k.ctx.Done():
			if errors.Is(k.ctx.Err(), context.DeadlineExceeded) {
				k.c.o.Orchestrator.Expire(k)
			} else {
				k.c.o.Orchestrator.Cancel(k, context.Cause(k.ctx))
			}
			<-k.done
			return nil, k.failure()
		}
	}
}

// attempt sends the request once. It gives the answer if that is for the caller; otherwise the orchestrator has been
// asked, and says again or done.
func (k *call) attempt() *httpsvc.Response {
	k.endpoint = k.c.pick(k.r, k.avoid)
	if k.endpoint == "" {
		k.notSent(retry.ServiceNotAvailable, errNoEndpoint)
		return nil
	}
	h, err := k.request()
	if err != nil {
		if k.state.NotSent() {
			k.c.o.Orchestrator.MaybeRetry(k, retry.CredentialsFetchFailed, err, retry.Hint{})
		}
		return nil
	}
	var epoch atomic.Uint32
	trace := &httptrace.ClientTrace{WroteHeaders: func() {
		if e, ok := k.state.Sent(); ok {
			epoch.Store(e) // net/http may send an idempotent request again by itself; then this is not the first time
		}
	}}
	k.attempts++
	resp, err := k.c.hc.Do(h.WithContext(httptrace.WithClientTrace(k.ctx, trace)))
	if err != nil {
		k.failed(epoch.Load(), err)
		return nil
	}
	if !k.state.Answered(epoch.Load()) {
		_ = resp.Body.Close()
		return nil
	}
	if why, hint, ok := k.retryable(resp); ok {
		_, _ = io.CopyN(io.Discard, resp.Body, drainLimit)
		_ = resp.Body.Close()
		k.c.o.Orchestrator.MaybeRetry(k, why, &StatusError{resp.StatusCode, k.endpoint}, hint)
		return nil
	}
	return &httpsvc.Response{Status: resp.StatusCode, Header: resp.Header, Body: resp.Body, Endpoint: k.endpoint}
}

var errNoEndpoint = errors.New("no node of the cluster map offers the service")

// StatusError is an answer that says to come back later.
type StatusError struct {
	Status   int
	Endpoint string
}

func (e *StatusError) Error() string { return e.Endpoint + " answered " + strconv.Itoa(e.Status) }

// failed is an attempt without an answer: never sent if the headers were not written, otherwise in flight.
func (k *call) failed(epoch uint32, err error) {
	if k.avoid == nil {
		k.avoid = map[string]bool{}
	}
	k.avoid[k.endpoint] = true
	if k.ctx.Err() != nil {
		return // the deadline or the caller ends the call, and knows whether it was on the wire
	}
	if epoch == 0 {
		k.notSent(retry.SocketNotAvailable, err)
		return
	}
	k.c.o.Orchestrator.ConnLost(k, epoch, err)
}

func (k *call) notSent(why retry.Reason, cause error) {
	if !k.state.NotSent() {
		return
	}
	if better, err := k.c.o.Health.Refine(why, ""); err != nil {
		why, cause = better, err
	}
	k.c.o.Orchestrator.MaybeRetry(k, why, cause, retry.Hint{})
}

// request makes the attempt's request: the same each time, but for the number of the attempt and what Body makes of the
// time that is left.
func (k *call) request() (*http.Request, error) {
	scheme := "http"
	if k.c.o.TLS != nil {
		scheme = "https"
	}
	u := scheme + "://" + k.endpoint + k.r.Path
	if len(k.r.Query) > 0 {
		u += "?" + k.r.Query.Encode()
	}
	var payload io.Reader
	if k.r.Body != nil {
		data, err := k.r.Body(time.Until(k.state.Deadline))
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	h, err := http.NewRequestWithContext(k.ctx, k.r.Method, u, payload)
	if err != nil {
		return nil, err
	}
	for name, v := range k.r.Header {
		h.Header.Set(name, v)
	}
	if k.r.ContentType != "" {
		h.Header.Set("Content-Type", k.r.ContentType)
	}
	if k.r.OnBehalfOf != "" {
		h.Header.Set("cb-on-behalf-of", k.r.OnBehalfOf)
	}
	h.Header.Set("User-Agent", k.c.o.Agent)
	if k.attempts > 0 {
		h.Header.Set("Retry-Attempt", strconv.Itoa(k.attempts))
	}
	return h, k.c.authorize(k.ctx, h)
}

// retryable says whether an answer is one to come back for: 429, and 503 with Retry-After, for any request; 503 without
// it and 504 for idempotent ones.
func (k *call) retryable(resp *http.Response) (retry.Reason, retry.Hint, bool) {
	hint := retry.Hint{Code: uint32(resp.StatusCode)}
	after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if ok {
		hint.Pushback = retry.PushbackAfter(after)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return retry.ServiceResponseCodeIndicated, hint, true
	case http.StatusServiceUnavailable:
		return retry.ServiceResponseCodeIndicated, hint, ok || k.state.Idempotent
	case http.StatusGatewayTimeout:
		return retry.ServiceResponseCodeIndicated, hint, k.state.Idempotent
	}
	return retry.Unknown, retry.Hint{}, false
}

// retryAfter reads the header: seconds, or a date, of which a past one is 0. ok is false for anything else.
func retryAfter(v string, now time.Time) (d time.Duration, ok bool) {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0), true
	}
	return 0, false
}

// Retry implements retry.Op.
func (k *call) Retry() *retry.State { return &k.state }

// Context implements retry.Op.
func (k *call) Context() context.Context { return k.ctx }

// Size implements retry.Op. A body is made anew for each attempt.
func (k *call) Size() int { return 0 }

// Dispatch implements retry.Op: it wakes the caller's goroutine.
func (k *call) Dispatch() { k.again <- struct{}{} }

// Done implements retry.Op.
func (k *call) Done(err error, inDoubt bool) {
	k.err, k.inDoubt = err, inDoubt
	close(k.done)
}

// Describe implements retry.Op.
func (k *call) Describe(r *retry.Request) {
	r.Service, r.Operation, r.Endpoint, r.ID = retry.Service(k.r.Service.String()), k.r.Method, k.endpoint, k.r.UniqueID
	r.Bucket, r.Started = k.r.Bucket, k.began
}

// failure translates what ended the call.
func (k *call) failure() error {
	e := &Error{
		Service: k.r.Service.String(), Method: k.r.Method, Path: k.r.Path, Endpoint: k.endpoint, InDoubt: k.inDoubt,
		Cause: k.err, Kind: cberr.RequestCanceled,
	}
	var re *retry.Error
	if errors.As(k.err, &re) {
		e.Retry = re.Info
	}
	switch {
	case errors.Is(k.err, retry.ErrTimeout) && k.inDoubt:
		e.Kind = cberr.AmbiguousTimeout
	case errors.Is(k.err, retry.ErrTimeout):
		e.Kind = cberr.UnambiguousTimeout
	case errors.Is(k.err, retry.ErrCanceled), errors.Is(k.err, retry.ErrClosed):
	case e.Retry.Reason == retry.AuthenticationError:
		e.Kind = cberr.AuthenticationFailure
	case e.Retry.Reason == retry.TLSError:
		e.Kind = cberr.TLSFailure
	case e.Retry.Reason == retry.ServiceNotAvailable:
		e.Kind = cberr.ServiceNotAvailable
	case e.Retry.Reason == retry.ServiceResponseCodeIndicated:
		e.Kind = cberr.TemporaryFailure
	}
	return e
}
