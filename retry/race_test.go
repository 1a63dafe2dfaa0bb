package retry_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// racer is an operation that a writer, a reader and a connection's end fight for. What it counts is atomic.
type racer struct {
	st         retry.State
	orc        *retry.Orchestrator
	started    time.Time
	dispatches atomic.Int32
	frames     atomic.Int32 // handed to a socket and not proved unsent
	after      atomic.Int32 // Sent that succeeded after Cancel had returned
	canceled   atomic.Bool
	done       chan struct{}
	completed  atomic.Int32
	inDoubt    atomic.Bool
}

func (r *racer) Retry() *retry.State { return &r.st }
func (r *racer) Describe(q *retry.Request) {
	q.Service, q.Operation, q.Started = retry.KV, "race", r.started
}
func (r *racer) Context() context.Context { return context.Background() }
func (r *racer) Size() int                { return 1 }
func (r *racer) Dispatch() {
	r.dispatches.Add(1)
	r.attempt()
}
func (r *racer) Done(_ error, inDoubt bool) { r.complete(inDoubt) }

func (r *racer) complete(inDoubt bool) {
	if r.completed.Add(1) == 1 {
		r.inDoubt.Store(inDoubt)
		close(r.done)
	}
}

// attempt is one attempt, with a random outcome that up to two goroutines report.
func (r *racer) attempt() {
	switch rand.IntN(8) {
	case 0:
		if r.st.NotSent() {
			r.orc.MaybeRetry(r, retry.NodeNotAvailable, io.EOF, retry.Hint{})
		}
		return
	default:
	}
	canceled := r.canceled.Load()
	e, ok := r.st.Sent()
	if !ok {
		return
	}
	if canceled {
		r.after.Add(1)
	}
	r.frames.Add(1)
	go func() {
		time.Sleep(instant())
		if rand.IntN(4) == 0 {
			if r.st.Unsent(e) {
				r.frames.Add(-1)
				r.attempt()
			}
			return
		}
		if r.st.Answered(e) {
			switch rand.IntN(4) {
			case 0:
				if won, ambiguous := r.st.Finish(); won {
					r.st.Settle(nil)
					r.complete(ambiguous)
				}
			case 1:
				r.orc.MaybeRetry(r, retry.KVNotMyVBucket, io.EOF, retry.Hint{Moved: true})
			default:
				r.orc.MaybeRetry(r, retry.KVTemporaryFailure, io.EOF, retry.Hint{})
			}
		}
	}()
	if rand.IntN(2) == 0 {
		go func() {
			time.Sleep(instant())
			r.orc.ConnLost(r, e, io.ErrUnexpectedEOF)
			if e > 1 {
				r.orc.ConnLost(r, e-1, io.ErrUnexpectedEOF)
			}
		}()
	}
}

// TestRace lets Cancel, the timer, Wake, responses, losses, Close and MaybeRetry meet. It is meant for -race. Checks
// I2, I3 and I9.
func TestRace(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 10
	}
	slow := retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
		if rand.IntN(4) == 0 {
			<-ctx.Done()
		}
		return retry.After(instant())
	})
	quick := inlineFunc(func(context.Context, *retry.Request, retry.Reason) retry.Action {
		return retry.After(instant())
	})
	for range rounds {
		bubble(t, func(t *testing.T) { race(t, quick, slow) })
	}
}

// race is one round. Delays are few and short, so that many events share an instant, and what shares one runs at once.
func race(t *testing.T, quick, slow retry.Strategy) {
	t.Helper()
	orc := retry.New(retry.Options{Default: quick})
	var ops []*racer
	var wg sync.WaitGroup
	for i := range 40 {
		r := &racer{orc: orc, done: make(chan struct{}), started: time.Now()}
		r.st.Idempotent, r.st.Deadline = i%2 == 0, time.Now().Add(20*time.Millisecond)
		if i%3 == 0 {
			r.st.Strategy = slow
		}
		ops = append(ops, r)
		wg.Go(r.attempt)
		wg.Go(func() {
			time.Sleep(instant())
			for range rand.IntN(300) {
				_ = r.st.Info()
			}
			if rand.IntN(2) == 0 {
				orc.Cancel(r, io.ErrClosedPipe)
				r.canceled.Store(true)
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			orc.Wake(func(retry.Op) bool { return rand.IntN(2) == 0 })
			_ = orc.Stats()
			time.Sleep(instant() / 4)
		}
	})
	if rand.IntN(2) == 0 {
		wg.Go(func() {
			time.Sleep(instant())
			orc.Close(io.ErrClosedPipe)
		})
	}
	wg.Wait()
	for _, r := range ops {
		select {
		case <-r.done:
		case <-time.After(25 * time.Millisecond):
			orc.Expire(r) // what has not ended: local or on the wire
			<-r.done
		}
	}
	orc.Close(nil)
	pass(time.Second) // events that come after the end
	for _, r := range ops {
		require.EqualValues(t, 1, r.completed.Load())
		require.Zero(t, r.after.Load(), "sent after Cancel")
		info := r.st.Info()
		require.EqualValues(t, info.Retries(), r.dispatches.Load())
		if r.inDoubt.Load() {
			require.False(t, r.st.Idempotent)
		}
	}
	require.Zero(t, orc.Stats().Parked)
	require.Zero(t, orc.Stats().Bytes)
}

// instant is one of few times.
func instant() time.Duration { return time.Duration(rand.IntN(5)) * 200 * time.Microsecond }

// TestSentOrFinished lets a writer and a canceler race for a write: when the writer wins, the end is in doubt (I7), and
// when the canceler does, nothing is sent (I3).
func TestSentOrFinished(t *testing.T) {
	orc := retry.New(retry.Options{})
	for range 20000 {
		x := newOp(false, time.Second)
		var sent bool
		var wg sync.WaitGroup
		wg.Go(func() { _, sent = x.st.Sent() })
		wg.Go(func() { orc.Cancel(x, nil) })
		wg.Wait()
		require.Equal(t, sent, x.inDoubt)
		var e *retry.Error
		require.True(t, errors.As(x.err, &e) && e.InDoubt == sent)
	}
}

// TestCancelAgainstMaybeRetry is the race over the publication of the history.
func TestCancelAgainstMaybeRetry(t *testing.T) {
	orc := retry.New(retry.Options{Default: retry.BestEffort{Backoff: retry.Constant(time.Minute)}})
	for range 20000 {
		x := newOp(true, time.Hour)
		var wg sync.WaitGroup
		wg.Go(func() { x.answer(orc, retry.KVLocked, retry.Hint{}) })
		wg.Go(func() {
			orc.Cancel(x, nil)
			_ = x.st.Info()
		})
		wg.Wait()
		require.Equal(t, 1, x.ended())
	}
	require.Zero(t, orc.Stats().Parked)
	require.Zero(t, orc.Stats().Bytes)
}
