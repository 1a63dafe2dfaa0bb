package promises_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// oneNode is a cluster whose manager is one node, so that every request meets its queue.
func oneNode() []mock.Option { return []mock.Option{mock.Nodes(1), mock.Bucket("default", 64)} }

// rawGet is a raw request that is idempotent.
func rawGet(path string) core.HTTPRequest {
	return core.HTTPRequest{Method: "GET", Path: path, Timeout: time.Minute}
}

// manyCalls sends requests at the same time and gives a function that waits for their ends.
func (w *world) manyCalls(n int, r core.HTTPRequest) (wait func() []error) {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { _, errs[i] = w.do(r) })
	}
	synctest.Wait()
	return func() []error {
		all.Wait()
		return errs
	}
}

// slow is a good answer that takes a while.
func slow(d time.Duration) mock.Answer {
	a := done()
	a.Delay = d
	return a
}

// TestOfTheRequestsInTheQueueOneGoesFirst: the request that was told to come back, and the others follow its success.
func TestOfTheRequestsInTheQueueOneGoesFirst(t *testing.T) {
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		w.manager(busy(10), slow(3*time.Second), done())
		began := time.Now()
		first := w.manyCalls(1, rawGet("/x"))
		time.Sleep(time.Second)
		tail := w.manyCalls(50, rawGet("/x"))
		for _, err := range append(first(), tail()...) {
			require.NoError(t, err)
		}
		at := w.arrivals(mock.ManagementService, "/x", began)
		require.Len(t, at, 52)
		require.Equal(t, []int{0, 10_000, 13_000}, at[:3])
		require.Equal(t, 13_000, at[51])
	})
}

// TestTheQueueGoesOnWaitingWhileTheFirstIsThrottled: none of the others is sent to be told the same.
func TestTheQueueGoesOnWaitingWhileTheFirstIsThrottled(t *testing.T) {
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		w.manager(busy(10), busy(7), busy(5), done())
		began := time.Now()
		first := w.manyCalls(1, rawGet("/x"))
		tail := w.manyCalls(20, rawGet("/x"))
		for _, err := range append(first(), tail()...) {
			require.NoError(t, err)
		}
		at := w.arrivals(mock.ManagementService, "/x", began)
		require.Len(t, at, 24)
		require.Equal(t, []int{0, 10_000, 17_000, 22_000, 22_000}, at[:5])
	})
}

// TestWhenTheFirstIsGoneTheNextGoes: it has been cancelled, or its time is over. The server's delay holds for the
// others.
func TestWhenTheFirstIsGoneTheNextGoes(t *testing.T) {
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		w.manager(busy(10), slow(2*time.Second), done())
		began := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() {
			_, err := w.c.Do(ctx, &core.HTTPRequest{Method: "GET", Path: "/x"})
			gone <- err
		}()
		synctest.Wait()
		tail := w.manyCalls(20, rawGet("/x"))
		time.Sleep(time.Second)
		cancel()
		require.ErrorIs(t, <-gone, cberr.RequestCanceled)
		for _, err := range tail() {
			require.NoError(t, err)
		}
		at := w.arrivals(mock.ManagementService, "/x", began)
		require.Len(t, at, 21)
		require.Equal(t, []int{0, 10_000, 12_000}, at[:3])
	})
}

// TestTheQueueIsBounded: who finds it full is refused, as a reason for the strategy.
func TestTheQueueIsBounded(t *testing.T) {
	const most, more = 1024, 30
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		w.manager(busy(10), done())
		first := w.manyCalls(1, rawGet("/x"))
		queued := w.manyCalls(most, rawGet("/x"))
		stopped := rawGet("/x")
		stopped.Retry = never{}
		for _, err := range w.manyCalls(more, stopped)() {
			info, ok := retry.InfoOf(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, retry.EndpointNotWritable, info.Reason)
			require.False(t, ambiguousOf(err))
		}
		late := w.manyCalls(more, rawGet("/x")) // the default strategy waits
		for _, err := range append(append(first(), queued()...), late()...) {
			require.NoError(t, err)
		}
	})
}

func ambiguousOf(err error) bool {
	var told interface{ Ambiguous() bool }
	return errors.As(err, &told) && told.Ambiguous()
}

// queued reports whether a request has to wait after requests with the paths were throttled.
func queued(t *testing.T, throttled []string, path string) (waits bool) {
	t.Helper()
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Method: "GET"}, done())
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Method: "GET", Times: len(throttled)}, busy(10))
		var all sync.WaitGroup
		for _, p := range throttled {
			all.Go(func() { _, _ = w.do(rawGet(p)) })
			synctest.Wait()
		}
		began := time.Now()
		_, err := w.do(rawGet(path))
		require.NoError(t, err)
		waits = time.Since(began) >= 9*time.Second
		all.Wait()
	})
	return waits
}

// TestRequestsWithTheSamePathAreQueued, the exact same URL included.
func TestRequestsWithTheSamePathAreQueued(t *testing.T) {
	require.True(t, queued(t, []string{"/x/y?z=1"}, "/x/y?z=1"))
	require.True(t, queued(t, []string{"/x/y?z=1"}, "/x/y?z=2"))
	require.True(t, queued(t, []string{"/x/y?z=1"}, "/x/y"))
	require.False(t, queued(t, []string{"/x/y?z=1"}, "/x/z"))
}

// TestRequestsWithNMatchingInitialSegmentsAreQueuedAfter5MinusNThrottledRequests
func TestRequestsWithNMatchingInitialSegmentsAreQueuedAfter5MinusNThrottledRequests(t *testing.T) {
	for n := 1; n <= 4; n++ {
		prefix := strings.Repeat("/s", n)
		var throttled []string
		for i := range 5 - n {
			throttled = append(throttled, fmt.Sprintf("%s/t%d", prefix, i))
		}
		require.True(t, queued(t, throttled, prefix+"/new"), "%d segments, %d requests", n, len(throttled))
		if len(throttled) > 1 {
			require.False(t, queued(t, throttled[1:], prefix+"/new"), "%d segments, %d requests", n, len(throttled)-1)
		}
	}
	require.False(t, queued(t, []string{"/a", "/b", "/c", "/d", "/e", "/f"}, "/new"), "no segment matches")
}

// TestTheQueueIsOfOneNode: what one node has said says nothing of the others.
func TestTheQueueIsOfOneNode(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/x"}, answered(http.StatusOK, "{}"))
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/x", Times: 1}, busy(10))
		pinned := rawGet("/x")
		pinned.Endpoint = w.c.Endpoints(core.Management)[0]
		wait := w.manyCalls(1, pinned)
		began := time.Now()
		for range 12 {
			_, err := w.do(rawGet("/x"))
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		require.NoError(t, wait()[0])
	})
}
