package core_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

func TestManagementRequestEndToEnd(t *testing.T) {
	m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Services(mock.KVService))
	c := open(t, m)
	resp, err := c.Do(ctx(t), &core.HTTPRequest{Method: "GET", Path: "/pools/default/b/default"})
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.Status)
	require.Contains(t, string(body), "vBucketServerMap")
	resp, err = c.Do(ctx(t), &core.HTTPRequest{
		Method: "POST", Path: "/pools/default/buckets/default/scopes",
		ContentType: "application/x-www-form-urlencoded", Body: []byte("name=eu"),
	})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.Status)
	wrong := open(t, m, func(c *core.Config) { c.Auth.Password = core.NewSecret("wrong") })
	_, err = wrong.Do(ctx(t), &core.HTTPRequest{Method: "GET", Path: "/whoami"})
	require.ErrorIs(t, err, cberr.AuthenticationFailure) // CB-31: no usable node, and why
}

// scripted is a client whose management requests all go to handler, in the bubble.
func scripted(t *testing.T, handler http.HandlerFunc, change ...func(*core.Config)) *core.Cluster {
	m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Services(mock.KVService), mock.Virtual())
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(served)
	}()
	c := open(t, m, append([]func(*core.Config){func(cfg *core.Config) {
		dial := cfg.Net.Dial
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasSuffix(addr, ":8091") {
				near, far := net.Pipe()
				select {
				case l.conns <- far:
					return near, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return dial(ctx, network, addr)
		}
	}}, change...)...)
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
	return c
}

// counted is a connection that is open until it is closed once.
type counted struct {
	net.Conn
	once sync.Once
	open *atomic.Int32
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// D118: what a configuration says of connections to services holds: how many there are, how many stay open unused, at
// each of two nodes and in all, and for how long.
func TestPoolSettingsReachTheServices_D118(t *testing.T) {
	for _, total := range []int{0, 5} {
		synctest.Test(t, func(t *testing.T) {
			var alive atomic.Int32
			c := scripted(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) },
				func(cfg *core.Config) {
					cfg.HTTP.MaxConnections, cfg.HTTP.MaxIdle, cfg.HTTP.MaxIdleTotal, cfg.HTTP.IdleTimeout = 4, 3,
						total,
						5*time.Second
					dial := cfg.Net.Dial
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := dial(ctx, network, addr)
						if err == nil && strings.HasSuffix(addr, ":8091") {
							alive.Add(1)
							nc = &counted{Conn: nc, open: &alive}
						}
						return nc, err
					}
				})
			began := time.Now()
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					resp, err := c.Do(ctx(t), &core.HTTPRequest{Method: "GET", Path: "/x"})
					if err == nil {
						err = resp.Body.Close()
					}
					require.NoError(t, err)
				})
			}
			time.Sleep(500 * time.Millisecond)
			most := alive.Load()
			all.Wait()
			require.EqualValues(t, 8, most)
			require.Equal(t, 2*time.Second, time.Since(began), "in two rounds")
			synctest.Wait()
			idle := 6
			if total != 0 {
				idle = total
			}
			require.EqualValues(t, idle, alive.Load())
			time.Sleep(4 * time.Second)
			require.EqualValues(t, idle, alive.Load())
			time.Sleep(2 * time.Second)
			require.Zero(t, alive.Load())
		})
	}
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  atomic.Bool
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	if l.once.CompareAndSwap(false, true) {
		close(l.done)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// GR-2, GR-3, GR-11, D4: which answers are come back for, when, and how the attempt is numbered.
func TestStatusesThatAreRetried(t *testing.T) {
	for _, tc := range []struct {
		method, after string
		status        int
		retried       bool
		wait          time.Duration
	}{
		{"POST", "", 429, true, time.Millisecond},
		{"POST", "3", 503, true, 3 * time.Second},
		{"POST", "", 503, false, 0},
		{"GET", "", 503, true, time.Millisecond},
		{"GET", "7", 429, true, 7 * time.Second},
		{"POST", "", 504, false, 0},
		{"GET", "", 504, true, time.Millisecond},
		{"GET", "", 500, false, 0},
		{"POST", "soon", 503, false, 0},
		{"GET", "Sat, 01 Jan 2000 00:00:05 GMT", 503, true, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var requests []string
			var bodies []string
			var at []time.Time
			c := scripted(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				requests, bodies = append(requests, r.Header.Get("Retry-Attempt")), append(bodies, string(b))
				at = append(at, time.Now())
				if len(requests) == 1 {
					if tc.after != "" {
						w.Header().Set("Retry-After", tc.after)
					}
					w.WriteHeader(tc.status)
				}
			})
			resp, err := c.Do(ctx(t), &core.HTTPRequest{Method: tc.method, Path: "/x", Body: []byte("same")})
			if !tc.retried {
				var failed *core.ResponseError
				if status := tc.status; status == 500 {
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, status, resp.Status)
				} else {
					require.ErrorAs(t, err, &failed)
					require.Equal(t, status, failed.Status)
				}
				require.Equal(t, []string{""}, requests)
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 200, resp.Status)
			require.Equal(t, []string{"", "1"}, requests)
			require.Equal(t, []string{"same", "same"}, bodies)
			require.InDelta(t, tc.wait, at[1].Sub(at[0]), float64(time.Millisecond))
		})
	}
}

