package promises_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// Nodes that refuse SELECT_BUCKET give maps of the bucket over HTTP. The condition stands all the same, for key-value
// alone, and the log tells of it once.
func TestOnlyASelectedBucketClearsBucketAccessErrorNotAMapOverHTTP(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		h := &linesOf{messages: []string{"Terminal condition set", "Terminal condition cleared"}}
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}}, mock.Status(memd.StatusAccess))
		cl := client(t, m, func(c *core.Config) { c.Observe.Log = slog.New(h) })
		cl.Bucket("default")
		for range 60 {
			time.Sleep(time.Second)
			var err error
			failsAtOnce(t, cberr.BucketAccess, atOnce, func(ctx context.Context) error {
				err = calls["upsert"](ctx, cl)
				return err
			})
			require.True(t, reasons(t, err).Has(retry.BucketAccessError))
			require.NoError(t, calls["query"](within(t, time.Second), cl), "a path that works")
		}
		each := func(lines []map[string]string, message string) {
			nodes := map[string]bool{}
			for _, line := range lines {
				require.Equal(t, []string{message, "BUCKET_ACCESS_ERROR", "default"},
					valuesOf(line, "", "reason", "bucket"))
				nodes[line["endpoint"]] = true
			}
			require.Len(t, lines, 2)
			require.Len(t, nodes, 2)
		}
		each(h.take(), "Terminal condition set")
		in.Remove()
		time.Sleep(time.Minute)
		each(h.take(), "Terminal condition cleared")
		require.NoError(t, calls["upsert"](within(t, time.Second), cl))
	})
}

// One node refuses the bucket for ever, and connections of another one, which lets it be selected, come and go: for the
// one nothing changes, so that the log has one line about it.
func TestALineAboutATerminalConditionIsNotRepeatedWhileNothingChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		h := &linesOf{messages: []string{"Terminal condition set", "Terminal condition cleared"}}
		m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSelectBucket}},
			mock.Status(memd.StatusAccess))
		cl := client(t, m, func(c *core.Config) { c.Observe.Log = slog.New(h) })
		cl.Bucket("default")
		for range 20 {
			time.Sleep(5 * time.Second)
			require.NoError(t, m.ResetConns(1))
		}
		lines := h.take()
		require.Len(t, lines, 1)
		require.Equal(t, []string{"Terminal condition set", m.Node(0).Addr()}, valuesOf(lines[0], "", "endpoint"))
	})
}

// slowToSay is a handler that takes its time to say whether it is interested in a warning.
type slowToSay struct {
	*linesOf
	blocks atomic.Bool
	goOn   chan struct{}
}

func (h *slowToSay) Enabled(_ context.Context, l slog.Level) bool {
	if l == slog.LevelWarn && h.blocks.Load() {
		<-h.goOn
	}
	return true
}

// The lines of one node and bucket are in the order in which conditions were set and cleared, however slow the handler
// is.
func TestLinesAboutTerminalConditionsAreInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		const set, cleared = "Terminal condition set", "Terminal condition cleared"
		h := &slowToSay{linesOf: &linesOf{messages: []string{set, cleared}}, goOn: make(chan struct{})}
		refuse := func() *mock.Injection {
			in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}}, mock.Status(memd.StatusAccess))
			m.Network().ResetAll()
			time.Sleep(5 * time.Second)
			return in
		}
		cl := client(t, m, func(c *core.Config) { c.Observe.Log, c.KV.Connections = slog.New(h), 2 })
		cl.Bucket("default")
		time.Sleep(time.Second)
		for range 5 {
			h.blocks.Store(true)
			refuse().Remove()
			time.Sleep(5 * time.Second)
			in := refuse()
			h.blocks.Store(false)
			close(h.goOn)
			time.Sleep(5 * time.Second)
			in.Remove()
			time.Sleep(20 * time.Second)
			h.goOn = make(chan struct{})
		}
		last := map[string]string{}
		for _, line := range h.take() {
			require.NotEqual(t, last[line["endpoint"]], line[""], "each is told once")
			last[line["endpoint"]] = line[""]
		}
		require.Len(t, last, 2)
		for node, message := range last {
			require.Equal(t, cleared, message, node)
		}
	})
}
