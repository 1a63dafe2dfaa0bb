package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
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
	const workers = 150
	var told, doubt [workers]uint64
	over := make(chan struct{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				_, err := kv.Do(context.Background(), b, kv.Increment{Key: fmt.Appendf(nil, "n%d", w), Delta: 1, Initial: new(uint64)})
				var e *kv.Error
				if err == nil {
					told[w]++
				} else if !errors.As(err, &e) || e.Ambiguous() {
					doubt[w]++
				}
			}
		})
	}
	require.Eventually(t, func() bool { return len(b.Status()) == 2 }, 10*time.Second, time.Millisecond, "it has two connections")
	for range 2 {
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpIncrement}, Times: 1}, mock.CloseAfter())
		require.NoError(t, in.WaitFired(ctx(t), 1))
	}
	close(over)
	wg.Wait()
	require.NotEqual(t, [workers]uint64{}, doubt, "some were in flight")
	for w := range workers {
		res, err := kv.Do(ctx(t), b, kv.Increment{Key: fmt.Appendf(nil, "n%d", w)})
		require.NoError(t, err)
		applied := res.Value + 1 // the first has made it 0
		require.GreaterOrEqual(t, applied, told[w], w)
		require.LessOrEqual(t, applied, told[w]+doubt[w], w)
	}
}
