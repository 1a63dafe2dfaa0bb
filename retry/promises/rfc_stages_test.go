package promises_test

import (
	"context"
	"fmt"
	"sync/atomic"
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

// These are statements of the first document about where an attempt fails, and what may follow.

func TestFailuresFallIntoThreeStages(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		stages := map[string]func() error{
			"dispatch": func() error {
				key := w.keyOn(1)
				require.NoError(t, w.m.Kill(1))
				time.Sleep(100 * ms)
				_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{Retry: stops{}}})
				require.NoError(t, w.m.Respawn(1))
				return err
			},
			"network": func() error {
				w.fails(memd.OpSet, 1, mock.CloseBefore())
				_, _, err := w.upsert(stops{})
				return err
			},
			"response": func() error {
				w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
				_, _, err := w.upsert(stops{})
				return err
			},
		}
		for stage, fail := range stages {
			info, ok := retry.InfoOf(fail())
			require.True(t, ok, stage)
			require.Equal(t, stage, fmt.Sprint(info.Stage))
			time.Sleep(time.Second)
		}
	})
}

// TestOnANetworkFailureOnlyIdempotentOperationsAreRetried: every other one fails, in doubt, whatever its strategy says.
func TestOnANetworkFailureOnlyIdempotentOperationsAreRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for _, s := range []retry.Strategy{nil, retry.BestEffort{}, insists{}} {
			in := w.fails(memd.OpGet, 1, mock.CloseBefore())
			_, info, err := w.get(s)
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			require.Equal(t, 1, info.Retries())
			require.Equal(t, 1, in.Fired())
			time.Sleep(time.Second)

			before := w.m.Frames(memd.OpIncrement)
			w.fails(memd.OpIncrement, 1, mock.CloseBefore())
			_, err = kv.Do(within(t, time.Minute), w.b, kv.Increment{
				Key: []byte("n"), Delta: 1,
				Initial: new(uint64(1)), Common: kv.Common{Retry: s},
			})
			var failed *kv.Error
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.Ambiguous())
			require.Equal(t, 1, w.m.Frames(memd.OpIncrement)-before, "it is never sent again")
			time.Sleep(time.Second)
		}
	})
}

// insists is a strategy that always wants another attempt.
type insists struct{}

func (insists) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.After(ms)
}

// TestACallIsInDoubtOnlyIfAWriteWasOnTheWireUnanswered: what was not sent, what was answered and what only reads is
// not.
func TestACallIsInDoubtOnlyIfAWriteWasOnTheWireUnanswered(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.fails(memd.OpSet, 1, mock.DropReply())
		_, _, err := w.upsert(nil)
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		w.refuses(memd.OpSet, 0, memd.StatusLocked)
		_, _, err = w.upsert(nil)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		w.fails(memd.OpGet, 1, mock.DropReply())
		_, _, err = w.get(nil)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	})
}

// TestSomeResponsesAreRetriedUnderEveryStrategy, with the controlled backoff, and until the deadline.
func TestSomeResponsesAreRetriedUnderEveryStrategy(t *testing.T) {
	for _, s := range []retry.Strategy{nil, stops{}, retry.BestEffort{}} {
		virtual(t, func(t *testing.T, w *world) {
			in := w.fails(memd.OpSet, 0, mock.NotMyVBucket(false, nil))
			took, info, err := w.upsert(s)
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.Equal(t, 2500*ms, took)
			require.Equal(t, retry.Reasons(0).With(retry.KVNotMyVBucket), info.Reasons)
			require.Equal(t, 7, in.Fired())
		})
	}
}

// The last delay is cut at the deadline.
func TestTheControlledBackoffIs1And10And50And100And500And1000Milliseconds(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var at []time.Duration
		began := time.Now()
		w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Func: func(*memd.Packet) bool {
			at = append(at, time.Since(began))
			return true
		}}, mock.NotMyVBucket(false, nil))
		_, _, err := w.upsert(nil)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, in(0, 1, 11, 61, 161, 661, 1661), at)
	})
}

