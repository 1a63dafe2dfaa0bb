package conn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// batches is a dispatcher of batches with a time limit of its own, for several at a time.
type batches struct {
	*dispatcher
	home   call.Home
	mu     sync.Mutex
	taken  []int
	handed chan struct{} // closed when the next batch is handed over
	limit  time.Duration
	id     uint32 // of the collection
}

// Runner implements kv.Dispatcher.
func (d *batches) Runner() call.Runner { return d }

func newBatches(d *dispatcher) *batches {
	b := &batches{dispatcher: d, limit: 2500 * time.Millisecond}
	b.home = call.Home{Owner: b, Bucket: "b", Base: d.base}
	return b
}

func (d *batches) Cancel(c *call.Call, cause error) bool { return c.Fail(cause) }

func (d *batches) Dispatch(c *call.Call) { d.DispatchAll([]*call.Call{c}) }

func (d *batches) DispatchAll(calls []*call.Call) {
	now := time.Now()
	for i, c := range calls {
		c.Bind(&d.home)
		c.State.Deadline = now.Add(d.limit)
		if c.Cancelable() {
			if end, ok := c.Context().Deadline(); ok && end.Before(c.State.Deadline) {
				c.State.Deadline = end
			}
		}
		c.Started, c.Deadline = int64(now.Sub(d.base)), int64(c.State.Deadline.Sub(d.base))
		c.Route.VBucket, c.Route.CollectionID = uint16(i), d.id
	}
	for len(calls) > 0 {
		n := d.cn.SubmitAll(calls)
		d.mu.Lock()
		d.taken = append(d.taken, n)
		d.mu.Unlock()
		if calls = calls[n:]; len(calls) > 0 {
			d.submit(calls[0])
			calls = calls[1:]
		}
	}
	if d.handed != nil {
		close(d.handed)
		d.handed = nil
	}
}

func manyKeys(n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "key-%d", i))
	}
	return keys
}

// A read in a batch costs its value; into the caller's buffer it costs nothing.
func TestAllocationsOfManyReads(t *testing.T) {
	if conn.RaceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	d := newBatches(connect(t, document))
	ks, bg := manyKeys(100), context.Background()
	gets := make([]kv.Get, len(ks))
	for i := range gets {
		gets[i] = kv.Get{Key: ks[i], Into: make([]byte, 0, 512)}
	}
	each := func(batch func() []kv.Outcome[kv.GetResult]) float64 {
		return testing.AllocsPerRun(200, func() {
			d.taken = d.taken[:0]
			for _, o := range batch() {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
			}
		})
	}
	own := each(func() []kv.Outcome[kv.GetResult] { return kv.GetMulti(bg, d, kv.Common{}, ks) })
	into := each(func() []kv.Outcome[kv.GetResult] { return kv.Batch(bg, d, gets, 0) })
	require.LessOrEqual(t, own, 100+5.0, "the values, and what all of them share")
	require.LessOrEqual(t, into, 4.0)
}

// What has waited for its write when it ends is left out of the write, and the connection goes on.
func TestReadsThatEndBeforeTheirWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}))
		first := kv.Start(t.Context(), d, kv.Get{Key: []byte("first")})
		synctest.Wait() // it is being written, and what comes now waits for that
		var stayed, canceled, waited []kv.Outcome[kv.GetResult]
		stay := make(chan struct{})
		go func() {
			defer close(stay)
			stayed = kv.GetMulti(context.Background(), d, kv.Common{}, manyKeys(5))
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { canceled = kv.GetMulti(ctx, d, kv.Common{}, manyKeys(7)) }()
		synctest.Wait()
		patient := make(chan struct{})
		go func() {
			defer close(patient)
			waited = kv.GetMulti(t.Context(), d, kv.Common{}, manyKeys(3))
		}()
		synctest.Wait()
		time.Sleep(20 * time.Millisecond)
		cancel()
		synctest.Wait()
		require.Len(t, canceled, 7)
		for _, o := range canceled {
			require.ErrorIs(t, o.Err, context.Canceled)
		}
		var p peer
		go p.serve(far)
		<-stay
		<-patient
		for _, o := range append(stayed, waited...) {
			require.NoError(t, o.Err)
		}
		_, err := first.Wait(t.Context())
		require.NoError(t, err)
		require.Len(t, p.numbers, 1+5+3, "the canceled ones were left out")
		synctest.Wait()
		require.Zero(t, d.cn.InFlight())
	})
}

