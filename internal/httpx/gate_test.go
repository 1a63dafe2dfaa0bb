package httpx_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/retry"
)

// refuse answers 503 with Retry-After: 10 until that time has passed, for the paths that it is told.
func refuse(began time.Time, paths ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		for _, p := range paths {
			if r.URL.Path == p && time.Since(began) < 10*time.Second {
				rw.Header().Set("Retry-After", "10")
				rw.WriteHeader(503)
			}
		}
	}
}

// background sends requests that wait for their retry, and gives a function that awaits their end.
func (w *world) background(rs ...*httpsvc.Request) (wait func()) {
	var all sync.WaitGroup
	for _, r := range rs {
		all.Go(func() {
			_, _, err := w.do(r)
			require.NoError(w.t, err)
		})
		synctest.Wait()
	}
	return all.Wait
}

// arrival sends a request a second from now and says when it reached the node.
func (w *world) arrival(r *httpsvc.Request) time.Duration {
	time.Sleep(time.Second)
	sent := time.Since(w.began)
	_, _, err := w.do(r)
	require.NoError(w.t, err)
	got := w.requests()
	for _, s := range got {
		if s.uri == r.Path && s.header.Get("Retry-Attempt") == "" && s.at >= sent {
			return s.at
		}
	}
	return -1
}

// TestGR14GR15SameURLJoinsTheQueue: a second request is not sent before the first one's delay ends.
func TestGR14GR15SameURLJoinsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, refuse(time.Now(), "/a/b"), setup{})
		wait := w.background(get("/a/b?x=1"))
		require.Equal(t, 10*time.Second, w.arrival(get("/a/b?x=1")))
		wait()
		require.Equal(t, 3, w.count())
		require.Equal(t, 11*time.Second, w.arrival(get("/a/b?x=1"))) // open again
	})
}

// TestGR16SamePathJoinsTheQueue, with another query string and another method.
func TestGR16SamePathJoinsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, refuse(time.Now(), "/a/b"), setup{})
		wait := w.background(get("/a/b?x=1"))
		require.Equal(t, 10*time.Second, w.arrival(post("/a/b?x=2", "")))
		wait()
	})
	synctest.Test(t, func(t *testing.T) { // without a refusal nothing is queued, and other paths are not either
		w := newWorld(t, refuse(time.Now(), "/a/b"), setup{})
		require.Equal(t, time.Second, w.arrival(get("/x")))
		defer w.background(get("/a/b"))()
		require.Equal(t, 2*time.Second, w.arrival(get("/x/y")))
		require.Equal(t, 3*time.Second, w.arrival(get("/a/c")))
	})
}

// TestGR17EqualSegmentsJoinTheQueue: the first n segments equal, after 5-n refusals and not before.
func TestGR17EqualSegmentsJoinTheQueue(t *testing.T) {
	segments := []string{"", "/s1", "/s1/s2", "/s1/s2/s3", "/s1/s2/s3/s4", "/s1/s2/s3/s4/s5", "/s1/s2/s3/s4/s5/s6"}
	for n := 0; n < len(segments); n++ {
		for refusals := 1; refusals <= 5; refusals++ {
			synctest.Test(t, func(t *testing.T) {
				var rs []*httpsvc.Request
				var paths []string
				for i := range refusals {
					paths = append(paths, fmt.Sprintf("%s/r%d", segments[n], i))
					r := get(paths[i])
					rs = append(rs, r)
				}
				w := newWorld(t, refuse(time.Now(), paths...), setup{})
				var pending []func()
				for _, r := range rs {
					// One that joins the queue is no further refusal.
					pending = append(pending, w.background(r))
				}
				sent := w.count()
				want := time.Second
				if n > 0 && sent >= max(5-n, 1) {
					want = 10 * time.Second
				}
				require.Equal(t, min(refusals, map[bool]int{true: max(5-n, 1), false: refusals}[n > 0]), sent)
				require.Equal(t, want, w.arrival(get(segments[n]+"/new")), "%d segments, %d refusals", n, refusals)
				for _, wait := range pending {
					wait()
				}
			})
		}
	}
}