// TestADelayIsCappedToTheTimeThatIsLeft: the document's example. After two seconds a strategy asks for one more; the
// operation times out after 2.5 s and nothing is sent then.
func TestADelayIsCappedToTheTimeThatIsLeft(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		took, info, err := w.upsert(retry.BestEffort{Backoff: retry.Schedule(2*time.Second, time.Second)})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.TemporaryFailure, "with the cause inside")
		require.Equal(t, 2500*ms, took)
		require.Equal(t, 2, in.Fired())
		require.Equal(t, 1, info.Retries())
	})
}

func TestAnActionWithoutADurationFailsTheOperation(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for action, want := range map[*retry.Action]int{{}: 1, new(retry.Stop()): 1, new(retry.After(ms)): 2} {
			in := w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
			before := w.m.Frames(memd.OpSet)
			_, _, err := w.upsert(retry.Func(func(context.Context, *retry.Request,
				retry.Reason,
			) retry.Action {
				return *action
			}))
			require.Equal(t, want == 1, err != nil)
			require.Equal(t, want, w.m.Frames(memd.OpSet)-before)
			in.Remove()
		}
	})
}

// TestAnActionCanBecomeMoreThanADuration: another error, a time-out of its own, terminal.
func TestAnActionCanBecomeMoreThanADuration(t *testing.T) {
	errBusy := fmt.Errorf("come back tomorrow")
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		says := func(a retry.Action) retry.Strategy {
			return retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return a })
		}
		_, _, err := w.upsert(says(retry.StopWith(func(err error) error { return fmt.Errorf("%w: %w", errBusy, err) })))
		require.ErrorIs(t, err, errBusy)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		_, _, err = w.upsert(says(retry.StopTerminal()))
		require.ErrorIs(t, err, retry.ErrTerminal)
		took, _, err := w.upsert(says(retry.TimeOutAfter(time.Second)))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, time.Second, took)
	})
}

// fallsBack is the document's robot turned around: it decides one reason and leaves the others to BestEffort.
type fallsBack struct{ retry.BestEffort }

func (s fallsBack) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why == retry.KVLocked {
		return retry.Stop()
	}
	return s.BestEffort.RetryAfter(ctx, r, why)
}

func TestUsersExtendBestEffortAndFallBackToIt(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 3, memd.StatusTmpFail)
		_, info, err := w.upsert(fallsBack{retry.BestEffort{Backoff: retry.Constant(7 * ms)}})
		require.NoError(t, err)
		require.Equal(t, in(7, 7, 7), delays(info))
		w.refuses(memd.OpSet, 1, memd.StatusLocked)
		_, _, err = w.upsert(fallsBack{})
		require.ErrorIs(t, err, cberr.DocumentLocked)
	})
}

// TestBestEffortRetriesIfTheOperationIsIdempotentOrTheReasonAllowsIt, for every reason but UNKNOWN, until the timeout.
func TestBestEffortRetriesIfTheOperationIsIdempotentOrTheReasonAllowsIt(t *testing.T) {
	for why := range retry.All() {
		for _, idempotent := range []bool{false, true} {
			_, again := retry.BestEffort{}.RetryAfter(t.Context(), &retry.Request{Idempotent: idempotent}, why).Delay()
			require.Equal(t, why != retry.Unknown && (idempotent || why.AllowsNonIdempotent()), again,
				"%v, idempotent %v", why, idempotent)
		}
	}
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		took, _, err := w.upsert(retry.BestEffort{})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2500*ms, took)
	})
}

