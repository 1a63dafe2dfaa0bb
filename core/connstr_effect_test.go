package core_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couchbase/gocbcore/v10"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// otherValues are values that are not the defaults, for options whose kind alone does not give one.
var otherValues = map[string]string{
	"network": "external", "bootstrap_on": "http", "app_telemetry_endpoint": "ws://h",
	"sasl_mech_force": "PLAIN", "observability_semantic_convention_opt_in": "DATABASE_DUP",
}

// otherValue is a valid value of the option that is not its default.
func otherValue(t *testing.T, o core.OptionInfo) string {
	if v, ok := otherValues[o.Name]; ok {
		return v
	}
	switch o.Kind {
	case core.OptionDuration:
		return "777ms"
	case core.OptionInt:
		return "7"
	case core.OptionFloat:
		return "0.5"
	case core.OptionBool:
		return map[string]string{"true": "false", "false": "true"}[o.Default]
	case core.OptionText:
	}
	t.Fatal("no value for " + o.Key)
	return ""
}

// C2: an option that says it is applied changes the configuration, and one with a note changes nothing.
func TestC2EveryAppliedOptionChangesTheConfiguration(t *testing.T) {
	without, err := core.ParseConnString("couchbase://h")
	require.NoError(t, err)
	for o := range core.KnownOptions() {
		if o.Refused != "" || o.Name == "ca_cert_path" {
			continue // roots have a test of their own
		}
		cfg, err := core.ParseConnString("couchbase://h?" + o.Key + "=" + otherValue(t, o))
		require.NoError(t, err)
		require.Equal(t, o.Applied, !reflect.DeepEqual(without, cfg), o.Key)
	}
}

// C2: every name that gocbcore looks up in a connection string is understood here, or refused by name.
func TestC2KnowsEveryOptionOfGocbcore(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/couchbase/gocbcore/v10").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	require.NoError(t, err)
	lookup := regexp.MustCompile(`(?:fetchOption\(spec, |\.Options\[)"([a-z0-9_]+)"`)
	names := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range lookup.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	require.GreaterOrEqual(t, len(names), 35, "this test no longer finds where gocbcore looks options up")
	for name := range names {
		_, ok := core.LookupOption(name)
		require.True(t, ok, name)
	}
}

// C2: the same string means the same to gocbcore, option by option.
func TestC2OptionsMeanWhatTheyMeanToGocbcore(t *testing.T) {
	for query, check := range map[string]func(ours core.Config, theirs gocbcore.AgentConfig) (any, any){
		"config_poll_timeout=700": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Maps.PollTimeout, g.ConfigPollerConfig.CccpMaxWait
		},
		"config_poll_interval=5s": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Maps.PollInterval, g.ConfigPollerConfig.CccpPollPeriod
		},
		"kv_connect_timeout=3s": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Net.ConnectTimeout, g.KVConfig.ConnectTimeout
		},
		"kv_pool_size=3": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.KV.Connections,
				g.KVConfig.PoolSize
		},
		"max_queue_size=77": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Limits.Queue,
				g.KVConfig.MaxQueueSize
		},
		"server_wait_backoff=3000": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Net.ReconnectMax, g.KVConfig.ServerWaitBackoff
		},
		"max_idle_http_connections=9": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.HTTP.MaxIdleTotal, g.HTTPConfig.MaxIdleConns
		},
		"max_perhost_http_connections=9": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.HTTP.MaxConnections, g.HTTPConfig.MaxConnsPerHost
		},
		"idle_http_connection_timeout=2s": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.HTTP.IdleTimeout, g.HTTPConfig.IdleConnectionTimeout
		},
		"http_connect_timeout=2s": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.HTTP.ConnectTimeout, g.HTTPConfig.ConnectTimeout
		},
		"max_perhost_idle_http_connections=9": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.HTTP.MaxIdle, g.HTTPConfig.MaxIdleConnsPerHost
		},
		"compression=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return !o.KV.Compression.Off, g.CompressionConfig.Enabled
		},
		"compression=false": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return !o.KV.Compression.Off, g.CompressionConfig.Enabled
		},
		"compression_min_size=99": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.KV.Compression.MinSize, g.CompressionConfig.MinSize
		},
		"compression_min_ratio=0.5": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.KV.Compression.MinRatio, g.CompressionConfig.MinRatio
		},
		"network=external": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Net.Network,
				g.IoConfig.NetworkType
		},
		"enable_mutation_tokens=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return !o.KV.NoMutationTokens, g.IoConfig.UseMutationTokens
		},
		"enable_server_durations=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return !o.KV.NoServerDurations, g.IoConfig.UseDurations
		},
		"unordered_execution_enabled=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return !o.KV.NoUnordered, g.IoConfig.UseOutOfOrderResponses
		},
		"orphaned_response_logging=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return !o.Observe.NoOrphanReport, g.OrphanReporterConfig.Enabled
		},
		"orphaned_response_logging_interval=30s": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Observe.OrphanInterval, g.OrphanReporterConfig.ReportInterval
		},
		"orphaned_response_logging_sample_size=3": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.Observe.OrphanSample, g.OrphanReporterConfig.SampleSize
		},
		"enable_resource_units=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.KV.ResourceUnits, g.InternalConfig.EnableResourceUnitsTrackingHello
		},
		"allow_enterprise_analytics=true": func(o core.Config, g gocbcore.AgentConfig) (any, any) {
			return o.HTTP.AllowEnterpriseAnalytics, g.InternalConfig.AllowEnterpriseAnalytics
		},
	} {
		s := "couchbase://10.0.0.1,10.0.0.2/b?" + query
		ours, err := core.ParseConnString(s)
		require.NoError(t, err, query)
		var theirs gocbcore.AgentConfig
		require.NoError(t, theirs.FromConnStr(s), query)
		got, want := check(ours, theirs)
		require.Equal(t, want, got, query)
		require.Equal(t, theirs.BucketName, ours.Bucket)
	}
}

