package field_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// Calls that end, by deadline and by cancellation, at the instant of their next attempt: the goroutine that makes the
// span, the report of slow operations and the error reads nothing that the one that sends the call again writes. The
// race detector is the judge.
func TestCallsThatEndWhenTheyAreSentAgain_D159(t *testing.T) {
	const calls, step = 300, 10 * time.Millisecond
	again := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.After(step) })
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := reporting(t, m, func(cfg *core.Config) {
			cfg.Observe.TracerProvider, cfg.Observe.Thresholds.KV = &spans{}, time.Millisecond
		})
		b := c.Bucket("default")
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				ctx, limit := context.Background(), time.Duration(2+i%5)*step
				if i%2 == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx)
					stop := time.AfterFunc(limit, cancel)
					defer stop.Stop()
					limit = time.Minute
				}
				in := kv.Common{Timeout: limit, Retry: again}
				_, err := kv.Do(ctx, b, kv.Upsert{Common: in, Key: fmt.Appendf(nil, "k-%d", i)})
				require.True(t, errors.Is(err, cberr.Timeout) || errors.Is(err, context.Canceled), "%v", err)
			})
		}
		wg.Wait()
	})
}
