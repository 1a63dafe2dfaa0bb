package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the versions that nodes name the newest counts, and of those that name it the first by address; it is forgotten
// when it has come. Many signs give one value.
func TestSignsOfANewerMap(t *testing.T) {
	w := wanted{signs: make(chan struct{}, 1)}
	a, b := &node{addr: "a"}, &node{addr: "b"}
	w.named(version{1, 7}, b)
	w.named(version{1, 6}, a)
	require.Same(t, b, w.from)
	w.named(version{1, 7}, a)
	w.named(version{1, 7}, b)
	require.Same(t, a, w.from)
	w.named(version{2, 1}, b)
	require.Equal(t, version{2, 1}, w.version, "a newer epoch counts from the beginning")
	w.sign()
	require.True(t, w.some)
	require.Len(t, w.signs, 1)
	w.forget(version{1, 9}, false)
	require.Same(t, b, w.from, "it has not come")
	w.forget(version{2, 1}, false)
	require.Nil(t, w.from)
	w.named(version{3, 1}, a)
	w.forget(version{1, 1}, true)
	require.Nil(t, w.from, "another bucket counts its maps anew")
}

// A goroutine that takes an event before it happens is woken by it, and by no earlier one.
func TestAnEventWakesThoseWhoWait(t *testing.T) {
	var e event
	e.happens()
	first, same := e.next(), e.next()
	require.Equal(t, first, same)
	select {
	case <-first:
		t.Fatal("an earlier event")
	default:
	}
	e.happens()
	<-first
	require.NotEqual(t, first, e.next())
}