// CB-3 over HTTP: a connection that dies after the request was written leaves a request that is not idempotent in
// doubt; another one is sent again.
func TestLostHTTPConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n%2 == 1 {
				nc, _, _ := w.(http.Hijacker).Hijack()
				_ = nc.Close()
			}
		})
		_, err := c.Do(ctx(t), &core.HTTPRequest{Method: "POST", Path: "/x", Retry: retry.BestEffort{}})
		require.ErrorIs(t, err, cberr.RequestCanceled)
		var e interface{ Ambiguous() bool }
		require.ErrorAs(t, err, &e)
		require.True(t, e.Ambiguous())
		n = 0
		resp, err := c.Do(ctx(t), &core.HTTPRequest{Method: "POST", Path: "/x", Idempotent: true})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2, n)
	})
}

// A service that never answers ends at the deadline, with the truth about what it may have done.
func TestSilentHTTPService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		_, err := c.Do(ctx(t), &core.HTTPRequest{Method: "POST", Path: "/x", Timeout: time.Second})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		_, err = c.Do(ctx(t), &core.HTTPRequest{Method: "GET", Path: "/x", Timeout: time.Second})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2*time.Second, time.Since(began))
		_, err = c.Do(ctx(t), &core.HTTPRequest{
			Service: core.Analytics, Method: "GET", Path: "/x",
			Timeout: time.Second,
		})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		_, err = c.Do(ctx(t), &core.HTTPRequest{Method: "GET", Path: "x"})
		require.ErrorContains(t, err, "Path")
	})
}

// TestPathsAndBodiesOfRawRequests: arguments are one segment each, the query is added, and a body may be a stream.
func TestPathsAndBodiesOfRawRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var uris, bodies []string
		c := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			uris, bodies = append(uris, r.RequestURI), append(bodies, string(data))
			if len(uris) == 3 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(503)
			}
		})
		do := func(r *core.HTTPRequest) (*core.HTTPResponse, error) {
			resp, err := c.Do(ctx(t), r)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			return resp, err
		}
		_, err := do(&core.HTTPRequest{
			Method: "GET", Path: "/a/{}/b/{}?x=1", Args: []string{"1/2", ".."},
			Query: url.Values{"y": {"z z"}},
		})
		require.NoError(t, err)
		_, err = do(&core.HTTPRequest{Method: "GET", Path: "/a", Query: url.Values{"y": {"1", "2"}}})
		require.NoError(t, err)
		again := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("text")), nil }
		first, _ := again()
		_, err = do(&core.HTTPRequest{Method: "PUT", Path: "/a", Stream: first, Again: again, Length: 4})
		require.NoError(t, err)
		require.Equal(t, []string{"/a/1%2F2/b/%2E%2E?x=1&y=z+z", "/a?y=1&y=2", "/a", "/a"}, uris)
		require.Equal(t, []string{"", "", "text", "text"}, bodies)
		for _, bad := range []*core.HTTPRequest{
			{Method: "GET", Path: "/a/{}", Args: []string{"1", "2"}},
			{Method: "GET", Path: "/a", Args: []string{"1"}},
			{Method: "GET"},
			{Method: "PUT", Path: "/a", Stream: first, Body: []byte("x")},
			{Method: "GE T", Path: "/a"},
			{Service: 99, Method: "GET", Path: "/a"},
		} {
			_, err = do(bad)
			require.ErrorIs(t, err, cberr.InvalidArgument, "%+v", bad)
		}
		require.Len(t, uris, 4)
	})
}
