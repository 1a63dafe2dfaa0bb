package field_test

import (
	"context"
	"os"
	"regexp"
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
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// guidesMeters are the instruments that docs/observability.md lists.
func guidesMeters(t *testing.T) (names []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n## Metrics\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		if cell, is := strings.CutPrefix(line, "| `"); is {
			cell, _, _ = strings.Cut(cell, " | ")
			names = append(names, regexp.MustCompile("(?:db|couchbase)[.][a-z_.]+").FindAllString(cell, -1)...)
		}
	}
	return names
}

// Each instrument of the guide has a value when there is something to tell: retries of each sort, what waits where,
// connections that were lost, late answers, maps.
func TestEveryInstrumentOfTheGuideHasAValue_D154(t *testing.T) {
	want := guidesMeters(t)
	require.Greater(t, len(want), 15)
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, rec := metered(t, m, func(cfg *core.Config) { cfg.Observe.Conventions = core.ConventionsBoth })
		b, key := c.Bucket("default"), []byte("k")
		met := map[string]bool{}
		look := func() {
			synctest.Wait()
			for name, v := range rec.collect(t) {
				met[strings.Fields(name)[0]] = met[strings.Fields(name)[0]] || v != 0
			}
		}
		write := func(s retry.Strategy) error {
			op := kv.Upsert{Key: key, Value: []byte("{}"), Common: kv.Common{Timeout: time.Second, Retry: s}}
			return second(kv.Do(context.Background(), b, op))
		}
		require.NoError(t, write(nil))
		set := mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}

		m.Inject(mock.Match{Opcodes: set.Opcodes, Times: 2}, mock.Status(memd.StatusTmpFail))
		f := kv.Start(t.Context(), b, kv.Upsert{Key: key})
		look() // parked
		require.NoError(t, second(f.Wait(t.Context())))
		empty := policy.NewStore(1, time.Hour, policy.Costs{Server: 2, Client: 2, Timeout: 2, Throttling: 2})
		m.Inject(set, mock.Status(memd.StatusTmpFail))
		require.ErrorIs(t, write(policy.Bucket{Store: empty}), retry.ErrThrottled)

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Delay(1500*time.Millisecond))
		f2 := kv.Start(t.Context(), b, kv.Get{Key: key, Common: kv.Common{Timeout: time.Second}})
		look() // in flight
		require.ErrorIs(t, second(f2.Wait(t.Context())), cberr.UnambiguousTimeout)
		time.Sleep(time.Second) // an orphan
		slow := mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}
		m.Inject(slow, mock.Delay(100*time.Millisecond))
		hedged := kv.Get{Key: key, Hedge: &kv.Hedge{MaxAttempts: 2, Delay: time.Millisecond}}
		require.NoError(t, second(kv.Do(t.Context(), b, hedged)))
		require.NoError(t, drain(c.Query(t.Context(), &query.Request{Statement: "SELECT 1"})))

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}, Times: 2}, mock.Delay(50*time.Millisecond))
		m.DisconnectAll()
		synctest.Wait()
		f = kv.Start(t.Context(), b, kv.Upsert{Key: key})
		look() // queued
		require.NoError(t, second(f.Wait(t.Context())))
		for i := range m.Nodes() {
			require.NoError(t, m.Kill(i))
		}
		require.Error(t, write(nil)) // transparent
		look()
		for _, name := range want {
			switch name {
			case "db.client.operation.duration", "db.couchbase.operations", "couchbase.client.dispatch.duration":
				require.NotEmpty(t, rec.units[name], name)
			default:
				require.True(t, met[name], name)
			}
		}
	})
}
