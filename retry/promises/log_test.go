package promises_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// linesOf is a handler that keeps the lines with one of its messages.
type linesOf struct {
	messages []string
	mu       sync.Mutex
	lines    []map[string]string
}

func (h *linesOf) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *linesOf) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *linesOf) WithGroup(string) slog.Handler                { return h }

func (h *linesOf) Handle(_ context.Context, r slog.Record) error {
	for _, m := range h.messages {
		if m != r.Message {
			continue
		}
		line := map[string]string{"": r.Message, "level": r.Level.String()}
		r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.String(); return true })
		h.mu.Lock()
		h.lines = append(h.lines, line)
		h.mu.Unlock()
	}
	return nil
}

// take gives the lines since the last time, once they are written.
func (h *linesOf) take() []map[string]string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// TestATerminalConditionIsLoggedWhenItIsSetAndCleared, once for each node and bucket, however many connections and
// attempts meet it.
func TestATerminalConditionIsLoggedWhenItIsSetAndCleared(t *testing.T) {
	const set, cleared = "Terminal condition set", "Terminal condition cleared"
	logging := func(h *linesOf) func(*core.Config) {
		return func(c *core.Config) { c.Observe.Log, c.KV.Connections = slog.New(h), 3 }
	}
	each := func(t *testing.T, n int, lines []map[string]string, message, level, reason string) {
		require.Len(t, lines, n)
		nodes := map[string]bool{}
		for _, line := range lines {
			require.Equal(t, []string{message, level, reason, "default"},
				valuesOf(line, "", "level", "reason", "bucket"))
			require.Equal(t, message == set, line["cause"] != "")
			nodes[line["endpoint"]] = true
		}
		require.Len(t, nodes, n)
	}
	t.Run("login", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			h := &linesOf{messages: []string{set, cleared}}
			cl := client(t, m, wrongPassword, logging(h))
			cl.Bucket("default")
			time.Sleep(time.Minute)
			each(t, 2, h.take(), set, "WARN", "AUTHENTICATION_ERROR")
			require.NoError(t, cl.SetCredentials(core.Credentials{
				Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
			}))
			time.Sleep(time.Minute)
			each(t, 2, h.take(), cleared, "INFO", "AUTHENTICATION_ERROR")
		})
	})
	t.Run("bucket", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			h := &linesOf{messages: []string{set, cleared}}
			cl := client(t, m, logging(h))
			for i := range 2 { // maps over HTTP, which need no SELECT_BUCKET, would clear it
				m.Network().Refuse(m.Node(i).ManagementAddr())
			}
			in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}}, mock.Status(memd.StatusAccess))
			cl.Bucket("default")
			time.Sleep(time.Minute)
			each(t, 2, h.take(), set, "WARN", "BUCKET_ACCESS_ERROR")
			in.Remove()
			time.Sleep(time.Minute)
			each(t, 2, h.take(), cleared, "INFO", "BUCKET_ACCESS_ERROR")
		})
	})
	t.Run("certificate", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			h := &linesOf{messages: []string{set, cleared}}
			client(t, m, encrypted(m), trustsNoCA, logging(h)).Bucket("default")
			time.Sleep(time.Minute)
			each(t, 4, h.take(), set, "WARN", "TLS_ERROR") // of nodes, and of maps over HTTP
		}, mock.TLS())
	})
}

// TestCallsThatGiveUpAreGatheredInTheLog: one line for an operation and a reason at once, and then one at most every
// 10 s, with the count since the last.
func TestCallsThatGiveUpAreGatheredInTheLog(t *testing.T) {
	h := &linesOf{messages: []string{"Gave up retrying"}}
	virtual(t, func(t *testing.T, w *world) {
		fails := func(op memd.Opcode, st memd.Status, n int) {
			in := w.refuses(op, 0, st)
			defer in.Remove()
			for range n {
				if op == memd.OpGet {
					_, _, _ = w.get(stops{})
				} else {
					_, _, _ = w.upsert(stops{})
				}
			}
		}
		fails(memd.OpSet, memd.StatusLocked, 1)
		lines := h.take()
		require.Len(t, lines, 1)
		require.Equal(t, []string{"INFO", "upsert", "KV_LOCKED", "1", "0"},
			valuesOf(lines[0], "level", "operation", "reason", "count", "retries"))
		require.NotEmpty(t, lines[0]["operation_id"])
		require.NotEmpty(t, lines[0]["elapsed"])
		fails(memd.OpSet, memd.StatusLocked, 20)
		require.Empty(t, h.take())
		fails(memd.OpSet, memd.StatusTmpFail, 2)
		fails(memd.OpGet, memd.StatusTmpFail, 2)
		require.Len(t, h.take(), 2, "another reason, and another operation")
		time.Sleep(10 * time.Second)
		require.Empty(t, h.take(), "nothing is told of while nothing happens")
		fails(memd.OpSet, memd.StatusLocked, 1)
		lines = h.take()
		require.Len(t, lines, 1)
		require.Equal(t, "21", lines[0]["count"])
	}, func(c *core.Config) { c.Observe.Log = slog.New(h) })
}
