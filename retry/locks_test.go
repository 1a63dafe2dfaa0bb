package retry

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lockOp is an operation that says when it has ended.
type lockOp struct {
	st    State
	ended chan error
}

func newLockOp() *lockOp {
	x := &lockOp{ended: make(chan error, 1)}
	x.st.Deadline = time.Now().Add(time.Hour)
	return x
}

func (x *lockOp) Retry() *State            { return &x.st }
func (x *lockOp) Describe(r *Request)      { r.Service, r.Operation = KV, "locks" }
func (x *lockOp) Context() context.Context { return context.Background() }
func (x *lockOp) Size() int                { return 1 }
func (x *lockOp) Dispatch()                {}
func (x *lockOp) Done(err error, _ bool)   { x.ended <- err }

// retried is an operation that is on the wire for its second attempt.
func retried(t *testing.T, o *Orchestrator) *lockOp {
	t.Helper()
	x := newLockOp()
	o.MaybeRetry(x, claimed(t, x), errors.New("first"), Hint{Wakes: o.Wakes()})
	o.Wake(nil)
	require.Equal(t, PhaseLocal, x.st.Phase())
	_, ok := x.st.Sent()
	require.True(t, ok)
	return x
}

// claimed claims an operation that finds no node, and gives the reason.
func claimed(t *testing.T, x *lockOp) Reason {
	t.Helper()
	require.True(t, x.st.NotSent())
	return AuthenticationError
}

// TestOnlyWhatWaitsTakesTurns_D264: an operation needs the orchestrator's mutex to be parked and to leave the heap, and
// for nothing else. Those that fail, are retried and end with one attempt out do not stand in line with them.
func TestOnlyWhatWaitsTakesTurns_D264(t *testing.T) {
	o := New(Options{Default: BestEffort{Backoff: Constant(time.Minute)}, Observer: deaf{}})
	answered, expired, canceled, finished := retried(t, o), retried(t, o), retried(t, o), retried(t, o)
	refused := newLockOp()
	refused.st.Strategy = FastFailOnTerminalError{}
	why := claimed(t, refused)
	over := make(chan struct{})
	o.mu.Lock()
	go func() {
		defer close(over)
		answered.st.Succeeded(answered.st.Epoch())
		o.Expire(expired)
		o.Cancel(canceled, nil)
		finished.st.Finish()
		finished.st.Settle(nil)
		o.MaybeRetry(refused, why, errors.New("refused"), Hint{})
		o.Hedged(KV, "locks", 2, 1)
		_ = answered.st.Info()
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("it stands in line for the mutex")
	}
	o.mu.Unlock()
	<-over
	require.ErrorIs(t, <-expired.ended, ErrTimeout)
	require.ErrorIs(t, <-canceled.ended, ErrCanceled)
	require.Error(t, <-refused.ended)
	require.EqualValues(t, 4, o.Stats().Operations[OperationKey{KV, "locks"}].Transparent)
}

// deaf is an observer.
type deaf struct{}

func (deaf) Attempt(AttemptInfo)                   {}
func (deaf) Retry(*Request, Reason, time.Duration) {}
func (deaf) GaveUp(*Request, Reason, error)        {}
