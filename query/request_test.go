package query_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/query"
)

func bodyOf(t *testing.T, h *httpsvc.Request, remaining time.Duration) map[string]any {
	t.Helper()
	raw, err := h.Body(remaining)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(raw, &m))
	return m
}

// TestCB54IdempotentIffReadonly has every way to say so.
func TestCB54IdempotentIffReadonly(t *testing.T) {
	for _, c := range []struct {
		r    query.Request
		want bool
	}{
		{query.Request{Statement: "SELECT 1"}, false},
		{query.Request{Statement: "DELETE FROM x"}, false},
		{query.Request{Statement: "SELECT 1", Readonly: true}, true},
		{query.Request{Statement: "DELETE FROM x", Readonly: true}, true}, // the service refuses it
		{query.Request{Statement: "SELECT 1", Raw: map[string]any{"readonly": true}}, true},
		{query.Request{Statement: "SELECT 1", Readonly: true, Raw: map[string]any{"readonly": false}}, false},
		{query.Request{Statement: "SELECT 1", Readonly: true, Raw: map[string]any{"readonly": "true"}}, false},
	} {
		require.Equal(t, c.want, c.r.Idempotent())
		h, err := c.r.HTTP()
		require.NoError(t, err)
		require.Equal(t, c.want, h.Idempotent)
	}
}

func TestZeroRequestSendsOnlyWhatIsNeeded(t *testing.T) {
	r := query.Request{Statement: "SELECT 1"}
	h, err := r.HTTP()
	require.NoError(t, err)
	require.Equal(t, httpsvc.Query, h.Service)
	require.Equal(t, "POST", h.Method)
	require.Equal(t, "/query/service", h.Path)
	require.Equal(t, "application/json", h.ContentType)
	require.Equal(t, map[string]any{"statement": "SELECT 1", "client_context_id": h.UniqueID, "timeout": "2.5s"},
		bodyOf(t, h, 2500*time.Millisecond))

	again, err := r.HTTP()
	require.NoError(t, err)
	require.NotEqual(t, h.UniqueID, again.UniqueID)
}

// TestEveryAttemptIsTheSameButForItsTimeout: retries differ in nothing else.
func TestEveryAttemptIsTheSameButForItsTimeout(t *testing.T) {
	r := query.Request{Statement: "SELECT $a, $b", Named: map[string]any{"a": 1, "$b": "x", "c": nil}, Readonly: true}
	h, err := r.HTTP()
	require.NoError(t, err)
	first, err := h.Body(75 * time.Second)
	require.NoError(t, err)
	for range 20 {
		same, err := h.Body(75 * time.Second)
		require.NoError(t, err)
		require.Equal(t, string(first), string(same))
	}
	for remaining, want := range map[time.Duration]string{
		time.Second: "1s", 1499*time.Millisecond + 900*time.Microsecond: "1.499s", time.Microsecond: "1ms", 0: "1ms",
		-time.Second: "1ms", 75 * time.Second: "1m15s",
	} {
		got := bodyOf(t, h, remaining)
		require.Equal(t, want, got["timeout"])
		require.Equal(t, []string{"$a", "$b", "$c", "client_context_id", "readonly", "statement", "timeout"},
			slices.Sorted(maps.Keys(got)))
	}
}

func TestEveryFieldIsSent(t *testing.T) {
	r := query.Request{
		Statement: "SELECT * FROM hotel WHERE a = $1", Bucket: "travel`s", Scope: "inventory",
		Positional: []any{1, "two", nil}, Named: map[string]any{"n": true}, Readonly: true, ClientContextID: "mine",
		Timeout: 5 * time.Second, Consistency: query.AtPlus, ScanVectors: json.RawMessage(`{"travel":{"17":[4711,"2048"]}}`),
		ScanWait: 1500 * time.Millisecond, MaxParallelism: 2, PipelineBatch: 3, PipelineCap: 4, ScanCap: 5,
		Profile: query.ProfileTimings, Metrics: true, PreserveExpiry: true, UseReplica: query.Off, FlexIndex: true,
		AutoExecute: true, Raw: map[string]any{"extra": 1, "metrics": false}, OnBehalfOf: "jane", Endpoint: "n1:8093",
	}
	h, err := r.HTTP()
	require.NoError(t, err)
	require.Equal(t, "mine", h.UniqueID)
	require.Equal(t, "jane", h.OnBehalfOf)
	require.Equal(t, "n1:8093", h.Endpoint)
	require.Equal(t, 5*time.Second, h.Timeout)
	raw, err := h.Body(2 * time.Second)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"statement":"SELECT * FROM hotel WHERE a = $1", "query_context":"default:`+"`travel``s`.`inventory`"+`",
		"args":[1,"two",null], "$n":true, "readonly":true, "client_context_id":"mine", "timeout":"2s",
		"scan_consistency":"at_plus", "scan_vectors":{"travel":{"17":[4711,"2048"]}}, "scan_wait":"1.5s",
		"max_parallelism":"2", "pipeline_batch":"3", "pipeline_cap":"4", "scan_cap":"5", "profile":"timings",
		"metrics":false, "preserve_expiry":true, "use_replica":"off", "use_fts":true, "auto_execute":true, "extra":1}`,
		string(raw))

	p := query.Request{
		Statement: "SELECT 1", Prepared: "n1", EncodedPlan: "H4sI", UseReplica: query.On,
		Consistency: query.RequestPlus, Profile: query.ProfilePhases, Raw: map[string]any{"timeout": "9s"},
	}
	h, err = p.HTTP()
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"prepared": "n1", "encoded_plan": "H4sI", "client_context_id": h.UniqueID, "timeout": "9s",
		"use_replica": "on", "scan_consistency": "request_plus", "profile": "phases",
	}, bodyOf(t, h, time.Second))

	// A wait without a consistency to wait for is dropped.
	w := query.Request{Statement: "SELECT 1", ScanWait: time.Second}
	h, err = w.HTTP()
	require.NoError(t, err)
	require.NotContains(t, bodyOf(t, h, time.Second), "scan_wait")
}

func TestRequestsThatCannotBeSentNameTheField(t *testing.T) {
	for field, r := range map[string]query.Request{
		"Statement is empty":                  {},
		"Bucket is set without a Scope":       {Statement: "x", Bucket: "b"},
		"Scope is set without a Bucket":       {Statement: "x", Scope: "s"},
		"AtPlus needs ScanVectors":            {Statement: "x", Consistency: query.AtPlus},
		"ScanVectors needs AtPlus":            {Statement: "x", ScanVectors: json.RawMessage(`{}`)},
		"Consistency is unknown":              {Statement: "x", Consistency: 3},
		"Profile is unknown":                  {Statement: "x", Profile: 3},
		"UseReplica is unknown":               {Statement: "x", UseReplica: 3},
		"a duration is negative":              {Statement: "x", Timeout: -1},
		"a number is negative":                {Statement: "x", ScanCap: -1},
		"an argument cannot be encoded":       {Statement: "x", Positional: []any{func() {}}},
		"error calling MarshalJSON":           {Statement: "x", Consistency: query.AtPlus, ScanVectors: json.RawMessage(`{`)},
		"json: unsupported type: chan int":    {Statement: "x", Named: map[string]any{"a": make(chan int)}},
		"json: unsupported type: func()":      {Statement: "x", Raw: map[string]any{"a": func() {}}},
		"query: invalid argument: a duration": {Statement: "x", ScanWait: -1},
	} {
		h, err := r.HTTP()
		require.Nil(t, h)
		require.ErrorIs(t, err, cberr.InvalidArgument, field)
		require.ErrorContains(t, err, field)
	}
}
