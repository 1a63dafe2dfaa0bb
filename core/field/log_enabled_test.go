package field_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
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

// leveled is a log handler whose Enabled does f first. It keeps the messages.
type leveled struct {
	level slog.LevelVar
	asked atomic.Int64
	f     func()

	mu    sync.Mutex
	lines []string
}

func (h *leveled) Enabled(_ context.Context, l slog.Level) bool {
	h.asked.Add(1)
	if h.f != nil {
		h.f()
	}
	return l >= h.level.Level()
}

func (h *leveled) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, r.Message)
	return nil
}

func (h *leveled) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *leveled) WithGroup(string) slog.Handler      { return h }

// said is how many lines have the text.
func (h *leveled) said(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// D263: a log handler's Enabled that blocks delays no call. The goroutine that ends calls at their deadlines asked it
// for each of them, and waited for the answer.
func TestALogThatIsSlowToSayWhatItWantsDelaysNoCall_D263(t *testing.T) {
	var gate chan struct{}
	var shut atomic.Bool
	h := &leveled{f: func() {
		if shut.Load() {
			<-gate
		}
	}}
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		gate = make(chan struct{}) // of the bubble
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
		shut.Store(true)
		defer close(gate)
		var wg sync.WaitGroup
		for i := range 200 {
			limit := 100*time.Millisecond + time.Duration(i%10)*time.Millisecond
			wg.Go(func() {
				began := time.Now()
				_, err := kv.Do(t.Context(), b, kv.Get{
					Key: []byte("k"), Common: kv.Common{Timeout: limit, Retry: retry.BestEffort{}},
				})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.Equal(t, limit, time.Since(began))
			})
		}
		wg.Wait()
	}, func(c *core.Config) { c.Observe.Log = slog.New(h) })
}

// The level of a log may be changed at any time. Until then the handler is asked ten times a second at most, however
// many calls fail.
func TestALogsLevelMayBeChanged(t *testing.T) {
	h := &leveled{}
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
		fail := func() {
			for range 10 {
				_, err := kv.Do(t.Context(), b, kv.Get{
					Key: []byte("k"), Common: kv.Common{Timeout: 100 * time.Millisecond, Retry: always()},
				})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			}
		}
		before := h.asked.Load()
		fail()
		require.Less(t, h.asked.Load()-before, int64(25))
		require.Zero(t, h.said("Retrying"))
		h.level.Set(slog.LevelDebug)
		time.Sleep(100 * time.Millisecond)
		fail()
		synctest.Wait()
		require.Greater(t, h.said("Retrying"), 900)
		h.level.Set(slog.LevelInfo)
		fail() // some lines were taken in before it was asked
		synctest.Wait()
		n := h.said("Retrying")
		fail()
		synctest.Wait()
		require.Equal(t, n, h.said("Retrying"))
	}, func(c *core.Config) { c.Observe.Log = slog.New(h) })
}

// always is a strategy that retries each millisecond.
func always() retry.Strategy {
	return retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
		return retry.After(time.Millisecond)
	})
}