// TestTheBackoffGrowsExponentiallyWithin1And500Milliseconds: of each delay a random half is waited.
func TestTheBackoffGrowsExponentiallyWithin1And500Milliseconds(t *testing.T) {
	for _, random := range []float64{0, 0.999999999} {
		virtual(t, func(t *testing.T, w *world) {
			var at []time.Time
			w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Func: func(*memd.Packet) bool {
				at = append(at, time.Now())
				return true
			}}, mock.Status(memd.StatusTmpFail))
			_, _, err := w.upsert(retry.BestEffort{})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.Greater(t, len(at), 11)
			for i := range at[1:] {
				d, most := at[i+1].Sub(at[i]), min(ms<<min(i, 9), 500*ms)
				require.GreaterOrEqual(t, d, max(most/2, ms), "delay %d", i)
				require.LessOrEqual(t, d, most, "delay %d", i)
			}
		}, func(c *core.Config) { c.Retry.JitterSource = func() float64 { return random } })
	}
}

// TestTheBackoffCalculatorCanBeReplaced, by one that depends on the number of retries and on the last delay.
func TestTheBackoffCalculatorCanBeReplaced(t *testing.T) {
	type asked struct {
		step int
		last time.Duration
	}
	var all []asked
	backoff := func(step int, last time.Duration) time.Duration {
		all = append(all, asked{step, last})
		return last + 3*ms
	}
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 4, memd.StatusTmpFail)
		took, info, err := w.upsert(nil)
		require.NoError(t, err)
		require.Equal(t, in(3, 6, 9, 12), delays(info))
		require.Equal(t, 30*ms, took)
		require.Equal(t, []asked{{0, 0}, {1, 3 * ms}, {2, 6 * ms}, {3, 9 * ms}}, all)
	}, strategy(retry.BestEffort{Backoff: backoff}))
}

// TestFastFailOnTerminalErrorIsTheDefaultStrategy of a client whose user names none.
func TestFastFailOnTerminalErrorIsTheDefaultStrategy(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		began := time.Now()
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Get{Key: []byte("k"), Common: kv.Common{
			Scope:      "absent",
			Collection: "c",
		}})
		require.ErrorIs(t, err, cberr.ScopeNotFound)
		require.ErrorIs(t, err, retry.ErrTerminal)
		require.Zero(t, time.Since(began))
	})
}

// TestScopeNotFoundAndCollectionNotFoundEndTheCallOnceAMapWasFetched: the other terminal reasons have tests of their
// own.
func TestScopeNotFoundAndCollectionNotFoundEndTheCallOnceAMapWasFetched(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		_, err := w.m.CreateScope("default", "s")
		require.NoError(t, err)
		for where, want := range map[kv.Common]error{
			{Scope: "absent", Collection: "c"}: cberr.ScopeNotFound,
			{Scope: "s", Collection: "absent"}: cberr.CollectionNotFound,
		} {
			began := time.Now()
			_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("k"), Common: where})
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, err, retry.ErrTerminal)
			require.Zero(t, time.Since(began))
			where.Retry = retry.BestEffort{}
			_, err = kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("k"), Common: where})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout, "BestEffort waits")
			require.ErrorIs(t, err, want)
		}
		_, err = w.m.CreateCollection("default", "s", "absent")
		require.NoError(t, err)
		_, err = kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Scope:      "s",
			Collection: "absent",
		}})
		require.NoError(t, err, "it exists now")
	})
}

func TestForAnyOtherReasonFastFailDoesAsBestEffortDoes(t *testing.T) {
	terminal := retry.Reasons(0).With(retry.AuthenticationError).With(retry.TLSError).With(retry.BucketAccessError).
		With(retry.ScopeNotFound).With(retry.CollectionNotFound)
	base := retry.BestEffort{Backoff: retry.Constant(7 * ms)}
	for why := range retry.All() {
		for _, idempotent := range []bool{false, true} {
			r := &retry.Request{Idempotent: idempotent, Context: t.Context()}
			got := retry.FastFailOnTerminalError{Base: base}.RetryAfter(t.Context(), r, why)
			if terminal.Has(why) {
				require.True(t, got.Terminal(), why)
				continue
			}
			require.Equal(t, base.RetryAfter(t.Context(), r, why), got, why)
		}
	}
}

