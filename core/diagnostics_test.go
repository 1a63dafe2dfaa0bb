package core_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
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

func diagnosed(t *testing.T, f func(t *testing.T, m *mock.Cluster, c *core.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Bucket("other", 64), mock.Virtual())
		c := open(t, m)
		c.Bucket("default")
		c.Bucket("other")
		require.NoError(t, c.WaitReady(ctx(t)))
		f(t, m, c)
	})
}

// B96, G1: the report lists every connection with its state, without asking a node.
func TestDiagnostics_B96_G1(t *testing.T) {
	diagnosed(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		time.Sleep(10 * time.Second)
		began, noops := time.Now(), m.Frames(memd.OpNoop)
		r := c.Diagnostics()
		require.Equal(t, began, time.Now())
		require.Equal(t, noops, m.Frames(memd.OpNoop))
		require.Equal(t, core.Online, r.State)
		require.Equal(t, 2, r.Version)
		require.Len(t, r.Services["kv"], 6)
		for _, d := range r.Services["kv"] {
			require.Equal(t, "connected", d.State)
			require.NotEmpty(t, d.ID)
			require.NotEmpty(t, d.Local)
			require.Contains(t, d.Features, "Collections")
			require.Contains(t, []string{"default", "other"}, d.Namespace)
			require.NotNil(t, d.LastActivityUS)
			require.Less(t, *d.LastActivityUS, int64(10_000_000))
		}
		for _, svc := range []string{"query", "search", "views", "analytics", "mgmt"} {
			require.Len(t, r.Services[svc], 3, svc)
			require.True(t, slices.IsSortedFunc(r.Services[svc],
				func(a, b core.ConnectionDetails) int { return strings.Compare(a.Remote, b.Remote) }))
		}
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"last_activity_us"`)

		require.NoError(t, m.Kill(1))
		time.Sleep(100 * time.Millisecond)
		r = c.Diagnostics()
		require.Equal(t, core.Degraded, r.State)
		for _, d := range r.Services["kv"] {
			if d.Remote == m.Node(1).Addr() {
				require.Equal(t, "disconnected", d.State)
				require.Contains(t, d.Details, "refused")
			}
		}
		require.NoError(t, m.Kill(0))
		require.NoError(t, m.Kill(2))
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, core.Offline, c.Diagnostics().State)
	})
}

// B96, G2: every node of every service is asked, and one that does not answer is part of the report.
func TestPing_B96_G2(t *testing.T) {
	diagnosed(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		r, err := c.Ping(ctx(t), core.PingOptions{})
		require.NoError(t, err)
		_, rev := m.Revision()
		require.Equal(t, rev, r.ConfigRev)
		require.Len(t, r.Services["kv"], 6)
		for _, svc := range []string{"kv", "query", "search", "views", "analytics", "mgmt"} {
			require.NotEmpty(t, r.Services[svc], svc)
			for _, d := range r.Services[svc] {
				require.Equal(t, "ok", d.State, "%s %v", svc, d)
				require.Equal(t, svc == "kv", d.Local != "")
			}
		}
		m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpNoop}}, mock.Drop())
		time.Sleep(5 * time.Second) // connections that are not used are closed
		m.Network().Refuse(m.Node(2).ServiceAddr(mock.QueryService))
		began := time.Now()
		r, err = c.Ping(ctx(t), core.PingOptions{Services: []string{"kv", "query"}, Timeout: 300 * time.Millisecond})
		require.NoError(t, err)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		require.Len(t, r.Services, 2)
		states := map[string]int{}
		for _, ds := range r.Services {
			for _, d := range ds {
				states[d.State]++
				require.Equal(t, d.State == "ok", d.Error == "")
			}
		}
		require.Equal(t, map[string]int{"ok": 6, "timeout": 2, "error": 1}, states)
		_, err = c.Ping(ctx(t), core.PingOptions{Services: []string{"n1ql"}})
		require.ErrorIs(t, err, cberr.InvalidArgument)
	})
}

// T10, G3: what ready means can be said: everything or something, and which services.
func TestWaitReadyForWhatIsWanted_G3(t *testing.T) {
	diagnosed(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		require.NoError(t, c.WaitReady(ctx(t), core.Ready{Services: []string{"query", "mgmt"}}))
		time.Sleep(5 * time.Second)
		sick := m.Node(2).ServiceAddr(mock.QueryService)
		m.Network().Refuse(sick)
		require.NoError(t, c.WaitReady(ctx(t), core.Ready{State: core.Degraded, Services: []string{"query"}}))
		began := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { m.Network().Restore(sick) })
		require.NoError(t, c.WaitReady(ctx(t), core.Ready{Services: []string{"query"}}))
		require.Equal(t, 60*time.Millisecond, time.Since(began)) // the third look finds all well
		require.NoError(t, m.Kill(1))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, c.WaitReady(ctx(t), core.Ready{State: core.Degraded}))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.WaitReady(short)
		require.ErrorContains(t, err, "refused")
		require.ErrorIs(t, c.WaitReady(ctx(t), core.Ready{State: core.Offline}), cberr.InvalidArgument)
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Noop{})
		require.NoError(t, err)
	})
}

// G4: what was read since the last look counts too, so that the answer to a call is an activity at once.
func TestActivityIsKnownAtOnce_G4(t *testing.T) {
	diagnosed(t, func(t *testing.T, _ *mock.Cluster, c *core.Cluster) {
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		known := 0
		for _, d := range c.Diagnostics().Services["kv"] {
			if d.LastActivityUS != nil {
				known++
			}
		}
		require.Equal(t, 1, known)
	})
}
