package collections_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/collections"
)

type waiter struct {
	mu  sync.Mutex
	got []collections.Entry
	err error
}

func (w *waiter) CollectionResolved(e collections.Entry, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got, w.err = append(w.got, e), err
}

var path = collections.Path{Scope: "eu", Collection: "users"}

func newCache(limit int) (*collections.Cache, *atomic.Int64) {
	var lookups atomic.Int64
	return collections.New(collections.Options{MaxWaiters: limit, Lookup: func(collections.Path) { lookups.Add(1) }}),
		&lookups
}

func TestB18B22UnknownCollectionIsLookedUpOnce(t *testing.T) {
	c, lookups := newCache(0)
	_, ok := c.Get(path)
	require.False(t, ok)
	w := &waiter{}
	require.NoError(t, c.Wait(path, w))
	require.EqualValues(t, 1, lookups.Load())
	want := collections.Entry{ID: 9, ManifestUID: 3}
	c.Resolve(path, want, nil)
	require.Equal(t, []collections.Entry{want}, w.got)
	e, ok := c.Get(path)
	require.True(t, ok)
	require.Equal(t, want, e)
	require.NoError(t, c.Wait(path, w)) // known meanwhile
	require.Len(t, w.got, 2)
	require.EqualValues(t, 1, lookups.Load())
}

func TestB20FailedLookupFailsItsWaitersAndTheNextLooksUpAnew(t *testing.T) {
	c, lookups := newCache(0)
	w, failure := &waiter{}, errors.New("boom")
	require.NoError(t, c.Wait(path, w))
	c.Resolve(path, collections.Entry{}, failure)
	require.ErrorIs(t, w.err, failure)
	require.NoError(t, c.Wait(path, w))
	require.EqualValues(t, 2, lookups.Load())
}

func TestB23ManyCallsOneLookupPerCollection(t *testing.T) {
	c, lookups := newCache(0)
	ws := make([]*waiter, 1000)
	for i := range ws {
		ws[i] = &waiter{}
		require.NoError(t, c.Wait(path, ws[i]))
	}
	other := collections.Path{Scope: "eu", Collection: "carts"}
	require.NoError(t, c.Wait(other, &waiter{}))
	require.EqualValues(t, 2, lookups.Load())
	c.Resolve(path, collections.Entry{ID: 8}, nil)
	for _, w := range ws {
		require.Len(t, w.got, 1)
	}
	require.Equal(t, 1, c.Waiting())
}

func TestB24LeavingDisturbsNoOtherCall(t *testing.T) {
	c, lookups := newCache(0)
	a, b := &waiter{}, &waiter{}
	require.NoError(t, c.Wait(path, a))
	require.NoError(t, c.Wait(path, b))
	require.True(t, c.Remove(path, a))
	require.False(t, c.Remove(path, a))
	c.Resolve(path, collections.Entry{ID: 8}, nil)
	require.Empty(t, a.got)
	require.Len(t, b.got, 1)
	require.EqualValues(t, 1, lookups.Load())
}

func TestD95DefaultCollectionIsNeverLookedUp(t *testing.T) {
	c, lookups := newCache(0)
	for _, p := range []collections.Path{
		{},
		{Scope: "_default"},
		{Collection: "_default"},
		{Scope: "_default", Collection: "_default"},
	} {
		e, ok := c.Get(p)
		require.True(t, ok)
		require.Zero(t, e)
		require.True(t, p.IsDefault())
		require.Equal(t, "_default._default", p.String())
		w := &waiter{}
		require.NoError(t, c.Wait(p, w))
		require.Equal(t, []collections.Entry{{}}, w.got, "told at once")
	}
	require.Zero(t, lookups.Load())
	require.False(t, collections.Path{Collection: "x"}.IsDefault())
}

func TestD94WaitersAreBounded(t *testing.T) {
	c, lookups := newCache(2)
	other := collections.Path{Scope: "eu", Collection: "carts"}
	require.NoError(t, c.Wait(path, &waiter{}))
	require.NoError(t, c.Wait(path, &waiter{}))
	for _, p := range []collections.Path{path, other} { // the limit is that of all collections together
		require.ErrorIs(t, c.Wait(p, &waiter{}), collections.ErrTooManyWaiters)
	}
	require.EqualValues(t, 1, lookups.Load(), "who may not wait starts no lookup")
	c.Resolve(path, collections.Entry{}, errors.New("x"))
	require.NoError(t, c.Wait(path, &waiter{}))

	c, _ = newCache(0)
	for range 32768 {
		require.NoError(t, c.Wait(path, &waiter{}))
	}
	require.ErrorIs(t, c.Wait(path, &waiter{}), collections.ErrTooManyWaiters, "there is a limit unless told")
}

