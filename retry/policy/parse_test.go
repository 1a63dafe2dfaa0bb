package policy_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// bad is a document that is refused, with what the error says.
type bad struct{ text, path, value, reason string }

func (b bad) check(t *testing.T) {
	t.Helper()
	c, err := policy.Parse([]byte(b.text), policy.ParseOptions{Code: reasonOf})
	require.Nil(t, c, b.text)
	var e *policy.ParseError
	require.ErrorAs(t, err, &e, b.text)
	require.Equal(t, b.path, e.Path, b.text)
	require.Equal(t, b.value, e.Value, b.text)
	require.Contains(t, e.Reason, b.reason, b.text)
	for _, part := range []string{b.path, b.value} {
		require.Contains(t, err.Error(), part)
	}
}

const (
	inRetry = "operationConfig[0].retryPolicy."
	inHedge = "operationConfig[0].hedgingPolicy."
)

// fieldErrors checks values that a field refuses; an empty one is a missing field.
func fieldErrors(t *testing.T, document func(map[string]string) string, at, field, reason string, values ...string) {
	t.Helper()
	for _, v := range values {
		want := reason
		if v == "" {
			want = "is required"
		}
		bad{document(map[string]string{field: v}), at + field, v, want}.check(t)
	}
}

// TestOnePolicyOrTheOther proves GA6-1.
func TestOnePolicyOrTheOther(t *testing.T) {
	const retrying = `"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableReasons":["KV_LOCKED"]}`
	const hedging = `"hedgingPolicy":{"maxAttempts":2}`
	for _, b := range []bad{
		{`{"operationConfig":[{"name":[{}],` + retrying + `,` + hedging + `}]}`, "operationConfig[0].hedgingPolicy", `{"maxAttempts":2}`, "not both"},
		{`{"operationConfig":[{"name":[{}],` + hedging + `,"retryPolicy":{}}]}`, "operationConfig[0].retryPolicy", `{}`, "not both"},
		{`{"methodConfig":[{},{}]}`, "methodConfig[0].name", "", "is required"},
	} {
		b.check(t)
	}
	c := parse(t, `{"operationConfig":[{"name":[{"service":"kv"}],`+retrying+`},{"name":[{"service":"query"}],`+hedging+`},{"name":[{}],"timeout":"3s"}]}`, policy.ParseOptions{})
	kv, _ := c.For(retry.KV, "get")
	require.True(t, kv.Strategy != nil && kv.Hedge == nil)
	query, _ := c.For(retry.Query, "query")
	require.True(t, query.Strategy == nil && query.Hedge != nil)
	tail, ok := c.For(retry.Views, "query")
	require.True(t, ok && tail.Strategy == nil && tail.Hedge == nil, "no policy: what the client does without the file")
	require.Equal(t, 3*time.Second, tail.Timeout)
}

// TestMaxAttempts proves GA6-7 and GA6-31: a JSON integer above 1, capped at 5 or at what the client says.
func TestMaxAttempts(t *testing.T) {
	for _, f := range []struct {
		document func(map[string]string) string
		at       string
	}{{retryPolicy, inRetry}, {hedgingPolicy, inHedge}} {
		fieldErrors(t, f.document, f.at, "maxAttempts", "an integer above 1",
			"", `1`, `0`, `-3`, `1.5`, `2.0`, `3e0`, `"3"`, `null`, `true`, `[3]`, `{"n":3}`)
	}
	for _, c := range []struct {
		file      string
		most, got int
	}{
		{`2`, 0, 2},
		{`5`, 0, 5},
		{`6`, 0, 5},
		{`99999999999999999999999999`, 0, 5},
		{`6`, 10, 6},
		{`11`, 10, 10},
		{`4`, 3, 3},
		{`4`, -1, 4},
		{`4294967297`, math.MaxInt32, math.MaxInt32},
	} {
		fields := map[string]string{"maxAttempts": c.file}
		e, _ := parse(t, retryPolicy(fields), policy.ParseOptions{MaxAttemptsCap: c.most}).For(retry.KV, "get")
		_, limit, _ := layers(t, e.Strategy, false)
		require.Equal(t, c.got, limit.MaxAttempts, "%+v", c)
		e, _ = parse(t, hedgingPolicy(fields), policy.ParseOptions{MaxAttemptsCap: c.most}).For(retry.KV, "get")
		require.Equal(t, c.got, e.Hedge.MaxAttempts, "%+v", c)
	}
}

