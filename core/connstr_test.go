package core_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10/connstr"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
)

func TestC1RefusedConnectionStringsNameTheFieldAndThePosition(t *testing.T) {
	for _, tc := range []struct {
		s     string
		field string
		pos   int
	}{
		{"https://h", "scheme", 0},
		{"HTTPS://h", "scheme", 0},
		{"ns_server://h", "scheme", 0},
		{"ns_servers://h", "scheme", 0},
		{"ftp://h", "scheme", 0},
		{"Couchbase://h", "scheme", 0},
		{"://h", "scheme", 0},
		{"couchbase://a,couchbase://b", "scheme", 23},
		{"h,couchbase://b", "scheme", 2},
		{"couchbase://::1", "host", 12},
		{"couchbase://a,fe80::1", "host", 14},
		{"couchbase://[::1", "host", 12},
		{"couchbase://[1.2.3.4]", "host", 13},
		{"couchbase://[::1]x", "host", 17},
		{"couchbase://[fe80::1%e!]", "host", 13},
		{"couchbase://a,,b", "host", 14},
		{"couchbase://a,", "host", 14},
		{"couchbase://a b", "host", 13},
		{"couchbase://h#x", "host", 13},
		{"couchbase://h\n", "host", 13},
		{"couchbase://1.2.3", "host", 12},
		{"couchbase://256.1.1.1", "host", 12},
		{"couchbase://a..b", "host", 14},
		{"couchbase://" + strings.Repeat("a", 64), "host", 12},
		{"couchbase://" + strings.Repeat("a.", 127) + "a", "host", 12},
		{"couchbase://b\u00fccher", "host", 13},
		{" couchbase://h", "scheme", 0},
		{"couchbase://a:0", "port", 14},
		{"couchbase://a:65536", "port", 14},
		{"couchbase://a:99999999999999999999", "port", 14},
		{"couchbase://a:1x", "port", 15},
		{"couchbase://a:-1", "port", 14},
		{"couchbase://a:", "port", 14},
		{"couchbase://[::1]:0", "port", 18},
		{"couchbase://h:8091", "port", 14},
		{"couchbases://h:8091", "port", 15},
		{"h:11210", "port", 2},
		{"couchbase://h/a/b", "bucket", 14},
		{"couchbase://h/%zz", "bucket", 14},
		{"couchbase://h/a b", "bucket", 14},
		{"couchbase://h/" + strings.Repeat("b", 101), "bucket", 14},
		{"couchbase://h?x", "option", 14},
		{"couchbase://h?=1", "option", 14},
		{"couchbase://h?a=1&", "option", 18},
		{"couchbase://h?a=%z", "option", 14},
		{"couchbase://h?a=1;b=2", "option", 14},
		{"couchbase://h?a b=1", "option", 14},
		{"couchbase://h?a=b c", "option", 14},
		{"couchbase://h?a=b\n", "option", 14},
		{"couchbase://h?x=1&kv_timeout=soon", "kv_timeout", 18},
		{"couchbase://h?kv_timeout=1s&kv_timeout=2s", "kv_timeout", 28},
		{"couchbase://h?kv_pool_size=1&num_kv_connections=2", "num_kv_connections", 29},
		{"couchbase://h?dcp_priority=high", "dcp_priority", 14},
	} {
		_, err := core.ParseSpec(tc.s)
		var e *core.ConnStringError
		require.ErrorAs(t, err, &e, tc.s)
		require.Equal(t, tc.field, e.Field, "%s: %v", tc.s, err)
		require.Equal(t, tc.pos, e.Pos, "%s: %v", tc.s, err)
		require.NotEmpty(t, e.Reason)
	}
	_, err := core.ParseSpec(strings.Repeat("a,", 40000))
	require.ErrorContains(t, err, "65536")
	_, err = core.ParseSpec("https://h")
	require.ErrorContains(t, err, "https")
}

