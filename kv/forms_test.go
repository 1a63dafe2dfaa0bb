package kv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// form is one of the three ways to run an operation.
type form[R any, O kv.Op[R]] struct {
	name string
	run  func(ctx context.Context, d kv.Dispatcher, op O) (R, error)
}

func forms[R any, O kv.Op[R]]() []form[R, O] {
	return []form[R, O]{
		{"Do", kv.Do[R, O]},
		{"Start", func(ctx context.Context, d kv.Dispatcher, op O) (R, error) {
			f := kv.Start(ctx, d, op)
			<-f.Done()
			return f.Wait(context.Background())
		}},
		{"Go", func(ctx context.Context, d kv.Dispatcher, op O) (R, error) {
			type outcome struct {
				r   R
				err error
			}
			ch := make(chan outcome, 2)
			kv.Go(ctx, d, op, func(r R, err error) { ch <- outcome{r, err} })
			o := <-ch
			synctestWaitAndRequireEmpty(ch)
			return o.r, o.err
		}},
	}
}

// synctestWaitAndRequireEmpty panics when a callback runs a second time.
func synctestWaitAndRequireEmpty[T any](ch chan T) {
	synctest.Wait()
	if len(ch) > 0 {
		panic("the callback ran twice")
	}
}

// alike runs op in all three forms and gives the one outcome that they must have in common.
func alike[R any, O kv.Op[R]](t *testing.T, ctx func() context.Context, d func() *fake, op O) (R, *kv.Error, *fake) {
	t.Helper()
	var first R
	var firstErr *kv.Error
	var f *fake
	for i, form := range forms[R, O]() {
		f = d()
		r, err := form.run(ctx(), f, op)
		var e *kv.Error
		if err != nil {
			e = kvError(t, err)
		}
		if i == 0 {
			first, firstErr = r, e
			continue
		}
		require.Equal(t, first, r, form.name)
		require.Equal(t, firstErr == nil, e == nil, form.name)
		if e != nil {
			require.Equal(t, firstErr.Error(), e.Error(), form.name)
			require.Equal(t, firstErr.Kind(), e.Kind(), form.name)
			require.Equal(t, firstErr.InDoubt, e.InDoubt, form.name)
		}
	}
	return first, firstErr, f
}

