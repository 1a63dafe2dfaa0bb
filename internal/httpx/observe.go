package httpx

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/observe"
)

// begin opens the request's span and takes its time; end closes it, however the request ends. A request that is one of
// several of an operation is a part of that one's.
func (k *call) begin(ctx context.Context) (end func(error)) {
	if k.c.o.Instruments == nil {
		return func(error) {}
	}
	if whole, ok := ctx.Value(wholeKey{}).(*whole); ok && whole.operation == k.operation {
		k.whole = whole
		return func(error) { whole.request(k.state.Info().Retries()) }
	}
	k.whole = k.c.start(ctx, observe.Target{
		Service: k.r.Service.String(), Operation: k.operation, Bucket: k.r.Bucket,
	}, "")
	return func(err error) {
		k.whole.request(k.state.Info().Retries())
		k.whole.end(err)
	}
}

// whole is an operation under observation: one request, or several.
type whole struct {
	operation string
	op        observe.Operation
	inner     context.Context
	hooked    bool

	mu       sync.Mutex
	requests int
	retries  int // of them, each for itself
	events   int // of the span
	attempts []observe.Tried
}

type wholeKey struct{}

func (c *Client) start(ctx context.Context, t observe.Target, text string) *whole {
	w := &whole{operation: t.Operation, hooked: c.o.Instruments.Hooked()}
	t.Operation = strings.ToLower(t.Operation)
	w.inner, w.op = c.o.Instruments.StartStatement(ctx, t, text)
	return w
}

// request notes that a request has ended, after so many retries.
func (w *whole) request(retries int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	w.retries += retries
}

// event reports whether another event is to be one of the span's.
func (w *whole) event() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	return w.events <= observe.MostRetryEvents
}

func (w *whole) end(err error) {
	out := outcomeOf(err)
	w.mu.Lock()
	out.Retries, out.Attempts = max(out.Retries, w.retries+w.requests-1, 0), w.attempts
	w.mu.Unlock()
	w.op.End(w.inner, out)
}

// Observe begins an operation that is sent as one request or as several: those that are made with the context that it
// gives, and have the operation's name, are its attempts and no operations of their own. text is a statement's, for
// spans. end is called once, with what the operation has come to.
func (c *Client) Observe(ctx context.Context, t observe.Target, text string) (of context.Context, end func(error)) {
	if c.o.Instruments == nil {
		return ctx, func(error) {}
	}
	w := c.start(ctx, t, text)
	return context.WithValue(w.inner, wholeKey{}, w), w.end
}

// observed is one attempt under observation. Its zero value is not.
type observed struct {
	k     *call
	span  observe.DispatchSpan
	began time.Time
}

// attempted opens the span of one attempt.
func (k *call) attempted() observed {
	if k.whole == nil {
		return observed{}
	}
	o, addr := observed{k: k, began: time.Now()}, k.endpoint
	d := observe.Dispatch{}
	d.Peer, d.PeerPort = split(addr)
	if k.c.o.Server != nil {
		addr = k.c.o.Server(k.r.Service, addr)
	}
	d.Server, d.ServerPort = split(addr)
	o.span = k.whole.op.DispatchAt(k.whole.inner, d, o.began)
	return o
}

// end closes it; w knows the connection.
func (o observed) end(w *wire, out observe.Attempt) {
	if o.k == nil {
		return
	}
	at, whole := time.Now(), o.k.whole
	local, peer := w.socket()
	out.Local, out.LocalPort = split(local)
	out.Peer, out.PeerPort = split(peer)
	o.span.EndAt(at, out)
	if whole.hooked {
		whole.mu.Lock()
		whole.attempts = append(whole.attempts, observe.Tried{
			Endpoint: o.k.endpoint, LocalAddr: local, OperationID: out.ContextID, Status: out.Status,
			ErrorName: out.ErrorName, Began: o.began, Took: at.Sub(o.began),
		})
		whole.mu.Unlock()
	}
}

// encoded makes an attempt's body, and notes how long that has taken.
func (k *call) encoded(remaining time.Duration) ([]byte, error) {
	began := time.Now()
	data, err := k.r.Body(remaining)
	end := time.Now()
	k.times.encode += end.Sub(began)
	if k.whole != nil && k.whole.op.Recording() {
		k.whole.op.Encoded(k.whole.inner, began, end)
	}
	return data, err
}

// times are what reports say of a request.
type times struct {
	encode, last, total time.Duration // of the bodies, the last attempt, and all of them
	local, remote       string        // of the last connection
}

func (t *times) attempt(w *wire, began time.Time) {
	t.last = time.Since(began)
	t.total += t.last
	t.local, t.remote = w.socket()
}

// report tells of a request that has taken long.
func (k *call) report() {
	took := time.Since(k.began)
	if k.c.o.Slow == nil || took < k.c.o.SlowAfter(k.r.Service) {
		return
	}
	q := observe.Request{
		Service: k.r.Service.String(), Operation: observe.Name(strings.ToLower(k.operation)), OperationID: k.r.UniqueID,
		LocalSocket: k.times.local, RemoteSocket: k.times.remote, Total: took, Encode: k.times.encode,
		LastDispatch: k.times.last, TotalDispatch: k.times.total,
	}
	if !k.state.Deadline.IsZero() {
		q.Timeout = k.state.Deadline.Sub(k.began)
	}
	k.c.o.Slow(q)
}

// split gives the host and the port of an address.
func split(addr string) (host string, port int) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(text)
	return host, port
}

// attemptOf says how an attempt was answered. Its failure is named by the status, as the conventions for HTTP do.
func attemptOf(id string, status int) observe.Attempt {
	if status >= 200 && status <= 299 {
		return observe.Attempt{ContextID: id}
	}
	text := strconv.Itoa(status)
	return observe.Attempt{ContextID: id, Status: text, ErrorName: text}
}

// lostAttempt is one without an answer.
func lostAttempt(id string) observe.Attempt {
	return observe.Attempt{ContextID: id, ErrorName: observe.ErrorName(cberr.RequestCanceled.Name())}
}

// retried notes that another attempt begins.
func (k *call) retried() {
	if k.whole == nil {
		return
	}
	info := k.state.Info()
	if n := len(info.Log); n > 0 && k.whole.event() {
		k.whole.op.Retry(info.Reason.String(), info.Retries(), info.Log[n-1].Delay)
	}
}

// outcomeOf says how a request ended in the words of spans and metrics.
func outcomeOf(err error) observe.Outcome {
	if err == nil {
		return observe.Outcome{}
	}
	out := observe.Outcome{ErrorName: observe.ErrorName(cberr.Couchbase.Name()), Err: err}
	if kind := cberr.KindOf(err); kind != nil {
		out.ErrorName = observe.ErrorName(kind.Name())
		out.Answer = !errors.Is(err, cberr.Timeout) && !errors.Is(err, cberr.RequestCanceled) &&
			!errors.Is(err, cberr.InternalServerFailure)
	}
	var e *httpsvc.Error
	if errors.As(err, &e) {
		out.Retries = e.Retry.Retries()
	}
	return out
}