// TestDurations proves GA6-8: durations as proto3 writes them in JSON.
func TestDurations(t *testing.T) {
	notPositive := []string{`"0s"`, `"-0s"`, `"0.000000000s"`, `"-1s"`, `"-0.5s"`}
	noDuration := []string{
		`"1"`, `"1.0000000001s"`, `""`, `"s"`, `".5s"`, `"1.s"`, `"01s"`, `"+1s"`, `"1 s"`, `" 1s"`, `"1ms"`, `"1S"`, `"1e1s"`, `"1_0s"`, `"--1s"`,
		`"9223372037s"`, `"99999999999999999999s"`, `"9223372036.854775808s"`, `1`, `0.5`, `null`, `["1s"]`, `true`,
	}
	for _, field := range []string{"initialBackoff", "maxBackoff"} {
		fieldErrors(t, retryPolicy, inRetry, field, "a duration above 0", append(append([]string{""}, notPositive...),
			noDuration...)...)
	}
	for _, field := range []string{"softLimit", "hardLimit"} {
		fieldErrors(t, retryPolicy, inRetry, field, "a duration above 0", append(notPositive, noDuration...)...)
	}
	fieldErrors(t, hedgingPolicy, inHedge, "hedgingDelay", "not negative", append([]string{`"-1s"`, `"-0.000000001s"`}, noDuration...)...)
	for _, v := range append(notPositive, noDuration...) {
		bad{`{"operationConfig":[{"name":[{}],"timeout":` + v + `}]}`, "operationConfig[0].timeout", v, "a duration above 0"}.check(t)
	}
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "0.1s": 100 * ms, "1.000000001s": time.Second + 1, "0.000000001s": 1, "2.50s": 2500 * ms,
		"100s":                  100 * time.Second,
		"9223372036.854775807s": math.MaxInt64,
	} {
		e, _ := parse(t, `{"operationConfig":[{"name":[{}],"timeout":"`+text+`"}]}`, policy.ParseOptions{}).For(retry.KV, "get")
		require.Equal(t, want, e.Timeout, text)
	}
}

// TestMultiplier proves GA6-9.
func TestMultiplier(t *testing.T) {
	fieldErrors(t, retryPolicy, inRetry, "backoffMultiplier", "a number above 0",
		"", `0`, `-0`, `0.0`, `-2`, `"2"`, `null`, `1e999`, `1e-999`, `[2]`)
	for _, v := range []string{`2`, `0.5`, `1.5e0`, `1E+2`} {
		parse(t, retryPolicy(map[string]string{"backoffMultiplier": v}), policy.ParseOptions{})
	}
}

