package httpx

import (
	"net"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// TestOnlyTheFirstWriteCounts: net/http sends an idempotent request again by itself when the connection that it used
// again was closed, and a write may go on after its attempt has failed; neither may claim another attempt.
func TestOnlyTheFirstWriteCounts(t *testing.T) {
	var s retry.State
	w := &wire{state: &s}
	hooks := httptrace.ContextClientTrace(w.trace(t.Context()))
	hooks.WroteHeaderField("Host", nil)
	require.Equal(t, retry.PhaseWire, s.Phase())
	hooks.WroteHeaderField("X", nil)
	hooks.WroteHeaders()
	hooks.WroteHeaderField("Host", nil) // net/http's own replay
	require.EqualValues(t, 1, s.Epoch())
	require.EqualValues(t, 1, w.end())
	require.True(t, s.Answered(1))

	var late retry.State
	w = &wire{state: &late}
	hooks = httptrace.ContextClientTrace(w.trace(t.Context()))
	require.Zero(t, w.end())
	hooks.WroteHeaders() // of the attempt that has failed before
	require.Equal(t, retry.PhaseLocal, late.Phase())
	next := &wire{state: &late}
	httptrace.ContextClientTrace(next.trace(t.Context())).WroteHeaders()
	require.EqualValues(t, 1, next.end())
}

// TestNothingLeftIsProvedByAClosedConnection: an open one may still be written to.
func TestNothingLeftIsProvedByAClosedConnection(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := &Client{conns: map[net.Conn]struct{}{}}
	nc := &tracked{Conn: near, c: c}
	w := &wire{state: &retry.State{}}
	require.True(t, w.unsent()) // no connection at all
	w.given(httptrace.GotConnInfo{Conn: nc})
	require.False(t, w.unsent())
	nc.Close()
	require.True(t, w.unsent())
	_, err := nc.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.True(t, w.unsent())
	nc.writes.Add(1) // one that had begun before
	require.False(t, w.unsent())
	w.given(httptrace.GotConnInfo{Conn: near}) // of no request
	require.False(t, w.unsent())
}
