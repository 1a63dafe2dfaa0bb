package field_test

import (
	"context"
	"net/http"
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
	"github.com/couchcore/couchcore/query"
)

// Application telemetry, SDK RFC 84.

// TestAClusterThatAsksIsTold_D158: a client counts its attempts for a cluster that asks, by node, service and bucket,
// in the RFC's histograms, and begins anew with each report.
func TestAClusterThatAsksIsTold_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Virtual(), mock.AppTelemetry())
		c, _ := telling(t, m, func(cfg *core.Config) { cfg.Agent = `app/1.0 (a, "b" {c})` })
		connects(t, m, 1)
		require.Equal(t, mock.DefaultUser, m.TelemetryClients()[0].User)
		b := c.Bucket("default")
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Delay(50*time.Millisecond))
		for _, op := range []func() error{
			func() error { return upsert(t, b) },
			func() error { _, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")}); return err },
			func() error { _, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")}); return err },
			func() error { _, err := kv.Do(t.Context(), b, kv.GetAndLock{Key: []byte("k")}); return err },
			func() error {
				_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("d"), Durability: memd.DurabilityMajority})
				return err
			},
			func() error {
				_, err := c.Query(t.Context(), &query.Request{Statement: "SELECT 1"})
				return err
			},
		} {
			require.NoError(t, op())
		}
		_, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("absent")})
		require.ErrorIs(t, err, cberr.DocumentNotFound)

		answers := m.AskTelemetry(t.Context(), mock.TelemetryGet)
		require.Len(t, answers, 1)
		metrics, invalid := mock.ParseTelemetry(answers[0].Text)
		require.Empty(t, invalid)
		got, uuids := map[string]int64{}, map[string]bool{}
		for _, metric := range metrics {
			require.Equal(t, "couchcore app/1.0 (a_ _b_ _c_)", metric.Label("agent"))
			require.Contains(t, []string{"10.0.0.1", "10.0.0.2"}, metric.Label("node"))
			require.Empty(t, metric.Label("alt_node"))
			uuids[metric.Label("node_uuid")] = true
			want := ""
			if strings.HasPrefix(metric.Name, "sdk_kv") {
				want = "default"
			}
			require.Equal(t, want, metric.Label("bucket"), metric.Name)
			got[strings.TrimSpace(metric.Name+" "+metric.Label("le"))] += metric.Value
		}
		require.NotContains(t, uuids, "")
		for name, want := range map[string]int64{
			"sdk_kv_r_total": 6, "sdk_query_r_total": 1,
			"sdk_kv_retrieval_duration_milliseconds_count":            4,
			"sdk_kv_retrieval_duration_milliseconds_bucket 10":        3,
			"sdk_kv_retrieval_duration_milliseconds_bucket 100":       4,
			"sdk_kv_retrieval_duration_milliseconds_bucket 2500":      4,
			"sdk_kv_retrieval_duration_milliseconds_bucket +Inf":      4,
			"sdk_kv_mutation_nondurable_duration_milliseconds_count":  1,
			"sdk_kv_mutation_durable_duration_milliseconds_count":     1,
			"sdk_kv_mutation_durable_duration_milliseconds_bucket 10": 1,
			"sdk_query_duration_milliseconds_bucket 75000":            1,
			"sdk_query_duration_milliseconds_count":                   1,
		} {
			require.Equal(t, want, got[name], name)
		}
		require.GreaterOrEqual(t, got["sdk_kv_retrieval_duration_milliseconds_sum"], int64(50))
		require.NotContains(t, got, "sdk_kv_r_timedout", "a counter without a value is not sent")
		require.NotContains(t, got, "sdk_kv_mutation_durable_duration_milliseconds_bucket 1", "its bounds are others")
		require.Empty(t, asked(t, m), "counters begin anew with each report")
		sums, invalid := m.Telemetry()
		require.NotEmpty(t, sums)
		require.Empty(t, invalid)
	})
}