// Options of a connection string arrive at the node: HELLO asks for a feature or does not.
func TestOptionsOfFeaturesReachHELLO(t *testing.T) {
	for query, c := range map[string]struct {
		feature memd.Feature
		granted bool
	}{
		"": {memd.FeatureReportUnitUsage, false}, "enable_resource_units=true": {memd.FeatureReportUnitUsage, true},
		"enable_mutation_tokens=true":       {memd.FeatureMutationSeqno, true},
		"enable_mutation_tokens=false":      {memd.FeatureMutationSeqno, false},
		"enable_server_durations=true":      {memd.FeatureTracing, true},
		"enable_server_durations=false":     {memd.FeatureTracing, false},
		"unordered_execution_enabled=true":  {memd.FeatureUnorderedExecution, true},
		"unordered_execution_enabled=false": {memd.FeatureUnorderedExecution, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual(), mock.ReportUnits())
			b := openString(t, m, m.ConnString()+"?"+query).Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			require.Equal(t, c.granted, b.Status()[0].Features.Has(c.feature), query)
			res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			if c.feature == memd.FeatureMutationSeqno {
				require.NotEqual(t, c.granted, res.Token.IsZero())
			}
		})
	}
}

// openString connects a client by a connection string over the mock's network.
func openString(t *testing.T, m *mock.Cluster, s string, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(s)
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
	for _, f := range change {
		f(&cfg)
	}
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// kv_scan_timeout is the time of a scan's requests that name none.
func TestOptionScanTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		b := openString(t, m, m.ConnString()+"?kv_scan_timeout=300ms").Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		m.Inject(only(memd.OpRangeScanCreate, 0), mock.Drop())
		began := time.Now()
		s, err := kv.Scan{}.Run(ctx(t), b)
		require.NoError(t, err)
		require.False(t, s.Next(ctx(t)))
		require.ErrorIs(t, s.Err(), cberr.Timeout)
		s.Close()
		require.Equal(t, 300*time.Millisecond, time.Since(began))
	})
}

// server_wait_backoff bounds the pause between attempts to connect.
func TestOptionServerWaitBackoff(t *testing.T) {
	for query, atLeast := range map[string]int{"kv_timeout=1s": 0, "server_wait_backoff=200ms": 150} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
			var mu sync.Mutex
			dials := 0
			b := openString(t, m, m.ConnString()+"?"+query, func(c *core.Config) {
				c.Net.Dial = func(context.Context, string, string) (net.Conn, error) {
					mu.Lock()
					defer mu.Unlock()
					dials++
					return nil, &net.DNSError{Err: "no such host"}
				}
			}).Bucket("default")
			_ = b
			time.Sleep(30 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if atLeast == 0 {
				require.Less(t, dials, 40)
			}
			require.Greater(t, dials, atLeast)
		})
	}
}

