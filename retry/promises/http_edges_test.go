package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// A 503 without a delay leaves open whether a request was executed that does harm when it is sent twice. A service that
// says when to come back has refused it.
func TestA503WithoutADelayLeavesAWriteInDoubt(t *testing.T) {
	resent := core.HTTPRequest{Method: "PUT", Idempotent: true, Retry: never{}}
	for name, c := range map[string]struct {
		r         core.HTTPRequest
		answer    mock.Answer
		ambiguous bool
	}{
		"a write":                     {core.HTTPRequest{Method: "PUT"}, answered(503, ""), true},
		"a write, with a delay":       {core.HTTPRequest{Method: "PUT", Retry: never{}}, busy(1), false},
		"a read":                      {core.HTTPRequest{Method: "GET", Retry: never{}}, answered(503, ""), false},
		"a write that may be resent":  {resent, answered(503, ""), false},
		"a write, behind a gateway":   {core.HTTPRequest{Method: "PUT"}, answered(504, ""), true},
		"a write that was turned off": {core.HTTPRequest{Method: "PUT", Retry: never{}}, answered(429, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				sc := w.manager(c.answer)
				_, err := w.do(c.r)
				require.Error(t, err)
				require.Equal(t, c.ambiguous, ambiguousOf(err))
				require.Equal(t, 1, sc.Fired())
			})
		})
	}
}

// A body that is read while it is sent, and cannot be made again, is sent once, whatever its request meets.
func TestABodyThatCannotBeMadeAgainIsSentOnce(t *testing.T) {
	for name, answer := range map[string]mock.Answer{
		"told to come back":      busy(1),
		"busy":                   answered(503, ""),
		"the connection is lost": {Close: true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				sc := w.manager(answer)
				s := &recorder{base: every(ms)}
				_, err := w.do(core.HTTPRequest{
					Method: "PUT", Idempotent: true, Stream: io.NopCloser(strings.NewReader("x")), Retry: s,
				})
				require.Error(t, err)
				require.Equal(t, 1, sc.Fired())
				require.Empty(t, s.asked())
				require.NotErrorIs(t, err, cberr.UnambiguousTimeout)
				require.NotContains(t, err.Error(), "again: ", "no second one was begun")
			})
		})
	}
}

// A request goes to a node that it has failed on only when there is no other, however long ago that was.
func TestARequestAvoidsTheNodesThatItHasFailedOn(t *testing.T) {
	var mu sync.Mutex
	dialed := map[string]int{}
	var gone atomic.Pointer[string]
	virtual(t, func(t *testing.T, w *world) {
		w.manager(done())
		addr := w.c.Endpoints(core.Management)[0]
		gone.Store(&addr)
		for i := range 3 {
			mu.Lock()
			before := dialed[addr]
			mu.Unlock()
			r := rawGet("/x")
			r.Retry = every(5 * time.Second)
			wait := w.manyCalls(1, r)
			mu.Lock()
			met := dialed[addr] > before
			mu.Unlock()
			if !met {
				require.NoError(t, wait()[0])
				continue
			}
			for range 2 { // the next turn is the lost node's again
				_, err := w.do(rawGet("/x"))
				require.NoError(t, err)
			}
			require.NoError(t, wait()[0])
			mu.Lock()
			require.Equal(t, before+1, dialed[addr], "request %d", i)
			mu.Unlock()
			return
		}
		t.Fatal("no request has met the node")
	}, func(c *core.Config) {
		dial := c.Net.Dial
		c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if a := gone.Load(); a != nil && *a == addr {
				mu.Lock()
				dialed[addr]++
				mu.Unlock()
				return nil, errors.New("connection refused")
			}
			return dial(ctx, network, addr)
		}
	})
}

// breaks answers with a beginning and then loses the connection.
func breaks(w http.ResponseWriter, beginning string) {
	nc, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer nc.Close()
	_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
	_, _ = rw.WriteString(beginning)
	_ = rw.Flush()
}

