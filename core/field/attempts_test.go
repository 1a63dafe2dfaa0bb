package field_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// Attempts are sends, and nothing else is called so: what was tried again without a way to a node is no attempt.
func TestAttemptsAreSends_D167(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := mocked(t, m)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, time.Minute)))
		key := []byte("k")
		sent := func(o memd.Opcode, f func() retry.Info) {
			t.Helper()
			before := m.Frames(o)
			info := f()
			require.Equal(t, m.Frames(o)-before, info.Attempts(), "%+v", info)
			require.Equal(t, info.Counted+info.Transparent, info.Retries())
		}
		sent(memd.OpSet, func() retry.Info {
			res, err := kv.Do(context.Background(), b, kv.Upsert{Key: key, Value: []byte("v")})
			require.NoError(t, err)
			require.Zero(t, res.RetryInfo())
			return res.RetryInfo()
		})
		sent(memd.OpSet, func() retry.Info {
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 2}, mock.Status(memd.StatusTmpFail))
			res, err := kv.Do(context.Background(), b, kv.Upsert{Key: key, Value: []byte("v")})
			require.NoError(t, err)
			require.Equal(t, 2, res.RetryInfo().Retries())
			return res.RetryInfo()
		})
		sent(memd.OpGet, func() retry.Info { return failed(t, b, kv.Get{Key: []byte("absent")}) })
		sent(memd.OpGet, func() retry.Info { return failed(t, b, kv.Get{}) })
		sent(memd.OpGet, func() retry.Info { // an answer that does not come
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Drop())
			return failed(t, b, kv.Get{Key: key})
		})
		sent(memd.OpGet, func() retry.Info { // a program that has gone before the call
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := kv.Do(ctx, b, kv.Get{Key: key})
			info, _ := retry.InfoOf(err)
			return info
		})
		ns := m.Nodes()
		for i := range ns {
			require.NoError(t, m.Kill(i))
		}
		time.Sleep(time.Second)
		sent(memd.OpGet, func() retry.Info {
			info := failed(t, b, kv.Get{Key: key})
			require.Zero(t, info.Attempts())
			require.Greater(t, info.Retries(), 3)
			return info
		})
		sent(memd.OpGet, func() retry.Info {
			time.AfterFunc(time.Second, func() {
				for i := range ns {
					_ = m.Respawn(i)
				}
			})
			res, err := kv.Do(context.Background(), b, kv.Get{Key: key, Common: kv.Common{Timeout: 20 * time.Second}})
			require.NoError(t, err)
			require.Positive(t, res.RetryInfo().Retries())
			require.Equal(t, 1, res.RetryInfo().Attempts())
			return res.RetryInfo()
		})
	})
}

func failed[O kv.Op[R], R any](t *testing.T, b *core.Bucket, op O) retry.Info {
	t.Helper()
	_, err := kv.Do(context.Background(), b, op)
	require.Error(t, err)
	info, ok := retry.InfoOf(err)
	require.True(t, ok)
	return info
}

// Requests to services count as calls do.
func TestAttemptsOfRequestsAreSends_D167(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := mocked(t, m)
		require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Minute)))
		m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 2}, mock.Answer{Status: 429})
		rows, err := c.Query(within(t, time.Minute), &query.Request{Statement: "SELECT 1"})
		require.NoError(t, err)
		require.Equal(t, []int{2, 3}, []int{rows.RetryInfo().Retries(), rows.RetryInfo().Attempts()})
		require.NoError(t, rows.Close())
		ns := m.Nodes()
		for i := range ns {
			require.NoError(t, m.Kill(i))
		}
		time.Sleep(time.Second)
		_, err = c.Query(within(t, 3*time.Second), &query.Request{Statement: "SELECT 1"})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		info, _ := retry.InfoOf(err)
		require.Zero(t, info.Attempts(), "%+v", info)
		require.Positive(t, info.Retries())
	})
}

// A log line says retries where it counts retries.
func TestLogLinesCallRetriesRetries_D167(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		var lines bytes.Buffer
		c, _ := mocked(t, m, func(cfg *core.Config) {
			cfg.Observe.Log = slog.New(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
		_, err := kv.Do(context.Background(), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Contains(t, lines.String(), `"msg":"Retrying"`)
		require.Contains(t, lines.String(), `"retries":0`)
		require.NotContains(t, lines.String(), `"attempts"`)
	})
}
