package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// nodeErrorMap is a server's error map.
const nodeErrorMap = "../../errormap/testdata/err_map71_v2.json"

func TestExplain(t *testing.T) {
	golden(t, "explain", transcript(
		"explain --service kv --op upsert --status 0x86",
		"explain --service kv --op increment --lost-socket",
		"explain --service kv --op get --lost-socket",
		"explain --service kv --op increment --lost-socket --idempotent",
		"explain --service kv --op get --status 0x07",
		"explain --service kv --op upsert --status 0x02",
		"explain --service kv --op upsert --status 0x02 --with-cas",
		"explain --service kv --op unlock --status 0x09",
		"explain --service kv --op upsert --status 0xa3",
		"explain --service kv --op get --status 0x00",
		"explain --service kv --op get --reason AUTHENTICATION_ERROR",
		"explain --service kv --op get --reason AUTHENTICATION_ERROR --strategy best-effort --retries 9",
		"explain --service kv --op upsert --reason UNKNOWN",
	))
}

func TestExplainAsJSON(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--op upsert --status 0x86", `{"reason":"KV_TEMPORARY_FAILURE","decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":true}`},
		{"--op upsert --status 0x86 --retries 3", `{"reason":"KV_TEMPORARY_FAILURE","decision":"retry","delay_ms":[4,8],"error":null,"consulted_strategy":true}`},
		{"--op upsert --status 0x86 --retries 99", `{"reason":"KV_TEMPORARY_FAILURE","decision":"retry","delay_ms":[250,500],"error":null,"consulted_strategy":true}`},
		{"--op upsert --status 0x07", `{"reason":"KV_NOT_MY_VBUCKET","decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":false}`},
		{"--op upsert --status 0x07 --retries 4", `{"reason":"KV_NOT_MY_VBUCKET","decision":"retry","delay_ms":[500,500],"error":null,"consulted_strategy":false}`},
		{"--op upsert --status 0x07 --retries 50", `{"reason":"KV_NOT_MY_VBUCKET","decision":"retry","delay_ms":[1000,1000],"error":null,"consulted_strategy":false}`},
		{"--op upsert --lost-socket", `{"reason":"SOCKET_CLOSED_WHILE_IN_FLIGHT","decision":"fail","delay_ms":null,"error":"request_canceled","consulted_strategy":false}`},
		{"--op get --lost-socket", `{"reason":"SOCKET_CLOSED_WHILE_IN_FLIGHT","decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":true}`},
		{"--op upsert --reason SOCKET_CLOSED_WHILE_IN_FLIGHT", `{"reason":"SOCKET_CLOSED_WHILE_IN_FLIGHT","decision":"fail","delay_ms":null,"error":"request_canceled","consulted_strategy":false}`},
		{"--op get --status 0x01", `{"reason":null,"decision":"fail","delay_ms":null,"error":"document_not_found","consulted_strategy":false}`},
		{"--op get --reason AUTHENTICATION_ERROR", `{"reason":"AUTHENTICATION_ERROR","decision":"fail","delay_ms":null,"error":"authentication_failure","consulted_strategy":true}`},
		{"--op get --reason COLLECTION_NOT_FOUND", `{"reason":"COLLECTION_NOT_FOUND","decision":"fail","delay_ms":null,"error":"collection_not_found","consulted_strategy":true}`},
		{"--op get --reason kv_locked --strategy best-effort", `{"reason":"KV_LOCKED","decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":true}`},
		{"--op get --status 0x00", `{"reason":null,"decision":"succeed","delay_ms":null,"error":null,"consulted_strategy":false}`},
	} {
		r := couchcore(append([]string{"explain", "--json", "--service", "kv"}, strings.Fields(c.args)...)...)
		require.Zero(t, r.code, "%s: %s", c.args, r.stderr)
		require.Equal(t, c.want+"\n", r.stdout, c.args)
	}
}

func TestLongDelaysAreWrittenOut(t *testing.T) {
	require.Equal(t, "120000000 ms", span([]float64{120000000, 120000000}))
	require.Equal(t, "0.25 to 30000000.5 ms", span([]float64{0.25, 30000000.5}))
}

func TestExplainFollowsTheErrorMap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map.json")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	ask := func() result {
		return couchcore("explain", "--json", "--service", "kv", "--op", "upsert", "--status", "0x7ff0", "--error-map",
			file)
	}
	const entry = `{"version":2,"revision":1,"errors":{"7ff0":{"name":"SOON","desc":"try again","attrs":[%s]}}}`
	write(fmt.Sprintf(entry, `"temp","retry-later"`))
	require.JSONEq(t, `{"reason":"KV_ERROR_MAP_RETRY_INDICATED","decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":true}`, ask().stdout)
	write(fmt.Sprintf(entry, `"item-only"`))
	require.JSONEq(t, `{"reason":null,"decision":"fail","delay_ms":null,"error":"`+cberr.Couchbase.Name()+`","consulted_strategy":false}`, ask().stdout)
	write("{")
	ask().failsWith(t, exitUsage, "--error-map")
}

