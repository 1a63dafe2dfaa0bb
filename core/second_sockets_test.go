package core_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The same over sockets, on two processors: there the readers wait in system calls of their own, and connections end meanwhile.
func TestACrowdsCallsAreAppliedOnceOverSockets(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64))
	c := open(t, m, func(c *core.Config) { c.Dial = nil })
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	counts := counters{b: b, n: 150}
	stop := counts.increment()
	require.Eventually(t, func() bool { return len(b.Status()) == 2 }, 10*time.Second, time.Millisecond, "it has two connections")
	for range 2 {
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpIncrement}, Times: 1}, mock.CloseAfter())
		require.NoError(t, in.WaitFired(ctx(t), 1))
	}
	stop()
	counts.check(t)
}

// The same with so many nodes that one goroutine writes to all of them. Connections end while it is about to.
func TestACrowdsCallsToManyNodesAreAppliedOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	m := mock.Start(t, mock.Nodes(18), mock.Bucket("default", 64))
	c := open(t, m, func(c *core.Config) { c.Dial = nil })
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	require.Eventually(t, func() bool {
		n := 0
		for _, s := range b.Status() {
			if s.Connected {
				n++
			}
		}
		return n == 18
	}, 10*time.Second, time.Millisecond)
	counts := counters{b: b, n: 300}
	stop := counts.increment()
	for range 4 {
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpIncrement}, Times: 1}, mock.CloseAfter())
		require.NoError(t, in.WaitFired(ctx(t), 1))
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	counts.check(t)
}
