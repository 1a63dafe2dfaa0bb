package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/couchcore/couchcore/retry/policy"
)

// quick is a loop of four tries without delays that matter.
func quick() retry.Loop { return retry.Loop{MaxAttempts: 4, Strategy: every(ms)} }

// once is a strategy for the client's own call within a loop: it never retries.
var once = stops{}

// TestADoOfACallIsOneLine: the loop does what the call's own strategy would.
func TestADoOfACallIsOneLine(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		op := kv.Upsert{Key: []byte("k"), Value: []byte("v"), Common: kv.Common{Retry: once}}
		in := w.refuses(memd.OpSet, 3, memd.StatusTmpFail)

		_, err := retry.Do(t.Context(), quick(), nil, func(ctx context.Context) (kv.MutationResult,
			error,
		) {
			return kv.Do(ctx, w.b, op)
		})

		require.NoError(t, err)
		require.Equal(t, 3, in.Fired())
	})
	virtual(t, func(t *testing.T, w *world) {
		s := w.m.ScriptQuery("SELECT", mock.Answer{Status: 503},
			mock.Answer{Errors: []mock.ServiceError{{Code: 5000, Message: "queryport.indexNotFound"}}},
			mock.Answer{Rows: []string{"1"}})
		r := &query.Request{Statement: "SELECT 1", Readonly: true, Retry: once}

		rows, err := retry.Do(t.Context(), quick(), retry.Standard, func(ctx context.Context) (*query.Rows,
			error,
		) {
			return w.c.Query(ctx, r)
		})

		require.NoError(t, err)
		require.True(t, rows.Next())
		require.NoError(t, rows.Close())
		require.Equal(t, 3, s.Fired())
	})
}

// TestADoOfAnIncrementNeverAppliesItTwice: whatever the server does, the counter says how often it was applied.
func TestADoOfAnIncrementNeverAppliesItTwice(t *testing.T) {
	for name, f := range map[string]mock.Fault{
		"lost before it is executed": mock.CloseBefore(), "lost after it is executed": mock.CloseAfter(),
		"no answer":  mock.DropReply(),
		"never read": mock.Drop(), "temporary failure": mock.Status(memd.StatusTmpFail),
		"internal error":                      mock.Status(memd.StatusInternal),
		"internal error after it is executed": mock.StatusAfter(memd.StatusInternal),
		"locked":                              mock.Status(memd.StatusLocked),
		"an ambiguous durable write":          mock.StatusAfter(memd.StatusSyncWriteAmbiguous),
		"truncated":                           mock.Truncate(10),
		"an unknown status":                   mock.StatusAfter(0x7abc),
		"out of memory":                       mock.Status(memd.StatusOutOfMemory),
	} {
		for _, s := range []retry.Strategy{nil, once, retry.BestEffort{}} {
			virtual(t, func(t *testing.T, w *world) {
				initial := uint64(0)
				increment := kv.Increment{Key: []byte("n"), Delta: 1, Initial: &initial, Common: kv.Common{
					Retry:   s,
					Timeout: 200 * ms,
				}}
				_, err := kv.Do(t.Context(), w.b, increment)
				require.NoError(t, err)

				in := w.fails(memd.OpIncrement, 2, f)
				_, err = retry.Do(t.Context(), quick(), nil, func(ctx context.Context) (kv.CounterResult, error) {
					return kv.Do(ctx, w.b, increment)
				})
				in.Remove()
				time.Sleep(time.Second)
				increment.Delta = 0
				now, final := kv.Do(t.Context(), w.b, increment)
				require.NoError(t, final)
				if err == nil {
					require.EqualValues(t, 1, now.Value, name)
				} else {
					require.LessOrEqual(t, now.Value, uint64(1), name)
				}
			})
		}
	}
}

// outcome runs a call that meets a fault under Do with a strategy of the call that never retries, and says how often it
// ran.
func outcome[R any](t *testing.T, call func(context.Context) (R, error)) (ran int, err error) {
	t.Helper()
	_, err = retry.Do(t.Context(), quick(), nil, func(ctx context.Context) (R, error) { ran++; return call(ctx) })
	return ran, err
}

