package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// counters is so many callers, each of whom counts up a document of its own and keeps how often it was told that it
// has, and how often that is in doubt.
type counters struct {
	b             *core.Bucket
	n             int
	told, inDoubt []uint64
}

// increment goes on until stop is called.
func (c *counters) increment() (stop func()) {
	if c.told == nil {
		c.told, c.inDoubt = make([]uint64, c.n), make([]uint64, c.n)
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	for w := range c.n {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				_, err := kv.Do(context.Background(), c.b, kv.Increment{
					Key: fmt.Appendf(nil, "n%d", w), Delta: 1,
					Initial: new(uint64),
				})
				var e *kv.Error
				if err == nil {
					c.told[w]++
				} else if !errors.As(err, &e) || e.Ambiguous() {
					c.inDoubt[w]++
				}
			}
		})
	}
	return func() {
		close(over)
		wg.Wait()
	}
}

// check compares that with the documents.
func (c *counters) check(t *testing.T) {
	require.NotEqual(t, make([]uint64, c.n), c.inDoubt, "some were in flight")
	for w := range c.n {
		res, err := kv.Do(ctx(t), c.b, kv.Increment{Key: fmt.Appendf(nil, "n%d", w)})
		applied := uint64(0)
		if !errors.Is(err, cberr.DocumentNotFound) {
			require.NoError(t, err)
			applied = res.Value + 1 // the first has made it 0
		}
		require.GreaterOrEqual(t, applied, c.told[w], w)
		require.LessOrEqual(t, applied, c.told[w]+c.inDoubt[w], w)
	}
}

// Whatever happens to the connections, what a counter says is what its callers were told, but for calls in doubt.
func TestCountersOverLostConnectionsAreAppliedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual(), mock.Latency(time.Millisecond))
		c := open(t, m, func(c *core.Config) { c.KV.Connections = 2 })
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		reset := func(which ...int) func() {
			return func() {
				links := m.Network().Links()
				for _, i := range which {
					links[i].Reset()
				}
			}
		}
		password := 0
		troubles := []func(){
			reset(0), reset(1), reset(0, 1),
			func() {
				password++
				require.NoError(t, m.SetPassword(mock.DefaultUser, fmt.Sprint(password)))
				require.NoError(t, c.SetCredentials(core.Credentials{
					Username: mock.DefaultUser,
					Password: core.NewSecret(fmt.Sprint(password)),
				}))
			},
			func() { m.BumpRevision() },
		}
		counts := counters{b: b, n: 300}
		for _, trouble := range troubles {
			stop := counts.increment()
			time.Sleep(60*time.Millisecond + 500*time.Microsecond) // every request is on its way to the node or back
			require.Len(t, m.Network().Links(), 2)
			trouble()
			time.Sleep(40 * time.Millisecond)
			stop()
			time.Sleep(20 * time.Second)
		}
		counts.check(t)
		require.Len(t, b.Status(), 2)
	})
}

// The same over sockets, with one node and with many.
func TestCountersOverLostSocketsAreAppliedOnce(t *testing.T) {
	for _, nodes := range []int{1, 18} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(nodes), mock.Bucket("default", 64))
			c := open(t, m, func(c *core.Config) { c.Net.Dial = nil })
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			counts := counters{b: b, n: 150}
			stop := counts.increment()
			for range 3 {
				in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpIncrement}, Times: 1}, mock.CloseAfter())
				require.NoError(t, in.WaitFired(ctx(t), 1))
				time.Sleep(20 * time.Millisecond)
			}
			stop()
			counts.check(t)
		})
	}
}