// TestTelemetryCountsAttempts_D158: each attempt counts by itself, whatever became of its operation, and a late answer
// adds its time.
func TestTelemetryCountsAttempts_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.AppTelemetry())
		c, _ := telling(t, m)
		connects(t, m, 1)
		b, get := c.Bucket("default"), kv.Get{Key: []byte("k")}
		require.NoError(t, upsert(t, b))
		require.Equal(t, int64(1), asked(t, m)["sdk_kv_r_total"])

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
		_, err := kv.Do(t.Context(), b, get)
		require.NoError(t, err)
		require.Equal(t, int64(3), asked(t, m)["sdk_kv_r_total"], "retries are attempts")

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Delay(300*time.Millisecond))
		get.Timeout = 100 * time.Millisecond
		_, err = kv.Do(t.Context(), b, get)
		require.ErrorIs(t, err, cberr.Timeout)
		got := asked(t, m)
		require.Equal(t, map[string]int64{"sdk_kv_r_total": 1, "sdk_kv_r_timedout": 1}, got)
		time.Sleep(time.Second)
		got = asked(t, m)
		require.Equal(t, int64(1), got["sdk_kv_retrieval_duration_milliseconds_bucket 500"], "the late answer")
		require.Zero(t, got["sdk_kv_retrieval_duration_milliseconds_bucket 100"])
		require.Zero(t, got["sdk_kv_r_total"])

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Delay(300*time.Millisecond))
		ctx, cancel := context.WithCancel(t.Context())
		f := kv.Start(ctx, b, kv.Get{Key: []byte("k")})
		time.Sleep(50 * time.Millisecond)
		cancel()
		_, err = f.Wait(t.Context())
		require.ErrorIs(t, err, cberr.RequestCanceled)
		time.Sleep(time.Second)
		got = asked(t, m)
		require.Equal(t, int64(1), got["sdk_kv_r_total"])
		require.Equal(t, int64(1), got["sdk_kv_r_canceled"])

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.CloseBefore())
		require.Error(t, upsert(t, b))
		got = asked(t, m)
		require.Equal(t, int64(1), got["sdk_kv_r_canceled"], "a lost connection cancels")
		require.Zero(t, got["sdk_kv_r_timedout"])

		time.Sleep(10 * time.Second)
		require.Zero(t, asked(t, m)["sdk_kv_r_total"], "what the client asks for itself is not counted")
	})
}

// TestTelemetryFollowsTheCluster_D158: nothing is told to a cluster that does not ask, or is too old to, and the
// cluster's setting is followed.
func TestTelemetryFollowsTheCluster_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range [][]mock.Option{
			{mock.Version("7.6"), mock.AppTelemetry()}, {mock.NodeVersion(1, "7.6"), mock.AppTelemetry()}, {},
		} {
			m := mock.Start(t, append(o, mock.Nodes(2), mock.Virtual())...)
			_, _ = telling(t, m)
			time.Sleep(10 * time.Second)
			require.Empty(t, m.TelemetryClients())
			require.NotContains(t, string(m.ConfigJSON("default")), "appTelemetryPath")
		}
		m := mock.Start(t, mock.Nodes(2), mock.Virtual())
		c, _ := telling(t, m)
		set := func(form string) int {
			res, err := c.Do(t.Context(), &core.HTTPRequest{
				Service: core.Management, Method: http.MethodPost, Path: "/settings/appTelemetry", Body: []byte(form),
				ContentType: "application/x-www-form-urlencoded",
			})
			require.NoError(t, err)
			defer res.Body.Close()
			return res.Status
		}
		require.Equal(t, http.StatusOK, set("enabled=true"))
		connects(t, m, 1)
		require.NoError(t, upsert(t, c.Bucket("default")))
		require.Equal(t, int64(1), asked(t, m)["sdk_kv_r_total"])
		require.Equal(t, http.StatusOK, set("enabled=false"))
		connects(t, m, 0)
		time.Sleep(time.Minute)
		require.Empty(t, m.TelemetryClients())
		require.NoError(t, upsert(t, c.Bucket("default")))
		require.Equal(t, http.StatusOK, set("enabled=true"))
		connects(t, m, 1)
		require.Zero(t, asked(t, m)["sdk_kv_r_total"], "nothing is counted while the cluster does not ask")

		// The node that is connected to goes: another one is told.
		node := m.TelemetryClients()[0].Node
		require.NoError(t, m.Kill(node))
		time.Sleep(5 * time.Second)
		require.Len(t, m.TelemetryClients(), 1)
		require.Equal(t, 1-node, m.TelemetryClients()[0].Node)

		require.Equal(t, http.StatusOK, set("maxScrapeClientsPerNode=1"))
		require.Len(t, m.TelemetryClients(), 1)
		time.Sleep(2 * time.Minute) // the server asks by itself
		sums, _ := m.Telemetry()
		require.True(t, slices.ContainsFunc(sums, func(s mock.TelemetryMetric) bool {
			return s.Name == "sdk_management_r_total"
		}))
	})
}