func TestTheStandardEvaluationOfTheClientsErrors(t *testing.T) {
	get := func(w *world, s retry.Strategy) func(context.Context) (kv.GetResult, error) {
		return func(ctx context.Context) (kv.GetResult, error) {
			return kv.Do(ctx, w.b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: s, Timeout: 100 * ms}})
		}
	}
	set := func(w *world, s retry.Strategy) func(context.Context) (kv.MutationResult, error) {
		return func(ctx context.Context) (kv.MutationResult, error) {
			return kv.Do(ctx, w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s, Timeout: 100 * ms}})
		}
	}
	for name, c := range map[string]struct {
		want int
		run  func(t *testing.T, w *world) (int, error)
	}{
		"a retryable answer is repeated": {4, func(t *testing.T, w *world) (int, error) {
			w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
			return outcome(t, set(w, once))
		}},
		"so is one at a limit of the call's own": {4, func(t *testing.T, w *world) (int, error) {
			w.refuses(memd.OpSet, 0, memd.StatusLocked)
			return outcome(t, set(w, policy.Limit{MaxAttempts: 2, Base: every(ms)}))
		}},
		"a timeout in which nothing was applied is repeated": {4, func(t *testing.T, w *world) (int, error) {
			w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
			return outcome(t, set(w, nil))
		}},
		"a read without an answer is repeated": {4, func(t *testing.T, w *world) (int, error) {
			w.fails(memd.OpGet, 0, mock.Drop())
			return outcome(t, get(w, nil))
		}},
		"a read whose connection is lost is repeated": {4, func(t *testing.T, w *world) (int, error) {
			w.fails(memd.OpGet, 0, mock.CloseBefore())
			return outcome(t, get(w, once))
		}},
		"a write without an answer is not": {1, func(t *testing.T, w *world) (int, error) {
			w.fails(memd.OpSet, 0, mock.Drop())
			return outcome(t, set(w, nil))
		}},
		"a write whose connection is lost is not": {1, func(t *testing.T, w *world) (int, error) {
			w.fails(memd.OpSet, 0, mock.CloseBefore())
			return outcome(t, set(w, nil))
		}},
		"an ambiguous durable write is not": {1, func(t *testing.T, w *world) (int, error) {
			w.refuses(memd.OpSet, 0, memd.StatusSyncWriteAmbiguous)
			return outcome(t, set(w, nil))
		}},
		"a missing document is definite": {1, func(t *testing.T, w *world) (int, error) {
			return outcome(t,
				get(w, nil))
		}},
		"it is definite after a retry, too": {1, func(t *testing.T, w *world) (int, error) {
			w.refuses(memd.OpGet, 1, memd.StatusTmpFail)
			return outcome(t, get(w, nil))
		}},
		"a wrong argument is definite": {1, func(t *testing.T, w *world) (int, error) {
			return outcome(t, func(ctx context.Context) (kv.GetResult, error) { return kv.Do(ctx, w.b, kv.Get{}) })
		}},
		"a closed client is definite": {1, func(t *testing.T, w *world) (int, error) {
			require.NoError(t, w.c.Close())
			return outcome(t, get(w, nil))
		}},
		"a strategy that panics is definite": {1, func(t *testing.T, w *world) (int, error) {
			w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
			return outcome(t,
				get(w, retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { panic("own") })))
		}},
		"a writing statement that may have run is not repeated": {1, func(t *testing.T, w *world) (int, error) {
			w.m.ScriptQuery("UPDATE", mock.Answer{Close: true})
			return outcome(t, func(ctx context.Context) (*query.Rows, error) {
				return w.c.Query(ctx, &query.Request{Statement: "UPDATE x", Retry: once})
			})
		}},
		"a reading one is": {4, func(t *testing.T, w *world) (int, error) {
			w.m.ScriptQuery("SELECT", mock.Answer{Close: true})
			return outcome(t, func(ctx context.Context) (*query.Rows, error) {
				return w.c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true, Retry: once})
			})
		}},
		"a syntax error is definite": {1, func(t *testing.T, w *world) (int, error) {
			w.m.ScriptQuery("SELEKT", mock.Answer{Errors: []mock.ServiceError{{Code: 3000, Message: "syntax error"}}})
			return outcome(t, func(ctx context.Context) (*query.Rows, error) {
				return w.c.Query(ctx, &query.Request{Statement: "SELEKT", Readonly: true})
			})
		}},
		"an answer to come back later is repeated": {4, func(t *testing.T, w *world) (int, error) {
			w.m.ScriptQuery("UPDATE", mock.Answer{Status: 429})
			return outcome(t, func(ctx context.Context) (*query.Rows, error) {
				return w.c.Query(ctx, &query.Request{Statement: "UPDATE x", Retry: once})
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				ran, err := c.run(t, w)
				require.Error(t, err)
				require.Equal(t, c.want, ran, "%v", err)
			})
		})
	}
	t.Run("a refused login is definite", func(t *testing.T) {
		virtualOf(t, asApp(), func(t *testing.T, w *world) {
			ran, err := outcome(t, func(context.Context) (time.Duration, error) {
				return upsertIn(t,
					w.c.Bucket("absent"), nil)
			})
			require.ErrorIs(t, err, cberr.BucketAccess)
			require.Equal(t, 1, ran)
		}, asAppUser)
	})
	t.Run("what the caller cancels is definite", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			w.fails(memd.OpGet, 0, mock.Drop())
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*ms, cancel)
			n := 0
			_, err := retry.Do(t.Context(), quick(), nil, func(context.Context) (kv.GetResult, error) {
				n++
				return kv.Do(ctx, w.b, kv.Get{Key: []byte("k")})
			})
			require.ErrorIs(t, err, cberr.RequestCanceled)
			require.Equal(t, 1, n)
		})
	})
}