// TestARetryReasonHasTheRFCsTwoFlags: the document's table, and our choice for its five rows that say "todo": they are
// met before anything is sent, so that a retry is safe, and the strategy decides.
func TestARetryReasonHasTheRFCsTwoFlags(t *testing.T) {
	const todo = "todo"
	for name, flags := range map[string][2]string{
		"UNKNOWN": {"false", "false"}, "SOCKET_NOT_AVAILABLE": {"true", "false"}, "SERVICE_NOT_AVAILABLE": {
			"true",
			"false",
		},
		"NODE_NOT_AVAILABLE": {"true", "false"}, "KV_NOT_MY_VBUCKET": {"true", "true"},
		"KV_COLLECTION_OUTDATED":       {"true", "true"},
		"KV_ERROR_MAP_RETRY_INDICATED": {"true", "false"}, "KV_LOCKED": {"true", "false"},
		"KV_TEMPORARY_FAILURE":      {"true", "false"},
		"KV_SYNC_WRITE_IN_PROGRESS": {"true", "false"}, "KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS": {"true", "false"},
		"SERVICE_RESPONSE_CODE_INDICATED": {"true", "false"}, "SOCKET_CLOSED_WHILE_IN_FLIGHT": {"false", "false"},
		"CIRCUIT_BREAKER_OPEN": {"true", "false"}, "QUERY_PREPARED_STATEMENT_FAILURE": {"true", "false"},
		"QUERY_INDEX_NOT_FOUND": {"true", "false"}, "ANALYTICS_TEMPORARY_FAILURE": {"true", "false"},
		"SEARCH_TOO_MANY_REQUESTS": {"true", "false"}, "VIEWS_TEMPORARY_FAILURE": {"true", "false"},
		"VIEWS_NO_ACTIVE_PARTITION": {"true", "true"}, "AUTHENTICATION_ERROR": {todo, todo}, "TLS_ERROR": {todo, todo},
		"BUCKET_ACCESS_ERROR": {todo, todo}, "SCOPE_NOT_FOUND": {todo, todo}, "COLLECTION_NOT_FOUND": {todo, todo},
	} {
		r, err := retry.Parse(name)
		require.NoError(t, err)
		require.Equal(t, name, r.String())
		if flags[0] == todo {
			flags = [2]string{"true", "false"}
		}
		got := [2]string{fmt.Sprint(r.AllowsNonIdempotent()), fmt.Sprint(r.AlwaysRetry())}
		require.Equal(t, flags, got, name)
	}
}

// TestAllUnknownReasonsMustNotBeRetried: neither the shipped strategies nor the user's own get a write repeated for no
// reason.
func TestAllUnknownReasonsMustNotBeRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for _, s := range []retry.Strategy{nil, retry.BestEffort{}, retry.FastFailOnTerminalError{}, insists{}} {
			in := w.refuses(memd.OpSet, 0, memd.StatusDeltaBadVal)
			took, _, err := w.upsert(s)
			require.Error(t, err)
			require.Zero(t, took)
			require.Equal(t, 1, in.Fired())
			in.Remove()
		}
	})
}

// TestAStrategyMayBlockAndNothingElseWaitsForIt: a strategy that blocks for ever holds up its own call alone.
func TestAStrategyMayBlockAndNothingElseWaitsForIt(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Key: []byte("slow")}, mock.Status(memd.StatusTmpFail))
		var asked atomic.Int32
		blocked := retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
			asked.Add(1)
			<-ctx.Done()
			return retry.Stop()
		})
		slow := kv.Start(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("slow"), Common: kv.Common{Retry: blocked}})
		time.Sleep(ms)
		require.EqualValues(t, 1, asked.Load())
		took, _, err := w.upsert(nil)
		require.NoError(t, err)
		require.Zero(t, took)
		_, err = slow.Wait(within(t, time.Minute))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout, "its deadline holds all the same")
	})
}