func TestB25B26OnlyTheFailedIDIsForgottenAndOnlyByANodeThatIsNotBehind(t *testing.T) {
	c, _ := newCache(0)
	require.NoError(t, c.Wait(path, &waiter{}))
	c.Resolve(path, collections.Entry{ID: 9, ManifestUID: 5}, nil)
	require.True(t, c.Stale(4, path))
	require.False(t, c.Stale(5, path))
	require.False(t, c.Invalidate(path, 8))
	require.True(t, c.Invalidate(path, 9))
	require.False(t, c.Invalidate(path, 9))
	_, ok := c.Get(path)
	require.False(t, ok)
}

func TestClearForgetsEverything(t *testing.T) {
	c, _ := newCache(0)
	require.NoError(t, c.Wait(path, &waiter{}))
	c.Resolve(path, collections.Entry{ID: 9}, nil)
	c.Clear()
	_, ok := c.Get(path)
	require.False(t, ok)
}

func TestD97KnownIDCostsNoAllocation(t *testing.T) {
	c, _ := newCache(0)
	// does not fit on a stack when put together
	long := collections.Path{Scope: strings.Repeat("s", 60), Collection: strings.Repeat("c", 60)}
	c.Resolve(long, collections.Entry{ID: 9}, nil)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Get(long) }))
	found := make(chan bool, 1)
	c.Locked(func() {
		go func() {
			_, ok := c.Get(long)
			found <- ok
		}()
		select {
		case ok := <-found:
			require.True(t, ok)
		case <-time.After(10 * time.Second):
			t.Error("Get waits for the cache's lock")
		}
	})
}

func TestClearMakesRunningLookupsBeginAgain(t *testing.T) {
	c, lookups := newCache(0)
	w := &waiter{}
	require.NoError(t, c.Wait(path, w))
	c.Clear()
	c.Resolve(path, collections.Entry{ID: 9, ManifestUID: 50}, nil) // the old bucket's id
	require.Empty(t, w.got)
	require.EqualValues(t, 2, lookups.Load())
	_, ok := c.Get(path)
	require.False(t, ok)
	c.Resolve(path, collections.Entry{ID: 8, ManifestUID: 1}, nil)
	require.Equal(t, []collections.Entry{{ID: 8, ManifestUID: 1}}, w.got)

	// Without a waiter the outcome is dropped.
	c.Clear()
	require.NoError(t, c.Wait(path, w))
	require.True(t, c.Remove(path, w))
	c.Clear()
	c.Resolve(path, collections.Entry{ID: 9}, nil)
	_, ok = c.Get(path)
	require.False(t, ok)
	require.EqualValues(t, 3, lookups.Load())
	require.NoError(t, c.Wait(path, w))
	require.EqualValues(t, 4, lookups.Load())
}

// D92: the answer of one lookup never comes. Its waiters can leave, others are not held up, and a lookup that is given
// up leaves nothing behind.
func TestD92LostLookupBlocksNoOtherCall(t *testing.T) {
	c, lookups := newCache(2)
	a, b := &waiter{}, &waiter{}
	require.NoError(t, c.Wait(path, a))
	require.NoError(t, c.Wait(path, b))
	require.True(t, c.Remove(path, a))
	require.True(t, c.Remove(path, b))
	require.Zero(t, c.Waiting())
	other, w := collections.Path{Scope: "eu", Collection: "carts"}, &waiter{}
	require.NoError(t, c.Wait(other, w))
	c.Resolve(other, collections.Entry{ID: 7}, nil)
	require.Len(t, w.got, 1)
	require.NoError(t, c.Wait(path, a)) // joins the lookup that still runs
	require.EqualValues(t, 2, lookups.Load())
	c.Resolve(path, collections.Entry{}, errors.New("given up"))
	require.ErrorContains(t, a.err, "given up")
	require.Empty(t, b.got)
	require.NoError(t, c.Wait(path, b))
	require.EqualValues(t, 3, lookups.Load())
}

