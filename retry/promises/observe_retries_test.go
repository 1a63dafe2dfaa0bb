package promises_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// operationSpan is the span of the one operation since the recorder was reset last.
func (t *telemetry) operationSpan(ts *testing.T, name string) *span {
	ts.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *span
	for _, s := range t.spans {
		if s.name == name {
			require.Nil(ts, found, "one operation")
			found = s
		}
	}
	require.NotNil(ts, found)
	t.spans, t.attempts = nil, nil
	return found
}

// retried requires that the span tells of those retries, each after its delay.
func (s *span) retried(t *testing.T, total int, whys []retry.Reason, after []time.Duration) {
	t.Helper()
	require.Equal(t, strconv.Itoa(total), s.late["couchbase.retries"])
	require.Len(t, s.events, len(whys))
	for i, e := range s.events {
		require.Equal(t, "retry", e.name)
		require.Equal(t, whys[i].String(), e.has["couchbase.retry.reason"])
		require.Equal(t, strconv.Itoa(i+1), e.has["couchbase.retry.attempt"])
		require.Equal(t, strconv.FormatInt(after[i].Microseconds(), 10), e.has["couchbase.retry.delay_us"])
		last := s.begin
		if i > 0 {
			last = s.events[i-1].at
		}
		require.GreaterOrEqual(t, e.at.Sub(last), after[i], "it is the moment at which it is sent again")
		require.LessOrEqual(t, e.at.Sub(s.begin), s.took)
	}
}

// The span of an operation says how often it was retried, also when it then succeeds, and has an event for each retry
// with its reason and its delay.
func TestTheSpanOfAnOperationHasAnEventForEachRetry_D151(t *testing.T) {
	times := func(op memd.Opcode, n int, st memd.Status) (mock.Match, mock.Fault) {
		return mock.Match{Opcodes: []memd.Opcode{op}, Times: n}, mock.Status(st)
	}
	busy, locked := retry.KVTemporaryFailure, retry.KVLocked
	t.Run("key-value", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			write := func() error {
				_, err := kv.Do(within(t, 5*time.Second), cl.Bucket("default"), kv.Upsert{
					Key: []byte("k"), Common: kv.Common{Retry: every(20 * ms)},
				})
				return err
			}
			require.NoError(t, write())
			rec.operationSpan(t, "upsert").retried(t, 0, nil, nil)
			m.Inject(times(memd.OpSet, 2, memd.StatusTmpFail))
			require.NoError(t, write())
			rec.operationSpan(t, "upsert").retried(t, 2, []retry.Reason{busy, busy}, in(20, 20))
			m.Inject(times(memd.OpSet, 1, memd.StatusLocked))
			require.NoError(t, write())
			rec.operationSpan(t, "upsert").retried(t, 1, []retry.Reason{locked}, in(20))
			m.Inject(times(memd.OpSet, 30, memd.StatusTmpFail))
			require.NoError(t, write())
			s := rec.operationSpan(t, "upsert")
			require.Equal(t, "30", s.late["couchbase.retries"])
			require.Len(t, s.events, 16, "the first")
			m.Inject(always(memd.StatusTmpFail, memd.OpSet))
			_, err := kv.Do(context.Background(), cl.Bucket("default"), kv.Upsert{
				Key: []byte("k"), Common: kv.Common{Retry: every(20 * ms), Timeout: 50 * ms},
			})
			require.Error(t, err)
			rec.operationSpan(t, "upsert").retried(t, 2, []retry.Reason{busy, busy}, in(20, 20))
		})
	})
	t.Run("key-value, in a batch", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 8}, mock.Status(memd.StatusTmpFail))
			var keys [][]byte
			for i := range 8 {
				keys = append(keys, []byte(fmt.Sprint(i)))
			}
			for _, o := range kv.GetMulti(within(t, time.Second), cl.Bucket("default"), kv.Common{}, keys) {
				require.Error(t, o.Err)
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			events := 0
			for _, s := range rec.spans {
				events += len(s.events)
			}
			require.Equal(t, 8, events, "those that are due together are sent together")
		})
	})
	t.Run("a query", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 2}, mock.Answer{Status: 429})
			require.NoError(t, drained(cl.Query(within(t, time.Second), &query.Request{
				Statement: "SELECT 1", Retry: every(20 * ms),
			})))
			why := retry.ServiceResponseCodeIndicated
			rec.operationSpan(t, "query").retried(t, 2, []retry.Reason{why, why}, in(20, 20))
		})
	})
	t.Run("a hedged read", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			_, err := kv.Do(within(t, time.Second), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			rec.reset()
			m.Inject(times(memd.OpGet, 1, memd.StatusTmpFail))
			_, err = kv.Do(within(t, time.Second), cl.Bucket("default"), kv.Get{
				Key: []byte("k"), Hedge: &kv.Hedge{MaxAttempts: 2, Delay: time.Second},
			})
			require.NoError(t, err)
			rec.operationSpan(t, "get").retried(t, 1, nil, nil) // the second request, which is no resend
		}, mock.Replicas(1))
	})
}

// What is sent again is counted by the reason, apart from what no server had looked at.
func TestRetriesAreExportedByReason(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		cl, rec := observedClient(t, m)
		write := func() {
			_, err := kv.Do(within(t, 5*time.Second), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
		}
		m.Inject(times(2, memd.StatusTmpFail, memd.OpSet))
		write()
		m.Inject(times(1, memd.StatusLocked, memd.OpSet))
		write()
		m.Inject(times(1, memd.StatusNotMyVBucket, memd.OpSet))
		write()
		m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Status: 429})
		require.NoError(t, calls["query"](within(t, time.Second), cl))
		seen := rec.collect(t)
		for key, n := range map[string]int64{
			"couchbase.client.retries kv upsert for KV_TEMPORARY_FAILURE":               2,
			"couchbase.client.retries kv upsert for KV_LOCKED":                          1,
			"couchbase.client.retries kv upsert":                                        3,
			"couchbase.client.retries.transparent kv upsert for KV_NOT_MY_VBUCKET":      1,
			"couchbase.client.retries query query for SERVICE_RESPONSE_CODE_INDICATED":  1,
			"couchbase.client.retries.transparent query query for SOCKET_NOT_AVAILABLE": 0,
		} {
			require.Equal(t, n, seen[key], key)
		}
		counts := cl.RetryStats().Operations[retry.OperationKey{Service: retry.KV, Operation: "upsert"}].Reasons
		require.Equal(t, retry.Resends{Retries: 2}, counts[retry.KVTemporaryFailure])
		require.Equal(t, retry.Resends{Transparent: 1}, counts[retry.KVNotMyVBucket])
		text, err := json.Marshal(cl.RetryStats())
		require.NoError(t, err)
		require.Contains(t, string(text), `"kv/upsert":{`)
		require.Contains(t, string(text), `"KV_TEMPORARY_FAILURE":{`)
	})
}