// A password may stand where the syntax has no place for one. No error repeats any of it.
func TestC1UserInformationIsRefusedAndNotRepeated(t *testing.T) {
	for _, s := range []string{
		"couchbase://user:secret@h", "user:secret@h", "couchbase://user@secret", "couchbase://user:se/secret@h",
		"couchbase://secret/x@h",
		"couchbase://user:secret?x@h", "couchbase://h,user:secret@h2", "secret://user@h",
		"couchbase://h?secret@h=1&secret", "couchbase://user:secret",
		"couchbase://h?password=secret", "couchbase://h?username=u&password=secret", "couchbase://user:[secret",
		"couchbase://[secret]",
	} {
		_, err := core.ParseConnString(s)
		var e *core.ConnStringError
		require.ErrorAs(t, err, &e, s)
		require.NotContains(t, err.Error(), "secret", s)
	}
	_, err := core.ParseSpec("couchbase://user:pw@h")
	require.ErrorContains(t, err, "user info")
}

func TestConnectionStringsAreTakenApart(t *testing.T) {
	spec, err := core.ParseSpec("couchbases://a.example.com,b_1:11999;[::1]:12000,[::ffff:10.0.0.1]," +
		"[fe80:0::1%25]/my%2Dbucket?kv_timeout=5s&x=a+b%26c&x=2")
	require.NoError(t, err)
	require.Equal(t, core.ConnSpec{
		Scheme: "couchbases",
		Hosts: []core.HostPort{
			{Host: "a.example.com"},
			{Host: "b_1", Port: 11999},
			{Host: "::1", Port: 12000},
			{Host: "10.0.0.1"},
			{Host: "fe80::1%25"},
		},
		Bucket: "my-bucket",
		Options: []core.ConnOption{
			{Key: "kv_timeout", Value: "5s"},
			{Key: "x", Value: "a b&c"},
			{Key: "x", Value: "2"},
		},
	}, spec)
	require.Equal(t,
		"couchbases://a.example.com,b_1:11999,[::1]:12000,10.0.0.1,[fe80::1%25]/my-bucket?kv_timeout=5s&x=a+b%26c&x=2",
		spec.String())
	require.Equal(t,
		"couchbases://a.example.com,b_1:11999,[::1]:12000,10.0.0.1,[fe80::1%25]/my-bucket?kv_timeout=5s&x=***&x=***",
		spec.Redacted())
	require.True(t, spec.TLS())
	v, ok := spec.Option("kv_timeout")
	require.True(t, ok)
	require.Equal(t, 5*time.Second, v.Duration)
	_, ok = spec.Option("kv_durable_timeout")
	require.False(t, ok)
	_, ok = spec.Option("x")
	require.False(t, ok)

	for _, s := range []string{"", "couchbase://", "couchbase:///"} {
		spec, err := core.ParseSpec(s)
		require.NoError(t, err, s)
		require.Empty(t, spec.Hosts)
		require.Empty(t, spec.Bucket)
	}
	spec, err = core.ParseSpec("couchbase://h?enable_tls=true")
	require.NoError(t, err)
	require.True(t, spec.TLS())
}

func TestSRVIsForOneNameWithoutAPort(t *testing.T) {
	for s, want := range map[string]bool{
		"couchbase://h": true, "couchbases://h.example.com": true, "couchbase://h/b?x=1": true,
		"couchbase://h:11210": false,
		"couchbase://a,b":     false, "couchbase://10.0.0.1": false, "couchbase://[::1]": false, "http://h": false,
		"h": false, "": false,
	} {
		spec, err := core.ParseSpec(s)
		require.NoError(t, err)
		require.Equal(t, want, spec.SRVEligible(), s)
	}
}