// D93: after a collection was dropped and made again, everybody gets the id just resolved.
func TestD93TheIDJustResolvedIsTheOneInUse(t *testing.T) {
	c, _ := newCache(0)
	require.NoError(t, c.Wait(path, &waiter{}))
	c.Resolve(path, collections.Entry{ID: 9, ManifestUID: 5}, nil)
	require.True(t, c.Invalidate(path, 9))
	w := &waiter{}
	require.NoError(t, c.Wait(path, w))
	c.Resolve(path, collections.Entry{ID: 10, ManifestUID: 6}, nil)
	e, ok := c.Get(path)
	require.True(t, ok)
	require.EqualValues(t, 10, e.ID)
	require.Equal(t, []collections.Entry{e}, w.got)
	require.False(t, c.Invalidate(path, 9), "a late answer to the old id undoes nothing")

	// also before a call has met that the old one is gone
	c.Resolve(path, collections.Entry{ID: 11, ManifestUID: 7}, nil)
	e, _ = c.Get(path)
	require.EqualValues(t, 11, e.ID)
}

func TestAnOlderManifestDoesNotReplaceANewerOne(t *testing.T) {
	c, _ := newCache(0)
	c.Resolve(path, collections.Entry{ID: 10, ManifestUID: 6}, nil)
	c.Resolve(path, collections.Entry{ID: 9, ManifestUID: 5}, nil)
	e, _ := c.Get(path)
	require.EqualValues(t, 10, e.ID)
	c.Resolve(path, collections.Entry{}, errors.New("x"))
	_, ok := c.Get(path)
	require.True(t, ok, "a failure forgets nothing")
}

// ordered notes when it was told.
type ordered struct {
	n   int
	log *[]int
}

func (o *ordered) CollectionResolved(collections.Entry, error) { *o.log = append(*o.log, o.n) }

func TestWaitersAreToldInTheirOrder(t *testing.T) {
	c, _ := newCache(0)
	var log, want []int
	ws := make([]*ordered, 100)
	for i := range ws {
		ws[i] = &ordered{i, &log}
		require.NoError(t, c.Wait(path, ws[i]))
	}
	for i := range ws {
		if i%3 == 0 {
			require.True(t, c.Remove(path, ws[i]))
		} else {
			want = append(want, i)
		}
	}
	c.Resolve(path, collections.Entry{ID: 8}, nil)
	require.Equal(t, want, log)
}

func TestAWaiterThatWaitsTwiceIsToldAndCountedOnce(t *testing.T) {
	c, _ := newCache(1)
	w := &waiter{}
	require.NoError(t, c.Wait(path, w))
	require.NoError(t, c.Wait(path, w))
	require.Equal(t, 1, c.Waiting())
	c.Resolve(path, collections.Entry{ID: 8}, nil)
	require.Len(t, w.got, 1)
	require.Zero(t, c.Waiting())
}

// again waits once more when it is told of a failure, from inside the callback.
type again struct {
	c     *collections.Cache
	calls int
}

func (a *again) CollectionResolved(_ collections.Entry, err error) {
	if a.calls++; err != nil {
		if a.c.Wait(path, a) != nil {
			a.calls = -1
		}
	}
}

func TestWaitersAreToldOutsideOfTheLock(t *testing.T) {
	c, lookups := newCache(0)
	a := &again{c: c}
	require.NoError(t, c.Wait(path, a))
	c.Resolve(path, collections.Entry{}, errors.New("x"))
	require.EqualValues(t, 2, lookups.Load())
	c.Resolve(path, collections.Entry{ID: 8}, nil)
	require.Equal(t, 2, a.calls)
}

// A lookup may end before Lookup returns.
func TestLookupsMayEndAtOnce(t *testing.T) {
	var c *collections.Cache
	c = collections.New(collections.Options{Lookup: func(p collections.Path) {
		c.Resolve(p, collections.Entry{ID: 8},
			nil)
	}})
	w := &waiter{}
	require.NoError(t, c.Wait(path, w))
	require.Equal(t, []collections.Entry{{ID: 8}}, w.got)
}