// TestTelemetryOptions_D158: the options of connection strings have effects.
func TestTelemetryOptions_D158(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.AppTelemetry())
		for query, clients := range map[string]int{
			"": 1, "enable_app_telemetry=false": 0, "disable_app_telemetry=true": 0,
			"enable_app_telemetry=true": 1, "enable_app_telemetry=true&disable_app_telemetry=true": 0,
		} {
			cfg, err := core.ParseConnString(m.ConnString() + "?" + query)
			require.NoError(t, err)
			cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
			cfg.Auth.AllowPlain, cfg.Net.Dial = true, m.Dial
			c, err := core.Open(t.Context(), cfg)
			require.NoError(t, err)
			require.NoError(t, c.Bucket("default").WaitReady(within(t, 5*time.Second)))
			time.Sleep(5 * time.Second)
			require.Len(t, m.TelemetryClients(), clients, query)
			require.NoError(t, c.Close())
			time.Sleep(time.Second)
			require.Empty(t, m.TelemetryClients(), "Close ends the connection")
		}
		cfg, err := core.ParseConnString("couchbase://h?app_telemetry_backoff=7s&app_telemetry_ping_interval=8s&" +
			"app_telemetry_ping_timeout=900ms&app_telemetry_endpoint=wss://u:p%2540@h/x%3Fy=z")
		require.NoError(t, err)
		got := cfg.Observe.AppTelemetry
		require.Equal(t, "p@", got.Password.Reveal())
		got.Password = core.Secret{}
		require.Equal(t, core.AppTelemetryConfig{
			Endpoint: "wss://h/x?y=z", Username: "u", Backoff: 7 * time.Second, PingInterval: 8 * time.Second,
			PingTimeout: 900 * time.Millisecond,
		}, got)
		for _, endpoint := range []string{"h:9090", "http://h/x", "ws://", "ws://u:hush@/x", "ws:hush", "%zz"} {
			_, err := core.ParseConnString("couchbase://h?app_telemetry_endpoint=" + endpoint)
			require.ErrorIs(t, err, cberr.InvalidArgument, endpoint)
			require.NotContains(t, err.Error(), "hush")
			cfg := core.Config{Observe: core.ObserveConfig{AppTelemetry: core.AppTelemetryConfig{Endpoint: endpoint}}}
			_, err = core.Open(t.Context(), cfg)
			require.ErrorIs(t, err, cberr.InvalidArgument, endpoint)
			require.NotContains(t, err.Error(), "hush")
		}
		spec, err := core.ParseSpec("couchbase://h?app_telemetry_endpoint=ws://u:hush@h/x")
		require.NoError(t, err)
		require.Equal(t, "couchbase://h?app_telemetry_endpoint=ws%3A%2F%2Fh%2Fx", spec.Redacted())
		_, err = core.Open(t.Context(), core.Config{Observe: core.ObserveConfig{AppTelemetry: core.AppTelemetryConfig{
			Endpoint: "ws://u:hush@h/x",
		}}})
		require.ErrorContains(t, err, "Observe.AppTelemetry.Endpoint has a user")
		require.NotContains(t, err.Error(), "hush")
	})
}
