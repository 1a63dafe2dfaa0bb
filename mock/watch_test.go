package mock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Watchers of answers learn what a client gets: the status on the wire, the fault behind it, and what gets no answer.
func TestWatchersOfAnswersLearnWhatClientsGet(t *testing.T) {
	c := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 4))
	r := login(t, c, baseFeatures...)
	answers := make(chan mock.Answered, 8)
	stop := c.WatchAnswers(func(a mock.Answered) { answers <- a })
	next := func() mock.Answered {
		a := <-answers
		require.NotZero(t, a.At)
		require.Positive(t, a.Took)
		require.Equal(t, "default", a.Bucket)
		require.Equal(t, "_default._default", a.Collection)
		require.Equal(t, "k", a.Document)
		require.Equal(t, memd.OpGet, a.Opcode)
		return a
	}

	require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("k")).Status)
	a := next()
	require.Equal(t, memd.StatusKeyNotFound, a.Status)
	require.Empty(t, a.Fault)
	require.False(t, a.Silent || a.Closed)

	c.Inject(mock.Match{Times: 1}, mock.Combine(mock.Delay(time.Millisecond), mock.Status(memd.StatusTmpFail)))
	require.Equal(t, memd.StatusTmpFail, r.call(getPacket("k")).Status)
	a = next()
	require.Equal(t, memd.StatusTmpFail, a.Status, "the fault has made it")
	require.Equal(t, "delay, status ETMPFAIL", a.Fault)
	require.GreaterOrEqual(t, a.Took, time.Millisecond)

	c.Inject(mock.Match{Times: 1}, mock.Drop())
	r.send(getPacket("k"))
	a = next()
	require.True(t, a.Silent)
	require.Equal(t, "drop", a.Fault)

	c.Inject(mock.Match{Times: 1}, mock.CloseAfter())
	r.send(getPacket("k"))
	a = next()
	require.True(t, a.Silent && a.Closed)

	stop()
	stop()
	again := login(t, c, baseFeatures...)
	again.call(getPacket("k"))
	require.Empty(t, answers)
}

// Connections says whose the connections are, Map where vbuckets are, and nodes say what they do on purpose.
func TestConnectionsMapsAndStatesCanBeSeen(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(1), mock.Bucket("default", 4))
	require.Empty(t, c.Connections())
	login(t, c, baseFeatures...)
	conns := c.Connections()
	require.Len(t, conns, 1)
	require.Equal(t, mock.DefaultUser, conns[0].User)
	require.Equal(t, "default", conns[0].Bucket)
	require.Contains(t, conns[0].Peer, "127.0.0.1:")
	require.NotZero(t, conns[0].Conn)
	require.False(t, conns[0].TLS)

	rows := c.Map("default")
	require.Len(t, rows, 4)
	_, nodes, err := c.Where("default", "k")
	require.NoError(t, err)
	require.Contains(t, rows, nodes)
	require.Nil(t, c.Map("none"))

	require.NoError(t, c.SetSuspended(1, true))
	require.NoError(t, c.SetConnFaults(mock.ConnFaults{Latency: time.Second}, 0))
	require.True(t, c.Node(1).Suspended())
	require.False(t, c.Node(0).Suspended())
	require.Equal(t, time.Second, c.Node(0).ConnFaults().Latency)
	require.Zero(t, c.Node(1).ConnFaults())
}