// An answer that has begun is seen by the server: a read whose answer is lost before its first row is retried, and the
// retry counts. After the first row nothing is retried.
func TestAnAnswerThatIsLostBeforeItsFirstRowIsAnAttempt(t *testing.T) {
	for beginning, again := range map[string]bool{
		`{"requestID":"1","signature":{"*":"*"},"results":[`:         true,
		`{"requestID":"1","signature":{"*":"*"},"results":[{"a":1},`: false,
	} {
		var n atomic.Int32
		var number atomic.Pointer[string]
		c := services(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/query/service" {
				return
			}
			if n.Add(1) == 1 {
				breaks(w, beginning)
				return
			}
			h := r.Header.Get("Retry-Attempt")
			number.Store(&h)
			_, _ = io.WriteString(w, `{"requestID":"1","results":[{"a":1}],"status":"success"}`)
		})
		rows, err := c.Query(within(t, 10*time.Second), &query.Request{
			Statement: "SELECT 1", Readonly: true, Retry: every(ms),
		})
		require.NoError(t, err)
		info := rows.RetryInfo()
		err = drained(rows, nil)
		if again {
			require.NoError(t, err)
			require.EqualValues(t, 2, n.Load())
			require.Equal(t, []int{1, 0}, []int{info.Counted, info.Transparent})
			require.Equal(t, "1", *number.Load())
			continue
		}
		require.Error(t, err)
		require.EqualValues(t, 1, n.Load())
		require.Zero(t, info.Retries())
	}
}

// An answer ends the queue, whatever it says: those who wait go at once and beside each other.
func TestAnAnswerEndsTheQueueWhateverItSays(t *testing.T) {
	for name, answer := range map[string]mock.Answer{
		"good":    {Rows: []string{"1"}},
		"refused": {Errors: []mock.ServiceError{{Code: 3000, Message: "syntax"}}},
	} {
		t.Run(name, func(t *testing.T) {
			virtualOf(t, oneNode(), func(t *testing.T, w *world) {
				late := answer
				late.Delay = 3 * time.Second
				w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, busy(10), answer, late)
				began := time.Now()
				var all sync.WaitGroup
				ask := func() {
					_ = rowServices[mock.QueryService](within(t, time.Minute), w.c)
				}
				all.Go(ask)
				time.Sleep(time.Second)
				for range 10 {
					all.Go(ask)
				}
				all.Wait()
				at := w.since(mock.QueryService, began)
				require.Len(t, at, 12)
				require.Equal(t, 10_000, at[1])
				require.Equal(t, 10_000, at[11], "%v", at)
			})
		})
	}
}

// A pinned entry of a file holds for requests to services that name a strategy or hedges of their own.
func TestAPinnedEntryReplacesARequestsOwnStrategyAndHedge(t *testing.T) {
	retries := `{"operationConfig":[{"name":[{"service":"query"}],"retryPolicy":{"maxAttempts":3,
		"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,
		"retryableReasons":["SERVICE_RESPONSE_CODE_INDICATED"]%s}}]}`
	hedges := `{"operationConfig":[{"name":[{"service":"query"}],"hedgingPolicy":{"maxAttempts":2,"hedgingDelay":"0.1s",
		"nonFatalReasons":["SERVICE_RESPONSE_CODE_INDICATED"]%s}}]}`
	for _, c := range []struct {
		text    string
		retry   retry.Strategy
		hedge   *query.Hedge
		most    int // requests of one query, as the file says
		without int // when the entry is not pinned
	}{
		{retries, never{}, nil, 3, 1},
		{retries, nil, &query.Hedge{MaxAttempts: 2}, 3, 2},
		{hedges, never{}, nil, 2, 1},
		{hedges, nil, &query.Hedge{MaxAttempts: 3}, 2, 3},
	} {
		for pinned, want := range map[string]int{`,"pinned":true`: c.most, "": c.without} {
			virtual(t, func(t *testing.T, w *world) {
				sc := w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, answered(503, ""))
				require.Error(t, drained(w.c.Query(within(t, time.Minute), &query.Request{
					Statement: "SELECT 1", Readonly: true, Retry: c.retry, Hedge: c.hedge, Timeout: time.Second,
				})))
				require.Equal(t, want, sc.Fired(), "%s %v %v", c.text[:60], c.retry, c.hedge)
			}, file(t, fmt.Sprintf(c.text, pinned)))
		}
	}
}