// TestReasonsAndCodes proves GA6-10: a list that is not empty, of integers and of names in any case; numbers that mean
// nothing in a service are refused.
func TestReasonsAndCodes(t *testing.T) {
	named := func(names, list string) string {
		return `{"operationConfig":[{"name":` + names + `,"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s",` +
			`"backoffMultiplier":1,"retryableReasons":` + list + `}}]}`
	}
	const field = "retryableReasons"
	fieldErrors(t, retryPolicy, inRetry, field, "must be an array", `"KV_LOCKED"`, `134`, `null`, `{"a":1}`)
	fieldErrors(t, retryPolicy, inRetry, field, "empty", "", `[]`)
	for v, reason := range map[string]string{
		`"NO_SUCH"`: "is not a reason", `""`: "is not a reason", `"134"`: "is not a reason", `" KV_LOCKED"`: "is not a reason", `"UNKNOWN"`: "is never retried",
		`0`: "above 0", `-1`: "above 0", `1.5`: "above 0", `4294967296`: "of 32 bits", `1e2`: "above 0",
		`"0x"`: "is not a reason", `"0x0"`: "0x86", `"0xzz"`: "0x86", `"0x100000000"`: "0x86", `"0x-1"`: "0x86",
		`null`: "the name of a reason", `[134]`: "the name of a reason", `{}`: "the name of a reason", `true`: "the name of a reason",
		`404`: "in any service", `"0x01"`: "in any service",
	} {
		bad{named(`[{}]`, `["KV_LOCKED",`+v+`]`), inRetry + field + "[1]", v, reason}.check(t)
		bad{
			`{"operationConfig":[{"hedgingPolicy":{"maxAttempts":3,"nonFatalReasons":[` + v + `]},"name":[{}]}]}`,
			inHedge + "nonFatalReasons[0]", v, reason,
		}.check(t)
	}
	for _, c := range []struct {
		names, list string
		reasons     retry.Reasons
		codes       []uint32
	}{
		{`[{}]`, `[134]`, 0, []uint32{0x86}},
		{`[{}]`, `["0x86"]`, 0, []uint32{0x86}},
		{`[{}]`, `["0X0086",134,429]`, 0, []uint32{0x86, 429}},
		{`[{}]`, `["kv_temporary_failure"]`, retry.Reasons(0).With(retry.KVTemporaryFailure), nil},
		{`[{"service":"kv"}]`, `["KV_locked","KV_LOCKED",9]`, retry.Reasons(0).With(retry.KVLocked), []uint32{9}},
		{`[{"service":"query"},{"service":"search"}]`, `[429]`, 0, []uint32{429}},
		{`[{"service":"query"},{}]`, `[4040]`, 0, []uint32{4040}},
	} {
		e, ok := parse(t, named(c.names, c.list), policy.ParseOptions{}).For(retry.Query, "query")
		if !ok {
			e, _ = parse(t, named(c.names, c.list), policy.ParseOptions{}).For(retry.KV, "get")
		}
		only, _, _ := layers(t, e.Strategy, false)
		require.Equal(t, c.reasons, only.Reasons, "%+v", c)
		require.Equal(t, c.codes, only.Codes, "%+v", c)
	}
	const at = inRetry + field + "[0]"
	bad{named(`[{"service":"query"}]`, `["0x86"]`), at, `"0x86"`, `in the service "query"`}.check(t)
	bad{named(`[{"service":"query"},{"service":"search","operation":"x"}]`, `[503]`), at, `503`, `in the service "search"`}.check(t)
	bad{named(`[{"service":"kv"},{}]`, `[429]`), at, `429`, `in the service "kv"`}.check(t)
	_, err := policy.Parse([]byte(named(`[{}]`, `[134]`)), policy.ParseOptions{})
	require.ErrorContains(t, err, "in any service", "without a table there are no codes")
}

// TestHedgingPolicy proves GA6-18: the delay and the list are optional.
func TestHedgingPolicy(t *testing.T) {
	hedge := func(fields map[string]string) policy.Hedge {
		e, ok := parse(t, hedgingPolicy(fields), policy.ParseOptions{}).For(retry.KV, "get")
		require.True(t, ok)
		return *e.Hedge
	}
	require.Equal(t, policy.Hedge{MaxAttempts: 3}, hedge(nil))
	require.Equal(t, policy.Hedge{MaxAttempts: 3}, hedge(map[string]string{"hedgingDelay": `"0s"`, "nonFatalReasons": `[]`}))
	require.Equal(t, policy.Hedge{
		MaxAttempts: 2, Delay: 20 * ms, NonFatal: retry.Reasons(0).With(retry.KVLocked), Codes: []uint32{0x86},
	}, hedge(map[string]string{"maxAttempts": `2`, "hedgingDelay": `"0.02s"`, "nonFatalReasons": `["KV_LOCKED",134]`}))
	fieldErrors(t, hedgingPolicy, inHedge, "nonFatalReasons", "must be an array", `"KV_LOCKED"`, `null`)
	fieldErrors(t, hedgingPolicy, inHedge, "maxBackoff", "is unknown", `"1s"`)
}

// TestThrottlingLimits proves GA6-26: an integer in (0, 1000]; a ratio above 0 with three decimals, the rest dropped.
func TestThrottlingLimits(t *testing.T) {
	const in = "retryThrottling."
	fieldErrors(t, throttling, in, "maxTokens", "from 1 to 1000", "", `0`, `-1`, `1001`, `10.5`, `"10"`, `99999999999999999999`, `null`)
	fieldErrors(t, throttling, in, "tokenRatio", "above 0", "", `0`, `-0.1`, `"0.1"`, `0.0004`, `1e-9`, `null`)
	fieldErrors(t, throttling, in, "other", "is unknown", `1`)
	for ratio, want := range map[string]int{
		`0.5466`: 546, `0.1`: 100, `0.001`: 1, `0.0019`: 1, `0.57`: 570, `0.29`: 290, `1`: 1000, `2.5`: 2500, `1e-1`: 100, `5.466e-1`: 546,
		`999.9999`: 999999, `1000`: 1000000, `1e300`: 1000000,
	} {
		tokens, milli, ok := parse(t, throttling(map[string]string{"tokenRatio": ratio, "maxTokens": `1000`}), policy.ParseOptions{}).Throttling()
		require.True(t, ok)
		require.Equal(t, 1000, tokens)
		require.Equal(t, want, milli, ratio)
	}
	_, _, ok := parse(t, `{}`, policy.ParseOptions{}).Throttling()
	require.False(t, ok)
}

