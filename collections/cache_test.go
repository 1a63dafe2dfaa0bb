package collections_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

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
	return collections.New(collections.Options{MaxWaiters: limit, Lookup: func(collections.Path) { lookups.Add(1) }}), &lookups
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

func TestB24LeavingDisturbsNobody(t *testing.T) {
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
	for _, p := range []collections.Path{{}, {Scope: "_default"}, {Collection: "_default"}, {Scope: "_default", Collection: "_default"}} {
		e, ok := c.Get(p)
		require.True(t, ok)
		require.Zero(t, e)
		require.True(t, p.IsDefault())
		require.Equal(t, "_default._default", p.String())
	}
	require.Zero(t, lookups.Load())
	require.False(t, collections.Path{Collection: "x"}.IsDefault())
}

func TestD94WaitersAreBounded(t *testing.T) {
	c, _ := newCache(2)
	require.NoError(t, c.Wait(path, &waiter{}))
	require.NoError(t, c.Wait(path, &waiter{}))
	require.ErrorIs(t, c.Wait(path, &waiter{}), collections.ErrTooManyWaiters)
	c.Resolve(path, collections.Entry{}, errors.New("x"))
	require.NoError(t, c.Wait(path, &waiter{}))
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
	require.NoError(t, c.Wait(path, &waiter{}))
	c.Resolve(path, collections.Entry{ID: 9}, nil)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Get(path) }))
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
	}
	wg.Wait()
	c.Resolve(path, collections.Entry{ID: 1}, nil)
	for i, w := range ws {
		require.LessOrEqual(t, len(w.got), 1)
		if i%3 != 0 {
			require.Len(t, w.got, 1)
		}
	}
	require.Zero(t, c.Waiting())
}