func TestAddressesHaveThePortsOfTheScheme(t *testing.T) {
	for _, tc := range []struct{ s, kv, http string }{
		{"", "127.0.0.1:11210", "127.0.0.1:8091"},
		{"couchbase://h", "h:11210", "h:8091"},
		{"couchbases://h", "h:11207", "h:18091"},
		{"couchbase://h:11210", "h:11210", "h:8091"},
		{"couchbase://h:12000", "h:12000", ""},
		{"http://h", "h:11210", "h:8091"},
		{"http://h:8091", "h:11210", "h:8091"},
		{"http://h:9000", "", "h:9000"},
		{"h:8091", "h:11210", "h:8091"},
		{"couchbase://[::1],h:1", "[::1]:11210 h:1", "[::1]:8091"},
		{"couchbase://h?enable_tls=1", "h:11207", "h:18091"},
	} {
		spec, err := core.ParseSpec(tc.s)
		require.NoError(t, err)
		kv, http := spec.Addresses()
		require.Equal(t, tc.kv, join(kv), tc.s)
		require.Equal(t, tc.http, join(http), tc.s)
	}
}

func join(hs []core.HostPort) string {
	var s []string
	for _, h := range hs {
		s = append(s, h.String())
	}
	return strings.Join(s, " ")
}

func TestConnectionStringsBecomeConfigurations(t *testing.T) {
	cfg, err := core.ParseConnString("couchbases://a,b:11999;[::1]/travel?kv_timeout=5s&kv_durable_timeout=20s&" +
		"kv_connect_timeout=1500" +
		"&config_poll_interval=1s&max_queue_size=7&network=external&unknown=1")
	require.NoError(t, err)
	require.Equal(t, core.Config{
		Bucket: "travel",
		Seeds:  core.SeedConfig{Hosts: []string{"a", "b:11999", "[::1]"}},
		Net:    core.NetConfig{ConnectTimeout: 1500 * time.Millisecond, Network: "external"},
		TLS:    core.TLSConfig{Enabled: true},
		KV:     core.KVConfig{Timeout: 5 * time.Second, DurableTimeout: 20 * time.Second},
		Maps:   core.MapConfig{PollInterval: time.Second},
		Limits: core.LimitConfig{Queue: 7},
	}, cfg)
	cfg, err = core.ParseConnString("http://h:8091")
	require.NoError(t, err)
	require.Equal(t, core.Config{Seeds: core.SeedConfig{Hosts: []string{"h"}, HTTPHosts: []string{"h:8091"}}}, cfg)
	cfg, err = core.ParseConnString("http://h:9000,i:8091")
	require.NoError(t, err)
	require.Equal(t, core.Config{
		Seeds: core.SeedConfig{Hosts: []string{"i"}, HTTPHosts: []string{"h:9000", "i:8091"}},
	}, cfg)
	cfg, err = core.ParseConnString("http://[::1]:9000?bootstrap_on=http")
	require.NoError(t, err)
	require.Equal(t, core.Config{
		Seeds: core.SeedConfig{HTTPHosts: []string{"[::1]:9000"}},
		Maps:  core.MapConfig{Bootstrap: core.BootstrapHTTP},
	}, cfg)
}

func TestRootsComeFromTheFileThatTheStringNames(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	require.NoError(t, os.WriteFile(bad, []byte("no certificate"), 0o600))
	for _, s := range []string{
		"couchbases://h?ca_cert_path=" + bad, "couchbases://h?truststorepath=" + bad + ".absent",
		"couchbase://h?ca_cert_path=" + bad,
	} {
		_, err := core.ParseConnString(s)
		require.ErrorContains(t, err, "ca_cert_path", s)
	}
}