// config_poll_floor_interval is the least time between two requests for a map, config_poll_timeout how long one is
// waited for.
func TestOptionsOfConfigPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual(), mock.RecordFrames())
		b := openString(t, m,
			m.ConnString()+"?config_poll_floor_interval=700ms&config_poll_interval=800ms&"+
				"enable_cluster_config_notifications=false").Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		time.Sleep(3 * time.Second)
		before := m.Frames(memd.OpGetClusterConfig)
		m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusNotMyVBucket)) // each asks for a map
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 7 * time.Second}})
		require.ErrorIs(t, err, cberr.Timeout)
		require.LessOrEqual(t, m.Frames(memd.OpGetClusterConfig)-before, 11)
		require.GreaterOrEqual(t, m.Frames(memd.OpGetClusterConfig)-before, 8)
	})
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		b := openString(t, m,
			m.ConnString()+"?config_poll_timeout=1100ms&enable_cluster_config_notifications=false").Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		hellos := m.Frames(memd.OpHello)
		m.Inject(only(memd.OpGetClusterConfig, 1), mock.Drop())
		time.Sleep(2500*time.Millisecond + 1090*time.Millisecond)
		require.Equal(t, hellos, m.Frames(memd.OpHello))
		time.Sleep(100 * time.Millisecond) // its time is over: a connection that answers nothing is replaced
		require.Equal(t, hellos+1, m.Frames(memd.OpHello))
	})
}

// The report of late answers can be switched off, and has its interval and sample size.
func TestOptionsOfOrphanReports(t *testing.T) {
	for query, want := range map[string]struct{ reports, described int }{
		"":                                {1, 10},
		"orphaned_response_logging=false": {0, 0},
		"orphaned_response_logging_interval=4s&orphaned_response_logging_sample_size=2": {1, 2},
		"orphaned_response_logging_interval=60s":                                        {0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l logs
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
			b := openString(t, m, m.ConnString()+"?"+query,
				func(c *core.Config) { c.Observe.Log = l.logger() }).Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			m.Inject(only(memd.OpGet, 0), mock.Delay(300*time.Millisecond))
			for range 12 {
				_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 100 * time.Millisecond}})
				require.ErrorIs(t, err, cberr.Timeout)
			}
			time.Sleep(12 * time.Second)
			require.Equal(t, want.reports, strings.Count(l.String(), "Orphaned responses observed"), query)
			require.Equal(t, want.described, strings.Count(l.String(), `operation_id\\\":`)+strings.Count(l.String(), `\"operation_id\":`), query)
		})
	}
}

// Requests to the analytics service of an Enterprise Analytics cluster fail at once, unless the configuration lets them
// through.
func TestOptionAllowEnterpriseAnalytics(t *testing.T) {
	for query, refused := range map[string]bool{"": true, "allow_enterprise_analytics=true": false} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
			m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
				rep.Value = []byte(strings.Replace(string(rep.Value), `"prod":"server"`, `"prod":"analytics"`, 1))
			}))
			c := openString(t, m, m.ConnString()+"?"+query)
			began := time.Now()
			_, err := c.Analytics(ctx(t), &analytics.Request{Statement: "SELECT 1", Retry: never})
			if refused {
				require.ErrorIs(t, err, cberr.FeatureNotAvailable)
				require.ErrorContains(t, err, "HTTP.AllowEnterpriseAnalytics")
				require.Zero(t, time.Since(began))
				_, err = c.Do(ctx(t), &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
				require.NoError(t, err)
				return
			}
			require.NotErrorIs(t, err, cberr.FeatureNotAvailable)
		})
	}
}

// force_ipv4 asks the dialer for nothing else.
func TestOptionForceIPv4(t *testing.T) {
	for query, want := range map[string]string{"": "tcp", "force_ipv4=true": "tcp4"} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
			networks := make(chan string, 100)
			c := openString(t, m, m.ConnString()+"?"+query, func(c *core.Config) {
				c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					networks <- network
					return m.Dial(ctx, "tcp", addr)
				}
			})
			require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
			_, err := c.Do(ctx(t), &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(networks), 2)
			for len(networks) > 0 {
				require.Equal(t, want, <-networks)
			}
		})
	}
}