// D106: one outcome, whichever way it is delivered.
func TestTheThreeFormsAgree_D106(t *testing.T) {
	key := []byte("k")
	never := func() *fake { return newFake(nil) }
	ok := func() *fake { return answering(memd.Packet{CAS: 5, Extras: be32, Value: []byte("v")}) }
	synctest.Test(t, func(t *testing.T) {
		bg := context.Background
		canceled := func() context.Context {
			ctx, cancel := context.WithCancelCause(bg())
			cancel(errSeen)
			return ctx
		}
		late := func() context.Context {
			ctx, cancel := context.WithDeadline(bg(), time.Now())
			cancel()
			return ctx
		}
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(bg(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}

		res, e, _ := alike[kv.GetResult](t, bg, ok, kv.Get{Key: key})
		require.Nil(t, e)
		require.Equal(t, "v", string(res.Value))

		_, e, _ = alike[kv.GetResult](t, bg, func() *fake { return refusing(memd.StatusKeyNotFound, 0, "") },
			kv.Get{Key: key})
		require.ErrorIs(t, e, cberr.DocumentNotFound)

		_, e, f := alike[kv.GetResult](t, bg, never, kv.Get{})
		require.ErrorIs(t, e, cberr.InvalidArgument)
		require.Zero(t, f.dispatched.Load())

		_, e, f = alike[kv.GetResult](t, canceled, never, kv.Get{Key: key})
		require.ErrorIs(t, e, cberr.RequestCanceled)
		require.ErrorIs(t, e, errSeen, "the caller's cause")
		require.Zero(t, f.dispatched.Load())

		_, e, f = alike[kv.MutationResult](t, late, never, kv.Upsert{Key: key})
		require.ErrorIs(t, e, cberr.UnambiguousTimeout)
		require.ErrorIs(t, e, context.DeadlineExceeded)
		require.False(t, e.Ambiguous())
		require.Zero(t, f.dispatched.Load())

		_, e, _ = alike[kv.MutationResult](t, soon, silent, kv.Upsert{Key: key})
		require.ErrorIs(t, e, cberr.AmbiguousTimeout)
		require.True(t, e.Ambiguous())

		for _, inEncode := range []bool{true, false} {
			_, e, f = alike[int](t, bg, ok, kv.Seal(panics{inEncode}))
			var p *retry.PanicError
			require.ErrorAs(t, e, &p)
			require.Equal(t, "oops", p.Value)
			require.NotEmpty(t, p.Stack)
			require.Equal(t, inEncode, f.dispatched.Load() == 0)
		}

		absent, e, _ := alike[kv.MetaResult](t, bg, func() *fake { return refusing(memd.StatusKeyNotFound, 0, "") },
			kv.Exists{Key: key})
		require.Nil(t, e)
		require.False(t, absent.Exists)

		tries := func() *fake { return judged(memd.StatusTmpFail, "") }
		_, e, _ = alike[kv.GetResult](t, bg, tries, kv.Get{Common: kv.Common{Retry: stops{3}}, Key: key})
		require.ErrorIs(t, e, cberr.TemporaryFailure)
		require.Equal(t, 3, e.Retry.Counted)
	})
}

// CB-12: the operation's own strategy decides, and nil inherits.
func TestAnOperationCarriesItsStrategy_CB12(t *testing.T) {
	for _, want := range []retry.Strategy{nil, retry.BestEffort{}, stops{1}} {
		f := newFake(func(c *call.Call) {
			require.Equal(t, want, c.State.Strategy)
			require.True(t, c.State.Idempotent)
			c.Fail(errSeen)
		})
		require.ErrorIs(t, do(testContext(t), f, kv.Get{Common: kv.Common{Retry: want}, Key: []byte("k")}), errSeen)
	}
}

func TestAResultTellsItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fake
		tries := 0
		f = newFake(func(c *call.Call) {
			c.Share()
			epoch, _ := c.State.Sent()
			require.True(t, c.State.Answered(epoch))
			if tries++; tries <= 2 {
				f.orch.MaybeRetry(c, retry.KVTemporaryFailure, errSeen, retry.Hint{})
				return
			}
			c.Succeed(&memd.Packet{Opcode: memd.OpNoop}, false)
		})
		res, err := kv.Do(testContext(t), f, kv.Noop{})
		require.NoError(t, err)
		require.Equal(t, 2, res.RetryInfo().Counted)
		require.True(t, res.RetryInfo().Reasons.Has(retry.KVTemporaryFailure))
	})
}

func TestAFutureIsWaitedForTwiceAndFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := answering(memd.Packet{CAS: 5, Extras: be32, Value: []byte("v")})
		later := newFake(func(c *call.Call) { time.AfterFunc(time.Second, func() { f.answer(c) }) })
		fut := kv.Start(context.Background(), later, kv.Get{Key: []byte("k")})
		select {
		case <-fut.Done():
			t.Fatal("done too soon")
		default:
		}
		got := make(chan kv.GetResult, 8)
		var wg sync.WaitGroup
		for range cap(got) {
			wg.Go(func() {
				if r, err := fut.Wait(context.Background()); err == nil {
					got <- r
				}
			})
		}
		wg.Wait()
		require.Len(t, got, cap(got))
		for range cap(got) {
			require.Equal(t, "v", string((<-got).Value))
		}
		r, err := fut.Wait(context.Background())
		require.NoError(t, err)
		require.EqualValues(t, 5, r.CAS)
		require.False(t, fut.Cancel(), "it has ended")
		require.Zero(t, later.released.Load(), "its owner may hold a future for ever")
	})
}

// counting is an operation that counts its decoding.
type counting struct{ decoded *atomic.Int32 }

func (c counting) Encode(r *call.Request) error {
	r.Opcode = memd.OpNoop
	return nil
}

func (c counting) Decode(*call.Response) (int32, error) { return c.decoded.Add(1), nil }

func TestAnOutcomeIsDecodedOnce(t *testing.T) {
	var decoded atomic.Int32
	fut := kv.Start(testContext(t), answering(memd.Packet{}), kv.Seal(counting{&decoded}))
	require.Zero(t, decoded.Load(), "the waiter decodes, not the reader")
	for range 3 {
		n, err := fut.Wait(testContext(t))
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
}

// A wait may end without its call.
func TestAWaitThatEndsLeavesTheCallAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silent()
		fut := kv.Start(context.Background(), f, kv.Get{Key: []byte("k")})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := fut.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.AmbiguousTimeout)
		require.True(t, e.Ambiguous(), "the call goes on")
		require.True(t, fut.Cancel())
		_, err = fut.Wait(ctx) // the outcome is there: the ended context does not hide it
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.False(t, fut.Cancel())
	})
}

func TestACanceledCallbackRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error, 2)
		p := kv.Go(context.Background(), silent(), kv.Upsert{Key: []byte("k")}, func(_ kv.MutationResult,
			err error,
		) {
			errs <- err
		})
		require.True(t, p.Cancel())
		require.False(t, p.Cancel())
		e := kvError(t, <-errs)
		require.ErrorIs(t, e, cberr.RequestCanceled)
		require.True(t, e.Ambiguous())
		require.Empty(t, errs)

		refused := kv.Go(context.Background(), newFake(nil), kv.Get{}, func(_ kv.GetResult, err error) { errs <- err })
		require.ErrorIs(t, <-errs, cberr.InvalidArgument)
		require.False(t, refused.Cancel(), "it has never begun")
		require.False(t, kv.Start(context.Background(), newFake(nil), kv.Get{}).Cancel())
	})
}

// A call ends once: what comes later changes nothing.
func TestACallEndsOnce(t *testing.T) {
	f := newFake(func(c *call.Call) {
		require.True(t, c.Succeed(&memd.Packet{CAS: 1}, false))
		require.False(t, c.Succeed(&memd.Packet{CAS: 2}, false))
		require.False(t, c.Fail(errSeen))
	})
	res, err := kv.Do(testContext(t), f, kv.Noop{})
	require.NoError(t, err)
	require.EqualValues(t, 1, res.CAS)
}

// counterAtLeast is what a user may add: any opcode with a row, any result.
type counterAtLeast struct {
	key []byte
	min uint64
}

func (c counterAtLeast) Encode(r *call.Request) error {
	r.Opcode, r.Key = memd.OpIncrement, c.key
	var extras [20]byte
	binary.BigEndian.PutUint64(extras[8:], c.min)
	r.SetExtras(extras[:])
	return nil
}

func (c counterAtLeast) Decode(r *call.Response) (bool, error) {
	if len(r.Value) != 8 {
		return false, errors.New("no number")
	}
	return binary.BigEndian.Uint64(r.Value) >= c.min, nil
}

func TestAnOperationOfAnotherPackage(t *testing.T) {
	ok, e, _ := alikeOutside(t, answering(memd.Packet{Value: eight}))
	require.Nil(t, e)
	require.True(t, ok)

	_, e, _ = alikeOutside(t, answering(memd.Packet{}))
	require.ErrorIs(t, e, cberr.DecodingFailure)
	require.ErrorContains(t, e, "no number")
	require.True(t, e.Ambiguous(), "the counter has been changed")
}

func alikeOutside(t *testing.T, f *fake) (ok bool, e *kv.Error, _ *fake) {
	t.Helper()
	ok, err := kv.Do(testContext(t), f, kv.Seal(counterAtLeast{[]byte("k"), 10}))
	if err != nil {
		e = kvError(t, err)
	}
	return ok, e, f
}

// recycling is a dispatcher that uses calls again as the real one does.
type recycling struct {
	*fake
	pool []*call.Call
}

// Runner implements kv.Dispatcher.
func (x *recycling) Runner() call.Runner { return x }

func (r *recycling) NewCall() *call.Call {
	if n := len(r.pool); n > 0 {
		c := r.pool[n-1]
		r.pool = r.pool[:n-1]
		return c
	}
	return call.NewCall()
}

func (r *recycling) Release(c *call.Call) {
	if c.Pooled() {
		c.Reset()
		r.pool = append(r.pool, c)
	}
}

// What a call was used for before does not show in the next one's error.
func TestAPooledCallForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &recycling{fake: answering(memd.Packet{})}
		_, err := kv.Do(t.Context(), d, kv.Upsert{Key: []byte("k"), Common: kv.Common{Scope: "s", Collection: "c"}})
		require.NoError(t, err)
		require.Len(t, d.pool, 1)
		time.Sleep(time.Hour)
		_, err = kv.Do(t.Context(), d, kv.GetAndLock{LockTime: -1, Key: []byte("k")})
		e := kvError(t, err)
		require.Equal(t, &kv.Error{
			Op: "get-and-lock", Err: e.Err, Cause: e.Cause, Retry: retry.Info{Unsent: 1},
		}, e)
		require.Empty(t, d.pool, "a failed call is never used again")
	})
}