func TestC2OptionsAreCompleteAndCheckTheirValues(t *testing.T) {
	seen := map[string]bool{}
	for o := range core.KnownOptions() {
		require.False(t, seen[o.Key], o.Key)
		seen[o.Key] = true
		found, ok := core.LookupOption(o.Key)
		require.True(t, ok)
		require.Equal(t, o, found)
		target, ok := core.LookupOption(o.Name)
		require.True(t, ok, o.Key)
		require.Equal(t, target.Name, target.Key, "an alias of an alias")
		require.Equal(t, target.Kind, o.Kind)
		require.Equal(t, target.Default, o.Default)
		if o.Refused != "" {
			_, err := core.ParseSpec("couchbase://h?" + o.Key + "=1")
			require.ErrorContains(t, err, o.Key)
			continue
		}
		require.Equal(t, o.Key == o.Name, o.Does != "", o.Key)
		require.NotEqual(t, o.Applied, o.Note != "", "%s is applied, or its note says why not", o.Key)
		if o.Default != "" {
			_, err := o.Parse(o.Default)
			require.NoError(t, err, o.Key)
		}
		if o.Kind != core.OptionText || o.Values != nil {
			_, err := core.ParseSpec("couchbase://h?" + o.Key + "=!nonsense!")
			require.ErrorContains(t, err, o.Key)
			require.ErrorContains(t, err, `"!nonsense!"`)
		}
	}

	for _, key := range strings.Fields(specifiedOptions) {
		require.True(t, seen[key], key)
	}
	_, ok := core.LookupOption("no_such_option")
	require.False(t, ok)
}

const specifiedOptions = `kv_connect_timeout kv_timeout kv_durable_timeout kv_scan_timeout view_timeout query_timeout analytics_timeout
	search_timeout management_timeout enable_tls enable_mutation_tokens tcp_keepalive_time enable_tcp_keepalives force_ipv4
	config_poll_interval config_pool_floor_interval config_poll_floor_interval config_idle_redial_timeout num_kv_connections
	max_http_connections idle_http_connection_timeout compression compression_min_size compression_min_ratio enable_app_telemetry
	app_telemetry_endpoint app_telemetry_backoff app_telemetry_ping_interval app_telemetry_ping_timeout network bootstrap_on
	ca_cert_path kv_pool_size max_queue_size kv_buffer_size server_wait_backoff config_poll_timeout http_redial_period
	http_retry_delay http_config_poll_timeout http_connect_timeout max_idle_http_connections max_perhost_http_connections
	max_perhost_idle_http_connections orphaned_response_logging orphaned_response_logging_interval
	orphaned_response_logging_sample_size unordered_execution_enabled enable_server_durations enable_cluster_config_notifications
	enable_resource_units allow_enterprise_analytics disable_app_telemetry dcp_priority enable_dcp_expiry enable_dcp_change_streams
	dcp_buffer_size max_dcp_snapshot_marker_version`

func TestC2DurationsHaveTwoForms(t *testing.T) {
	o, _ := core.LookupOption("kv_timeout")
	for s, want := range map[string]time.Duration{
		"2500": 2500 * time.Millisecond, "2.5s": 2500 * time.Millisecond,
		"1m30s": 90 * time.Second, "1": time.Millisecond,
	} {
		v, err := o.Parse(s)
		require.NoError(t, err)
		require.Equal(t, want, v.Duration)
	}
	for _, s := range []string{"", "0", "-1", "-5s", "1.5", "9223372036854775807", "99999999999999999999", "5 s", "s"} {
		_, err := o.Parse(s)
		require.ErrorContains(t, err, "kv_timeout", s)
	}
	o, _ = core.LookupOption("num_kv_connections")
	for _, s := range []string{"0", "1025", "1.0", ""} {
		_, err := o.Parse(s)
		require.Error(t, err, s)
	}
	o, _ = core.LookupOption("compression_min_ratio")
	for _, s := range []string{"NaN", "Inf", "-0.1", "x"} {
		_, err := o.Parse(s)
		require.Error(t, err, s)
	}
	o, _ = core.LookupOption("bootstrap_on")
	_, err := o.Parse("kv")
	require.ErrorContains(t, err, "http, cccp, both")
}