func TestExplainKnowsEveryOperation(t *testing.T) {
	require.Greater(t, len(opNames()), 15)
	for _, op := range opNames() {
		o := explainedAs(t, explainCmd{Service: "kv", Op: op, Status: "0x86"})
		row, want := call.SpecByName(op), "retry"
		if row.Has(call.NoRetry) {
			want = "fail"
		}
		require.Equal(t, want, o["decision"], op)
		o = explainedAs(t, explainCmd{Service: "kv", Op: op, LostSocket: true})
		want = "fail"
		if row.Has(call.Idempotent) {
			want = "retry"
		}
		require.Equal(t, want, o["decision"], op)
	}
}

func TestExplainUsage(t *testing.T) {
	for args, text := range map[string]string{
		"--service nosuch --op get --status 1":                            "there are kv, query",
		"--service kv --op lookup-of --status 1":                          "is not an operation",
		"--service kv --op get":                                           "give one of",
		"--service kv --op get --status 1 --lost-socket":                  "give one of",
		"--service kv --op get --http 503":                                "have a --status",
		"--service kv --op get --status 1 --retries=-1":                   "negative",
		"--service kv --op get --status 1 --strategy reckless":            "fast-fail and best-effort",
		"--service kv --op get --status 1 --strategy @no/such/file":       "no/such/file",
		"--service kv --op get --status many":                             "not a status",
		"--service kv --op get --reason NO_SUCH":                          "couchcore reasons",
		"--service kv --op get --status 1 --error-map no/such/file":       "--error-map",
		"--service kv --op get --status 7 --body no/such/file":            "--body",
		"--op get --status 1":                                             "--service",
		"--service kv --op get --status 0x86 --retries 1 surprise-at-end": "unexpected argument",
	} {
		couchcore(append([]string{"explain"}, strings.Fields(args)...)...).failsWith(t, exitUsage, text)
	}
}

// TestExplainAgreesWithTheClient lets the mock answer every status that is a failure to a real client, and compares.
func TestExplainAgreesWithTheClient(t *testing.T) {
	m, _ := startMock(t)
	errorMap, err := os.ReadFile(nodeErrorMap)
	require.NoError(t, err)
	m.SetErrorMap(errorMap)
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	compared := 0
	for st := range 0x100 {
		s := memd.Status(st)
		if d := call.Classify(memd.OpSet, s, false); !s.Known() || d.Class == call.ClassSuccess ||
			s == memd.StatusAuthStale {
			continue
		}
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(s))
		r, err := kv.Do(t.Context(), c.Bucket(mock.DefaultBucket), kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		in.Remove()
		e := explainedAs(t, explainCmd{Service: "kv", Op: "upsert", Status: statusText(s), ErrorMap: nodeErrorMap})
		compared++
		if e["decision"] == "retry" {
			require.NoError(t, err, "%v", s)
			require.Equal(t, []string{e["reason"].(string)}, reasonNames(r.RetryInfo().Reasons), "%v", s)
			continue
		}
		require.Equal(t, e["error"], failureOf(err).Kind, "%v", s)
	}
	require.Greater(t, compared, 50)
}

func TestTheStrategyIsAskedAsIfAtThatAttempt(t *testing.T) {
	for status, want := range map[memd.Status]retry.Request{
		memd.StatusTmpFail:   {Counted: 5, BackoffStep: 5, LastDelay: 5 * time.Second, Waited: 15 * time.Second},
		memd.StatusAuthStale: {Transparent: 5, BackoffStep: 5, LastDelay: 5 * time.Second, Waited: 15 * time.Second},
	} {
		var seen retry.Request
		x := &explanation{retries: 5, subject: &kvSubject{spec: call.SpecByName("get"), answered: true, status: status}}
		x.strategy.base = retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
			seen = *r
			if r.BackoffStep == 5 {
				return retry.Stop()
			}
			return retry.After(time.Duration(r.BackoffStep+1) * time.Second)
		})
		j, err := x.judge(0, 0)
		require.NoError(t, err)
		require.True(t, j.consulted)
		require.False(t, j.retried)
		require.WithinDuration(t, time.Now().Add(-seen.Waited), seen.Started, time.Minute)
		require.Equal(t, want, retry.Request{
			Counted: seen.Counted, Transparent: seen.Transparent, BackoffStep: seen.BackoffStep,
			LastDelay: seen.LastDelay,
			Waited:    seen.Waited,
		})
	}
}
