package field_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// Retries are due at the moment at which their context ends, and the calls have not been told of its end yet: they are
// not sent any more, whether one is due or many are. When their timer is the first of the two, they are.
func TestARetryIsNotSentAfterItsContext_D246(t *testing.T) {
	// On one processor the goroutines that tell the calls run after the timer's.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// The scheduler may stop the timer's goroutine between its look and the write.
	most := 3
	if raceEnabled {
		// The detector's scheduler takes goroutines in any order: about 25 rounds, and 75 without the look.
		most = 50
	}
	for _, calls := range []int{1, 20} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			after := 0
			const rounds = 120
			for range rounds {
				if sendsAfterContext(t, calls) {
					after++
				}
			}
			require.LessOrEqual(t, after, most)
		})
	}
}

// sendsAfterContext reports whether a retry is written after the context has ended that ends when it is due.
func sendsAfterContext(t *testing.T, calls int) (sent bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 1), mock.Virtual())
		var ended, late atomic.Bool
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := m.Dial(ctx, network, addr)
			return readsOf{c, func(int) { late.Store(late.Load() || ended.Load()) }}, err
		}
		b := openMock(t, m, func(cfg *core.Config) { cfg.Net.Dial = dial })
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
		const delay = 20 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		in := kv.Common{Retry: retry.BestEffort{Backoff: retry.Constant(delay)}}
		for range 5 {
			context.AfterFunc(ctx, func() {}) // others are told before the calls are
		}
		var all []kv.Future[kv.GetResult]
		for i := range calls {
			all = append(all, kv.Start(ctx, b, kv.Get{Key: fmt.Appendf(nil, "k-%d", i), Common: in}))
		}
		time.AfterFunc(delay, func() {
			ended.Store(true)
			cancel()
		})
		for _, f := range all {
			_, err := f.Wait(within(t, 10*time.Second))
			require.ErrorIs(t, err, context.Canceled)
		}
		sent = late.Load()
	})
	return sent
}
