package field_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// journal is a log in memory.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// report is what the lines with a message report, the newest first.
func (j *journal) report(t *testing.T, msg string) (all []map[string]service) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.buf.String()) {
		var l struct{ Msg, Level, Report string }
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Msg != msg {
			continue
		}
		require.Equal(t, l.Level, map[bool]string{true: "WARN", false: "INFO"}[strings.HasPrefix(msg, "Orphan")])
		var r map[string]service
		require.NoError(t, json.Unmarshal([]byte(l.Report), &r), l.Report)
		all = append([]map[string]service{r}, all...)
	}
	return all
}

// service is the report of one service, in the form of SDK RFC 67.
type service struct {
	Count int              `json:"total_count"`
	Top   []map[string]any `json:"top_requests"`
}

func reporting(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) (*core.Cluster, *journal) {
	t.Helper()
	j := &journal{}
	c, _ := mocked(t, m, append([]func(*core.Config){func(cfg *core.Config) {
		cfg.Observe.TracerProvider, cfg.Observe.Log = nil, slog.New(slog.NewJSONHandler(j, nil))
	}}, change...)...)
	return c, j
}

// Operations that take longer than their service's threshold are reported as the RFC's JSON, with real durations, also
// those that fail and those without a context that can end; what is left comes with Close.
func TestSlowOperationsAreReported_D155(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, j := reporting(t, m, func(cfg *core.Config) { cfg.Observe.ThresholdSample = 2 })
		b := c.Bucket("default")
		fast := func() { require.NoError(t, second(kv.Do(within(t, time.Minute), b, kv.Upsert{Key: []byte("k")}))) }
		fast()
		delay := func(op memd.Opcode, d time.Duration) {
			m.Inject(mock.Match{Opcodes: []memd.Opcode{op}, Times: 1}, mock.Delay(d))
		}
		delay(memd.OpGet, 600*time.Millisecond)
		res, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		delay(memd.OpGet, 499*time.Millisecond)
		require.NoError(t, second(kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
		delay(memd.OpSet, 700*time.Millisecond)
		fast()
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpTouch}, Times: 1}, mock.Drop())
		touch := kv.Touch{Key: []byte("k"), Common: kv.Common{Timeout: 550 * time.Millisecond}}
		require.Error(t, second(kv.Do(t.Context(), b, touch)))
		m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Delay: 1500 * time.Millisecond})
		require.NoError(t, drain(c.Query(t.Context(), &query.Request{Statement: "SELECT 1", ClientContextID: "me"})))
		require.Empty(t, j.report(t, "Operations over threshold"), "the interval is not over")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		all := j.report(t, "Operations over threshold")
		require.Len(t, all, 1)
		of := all[0]["kv"]
		require.Equal(t, 3, of.Count, "all are counted")
		require.Len(t, of.Top, 2, "the slowest are shown")
		require.Equal(t, "upsert", of.Top[0]["operation_name"])
		require.Equal(t, "get", of.Top[1]["operation_name"])
		for _, top := range of.Top {
			requireBetween(t, top, "total_duration_us", 600e3, 800e3)
			requireBetween(t, top, "last_dispatch_duration_us", 600e3, 701e3)
			requireBetween(t, top, "total_dispatch_duration_us", top["last_dispatch_duration_us"].(float64), 701e3)
			require.Regexp(t, "^0x[0-9a-f]+$", top["operation_id"])
			require.Equal(t, res.LocalAddr() != "", top["last_local_socket"] != nil)
			require.NotEmpty(t, top["last_remote_socket"])
			require.Regexp(t, "^[0-9a-f]{16}/[0-9a-f]{16}$", top["last_local_id"])
			require.Positive(t, top["timeout_ms"])
			require.NotContains(t, top, "encode_duration_us", "values come encoded")
		}
		sql := all[0]["query"]
		require.Equal(t, 1, sql.Count)
		requireBetween(t, sql.Top[0], "total_duration_us", 1500e3, 1600e3)
		requireBetween(t, sql.Top[0], "last_dispatch_duration_us", 1500e3, 1600e3)
		require.Equal(t, "me", sql.Top[0]["operation_id"])
		require.NotEmpty(t, sql.Top[0]["last_local_socket"])

		delay(memd.OpGet, 800*time.Millisecond)
		require.NoError(t, second(kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})))
		require.NoError(t, c.Close())
		all = j.report(t, "Operations over threshold")
		require.Len(t, all, 2, "Close writes what is left")
		require.Equal(t, 1, all[0]["kv"].Count)
	})
}

func requireBetween(t *testing.T, top map[string]any, field string, least, most float64) {
	t.Helper()
	v, ok := top[field].(float64)
	require.True(t, ok, "%s in %v", field, top)
	require.GreaterOrEqual(t, v, least, field)
	require.LessOrEqual(t, v, most, field)
}

// An answer that comes when its call has ended is reported with the call's times, whatever has ended it.
func TestOrphansAreReportedWithTheirTimes_D155(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, j := reporting(t, m)
		b := c.Bucket("default")
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Delay(300*time.Millisecond))
		op := kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 100 * time.Millisecond}}
		require.Error(t, second(kv.Do(t.Context(), b, op)))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGAT}}, mock.Delay(time.Millisecond))
		f := kv.Start(t.Context(), b, kv.GetAndTouch{Key: []byte("k")})
		synctest.Wait() // it is sent
		require.True(t, f.Cancel())
		time.Sleep(time.Second)
		require.EqualValues(t, 2, b.Orphans())
		require.NoError(t, c.Close())
		all := j.report(t, "Orphaned responses observed")
		require.Len(t, all, 1, "Close writes what is left")
		of := all[0]["kv"]
		require.Equal(t, 2, of.Count)
		require.Equal(t, "get", of.Top[0]["operation_name"])
		requireBetween(t, of.Top[0], "total_duration_us", 300e3, 310e3)
		requireBetween(t, of.Top[0], "last_dispatch_duration_us", 300e3, 310e3)
		require.EqualValues(t, 100, of.Top[0]["timeout_ms"])
		require.NotEmpty(t, of.Top[0]["last_remote_socket"])
		require.Equal(t, "get_and_touch", of.Top[1]["operation_name"])
		require.NotEmpty(t, of.Top[1]["timeout_ms"])
	})
}