// A read that has ended without an answer keeps its number until that comes.
func TestReadsThatEndWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}))
		var p peer
		go p.serve(far)
		ks := [][]byte{[]byte("a"), []byte("held"), []byte("b"), []byte("held")}
		began := time.Now()
		out := kv.GetMulti(t.Context(), d, kv.Common{}, ks)
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		for i, o := range out {
			require.Equal(t, i%2 == 1, o.Err != nil, "%v", o.Err)
		}
		for range 50 { // none of the numbers is used again
			for _, o := range kv.GetMulti(t.Context(), d, kv.Common{}, ks[:1]) {
				require.NoError(t, o.Err)
			}
		}
		require.Zero(t, p.twice)
		_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("release")})
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 2, d.cn.Stats.Orphans.Load())
		require.NoError(t, d.cn.Cause())
	})
}

// A read can only be claimed once it has been handed to the socket.
func TestAnAnswerBeforeTheReadIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}))
		first := kv.Start(t.Context(), d, kv.Get{Key: []byte("first")})
		synctest.Wait()
		var out []kv.Outcome[kv.GetResult]
		done := make(chan struct{})
		go func() {
			defer close(done)
			out = kv.GetMulti(t.Context(), d, kv.Common{}, [][]byte{[]byte("second")})
		}()
		synctest.Wait()
		p := &peer{numbers: map[uint32]int{}}
		next := uint32(conn.FirstSlot + 1<<16 | 1)
		_, err := far.Write(p.answer(nil, &memd.Packet{Opcode: memd.OpGet, Opaque: next, Key: []byte("early")}))
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 1, d.cn.Stats.Orphans.Load())
		go p.serve(far)
		<-done
		require.NoError(t, out[0].Err)
		require.Equal(t, "second", string(out[0].Result.Value))
		_, err = first.Wait(t.Context())
		require.NoError(t, err)
	})
}

// Reads that the connection does not take are the dispatcher's again, in order.
func TestAConnectionTakesAsManyReadsAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}, func(o *conn.Options) { o.MaxInFlight = 70 }))
		handed := make(chan struct{})
		d.handed = handed
		go func() {
			<-handed // until then nothing is answered
			var p peer
			p.serve(far)
		}()
		for i, o := range kv.GetMulti(t.Context(), d, kv.Common{}, manyKeys(75)) {
			require.Equal(t, i >= 70, errors.Is(o.Err, conn.ErrFull), "%d: %v", i, o.Err)
		}
		require.Equal(t, []int{70, 0, 0, 0, 0}, d.taken)
		d.taken = nil
		d.cn.Refuse()
		for _, o := range kv.GetMulti(t.Context(), d, kv.Common{}, manyKeys(2)) {
			require.ErrorIs(t, o.Err, conn.ErrClosed)
		}
		require.Equal(t, []int{0, 0}, d.taken)
	})
}

// A connection that was not told of collections cannot carry reads of another than the default one.
func TestReadsOfACollectionNeedTheFeature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}))
		d.id = 8
		var fe *kv.FeatureError
		for _, o := range kv.GetMulti(t.Context(), d, kv.Common{CollectionID: 8}, manyKeys(2)) {
			require.ErrorAs(t, o.Err, &fe)
		}
		require.Equal(t, []int{0, 0}, d.taken)
	})
}

// Reads of a context that cannot end have a deadline all the same, whatever else expires before.
func TestReadsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		base := dispatcherOver(t, struct{ net.Conn }{near})
		var p peer
		go p.serve(far)
		began := time.Now()
		var wg sync.WaitGroup
		for _, limit := range []time.Duration{300 * time.Millisecond, time.Second, 700 * time.Millisecond} {
			wg.Go(func() {
				d := newBatches(base)
				d.limit = limit
				o := kv.GetMulti(context.Background(), d, kv.Common{}, [][]byte{[]byte("held")})[0]
				if !errors.Is(o.Err, cberr.UnambiguousTimeout) || time.Since(began) != limit {
					t.Error(o.Err, time.Since(began))
				}
			})
		}
		wg.Wait()
	})
}

// Until it has lasted some milliseconds a read notices the end of its context at the next look.
func TestReadsNoticeTheEndOfTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}))
		var p peer
		go p.serve(far)
		for _, at := range []time.Duration{
			time.Millisecond, 4 * time.Millisecond, 7 * time.Millisecond,
			9 * time.Millisecond, time.Second,
		} {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(at, cancel)
			began := time.Now()
			out := kv.GetMulti(ctx, d, kv.Common{}, [][]byte{[]byte("held"), []byte("held")})
			took := time.Since(began)
			require.ErrorIs(t, out[0].Err, context.Canceled)
			require.ErrorIs(t, out[1].Err, context.Canceled)
			require.LessOrEqual(t, took-at, 5*time.Millisecond, at)
			time.Sleep(time.Second)
		}
	})
}

// shy is a context that can end, and counts who asks it.
type shy struct {
	context.Context
	done  chan struct{}
	asked atomic.Int32
}

