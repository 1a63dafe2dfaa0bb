package httpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// wire claims one attempt for the socket when net/http begins to write the request. net/http may write a request
// several times by itself, if it is idempotent or nothing of it has left. It may also go on writing after the attempt
// has failed. So only the first write claims the attempt, and no write does after the end.
type wire struct {
	state *retry.State
	seen  *atomic.Int32 // counts it; may be nil
	mu    sync.Mutex
	made  *attempt
	epoch uint32       // the attempt's number; 0 before the first write
	over  bool         // end was called
	conns []connection // that net/http has taken for the request
}

// connection is one that an attempt was given, with what had been written to it by then.
type connection struct {
	t      *tracked
	nc     net.Conn
	writes int64
}

// trace is a context for the attempt's request. The first field of the headers tells, since over HTTP/2 the headers
// are on the wire already when they are reported as written.
func (w *wire) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { w.writes() },
		WroteHeaders:     w.writes,
		GotConn:          w.given,
	})
}

func (w *wire) writes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch != 0 || w.over {
		return
	}
	if e, ok := w.state.Sent(); ok {
		w.epoch = e
		if w.seen != nil {
			w.seen.Add(1)
		}
	}
}

// given notes the connection that the request is about to be written to.
func (w *wire) given(info httptrace.GotConnInfo) {
	nc := info.Conn
	for over, ok := nc.(interface{ NetConn() net.Conn }); ok; over, ok = nc.(interface{ NetConn() net.Conn }) { // TLS
		nc = over.NetConn()
	}
	t, _ := nc.(*tracked)
	g := connection{t: t, nc: nc}
	if t != nil {
		g.writes = t.writes.Load()
		t.user.Store(w.made)
	}
	if w.made != nil {
		w.made.turn.Store(nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, g)
}

// socket is the two ends of the latest connection, "" without one.
func (w *wire) socket() (local, remote string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.conns); n > 0 {
		nc := w.conns[n-1].nc
		return addrOf(nc.LocalAddr), addrOf(nc.RemoteAddr)
	}
	return "", ""
}

// addrOf is an address of a connection, which may be one of the user's own making.
func addrOf(of func() net.Addr) string {
	if a := of(); a != nil {
		return a.String()
	}
	return ""
}

// unsent reports whether it is certain that nothing of the request has left: every connection that it was given is
// closed, and nothing was written to it.
func (w *wire) unsent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.conns {
		// closed is read before writes: a write counts itself first, and after Close it is refused.
		if g.t == nil || !g.t.closed.Load() || g.t.writes.Load() != g.writes {
			return false
		}
	}
	return true
}

// answered notes, on the connection that the answer came on, whether the answer is a good one.
func (w *wire) answered(good bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.conns) == 0 || w.conns[len(w.conns)-1].t == nil {
		return
	}
	t := w.conns[len(w.conns)-1].t
	if !good {
		t.refused.Store(&refusal{w.made, time.Now()})
		return
	}
	t.good.Store(true)
	t.c.hosts.well(t.addr)
}

// end gives the attempt's number, 0 when nothing was written.
func (w *wire) end() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.epoch
}

// lost is end for an attempt without an answer. It gives 0, too, when the request has provably not left.
func (w *wire) lost() (epoch uint32) {
	if epoch = w.end(); epoch == 0 || !w.unsent() || !w.state.Unsent(epoch) {
		return epoch
	}
	if w.seen != nil {
		w.seen.Add(-1)
	}
	return 0
}

// body is an answer's body. Its errors are those of net/http while the client reads it; from when the caller has it
// they are *httpsvc.Error. Closing the body ends the attempt's context, so that nothing of the request outlives it. The
// end of the context closes the body: net/http does not do that for every answer.
type body struct {
	rc     io.ReadCloser
	call   *call
	given  atomic.Bool
	cancel func()      // ends the attempt's context
	stop   func() bool // keeps the end of the context from closing the body
	end    []func()    // to be called when the body is closed
	once   sync.Once
}

func (k *call) newBody(ctx context.Context, cancel func(), rc io.ReadCloser) *body {
	return &body{rc: rc, call: k, cancel: cancel, stop: context.AfterFunc(ctx, func() { rc.Close() })}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || !b.given.Load() {
		return n, err
	}
	return n, b.call.broken(err)
}

// Close ends the request. A connection whose answer was not read to its end is not used again.
func (b *body) Close() error {
	b.close()
	return nil
}

func (b *body) close() {
	b.once.Do(func() {
		b.stop()
		b.cancel()
		for _, f := range b.end {
			f()
		}
		b.rc.Close()
	})
}

// drain reads the rest of an answer that the caller does not get, if that is little and comes soon, and closes the
// body: net/http uses a connection again whose answer was read to its end.
func (b *body) drain() {
	t := time.AfterFunc(drainTime, b.cancel)
	_, _ = io.CopyN(io.Discard, b.rc, drainLimit)
	t.Stop()
	b.close()
}

// credentialsError is a failure of the provider of credentials.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "no credentials: " + e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// request makes the attempt's request. It is the same for each attempt, but for the header that counts attempts and
// what the function Body makes of the time that is left.
func (k *call) request(ctx context.Context) (*http.Request, error) {
	scheme := "http"
	if k.c.tls.Load() != nil {
		scheme = "https"
	}
	u := scheme + "://" + k.endpoint + k.r.Path
	if len(k.r.Query) > 0 {
		separator := "?"
		if strings.Contains(k.r.Path, "?") {
			separator = "&"
		}
		u += separator + k.r.Query.Encode()
	}
	payload, length, err := k.payload(ctx)
	if err != nil {
		return nil, err
	}
	h, err := http.NewRequestWithContext(ctx, k.r.Method, u, payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cberr.InvalidArgument, err)
	}
	if k.r.Stream != nil {
		h.ContentLength = length
	}
	for name, v := range k.r.Header {
		h.Header.Set(name, v)
	}
	if k.r.ContentType != "" {
		h.Header.Set("Content-Type", k.r.ContentType)
	}
	if other, err := k.r.OnBehalf(); err != nil {
		return nil, err
	} else if other != "" {
		h.Header.Set("cb-on-behalf-of", other)
	}
	h.Header.Set("User-Agent", k.c.o.Agent)
	if n := k.seenBefore(); n > 0 {
		h.Header.Set("Retry-Attempt", strconv.Itoa(n))
	}
	return h, k.c.authorize(ctx, h, k.r.Service, k.endpoint)
}

// seenBefore is how many requests of this operation servers have seen before this attempt. Attempts that no server has
// seen do not count; requests to other nodes, of a hedged operation, do.
func (k *call) seenBefore() (n int) {
	if k.attempts > 0 {
		n = k.state.Info().Counted
	}
	if k.r.Seen != nil {
		n += int(k.r.Seen.Load())
	}
	return n
}

// payload makes the attempt's body. A body that cannot be made again ends the call.
func (k *call) payload(ctx context.Context) (io.Reader, int64, error) {
	switch s := k.r.Stream; {
	case s != nil && k.attempts == 0:
		return newUpload(ctx, s.Body), s.Length, nil
	case s != nil:
		rc, err := makeAgain(ctx, s.Again)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: the body cannot be sent again: %w", cberr.RequestCanceled, err)
		}
		return newUpload(ctx, rc), s.Length, nil
	case k.r.Body != nil:
		data, err := k.encoded(time.Until(k.state.Deadline))
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", cberr.EncodingFailure, err)
		}
		k.size = len(data)
		return bytes.NewReader(data), int64(len(data)), nil
	}
	return nil, 0, nil
}
