package promises_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// logged is a handler that keeps the lines of decisions about retrying.
type logged struct {
	mu    sync.Mutex
	lines []map[string]string
}

func (h *logged) Enabled(context.Context, slog.Level) bool { return true }
func (h *logged) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *logged) WithGroup(string) slog.Handler            { return h }

func (h *logged) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "Retrying" && r.Message != "Not retried" {
		return nil
	}
	line := map[string]string{"": r.Message, "level": r.Level.String()}
	r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.String(); return true })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
	return nil
}

// take gives the lines so far, once they are written.
func (h *logged) take() []map[string]string {
	time.Sleep(time.Second)
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// TestEveryDecisionIsLoggedWithItsReason: a retry that the strategy wants, one that is always made, and none.
func TestEveryDecisionIsLoggedWithItsReason(t *testing.T) {
	h := &logged{}
	virtual(t, func(t *testing.T, w *world) {
		h.take()
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, _, err := w.upsert(every(3 * ms))
		require.NoError(t, err)
		lines := h.take()
		require.Len(t, lines, 1)
		require.Equal(t, []string{"Retrying", "DEBUG", "KV_TEMPORARY_FAILURE", "upsert", "3ms", "0"},
			valuesOf(lines[0], "", "level", "reason", "operation", "delay", "retries"))
		require.NotEmpty(t, lines[0]["operation_id"])
		require.NotEmpty(t, lines[0]["endpoint"])

		w.fails(memd.OpSet, 2, mock.NotMyVBucket(false, nil))
		_, _, err = w.upsert(stops{})
		require.NoError(t, err)
		lines = h.take()
		require.Len(t, lines, 2)
		require.Equal(t, []string{"Retrying", "KV_NOT_MY_VBUCKET", "10ms", "1"}, valuesOf(lines[1], "", "reason",
			"delay", "retries"))

		w.refuses(memd.OpSet, 1, memd.StatusLocked)
		_, _, err = w.upsert(stops{})
		require.ErrorIs(t, err, cberr.DocumentLocked)
		lines = h.take()
		require.Len(t, lines, 1)
		require.Equal(t, []string{"Not retried", "DEBUG", "KV_LOCKED"}, valuesOf(lines[0], "", "level", "reason"))
		require.NotEmpty(t, lines[0]["cause"])
	}, func(c *core.Config) { c.Observe.Log = slog.New(h) })
}

func valuesOf(line map[string]string, keys ...string) (values []string) {
	for _, k := range keys {
		values = append(values, line[k])
	}
	return values
}

// TestEveryRetryIsCounted: the retry, and the always retry.
func TestEveryRetryIsCounted(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 2, memd.StatusTmpFail)
		w.fails(memd.OpSet, 2, mock.NotMyVBucket(false, nil))
		_, info, err := w.upsert(nil)
		require.NoError(t, err)
		require.Equal(t, 4, info.Retries())
		counted := w.c.RetryStats().Operations[retry.OperationKey{Service: retry.KV, Operation: "upsert"}]
		require.EqualValues(t, 2, counted.Retries)
		require.EqualValues(t, 2, counted.Transparent, "the server's logic has not looked at them")
	})
}

// TestReasonsForAllThatKeepsARequestFromBeingSent: no socket, no service, no node, a full queue, an open breaker.
func TestReasonsForAllThatKeepsARequestFromBeingSent(t *testing.T) {
	reasonOf := func(err error) retry.Reason {
		info, _ := retry.InfoOf(err)
		return info.Reason
	}
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(100 * ms)
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{Retry: stops{}}})
		require.Equal(t, retry.SocketNotAvailable, reasonOf(err))
	})
	virtualOf(t, []mock.Option{mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 16)},
		func(t *testing.T, w *world) {
			key := w.keyOn(1)
			require.NoError(t, w.m.Failover(1))
			time.Sleep(5 * time.Second)
			_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{Retry: stops{}}})
			require.Equal(t, retry.NodeNotAvailable, reasonOf(err))
		})
	virtualOf(t, []mock.Option{mock.Nodes(1), mock.Bucket("default", 16), mock.Services(mock.KVService,
		mock.ManagementService)},
		func(t *testing.T, w *world) {
			err := sendQuery(true)(within(t, time.Second), w.c)
			require.Equal(t, retry.ServiceNotAvailable, reasonOf(err))
		})
	virtualOf(t, []mock.Option{mock.Nodes(1), mock.Bucket("default", 16)}, func(t *testing.T, w *world) {
		hold := w.fails(memd.OpSet, 0, mock.Hold())
		var waiting []kv.Future[kv.MutationResult]
		for range 3 {
			waiting = append(waiting, kv.Start(within(t, time.Second), w.b, kv.Upsert{
				Key:    []byte("k"),
				Common: kv.Common{Retry: stops{}},
			}))
		}
		var full error
		for _, f := range waiting {
			if _, err := f.Wait(within(t, time.Minute)); reasonOf(err) == retry.EndpointNotWritable {
				full = err
			}
		}
		require.ErrorIs(t, full, cberr.TemporaryFailure)
		hold.Remove()
	}, func(c *core.Config) { c.Limits.InFlight, c.Limits.Queue = 1, 1 })
}

func TestAnOpenCircuitBreakerIsAReasonAndNothingIsSent(t *testing.T) {
	virtualOf(t, []mock.Option{mock.Nodes(1), mock.Bucket("default", 16)}, func(t *testing.T, w *world) {
		w.fails(memd.OpSet, 3, mock.DropReply())
		for range 3 {
			_, _, err := w.upsert(nil)
			require.ErrorIs(t, err, cberr.Timeout)
		}
		before := w.m.Frames(memd.OpSet)
		took, info, err := w.upsert(stops{})
		require.Error(t, err)
		require.Equal(t, retry.CircuitBreakerOpen, info.Reason)
		require.Zero(t, took)
		require.Equal(t, before, w.m.Frames(memd.OpSet))
	}, func(c *core.Config) { c.Retry.CircuitBreaker = &core.CircuitBreaker{Volume: 2, SleepWindow: time.Hour} })
}

// TestARequestForAMapIsSentOnce: the client's own polling has the strict strategy, whatever the cluster's is.
func TestARequestForAMapIsSentOnce(t *testing.T) {
	s := &recorder{base: insists{}}
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpGetClusterConfig, 0, memd.StatusTmpFail)
		time.Sleep(20 * time.Second)
		require.InDelta(t, 8, in.Fired(), 1, "one in each interval of 2.5 s")
		for _, a := range s.asked() {
			require.NotEqual(t, "get-cluster-config", a.Operation)
		}
	}, strategy(s), func(c *core.Config) { c.Maps.NoNotifications = true })
}