func (s *shy) Done() <-chan struct{} {
	s.asked.Add(1)
	return s.done
}

func (s *shy) Err() error {
	s.asked.Add(1)
	return nil
}

func (s *shy) Deadline() (time.Time, bool) {
	s.asked.Add(1)
	return time.Time{}, false
}

// A context is the caller's code: once the calls are on their way it is not asked, whatever the answers are, before one
// of them has lasted so long that it watches the context.
func TestReadsLeaveTheirContextAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := newBatches(dispatcherOver(t, struct{ net.Conn }{near}, func(o *conn.Options) { o.Handler = refusing{} }))
		handed := make(chan struct{})
		d.handed = handed
		ctx := &shy{Context: context.Background(), done: make(chan struct{})}
		var before int32
		go func() {
			<-handed
			before = ctx.asked.Load()
			time.Sleep(2 * time.Millisecond) // they have not lasted long
			var p peer
			p.serve(far)
		}()
		out := kv.GetMulti(ctx, d, kv.Common{}, [][]byte{[]byte("k"), []byte("wrong"), []byte("k")})
		require.Equal(t, before, ctx.asked.Load())
		require.NoError(t, out[0].Err)
		require.ErrorIs(t, out[1].Err, errRefused)
	})
}

// refusing fails what is not answered well.
type refusing struct{ ignores }

func (refusing) Answered(_ *conn.Conn, c *call.Call, _ *memd.Packet) { c.Fail(errRefused) }

// listening is told of silence and of success.
type listening struct {
	ignores
	silent, good *atomic.Int32
}

func (l listening) Silent(*conn.Conn) { l.silent.Add(1) }
func (l listening) Success()          { l.good.Add(1) }

// What is told of calls is told of reads: that nothing at all has come since they were sent, and how many were
// answered.
func TestWhatReadsTellOfTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		l := listening{silent: &atomic.Int32{}, good: &atomic.Int32{}}
		base := dispatcherOver(t, struct{ net.Conn }{near}, func(o *conn.Options) { o.Handler, o.Feedback = l, l })
		var p peer
		go p.serve(far)
		read := func(limit time.Duration, keys ...string) {
			d := newBatches(base)
			d.limit = limit
			var ks [][]byte
			for _, k := range keys {
				ks = append(ks, []byte(k))
			}
			kv.GetMulti(context.Background(), d, kv.Common{}, ks)
		}
		read(time.Second, "a", "b")
		require.EqualValues(t, 2, l.good.Load())
		go read(time.Second, "held")
		synctest.Wait()
		require.False(t, base.cn.HeldUp())
		time.Sleep(500 * time.Millisecond)
		read(time.Second, "c") // a sign of life
		time.Sleep(time.Second)
		require.Zero(t, l.silent.Load())
		read(time.Second, "held")
		require.EqualValues(t, 1, l.silent.Load())
		require.EqualValues(t, 3, l.good.Load())
	})
}

// However many reads there are, one write takes no more than its part.
func TestManyReadsAreWrittenInParts(t *testing.T) {
	d := newBatches(connect(t, document))
	d.limit = time.Hour // with the race detector, on a busy machine, it takes seconds
	before := d.cn.Stats.Writes.Load()
	ks := manyKeys(20_000)
	ops := make([]kv.Get, len(ks))
	for i := range ops {
		ops[i].Key = ks[i]
	}
	for _, o := range kv.Batch(t.Context(), d, ops, len(ops)) {
		require.NoError(t, o.Err)
	}
	require.Equal(t, []int{len(ks)}, d.taken)
	d.settle()
	require.GreaterOrEqual(t, d.cn.Stats.Writes.Load()-before, int64(3), "256 KiB each")
}

// Reads that have waited for their write when the connection ends have provably not been sent, and those in the write
// may have been.
func TestReadsOfAConnectionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		v := newVerdicts()
		d := dispatcherOver(t, struct{ net.Conn }{near}, func(o *conn.Options) { o.Handler = v })
		var wg sync.WaitGroup
		for _, key := range []string{"written", "waits", "waits too"} {
			wg.Go(func() { kv.GetMulti(context.Background(), newBatches(d), kv.Common{}, [][]byte{[]byte(key)}) })
			synctest.Wait()
		}
		head := make([]byte, 24+len("written"))
		_, err := far.Read(head)
		require.NoError(t, err)
		synctest.Wait() // the next two are being written now
		wg.Go(func() { kv.GetMulti(context.Background(), newBatches(d), kv.Common{}, [][]byte{[]byte("pending")}) })
		synctest.Wait()
		_ = far.Close()
		wg.Wait()
		require.Equal(t, map[string]bool{"written": true}, v.lost)
		require.Equal(t, map[string]bool{"waits": true, "waits too": true, "pending": true}, v.unsent)
	})
}