// TestGateKeepsTheDeadlinesOfThoseWhoWait: they end by their own deadline or cancellation, and nothing of them was
// sent.
func TestGateKeepsTheDeadlinesOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, refuse(time.Now(), "/a"), setup{})
		wait := w.background(get("/a"))
		r := post("/a", "x")
		r.Timeout = 3 * time.Second
		_, _, err := w.do(r)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorContains(t, err, "come back later")
		require.Equal(t, 3*time.Second, time.Since(w.began))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, _, err = w.doCtx(ctx, get("/a"))
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.Equal(t, 1, w.count())
		wait()
	})
}

// TestGateIsPerNode: what one node refuses, another one is asked for.
func TestGateIsPerNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.Host == "n2:80" {
				refuse(began, "/a")(rw, r)
			}
		}, setup{nodes: []string{"n1:80", "n2:80"}})
		r := get("/a")
		r.Endpoint = "n2:80"
		wait := w.background(r)
		for range 4 {
			_, _, err := w.do(get("/a"))
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		wait()
	})
}

// TestGateIsBounded: it forgets the least recently used.
func TestGateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paths []string
		var rs []*httpsvc.Request
		for i := range 1100 {
			paths = append(paths, fmt.Sprintf("/p%d", i))
			rs = append(rs, get(paths[i]))
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(t, refuse(time.Now(), paths...), setup{options: func(o *httpx.Options) { o.MaxConns = 8 }})
		var all sync.WaitGroup
		for _, r := range rs {
			all.Go(func() { _, _, _ = w.doCtx(ctx, r) })
			synctest.Wait()
		}
		require.Equal(t, httpx.MaxPrefixes, w.client.Prefixes())
		cancel()
		all.Wait()
		time.Sleep(20 * time.Second)
		_, _, err := w.do(get("/p1099"))
		require.NoError(t, err)
		require.Equal(t, httpx.MaxPrefixes-2, w.client.Prefixes()) // the path and its first segment are answered
	})
}

// TestSlowStrategiesLeaveTheGateToTheServer: a delay that is not known yet keeps no request, the server's own does.
func TestSlowStrategiesLeaveTheGateToTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
			select {
			case <-ctx.Done():
			case <-time.NewTimer(5 * time.Second).C:
			}
			return retry.After(10 * time.Second)
		})
		w := newWorld(t, refuse(time.Now(), "/a"), setup{retry: retry.Options{Default: slow}})
		wait := w.background(get("/a"))
		require.Equal(t, 10*time.Second+httpx.Grace, w.arrival(get("/a")))
		wait()
	})
}

// TestGateKeepsNewRequestsOnly: a retry has its own delay behind it.
func TestGateKeepsNewRequestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond) // so that both are under way
			if r.Header.Get("Retry-Attempt") == "" {
				rw.Header().Set("Retry-After", r.URL.Query().Get("after"))
				rw.WriteHeader(503)
			}
		}, setup{})
		var all sync.WaitGroup
		for _, after := range []string{"1", "5"} {
			all.Go(func() {
				_, _, err := w.do(get("/a?after=" + after))
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, []time.Duration{0, 0, 1001 * time.Millisecond, 5001 * time.Millisecond}, at(w.requests()))
	})
}

// TestTheDelayOfAStrategyThatMayBlockHoldsNoRequestUp_D267: it was chance whether requests waited for a delay without
// Retry-After that a strategy on a goroutine of its own had chosen: if it had answered before the client looked. On few
// processors it seldom had.
func TestTheDelayOfAStrategyThatMayBlockHoldsNoRequestUp_D267(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
				if time.Since(began) < 10*time.Second {
					rw.WriteHeader(503)
				}
			}, setup{retry: retry.Options{Default: retry.Func(tenSeconds{}.RetryAfter)}})
			wait := w.background(get("/a/b"))
			require.Equal(t, time.Second, w.arrival(get("/a/b")))
			wait()
		})
	}
}

// tenSeconds retries after ten seconds.
type tenSeconds struct{}

func (tenSeconds) Inline() bool { return true }

func (tenSeconds) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.After(10 * time.Second)
}

// TestTheDelayOfAStrategyHoldsLaterRequestsUp: a second request waits for the first one's delay where the strategy
// chose it and the server named none, too.
func TestTheDelayOfAStrategyHoldsLaterRequestsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			if time.Since(began) < 10*time.Second {
				rw.WriteHeader(503)
			}
		}, setup{retry: retry.Options{Default: tenSeconds{}}})
		wait := w.background(get("/a/b"))
		require.Equal(t, 10*time.Second, w.arrival(get("/a/b")))
		wait()
	})
}