// TestNames proves GA6-51: policies by operation, by service and for everything; a name that two entries claim is
// refused.
func TestNames(t *testing.T) {
	c := parse(t, `{"operationConfig":[
		{"name":[{}],"timeout":"1s"},
		{"name":[{"service":"kv"},{"service":"query"}],"timeout":"2s"},
		{"name":[{"service":"kv","operation":"get"}],"timeout":"3s"}]}`, policy.ParseOptions{})
	for _, w := range []struct {
		service   retry.Service
		operation string
		want      time.Duration
	}{
		{retry.KV, "get", 3 * time.Second},
		{retry.KV, "upsert", 2 * time.Second},
		{retry.KV, "", 2 * time.Second},
		{retry.Query, "get", 2 * time.Second},
		{retry.Views, "get", time.Second},
		{"", "get", time.Second},
	} {
		e, ok := c.For(w.service, w.operation)
		require.True(t, ok)
		require.Equal(t, w.want, e.Timeout, "%+v", w)
	}
	_, ok := parse(t, `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}]}]}`, policy.ParseOptions{}).For(retry.KV, "upsert")
	require.False(t, ok)

	const in = "operationConfig[0].name"
	for _, b := range []bad{
		{`{"operationConfig":[{"name":[{"service":"kv"}]},{"name":[{"service":"query"},{"service":"kv"}]}]}`, "operationConfig[1].name[1]", `{"service":"kv"}`, "twice, first at operationConfig[0].name[0]"},
		{`{"methodConfig":[{"name":[{"service":"kv","method":"get"}]},{"name":[{"method":"get","service":"kv"}]}]}`, "methodConfig[1].name[0]", `{"service":"kv","operation":"get"}`, "twice"},
		{`{"operationConfig":[{"name":[{},{}]}]}`, in + "[1]", `{}`, "twice"},
		{`{"operationConfig":[{"name":[{"operation":"get"}]}]}`, in + "[0]", `{"operation":"get"}`, "without its service"},
		{`{"operationConfig":[{"name":[{"service":"nosuch"}]}]}`, in + "[0].service", `"nosuch"`, "is not a service"},
		{`{"operationConfig":[{"name":[{"service":"KV"}]}]}`, in + "[0].service", `"KV"`, "is not a service"},
		{`{"operationConfig":[{"name":[{"service":""}]}]}`, in + "[0].service", `""`, "is not a service"},
		{`{"operationConfig":[{"name":[{"service":7}]}]}`, in + "[0].service", `7`, "the name of a service"},
		{`{"operationConfig":[{"name":[{"service":"kv","operation":""}]}]}`, in + "[0].operation", `""`, "empty"},
		{`{"operationConfig":[{"name":[{"service":"kv","operation":null}]}]}`, in + "[0].operation", `null`, "the name of an operation"},
		{`{"operationConfig":[{"name":[]}]}`, in, `[]`, "empty"},
		{`{"operationConfig":[{"name":[7]}]}`, in + "[0]", `7`, "an object"},
		{`{"operationConfig":[{"name":{"service":"kv"}}]}`, in, `{"service":"kv"}`, "an array"},
		{`{"operationConfig":[{"timeout":"1s"}]}`, in, "", "is required"},
	} {
		b.check(t)
	}
}