var corpus = []string{
	"", "couchbase://", "couchbase://1.2.3.4", "couchbase://a,b,c", "couchbase://a;b", "couchbase://a:11999,b:11998",
	"couchbases://a",
	"couchbases://a:11207", "couchbase://[::1]:11210", "couchbase://[::1]",
	"couchbases://[2001:db8::1],[2001:db8::2]:12000", "couchbase://a/bucket",
	"couchbase://a/my%2Dbucket", "couchbase://a/b%25c", "couchbase://a/", "couchbase://a?", "couchbase://a/?x=1",
	"couchbase://a/bucket?kv_timeout=5000",
	"http://a:8091", "http://a", "http://a:9000", "http://a:9000,b:8091", "a", "a,b", "a:8091", "couchbase://a?x=1&y=2",
	"couchbase://a?x=%41+b&x=c",
	"couchbase://a_b.example-1.com.:1", "couchbase://a:65535",
	"couchbase://10.0.0.1:11210,10.0.0.2:11210/travel-sample?network=external",
	// Refused by one or both.
	"couchbase://u:p@h", "https://a", "ns_server://a", "couchbase://::1", "couchbase://a:99999", "a:11210",
	"couchbase://a:8091", "couchbase://a,,b",
	"couchbase://a?x;y", "couchbase://a:0", "://a", "couchbase://a:",
}

// What gocbcore's parser accepts too means the same to it, down to the addresses it would connect to.
func TestC1AgreesWithGocbcoreOnWhatBothAccept(t *testing.T) {
	both := 0
	for _, s := range corpus {
		if agrees(t, s) {
			both++
		}
	}
	require.Equal(t, 30, both)
}

func agrees(t *testing.T, s string) bool {
	t.Helper()
	ours, err := core.ParseSpec(s)
	if err != nil {
		return false
	}
	theirs, err := connstr.Parse(s)
	if err != nil {
		return false
	}
	require.Equal(t, theirs.Scheme, ours.Scheme, s)
	require.Equal(t, theirs.Bucket, ours.Bucket, s)
	require.Len(t, ours.Hosts, len(theirs.Addresses), s)
	mapped := false
	for i, a := range theirs.Addresses {
		if strings.Contains(a.Host, ":") {
			mapped = true // spelt another way, perhaps
			continue
		}
		require.Equal(t, a.Host, ours.Hosts[i].Host, s)
		require.Equal(t, max(a.Port, 0), ours.Hosts[i].Port, s)
	}
	n := 0
	for k, vs := range theirs.Options {
		var got []string
		for _, o := range ours.Options {
			if o.Key == k {
				got = append(got, o.Value)
			}
		}
		n += len(got)
		require.Equal(t, vs, got, s)
	}
	require.Len(t, ours.Options, n, s)
	if !mapped {
		require.Equal(t, theirs.SrvRecordName() != "", ours.SRVEligible(), s)
	}
	if mapped || ours.SRVEligible() || ours.TLS() != (ours.Scheme == "couchbases") {
		return true // resolving would ask the DNS; enable_tls is not known there
	}
	resolved, err := connstr.Resolve(theirs)
	require.NoError(t, err, s)
	kv, http := ours.Addresses()
	require.Equal(t, addresses(resolved.MemdHosts), join(kv), s)
	require.Equal(t, addresses(resolved.HttpHosts), join(http), s)
	return true
}

func addresses(as []connstr.Address) string {
	var hs []core.HostPort
	for _, a := range as {
		hs = append(hs, core.HostPort{Host: a.Host, Port: a.Port})
	}
	return join(hs)
}

// F7: what is accepted means what it means to gocbcore, and parse(print(x)) = x.
func FuzzParseSpec(f *testing.F) {
	for _, s := range corpus {
		f.Add(s)
	}
	f.Add("couchbases://[::ffff:1.2.3.4%25x],b/c%2e?kv_timeout=1h&a=%00&ca_cert_path=x")
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := core.ParseSpec(s)
		if err != nil {
			var e *core.ConnStringError
			require.ErrorAs(t, err, &e)
			require.GreaterOrEqual(t, e.Pos, 0)
			require.LessOrEqual(t, e.Pos, len(s))
			return
		}
		agrees(t, s)
		again, err := core.ParseSpec(spec.String())
		require.NoError(t, err, spec.String())
		require.Equal(t, spec, again)
		_, err = core.ParseSpec(spec.Redacted())
		require.NoError(t, err)
	})
}
