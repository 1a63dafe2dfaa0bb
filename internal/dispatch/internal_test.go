package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// The deadlines of calls outside of connections are exact, in any order of adding, and one timer serves them.
func TestDeadlinesAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := time.Now()
		var mu sync.Mutex
		fired := map[int64]time.Duration{}
		var d deadlines
		d.init(base, func(calls []*call.Call) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range calls {
				fired[c.Deadline] = time.Since(base)
				c.State.Finish()
			}
		})
		for _, ms := range []int64{50, 10, 30, 10, 999, 1} {
			c := call.NewCall()
			c.Deadline = ms * int64(time.Millisecond)
			d.add(c)
		}
		ended := call.NewCall()
		ended.Deadline = int64(20 * time.Millisecond)
		ended.State.Finish()
		d.add(ended)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, fired, 5)
		for deadline, at := range fired {
			require.EqualValues(t, deadline, at)
		}
		d.stop()
		d.add(call.NewCall())
		require.Empty(t, d.heap)
	})
}

// givesLate is a source that offers its map while it is asked, and then has nothing more to give.
type givesLate struct{ r *Router }

func (s givesLate) State() (error, bool) {
	s.r.maps.offers.offer([]byte(`{"rev":1}`), 0, "10.0.0.1:11210", nil)
	return nil, false
}

func (s givesLate) Needed() {}

// A map that is offered while a call looks whether one may still come is not missed: a call that was dispatched then
// failed as if there were no hope.
func TestAMapThatComesWhileItIsLookedForIsHope(t *testing.T) {
	r := &Router{}
	r.maps.offers.init(1 << 20)
	r.o.Source, r.o.Health = givesLate{r}, &health.Record{}
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	require.NoError(t, r.noFirstMap())
}

// A call that waits for the first map goes on waiting while one that was given lies before the config goroutine,
// however another node has failed meanwhile.
func TestAMapThatHasComeIsWaitedFor(t *testing.T) {
	r := &Router{}
	r.maps.offers.init(1 << 20)
	h := &health.Record{}
	r.o.Health = h
	refused := &handshake.Error{Kind: cberr.AuthenticationFailure, Step: handshake.StepAuth}
	h.Track("", "10.0.0.2:11210").Failed(refused)
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	require.ErrorIs(t, r.noFirstMap(), cberr.AuthenticationFailure)
	r.maps.offers.offer([]byte(`{"rev":1}`), 0, "10.0.0.1:11210", nil)
	require.NoError(t, r.noFirstMap())
}

// A callback that blocks delays no other; workers end when there is nothing to do.
func TestExecutorRelievesBlockedWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e executor
		block := make(chan struct{})
		var ran atomic.Int64
		for i := range 1000 {
			e.run(func() {
				if i%100 == 0 {
					<-block
				}
				ran.Add(1)
			})
		}
		synctest.Wait()
		require.EqualValues(t, 990, ran.Load())
		ctx := t.Context()
		go func() {
			time.Sleep(time.Second)
			close(block)
		}()
		require.NoError(t, e.wait(ctx))
		require.EqualValues(t, 1000, ran.Load())
		require.Zero(t, e.active)
		require.NoError(t, e.wait(ctx))
	})
}

func rawMap(epoch, rev int) []byte {
	return fmt.Appendf(nil, `{"rev":%d,"revEpoch":%d,"name":"b"}`, rev, epoch)
}

// A map that is known costs nothing: of a thousand answers with one new map one is queued, and calls with an old one
// are judged at once.
func TestOffersAreConsideredOnce(t *testing.T) {
	var o offers
	o.init(1 << 20)
	call := &claimed{c: call.NewCall()}
	for range 1000 {
		require.False(t, o.offer(rawMap(1, 5), 0, "a", call))
	}
	require.Len(t, o.queue, 1)
	require.Len(t, o.waiters, 1000)
	require.False(t, o.offer(rawMap(1, 4), 0, "a", call)) // older, but the newer one is not applied yet
	of, ok, waiters := o.take()
	require.True(t, ok)
	require.Nil(t, waiters)
	require.Equal(t, rawMap(1, 5), of.raw)
	require.False(t, o.offer(rawMap(1, 5), 0, "a", call)) // being applied
	_, ok, waiters = o.take()
	require.False(t, ok)
	require.Len(t, waiters, 1002)
	require.True(t, o.offer(rawMap(1, 5), 0, "a", call))
	require.True(t, o.offer(rawMap(1, 4), 0, "a", call))
	require.True(t, o.offer(rawMap(0, 9), 0, "a", call))
	require.False(t, o.offer(rawMap(2, 1), 0, "a", nil))
	require.False(t, o.offer([]byte(`{"name":"b"}`), 0, "a", nil)) // no version in sight: never guess
	require.Len(t, o.queue, 2)
	require.Empty(t, o.close())
	require.True(t, o.offer(rawMap(9, 9), 0, "a", call))
}

// Offers that are not taken are bounded.
func TestOffersAreBounded(t *testing.T) {
	var o offers
	o.init(1 << 20)
	for i := range 100 {
		o.offer(rawMap(1, i+1), 0, "a", nil)
	}
	require.Len(t, o.queue, maxOffers)
	require.Equal(t, rawMap(1, 100), o.queue[maxOffers-1].raw)
}

// The giver of a map can wait until it was considered, and does not wait for one that is known.
func TestOfferAndTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Router{}
		r.ctx, r.stop = context.WithCancel(t.Context())
		r.maps.offers.init(1 << 20)
		told := 0
		tell := func(wait func()) {
			go func() {
				wait()
				told++
			}()
			synctest.Wait()
		}
		tell(r.offerAndTell(nil, "a"))
		require.Equal(t, 1, told)
		wait := r.offerAndTell(rawMap(1, 5), "a")
		require.Empty(t, r.maps.offers.kick, "the connection that it came with is not there yet")
		tell(wait)
		require.Len(t, r.maps.offers.kick, 1)
		require.Equal(t, 1, told)
		r.maps.offers.take()
		_, _, waiters := r.maps.offers.take()
		require.Len(t, waiters, 1)
		close(waiters[0].considered)
		synctest.Wait()
		require.Equal(t, 2, told)
		tell(r.offerAndTell(rawMap(1, 5), "a"))
		require.Equal(t, 3, told, "it is known")
		tell(r.offerAndTell(rawMap(1, 6), "a"))
		require.Equal(t, 3, told)
		r.stop()
		synctest.Wait()
		require.Equal(t, 4, told)
	})
}

// A call that has ended is not kept until its deadline: a hundred thousand refusals a second would fill the memory.
func TestAnEndedCallsDeadlineIsForgotten(t *testing.T) {
	r := unconnected(t)
	stop := kv.Common{Retry: retry.Func(func(context.Context, *retry.Request,
		retry.Reason,
	) retry.Action {
		return retry.Stop()
	})}
	var futures []kv.Future[kv.GetResult]
	for i := range 100 {
		futures = append(futures, kv.Start(context.Background(), r, kv.Get{Common: stop, Key: fmt.Appendf(nil, "key-%d",
			i)}))
	}
	held := func() int {
		r.due.mu.Lock()
		defer r.due.mu.Unlock()
		return len(r.due.heap)
	}
	require.Equal(t, 100, held())
	for _, f := range futures {
		require.True(t, f.Cancel())
		_, err := f.Wait(context.Background())
		require.ErrorIs(t, err, cberr.RequestCanceled)
	}
	require.Zero(t, held())
}
