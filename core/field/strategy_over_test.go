package field_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A strategy, or a Classify hook, gives its answer at the moment at which the call's context ends, or its deadline
// passes. That ends the call, whatever the answer is and whichever of the two comes first.
func TestTheContextEndsACallBeforeItsStrategy_D252(t *testing.T) {
	for name, answer := range map[string]retry.Action{"stop": retry.Stop(), "again": retry.After(0)} {
		strategy := retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
			<-ctx.Done()
			return answer
		})
		t.Run(name, func(t *testing.T) {
			endsWithItsContext(t, kv.Common{Retry: strategy}, memd.StatusTmpFail, new(atomic.Pointer[func()]))
		})
	}
	t.Run("hook", func(t *testing.T) {
		var over atomic.Pointer[func()] // waits until the call is
		endsWithItsContext(t, kv.Common{}, memd.StatusKeyExists, &over, func(cfg *core.Config) {
			cfg.Retry.Classify = func(core.Answer) retry.Reason {
				(*over.Load())()
				return retry.Unknown
			}
		})
	})
}

// contextTime is how long the contexts of calls last.
const contextTime = 10 * time.Millisecond

// endsWithItsContext has each of many calls answered by that status, and end with its context or its deadline.
func endsWithItsContext(t *testing.T, in kv.Common, s memd.Status, over *atomic.Pointer[func()],
	change ...func(*core.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		b := openMock(t, m, change...)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(s))
		get := func(ctx context.Context, limit time.Duration, until func()) error {
			over.Store(&until)
			op := kv.Get{Key: []byte("k"), Common: in}
			op.Timeout = limit
			_, err := kv.Do(ctx, b, op)
			return err
		}
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(contextTime, cancel)
			require.ErrorIs(t, get(ctx, 0, func() { <-ctx.Done() }), cberr.RequestCanceled)
			limited, end := context.WithTimeout(t.Context(), contextTime)
			require.ErrorIs(t, get(limited, 0, func() { <-limited.Done() }), cberr.Timeout)
			end()
			require.ErrorIs(t, get(t.Context(), contextTime, func() { time.Sleep(contextTime) }), cberr.Timeout)
		}
	})
}
