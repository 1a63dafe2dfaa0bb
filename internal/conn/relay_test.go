package conn_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// callers are so many that each read a document some times.
func callers(t *testing.T, d *dispatcher, n, times int) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() {
			for range times {
				if _, err := kv.Do(context.Background(), d, kv.Get{Key: []byte("k")}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// Every caller has its answer, however the reader gives way: more callers than it wakes at a time, answers without values of
// which a read brings thousands, and those that take several reads each.
func TestAReaderThatStays(t *testing.T) {
	for name, c := range map[string]struct {
		processors, callers, times, size int
		lingers                          bool
	}{
		"some":                {4, 100, 300, 256, false},
		"on its own":          {2, 100, 300, 256, true},
		"thousands":           {2, 2000, 20, 0, true},
		"thousands, and more": {4, 2000, 20, 0, false},
		"large values":        {2, 64, 20, 300 << 10, true},
		"few":                 {2, 3, 300, 256, false},
	} {
		var pair conn.Pair
		pair.Begin(c.processors)
		pair.Busy(1) // the other connection
		document := memd.Packet{CAS: 7, Extras: make([]byte, 4), Value: make([]byte, c.size)}
		d := connect(t, document, func(o *conn.Options) { o.Pair = &pair })
		callers(t, d, c.callers, c.times)
		pair.End()
		callers(t, d, c.callers, 2)
		pair.Begin(c.processors)
		callers(t, d, c.callers, 2)
		d.end()
		relayed, lingered := d.cn.Stayed()
		if c.size > 256 || conn.RaceEnabled && c.callers > 3 {
			continue // it depends on who is slower
		}
		require.Equal(t, c.callers > 3, relayed, name)
		require.Equal(t, c.lingers && runtime.GOOS == "linux", lingered, name)
	}
}

// One that lingers finds out that the program has other things to do, and lets it.
func TestAReaderThatStaysMakesRoom(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("readers do not linger on this system")
	}
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	var pair conn.Pair
	pair.Begin(2)
	pair.Busy(1)
	d := connect(t, document, func(o *conn.Options) { o.Pair = &pair })
	near, far := conn.Loopback(t)
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // asks all the time
		defer far.Close()
		for {
			select {
			case <-over:
				return
			default:
				_, _ = far.Write(make([]byte, 1))
			}
		}
	})
	wg.Go(func() { // and has work with it
		for b := make([]byte, 100); ; {
			if _, err := near.Read(b); err != nil {
				return
			}
			for began := time.Now(); time.Since(began) < 100*time.Microsecond; {
				continue
			}
		}
	})
	for began := time.Now(); !pair.Rests() && time.Since(began) < 20*time.Second; {
		callers(t, d, 100, 100)
	}
	close(over)
	wg.Wait()
	require.True(t, pair.Rests())
}

// When the time is over that readers do not linger, one that reads notes it.
func TestAReaderEndsTheRest(t *testing.T) {
	var pair conn.Pair
	d := connect(t, document, func(o *conn.Options) { o.Pair = &pair })
	pair.RestUntil(time.Hour)
	callers(t, d, 10, 100)
	require.True(t, pair.RestsNow())
	pair.RestUntil(0)
	require.Eventually(t, func() bool {
		callers(t, d, 10, 10)
		return !pair.RestsNow()
	}, 10*time.Second, time.Millisecond)
}

// A reader that notes the end of one rest does not end the next one, which another begins meanwhile.
func TestTheEndOfARestIsNotThatOfTheNext(t *testing.T) {
	for range 100_000 {
		var pair conn.Pair
		pair.RestUntil(1)
		var ready atomic.Int32
		var wg sync.WaitGroup
		for _, f := range []func(){func() { pair.Over(2) }, func() { pair.RestUntil(3) }} {
			wg.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				f()
			})
		}
		wg.Wait()
		if !pair.RestsNow() {
			t.Fatal("it would be forgotten until the one after")
		}
	}
}

// One that has nothing more to do does not count as busy, though no read comes to find that out.
func TestAReaderWithoutCallsIsNotBusy(t *testing.T) {
	var pair conn.Pair
	pair.Begin(4)
	pair.Busy(1)
	d := connect(t, document, func(o *conn.Options) { o.Pair = &pair })
	callers(t, d, 200, 100)
	require.Eventually(t, func() bool { return pair.AreBusy() == 1 }, 10*time.Second, time.Millisecond)
}

// A reader that waits for answers notices at once that its connection has been closed, and one that has had a relay ends it.
func TestAReaderThatStaysEnds(t *testing.T) {
	var pair conn.Pair
	pair.Begin(2)
	pair.Busy(1)
	d := connect(t, document, func(o *conn.Options) { o.Pair = &pair })
	callers(t, d, 200, 100)
	began := time.Now()
	d.cn.Close(nil)
	require.Less(t, time.Since(began), time.Second)
	_, err := kv.Do(context.Background(), d, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, conn.ErrClosed)
	d.end()
	require.False(t, d.cn.Holds())
}
