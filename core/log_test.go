package core_test

import (
	"context"
	"errors"
	"log/slog"
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
)

// stuckLog is a log handler that does not come back from a line while it is shut.
type stuckLog struct {
	shut    atomic.Bool
	blocked atomic.Int32
	gate    chan struct{}

	mu     sync.Mutex
	causes []string // what lines said of them
}

func (h *stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (h *stuckLog) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *stuckLog) WithGroup(string) slog.Handler            { return h }
func (h *stuckLog) Handle(_ context.Context, r slog.Record) error {
	if h.shut.Load() {
		h.blocked.Add(1)
		<-h.gate
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "cause" {
			h.causes = append(h.causes, a.Value.String())
		}
		return true
	})
	return nil
}

func (h *stuckLog) open() {
	if h.shut.CompareAndSwap(true, false) {
		close(h.gate)
	}
}

// stuck runs f against a cluster whose client has a log handler that does not come back: from the first line on, or
// from when the bucket is ready.
func stuck(t *testing.T, fromTheFirst bool, f func(t *testing.T, m *mock.Cluster, c *core.Cluster, h *stuckLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &stuckLog{gate: make(chan struct{})}
		h.shut.Store(fromTheFirst)
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m, func(cfg *core.Config) { cfg.Observe.Log = slog.New(h) })
		t.Cleanup(h.open)
		time.AfterFunc(time.Minute, h.open) // so that what it does hold up fails, and does not hang
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		synctest.Wait()
		h.shut.Store(true)
		f(t, m, c, h)
	})
}

// A log handler that blocks is the user's code: calls end by their deadlines, others have their answers at once, and
// Close comes back.
func TestALogHandlerThatBlocksHoldsUpNothing(t *testing.T) {
	for name, fromTheFirst := range map[string]bool{"from the first line": true, "from a retry": false} {
		t.Run(name, func(t *testing.T) {
			stuck(t, fromTheFirst, func(t *testing.T, m *mock.Cluster, c *core.Cluster, h *stuckLog) {
				b := c.Bucket("default")
				m.Inject(only(memd.OpSet, 0), mock.NotMyVBucket(true, nil))
				ended := make(chan time.Duration, 3)
				began := time.Now()
				for range cap(ended) {
					go func() {
						_, err := kv.Do(t.Context(), b, kv.Upsert{
							Key:    []byte("k"),
							Common: kv.Common{Timeout: time.Second},
						})
						if !errors.Is(err, cberr.UnambiguousTimeout) {
							t.Error(err)
						}
						ended <- time.Since(began)
					}()
				}
				synctest.Wait()
				require.EqualValues(t, 1, h.blocked.Load(), "one line at a time")
				for i := range 64 { // on every node's connection
					_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte{byte(i)}})
					require.ErrorIs(t, err, cberr.DocumentNotFound)
				}
				require.Zero(t, time.Since(began))
				for range cap(ended) {
					require.Equal(t, time.Second, <-ended)
				}
				began = time.Now()
				require.ErrorContains(t, c.Close(), "the log's handler has not come back")
				require.Equal(t, time.Second, time.Since(began))
			})
		})
	}
}

// Close waits for lines within its own limit.
func TestCloseTimeoutBoundsTheLogToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stuckLog{gate: make(chan struct{})}
		h.shut.Store(true)
		defer h.open()
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		cfg.Observe.Log, cfg.CloseTimeout = slog.New(h), 300*time.Millisecond
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		began := time.Now()
		require.Error(t, c.Close())
		require.Equal(t, 300*time.Millisecond, time.Since(began))
	})
}

// The error in a line is as it was when the line was written, although the call's caller goes on with the call's own.
func TestALoggedErrorIsNotWrittenTo(t *testing.T) {
	stuck(t, false, func(t *testing.T, m *mock.Cluster, c *core.Cluster, h *stuckLog) {
		m.Inject(only(memd.OpSet, 0), mock.ErrorBody(memd.StatusTmpFail, []byte(`{"error":{"context":"what the server says"}}`)))
		for range 20 {
			_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: never}})
			require.ErrorContains(t, err, "what the server says")
		}
		h.open()
		synctest.Wait()
		require.Len(t, h.causes, 20)
		for _, text := range h.causes {
			require.Contains(t, text, "status 0x86")
			require.NotContains(t, text, "what the server says")
		}
	})
}

// askedLog is a log handler that does f when it is asked for a line of that level.
type askedLog struct {
	slog.Handler
	level slog.Level
	f     func()
}

func (h askedLog) Enabled(_ context.Context, level slog.Level) bool {
	if level == h.level {
		h.f()
	}
	return false
}

// A log handler may look at the client, also where it is only asked whether it wants a line.
func TestALogHandlerMayLookAtTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b atomic.Pointer[core.Bucket]
		var asked atomic.Int32
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual())
		c := open(t, m, func(cfg *core.Config) {
			cfg.Observe.Log = slog.New(askedLog{slog.DiscardHandler, slog.LevelInfo, func() {
				if b := b.Load(); b != nil {
					asked.Add(1)
					b.Status()
				}
			}})
		})
		b.Store(c.Bucket("default"))
		require.NoError(t, b.Load().WaitReady(ctx(t)))
		require.NoError(t, m.Kill(0))
		require.NoError(t, m.Kill(1))
		time.Sleep(time.Minute) // lost, tried again, and the seeds asked again
		require.Greater(t, asked.Load(), int32(10))
	})
}
