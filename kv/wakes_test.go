package kv

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who waits for a call is told when the next one has an outcome, or when a batch's has, and at the latest by Flush.
func TestWhenThoseWhoWaitAreTold(t *testing.T) {
	var w Wakes
	waiting := func() *Call {
		c := NewCall()
		c.block()
		return c
	}
	a, b, c := waiting(), waiting(), waiting()
	w.one(a)
	require.Empty(t, a.wake)
	w.one(b)
	require.Len(t, a.wake, 1)
	require.Empty(t, b.wake)
	var g group
	g.Add(3)
	w.add(&g)
	w.add(&g)
	require.Len(t, b.wake, 1)
	w.one(c)
	require.Equal(t, 4, w.Woken, "the batch is one")
	w.Flush()
	require.Len(t, c.wake, 1)
	w.Flush()
	require.Len(t, c.wake, 1)
	g.Done() // the two others were told: one more would panic
	g.Wait()
}

// No two calls' channels share a cache line.
func TestAChannelHasItsCacheLines(t *testing.T) {
	for range 1000 {
		c := NewCall()
		c.block()
		require.Zero(t, reflect.ValueOf(c.wake).Pointer()%64)
	}
}
