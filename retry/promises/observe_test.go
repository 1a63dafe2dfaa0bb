package promises_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// slowly waits for a second before each retry.
var slowly = retry.BestEffort{Backoff: retry.Constant(time.Second)}

func always(status memd.Status, ops ...memd.Opcode) (mock.Match, mock.Fault) {
	return mock.Match{Opcodes: ops}, mock.Status(status)
}

func times(n int, status memd.Status, op memd.Opcode) (mock.Match, mock.Fault) {
	return mock.Match{Opcodes: []memd.Opcode{op}, Times: n}, mock.Status(status)
}

// The error of a call whose time is over names what it was waiting for: in its first delay, too, a retry.
func TestACallThatExpiresInItsFirstDelaySaysThatItWaitedForARetry(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(m *mock.Cluster)
		op    kv.Get
	}{
		"after an answer": {spoil: func(m *mock.Cluster) { m.Inject(always(memd.StatusTmpFail, memd.OpGet)) }},
		"before a socket": {spoil: func(m *mock.Cluster) {
			for i := range 2 {
				m.Network().Refuse(m.Node(i).Addr())
			}
			m.Network().ResetAll()
			time.Sleep(10 * time.Millisecond)
		}},
		"after a lost socket": {spoil: func(m *mock.Cluster) {
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.CloseBefore())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m)
				b := cl.Bucket("default")
				require.NoError(t, b.WaitReady(within(t, time.Second)))
				c.spoil(m)
				_, err := kv.Do(context.Background(), b, kv.Get{Key: []byte("k"), Common: kv.Common{
					Retry:   slowly,
					Timeout: 500 * time.Millisecond,
				}})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorContains(t, err, "waiting for a retry")
				info, ok := retry.InfoOf(err)
				require.True(t, ok)
				require.Zero(t, info.Retries())
				require.True(t, info.Parked)
			})
		})
	}
	t.Run("a query", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			m.Script(mock.ServiceMatch{Service: mock.QueryService}, mock.Answer{Status: 429})
			_, err := client(t, m).Query(within(t, 500*time.Millisecond), &query.Request{
				Statement: "SELECT 1",
				Retry:     slowly,
			})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.ErrorContains(t, err, "waiting for a retry")
		})
	})
	t.Run("not one that is answered too late", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			m.Inject(times(1, memd.StatusTmpFail, memd.OpGet))
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
			b := client(t, m).Bucket("default")
			require.NoError(t, b.WaitReady(within(t, time.Second)))
			_, err := kv.Do(context.Background(), b, kv.Get{
				Key:    []byte("k"),
				Common: kv.Common{Timeout: 500 * time.Millisecond},
			})
			require.ErrorContains(t, err, "waiting for the answer")
		})
	})
}

// retryRecorder is an observer that keeps what it is told.
type retryRecorder struct {
	mu       sync.Mutex
	attempts []retry.AttemptInfo
	retries  []retry.Reason
	gaveUp   []error
	panics   bool
}

func (r *retryRecorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	if r.panics {
		panic("in the user's observer")
	}
}

func (r *retryRecorder) Attempt(a retry.AttemptInfo) {
	r.note(func() { r.attempts = append(r.attempts, a) })
}

func (r *retryRecorder) Retry(_ *retry.Request, why retry.Reason, _ time.Duration) {
	r.note(func() { r.retries = append(r.retries, why) })
}

func (r *retryRecorder) GaveUp(_ *retry.Request, _ retry.Reason, err error) {
	r.note(func() { r.gaveUp = append(r.gaveUp, err) })
}

// The configuration takes an observer, which is told of every attempt, decision and end of what has failed once.
func TestTheUsersObserverIsToldOfEveryAttemptAndDecision(t *testing.T) {
	for _, panics := range []bool{false, true} {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			rec := &retryRecorder{panics: panics}
			cl := client(t, m, func(cfg *core.Config) { cfg.Observe.Retry = rec })
			b := cl.Bucket("default")
			require.NoError(t, b.WaitReady(within(t, time.Second)))
			_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			require.Empty(t, rec.attempts, "it has not failed")
			m.Inject(times(2, memd.StatusTmpFail, memd.OpSet))
			_, err = kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			require.Len(t, rec.attempts, 3)
			for i, a := range rec.attempts {
				require.Equal(t, i+1, a.Number)
				require.Equal(t, retry.Service("kv"), a.Service)
				require.Equal(t, "upsert", a.Operation)
				require.NotEmpty(t, a.Endpoint)
				require.Equal(t, i == 2, a.Err == nil)
			}
			require.ErrorIs(t, rec.attempts[0].Err, cberr.TemporaryFailure)
			require.Equal(t, []retry.Reason{retry.KVTemporaryFailure, retry.KVTemporaryFailure}, rec.retries)
			require.Empty(t, rec.gaveUp)
			m.Inject(always(memd.StatusTmpFail, memd.OpSet))
			_, err = kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: retry.Func(
				func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })}})
			require.ErrorIs(t, err, cberr.TemporaryFailure)
			require.Len(t, rec.gaveUp, 1)
			require.ErrorIs(t, rec.gaveUp[0], cberr.TemporaryFailure)
			m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Status: 429})
			require.NoError(t, calls["query"](within(t, time.Second), cl))
			require.Equal(t, retry.Service("query"), rec.attempts[len(rec.attempts)-1].Service)
			require.Equal(t, 2, rec.attempts[len(rec.attempts)-1].Number)
		})
	}
}

// Failed counts those of Retries whose attempt has failed: what was sent again although no server had looked at it is
// in neither.
func TestFailedAndRetriesCountTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		cl := client(t, m)
		b := cl.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		write := func() error {
			_, err := kv.Do(context.Background(), b, kv.Upsert{
				Key:    []byte("k"),
				Common: kv.Common{Timeout: 500 * time.Millisecond},
			})
			return err
		}
		counts := func() retry.OperationStats {
			return cl.RetryStats().Operations[retry.OperationKey{Service: retry.KV, Operation: "upsert"}]
		}
		m.Inject(times(3, memd.StatusTmpFail, memd.OpSet))
		require.NoError(t, write())
		require.EqualValues(t, 3, counts().Retries)
		require.EqualValues(t, 2, counts().Failed, "the last one was answered")
		for i := range 2 {
			m.Network().Refuse(m.Node(i).Addr())
		}
		m.Network().ResetAll()
		time.Sleep(10 * time.Millisecond)
		require.ErrorIs(t, write(), cberr.UnambiguousTimeout)
		require.Positive(t, counts().Transparent)
		require.EqualValues(t, 3, counts().Retries)
		require.EqualValues(t, 2, counts().Failed)
	})
}

// slowRecorder takes a while to note a decision.
type slowRecorder struct{ retryRecorder }

func (r *slowRecorder) Retry(rq *retry.Request, why retry.Reason, delay time.Duration) {
	time.Sleep(time.Millisecond)
	r.retryRecorder.Retry(rq, why, delay)
}

// TestAnObserverIsToldOfARetryBeforeWhatFollowsFromIt_D207: a new login wakes the call at once.
func TestAnObserverIsToldOfARetryBeforeWhatFollowsFromIt_D207(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		rec := &slowRecorder{}
		cl := client(t, m, func(cfg *core.Config) { cfg.Observe.Retry = rec })
		b := cl.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		m.Inject(times(1, memd.StatusAuthStale, memd.OpSet))
		res, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, 1, res.RetryInfo().Retries())
		require.Len(t, rec.retries, 1)
	})
}