// TestStrictDocument refuses everything that a policy file does not have, wherever it stands.
func TestStrictDocument(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, b := range []bad{
		{``, "", "", "empty"},
		{` `, "", "", "empty"},
		{`[]`, "", `[]`, "an object"},
		{`null`, "", `null`, "an object"},
		{`{} {}`, "", "", "more follows"},
		{`{}]`, "", `"]"`, "not JSON"},
		{`{"operationConfig":[`, "operationConfig[0]", "", "not JSON"},
		{`{"operationConfig":[{"name":[{}],"timeout":"1s"`, "operationConfig[0]", "", "not JSON"},
		{`{"operationConfig":[{"name":[{}],"timeout":1s}]}`, "operationConfig[0].timeout", `1`, "a duration"},
		{`{"operationConfig":[{"name":[{}],"timeout":s1}]}`, "operationConfig[0].timeout", `"s1}]}"`, "not JSON"},
		{"{\"retryThrottling\":\"\xff\"}", "retryThrottling", `"\xff\"}"`, "not JSON"},
		{`{"operationConfig":{}}`, "operationConfig", `{}`, "an array"},
		{`{"operationConfig":[null]}`, "operationConfig[0]", `null`, "an object"},
		{`{"operationConfig":[],"operationConfig":[]}`, "operationConfig", `"operationConfig"`, "twice"},
		{`{"operationConfig":[],"methodConfig":[]}`, "methodConfig", `[]`, "under its other name"},
		{`{"extra":{"a":[1, 2]}}`, "extra", `{"a":[1,2]}`, "is unknown; there are operationConfig"},
		{`{"retryThrottling":{"maxTokens":1,"tokenRatio":1,"maxTokens":1}}`, "retryThrottling.maxTokens", `"maxTokens"`, "twice"},
		{retryPolicy(map[string]string{"max attempts": `4`}), `operationConfig[0].retryPolicy["max attempts"]`, `4`, "is unknown"},
		{retryPolicy(map[string]string{"azAZ09_-": `4`}), inRetry + "azAZ09_-", `4`, "is unknown"},
		{retryPolicy(map[string]string{"": `4`}), `operationConfig[0].retryPolicy[""]`, `4`, "is unknown"},
		{retryPolicy(map[string]string{"MaxAttempts": `4`}), inRetry + `MaxAttempts`, `4`, "is unknown"},
		{retryPolicy(map[string]string{"jitter": `"FULL"`}), inRetry + `jitter`, `"FULL"`, "is not a jitter: choose one of [none full"},
		{retryPolicy(map[string]string{"jitter": `true`}), inRetry + `jitter`, `true`, "the name of a jitter"},
		{retryPolicy(map[string]string{"pinned": `"false"`}), inRetry + `pinned`, `"false"`, "true or false"},
		{retryPolicy(map[string]string{"pinned": `0`}), inRetry + `pinned`, `0`, "true or false"},
		{retryPolicy(map[string]string{"softLimit": `"2.5s"`, "hardLimit": `"2s"`}), inRetry + `softLimit`, `2.5s`, "above the hardLimit of 2s"},
		{`{"operationConfig":[{"name":[{}],"retryPolicy":7}]}`, "operationConfig[0].retryPolicy", `7`, "an object"},
		{`{"operationConfig":[{"name":[{}],"waitForReady":true}]}`, "operationConfig[0].waitForReady", `true`, "is unknown"},
		{`{"loadBalancingPolicy":"x","operationConfig":[]}`, "loadBalancingPolicy", `"x"`, "without methodConfig"},
		{`{"methodConfig":[{"name":[{}],"waitForReady":1}]}`, "methodConfig[0].waitForReady", `1`, "true or false"},
		{`{"methodConfig":[{"name":[{}],"maxRequestMessageBytes":-1}]}`, "methodConfig[0].maxRequestMessageBytes", `-1`, "a whole number"},
		{`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1}}]}`, "methodConfig[0].retryPolicy.retryableStatusCodes", "", "is required"},
		{`{"` + long + `":1}`, long[:80] + "...", `1`, "is unknown"},
		{`{"loadBalancingPolicy":["` + long + `"]}`, "loadBalancingPolicy", `["` + long[:78] + "...", "a string"},
		{strings.Repeat("[", 20000), "", `"[[[[[[[[[[[[[[[[[[[["`, "not JSON"},
	} {
		b.check(t)
	}
	_, err := policy.Parse(bytes.Repeat([]byte(" "), policy.MaxSize+1), policy.ParseOptions{})
	var e *policy.ParseError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "1048577 bytes", e.Value)
	parse(t, retryPolicy(map[string]string{"softLimit": `"2s"`, "hardLimit": `"2s"`}), policy.ParseOptions{})
	parse(t, retryPolicy(map[string]string{"softLimit": `"2s"`}), policy.ParseOptions{})
	parse(t, `{}`+strings.Repeat(" ", policy.MaxSize-2), policy.ParseOptions{})
	require.EqualError(t, &policy.ParseError{Path: "a.b", Value: "1", Reason: "is wrong"}, "a.b: is wrong: 1")
	require.EqualError(t, &policy.ParseError{Reason: "the document is empty"}, "policy file: the document is empty")
}
