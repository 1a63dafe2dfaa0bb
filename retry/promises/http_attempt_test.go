package promises_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// numbers are the attempts' numbers as the requests with the path have them.
func (w *world) numbers(s mock.Service, path string) []string {
	got := []string{}
	for _, r := range w.m.ServiceLog(s) {
		if r.Path == path {
			got = append(got, r.Header.Get("Retry-Attempt"))
		}
	}
	return got
}

// TestTheRetryAttemptHeaderHasTheNumberOfTheRetry: absent at first, then 1, 2 and so on.
func TestTheRetryAttemptHeaderHasTheNumberOfTheRetry(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(busy(1), answered(http.StatusTooManyRequests, ""), busy(1), done())
		_, err := w.do(put(nil))
		require.NoError(t, err)
		require.Equal(t, []string{"", "1", "2", "3"}, w.numbers(mock.ManagementService, "/x"))
	})
	for s, run := range rowServices {
		virtual(t, func(t *testing.T, w *world) {
			w.m.Script(mock.ServiceMatch{Service: s}, busy(1), busy(1), mock.Answer{})
			require.NoError(t, run(within(t, time.Minute), w.c))
			log := w.m.ServiceLog(s)
			require.Len(t, log, 3)
			for i, want := range []string{"", "1", "2"} {
				require.Equal(t, want, log[i].Header.Get("Retry-Attempt"), s)
			}
		})
	}
}

// TestTheNumberIsThatOfRequestsThatAServerSaw: attempts that have found no server do not count.
func TestTheNumberIsThatOfRequestsThatAServerSaw(t *testing.T) {
	var refusals atomic.Int32
	errRefused := errors.New("connection refused")
	virtual(t, func(t *testing.T, w *world) {
		w.manager(busy(1), done())
		refusals.Store(4)
		resp, err := w.c.Do(context.Background(), &core.HTTPRequest{Method: "PUT", Path: "/x", Timeout: time.Minute})
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Zero(t, refusals.Load(), "no node could be reached at first")
		require.Equal(t, []string{"", "1"}, w.numbers(mock.ManagementService, "/x"))
		require.Equal(t, 1, resp.Retry.Counted)
		require.Equal(t, 4, resp.Retry.Transparent)
	}, func(c *core.Config) {
		dial := c.Net.Dial
		c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if refusals.Load() != 0 && refusals.Add(-1) >= 0 {
				return nil, errRefused
			}
			return dial(ctx, network, addr)
		}
	})
}

// TestHedgesAreNumberedToo: the first request has no number, and each hedge has the number of those before it.
func TestHedgesAreNumberedToo(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		virtual(t, func(t *testing.T, w *world) {
			w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, mock.Answer{Never: true},
				mock.Answer{Never: true}, mock.Answer{})
			err := drained(w.c.Query(within(t, time.Minute), &query.Request{
				Statement: "SELECT 1", Readonly: true, Prepare: prepare, Hedge: &query.Hedge{
					MaxAttempts: 3,
					Delay:       100 * ms,
				},
			}))
			require.NoError(t, err)
			got := []string{}
			for _, r := range w.m.ServiceLog(mock.QueryService) {
				if !r.Preparing {
					got = append(got, r.Header.Get("Retry-Attempt"))
				}
			}
			require.Equal(t, []string{"", "1", "2"}, got, "prepared %v", prepare)
		})
	}
	virtual(t, func(t *testing.T, w *world) {
		w.manager(mock.Answer{Never: true}, mock.Answer{Never: true}, done())
		_, err := w.do(core.HTTPRequest{Method: "GET", Timeout: time.Minute, Hedge: &core.Hedge{
			MaxAttempts: 3,
			Delay:       100 * ms,
		}})
		require.NoError(t, err)
		require.Equal(t, []string{"", "1", "2"}, w.numbers(mock.ManagementService, "/x"))
	})
}
