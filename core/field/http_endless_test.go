package field_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// endless answers every request with raw bytes and leaves the connection open, which is the test's to close: net/http
// does not end the body of an answer that switches protocols.
type endless struct {
	head  string
	mu    sync.Mutex
	conns []io.Closer
	count atomic.Int32
}

func (e *endless) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.count.Add(1)
	nc, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	e.mu.Lock()
	e.conns = append(e.conns, nc)
	e.mu.Unlock()
	_, _ = io.WriteString(nc, e.head)
}

func (e *endless) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		_ = c.Close()
	}
}

// soon runs f and fails the test if it takes long.
func soon(t testing.TB, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("%s does not end", what)
		return nil
	}
}

// heads are beginnings of answers whose bodies never end.
var heads = map[string]string{
	"101":          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
	"101 and rows": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n{\"results\":[1,",
	"103s":         strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 3),
	"200":          "HTTP/1.1 200 OK\r\n\r\n",
	"200 chunked":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"500":          "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 100\r\n\r\n",
	"503":          "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n",
}

// TestAnAnswerWithoutAnEndEndsByTheDeadline_D137 has every public request to a service answered so.
func TestAnAnswerWithoutAnEndEndsByTheDeadline_D137(t *testing.T) {
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			e := &endless{head: head}
			t.Cleanup(e.close)
			c := services(t, e.ServeHTTP)
			limit := func() context.Context { return within(t, 200*time.Millisecond) }
			for what, f := range map[string]func() error{
				"query": func() error { return runQuery(limit(), c, &query.Request{Statement: "SELECT 1"}) },
				"read": func() error {
					return runQuery(limit(), c, &query.Request{
						Statement: "SELECT 1",
						Readonly:  true,
					})
				},
				"analytics": func() error {
					return runAnalytics(limit(), c, &analytics.Request{Statement: "SELECT 1", Readonly: true})
				},
				"raw": func() error {
					resp, err := c.Do(limit(), &core.HTTPRequest{Method: "POST", Path: "/x"})
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					_, err = io.Copy(io.Discard, resp.Body)
					return err
				},
				"manifest": func() error { _, err := c.Bucket("default").Manifest(limit()); return err },
				"buckets":  func() error { _, err := c.Buckets(limit()); return err },
				"ping service": func() error {
					_, err := c.PingService(limit(), core.Query,
						c.Endpoints(core.Query)[0])
					return err
				},
				"ping": func() error {
					r, err := c.Ping(limit(), core.PingOptions{Services: []string{"n1ql"}})
					if err == nil && len(r.Services["n1ql"]) == 1 && r.Services["n1ql"][0].State != "ok" {
						err = errors.New(r.Services["n1ql"][0].Error)
					}
					return err
				},
			} {
				err := soon(t, what, f)
				if strings.HasPrefix(what, "ping") && strings.HasPrefix(name, "200") {
					continue // the headers are the answer
				}
				require.Error(t, err, what)
			}
		})
	}
}

// TestAnAnswerWithoutAnEndEndsByClose_D137: the client's end ends what has no deadline to wait for.
func TestAnAnswerWithoutAnEndEndsByClose_D137(t *testing.T) {
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			e := &endless{head: head}
			t.Cleanup(e.close)
			c := services(t, e.ServeHTTP)
			go func() {
				for e.count.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(50 * time.Millisecond)
				_ = c.Close()
			}()
			require.Error(t, soon(t, "query", func() error {
				return runQuery(context.Background(), c, &query.Request{
					Statement: "SELECT 1", Readonly: true,
					Timeout: time.Hour,
				})
			}))
		})
	}
}

// TestSwitchedProtocolsAreAFailure_D137: no request asks for that, and it says nothing about what was executed.
func TestSwitchedProtocolsAreAFailure_D137(t *testing.T) {
	e := &endless{head: heads["101"]}
	t.Cleanup(e.close)
	c := services(t, e.ServeHTTP)
	err := runQuery(within(t, 5*time.Second), c, &query.Request{Statement: "DELETE FROM a"})
	require.ErrorContains(t, err, "101")
	require.NotErrorIs(t, err, cberr.Timeout)
	require.True(t, ambiguous(t, err), "%v", err)
	_, err = c.Do(within(t, 5*time.Second), &core.HTTPRequest{Method: "PUT", Path: "/x"})
	require.ErrorContains(t, err, "101")
	require.True(t, ambiguous(t, err), "%v", err)
	require.EqualValues(t, 2, e.count.Load(), "neither is sent again")
}

// stuck is a body of the caller's that gives nothing, whatever is done to it.
type stuck struct{ release chan struct{} }

func (s stuck) Read([]byte) (int, error) {
	<-s.release
	return 0, io.EOF
}

func (s stuck) Close() error { return nil }

// TestABodyThatGivesNothingEndsByTheDeadline_D137: a streamed body of the caller's blocks, and so does the function
// that makes it anew.
func TestABodyThatGivesNothingEndsByTheDeadline_D137(t *testing.T) {
	s := stuck{make(chan struct{})}
	t.Cleanup(func() { close(s.release) })
	c := services(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	err := soon(t, "a body that blocks", func() error {
		resp, err := c.Do(within(t, 200*time.Millisecond), &core.HTTPRequest{Method: "PUT", Path: "/x", Stream: s})
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	})
	require.ErrorIs(t, err, cberr.Timeout)

	c = services(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	err = soon(t, "a body that cannot be made again", func() error {
		resp, err := c.Do(within(t, 200*time.Millisecond), &core.HTTPRequest{
			Method: "PUT", Path: "/x", Stream: io.NopCloser(strings.NewReader("x")), Retry: retry.BestEffort{},
			Again: func() (io.ReadCloser, error) { <-s.release; return s, nil },
		})
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	})
	require.ErrorIs(t, err, cberr.Timeout)
}

// A request to a service that ends while it is being connected leaves the attempt behind, of which net/http makes a
// connection for others. Close ends that attempt and waits for it.
func TestCloseEndsConnectingOverHTTP_D137(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
		var under atomic.Int32
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if strings.HasSuffix(addr, ":11210") {
					return m.Dial(ctx, network, addr)
				}
				under.Add(1)
				defer under.Add(-1)
				<-ctx.Done()
				time.Sleep(20 * time.Millisecond)
				return nil, context.Cause(ctx)
			}
		})
		require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
		for _, wait := range []time.Duration{0, time.Second} {
			_, err := c.Query(within(t, 100*time.Millisecond), &query.Request{Statement: "SELECT 1", Readonly: true})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			time.Sleep(wait)
		}
		require.NotZero(t, under.Load())
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.Zero(t, under.Load())
	})
}