func TestNames(t *testing.T) {
	require.Equal(t, "eu.users", path.String())
	require.Equal(t, "_default.x", collections.Path{Collection: "x"}.String())
	require.Equal(t, "x._default", collections.Path{Scope: "x"}.String())
}

func TestEachWaiterIsToldOnceUnderConcurrency(t *testing.T) {
	c, _ := newCache(0)
	var wg sync.WaitGroup
	ws := make([]*waiter, 64)
	for i := range ws {
		ws[i] = &waiter{}
		wg.Go(func() {
			if c.Wait(path, ws[i]) == nil && i%3 == 0 {
				c.Remove(path, ws[i])
			}
		})
		wg.Go(func() { c.Resolve(path, collections.Entry{ID: uint32(i)}, nil) })
		wg.Go(func() { c.Invalidate(path, uint32(i)) })
		if i%8 == 0 {
			wg.Go(c.Clear)
		}
	}
	wg.Wait()
	c.Resolve(path, collections.Entry{ID: 1}, nil)
	c.Resolve(path, collections.Entry{ID: 1}, nil) // the first one may have begun before a Clear
	for i, w := range ws {
		require.LessOrEqual(t, len(w.got), 1)
		if i%3 != 0 {
			require.Len(t, w.got, 1)
		}
	}
	require.Zero(t, c.Waiting())
}

func BenchmarkGet(b *testing.B) {
	c, _ := newCache(0)
	c.Resolve(path, collections.Entry{ID: 9}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Get(path); !ok {
			b.Fatal("not found")
		}
	}
}

// The default collection is known until a node does not know it: then it is looked up like others.
func TestTheDefaultCollectionIsLookedUpWhenANodeDoesNotKnowIt(t *testing.T) {
	var asked []collections.Path
	c := collections.New(collections.Options{Lookup: func(p collections.Path) { asked = append(asked, p) }})
	def := collections.Path{}
	require.False(t, c.Doubted())
	require.False(t, c.Invalidate(def, 7), "it has no other id")
	require.True(t, c.Invalidate(def, 0))
	require.False(t, c.Invalidate(def, 0), "one notices it")
	require.True(t, c.Doubted())
	_, ok := c.Get(def)
	require.False(t, ok)
	w := &told{}
	require.NoError(t, c.Wait(def, w))
	require.Len(t, asked, 1)
	c.Resolve(def, collections.Entry{}, errors.New("gone"))
	require.True(t, c.Doubted())
	require.NoError(t, c.Wait(def, w))
	c.Resolve(def, collections.Entry{ID: 8, ManifestUID: 3}, nil)
	require.Equal(t, []collections.Entry{{}, {ManifestUID: 3}}, w.entries, "its id is 0 whatever an answer says")
	require.False(t, c.Doubted())
	require.True(t, c.Invalidate(def, 0))
	c.Clear()
	require.False(t, c.Doubted(), "another bucket has one")
}

// told keeps what it is told.
type told struct{ entries []collections.Entry }

func (w *told) CollectionResolved(e collections.Entry, _ error) { w.entries = append(w.entries, e) }

// D212: a node refuses an id by a newer manifest than the one of a node that lags behind. What is kept of that ends
// with the next lookup that succeeds, and with the bucket, and is bounded.
func TestARefusalIsKeptUntilALookupSucceeds_D212(t *testing.T) {
	c, _ := newCache(0)
	old := collections.Entry{ID: 9, ManifestUID: 5}
	require.False(t, c.Refused(path, old))
	c.Refuse(path, 6)
	c.Refuse(path, 4)
	require.True(t, c.Refused(path, old))
	require.False(t, c.Refused(path, collections.Entry{ID: 10, ManifestUID: 6}))
	require.False(t, c.Refused(collections.Path{Scope: "eu", Collection: "carts"}, old))
	c.Resolve(path, collections.Entry{ID: 10, ManifestUID: 6}, nil)
	require.False(t, c.Refused(path, old))

	c.Refuse(path, 6)
	c.Clear()
	require.False(t, c.Refused(path, old), "the manifests of another bucket have other numbers")

	c.Refuse(path, 6)
	for i := range 1024 {
		c.Refuse(collections.Path{Scope: "s", Collection: strconv.Itoa(i)}, 6)
	}
	require.False(t, c.Refused(path, old), "the oldest are forgotten")
}