// ownError is an error of a program's own that says itself what becomes of the work.
type ownError struct{ again bool }

func (e ownError) Error() string { return "own" }
func (e ownError) RetryDirective() retry.Directive {
	if e.again {
		return retry.Again(retry.OwnKind)
	}
	return retry.Fail()
}

func TestAnErrorOfTheProgramsOwnMaySayWhatBecomesOfTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for err, want := range map[error]int{
			ownError{true}: 4, ownError{}: 1, fmt.Errorf("around: %w", ownError{true}): 4, io.EOF: 1,
			errors.Join(ownError{true}, io.EOF): 4, errors.Join(ownError{true}, ownError{}): 1,
		} {
			b := &tries{fail: forever, err: err}
			_, got := retry.Do(t.Context(), quick(), nil, b.run)
			require.ErrorIs(t, got, err)
			require.Len(t, b.at, want, "%v", err)
		}
	})
}

// TestOfSeveralErrorsAFailureDecides: two calls in one block, of which one may have been applied.
func TestOfSeveralErrorsAFailureDecides(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
		w.fails(memd.OpSet, 0, mock.DropReply())
		for _, first := range []bool{true, false} {
			n := 0
			_, err := retry.Do(t.Context(), quick(), nil, func(ctx context.Context) (int, error) {
				n++
				_, reading := kv.Do(ctx, w.b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: once}})
				_, writing := kv.Do(ctx, w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 50 * ms}})
				if first {
					return 0, errors.Join(reading, writing)
				}
				return 0, errors.Join(writing, reading)
			})
			require.ErrorIs(t, err, cberr.AmbiguousTimeout)
			require.Equal(t, 1, n)
		}
	})
}

// TestALoopOfReadModifyWriteRepeatsAMismatchOfTheCAS: the evaluation is the program's own where the standard one cannot
// know.
func TestALoopOfReadModifyWriteRepeatsAMismatchOfTheCAS(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
		n := 0
		_, err = retry.Do(t.Context(), quick(), func(_ kv.MutationResult, err error) retry.Directive {
			if errors.Is(err, cberr.CASMismatch) {
				return retry.Again(retry.ServerSide)
			}
			return retry.Evaluate(err)
		}, func(ctx context.Context) (kv.MutationResult, error) {
			doc, err := kv.Do(ctx, w.b, kv.Get{Key: []byte("k")})
			if err != nil {
				return kv.MutationResult{}, err
			}
			if n++; n < 3 {
				_, _, _ = w.upsert(nil) // another writer was faster
			}
			return kv.Do(ctx, w.b, kv.Replace{Key: []byte("k"), Value: append(doc.Value, '!'), CAS: doc.CAS})
		})
		require.NoError(t, err)
		require.Equal(t, 3, n)
	})
}

// TestAWaiterIsTenLines: until the index exists.
func TestAWaiterIsTenLines(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.ScriptQuery("system:indexes", mock.Answer{Rows: []string{"0"}}, mock.Answer{Status: 503},
			mock.Answer{Rows: []string{"0"}}, mock.Answer{Rows: []string{"1"}})
		began := time.Now()
		require.NoError(t, untilTheIndexExists(t.Context(), w.c))
		require.Equal(t, 300*ms, time.Since(began))
	})
}

func untilTheIndexExists(ctx context.Context, c *core.Cluster) error {
	loop := retry.Loop{
		Name: "wait for index", Strategy: retry.BestEffort{Backoff: retry.Constant(100 * ms)},
		MaxElapsed: time.Minute,
	}
	_, err := retry.Do(ctx, loop, func(online int, err error) retry.Directive {
		if err == nil && online == 0 {
			return retry.Again(retry.ServerSide)
		}
		return retry.Evaluate(err)
	}, func(ctx context.Context) (int, error) { return onlineIndexes(ctx, c) })
	return err
}

func onlineIndexes(ctx context.Context, c *core.Cluster) (n int, err error) {
	rows, err := c.Query(ctx, &query.Request{
		Statement: "SELECT RAW COUNT(*) FROM system:indexes WHERE name = 'i' AND state = 'online'", Readonly: true,
		Retry: once,
	})
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}
