package policy_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// reasonOf stands for the services' own tables.
func reasonOf(s retry.Service, n uint32) (retry.Reason, bool) {
	why, ok := map[retry.Service]map[uint32]retry.Reason{
		retry.KV: {0x07: retry.KVNotMyVBucket, 0x09: retry.KVLocked, 0x86: retry.KVTemporaryFailure},
		retry.Query: {
			429: retry.ServiceResponseCodeIndicated, 503: retry.ServiceResponseCodeIndicated,
			4040: retry.QueryPreparedStatementFailure,
		},
		retry.Search: {429: retry.SearchTooManyRequests},
	}[s][n]
	return why, ok
}

func parse(t testing.TB, text string, o policy.ParseOptions) *policy.Config {
	t.Helper()
	if o.Code == nil {
		o.Code = reasonOf
	}
	c, err := policy.Parse([]byte(text), o)
	require.NoError(t, err, "%s", text)
	return c
}

// retryPolicy is a whole document with one retry policy for everything; fields replace those of the example or add to
// it.
func retryPolicy(fields map[string]string) string {
	all := map[string]string{
		"maxAttempts": `4`, "initialBackoff": `"0.1s"`, "maxBackoff": `"1s"`, "backoffMultiplier": `2`, "retryableReasons": `["KV_LOCKED"]`,
	}
	return `{"operationConfig":[{"name":[{}],"retryPolicy":` + objectOf(all, fields) + `}]}`
}

func hedgingPolicy(fields map[string]string) string {
	return `{"operationConfig":[{"name":[{}],"hedgingPolicy":` + objectOf(map[string]string{"maxAttempts": `3`}, fields) + `}]}`
}

func throttling(fields map[string]string) string {
	return `{"retryThrottling":` + objectOf(map[string]string{"maxTokens": `10`, "tokenRatio": `0.1`}, fields) + `}`
}

// objectOf writes an object; an empty value leaves its field out.
func objectOf(all, fields map[string]string) string {
	var list []string
	for k, v := range fields {
		all[k] = v
	}
	for k, v := range all {
		if v != "" {
			list = append(list, fmt.Sprintf("%q:%s", k, v))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

// layers takes a strategy of a policy file apart and checks the order of the stack.
func layers(t testing.TB, s retry.Strategy, throttled bool) (policy.Only, policy.Limit, retry.BestEffort) {
	t.Helper()
	require.True(t, retry.IsInline(s))
	fast, ok := s.(retry.FastFailOnTerminalError)
	require.True(t, ok, "%T", s)
	only, ok := fast.Base.(policy.Only)
	require.True(t, ok, "%T", fast.Base)
	limit, ok := only.Base.(policy.Limit)
	require.True(t, ok, "%T", only.Base)
	below := limit.Base
	if throttled {
		th, ok := below.(policy.Throttle)
		require.True(t, ok, "%T", below)
		require.NotNil(t, th.Node)
		below = th.Base
	}
	push, ok := below.(policy.Pushback)
	require.True(t, ok, "%T", below)
	best, ok := push.Base.(retry.BestEffort)
	require.True(t, ok, "%T", push.Base)
	require.NotNil(t, best.Backoff)
	return only, limit, best
}

// describe writes down all that a policy file does, with the longest, the middle and the shortest delays.
func describe(t testing.TB, data []byte) string {
	t.Helper()
	var b strings.Builder
	var cs []*policy.Config
	for _, d := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		c, err := policy.Parse(data, policy.ParseOptions{Code: reasonOf, JitterSource: random(d)})
		require.NoError(t, err)
		cs = append(cs, c)
	}
	tokens, ratio, throttled := cs[0].Throttling()
	for _, n := range cs[0].Names() {
		var es []policy.Entry
		for _, c := range cs {
			e, ok := c.For(retry.Service(n[0]), n[1])
			require.True(t, ok)
			es = append(es, e)
		}
		fmt.Fprintf(&b, "%q %q: timeout %v, pinned %v\n", n[0], n[1], es[0].Timeout, es[0].Pinned)
		if h := es[0].Hedge; h != nil {
			require.Nil(t, es[0].Strategy)
			fmt.Fprintf(&b, "  hedging: %d attempts, every %v, non-fatal %v %v\n", h.MaxAttempts, h.Delay, h.NonFatal,
				h.Codes)
		}
		if es[0].Strategy == nil {
			continue
		}
		only, limit, _ := layers(t, es[0].Strategy, throttled)
		fmt.Fprintf(&b, "  retrying: %v %v, %d attempts, soft %v, hard %v\n", only.Reasons, only.Codes,
			limit.MaxAttempts, limit.Soft, limit.Hard)
		for step := range min(limit.MaxAttempts-1, 20) {
			b.WriteString("  delay")
			last := time.Duration(0)
			for _, e := range es {
				_, _, best := layers(t, e.Strategy, throttled)
				last = best.Backoff(step, 300*ms)
				fmt.Fprintf(&b, " %v", last.Round(time.Microsecond))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "throttle: %v, %d tokens, %d thousandths\n", throttled, tokens, ratio)
	return b.String()
}

// TestSeedExamplesParse proves GA6-53: the examples of the gRPC proposal, with its codes replaced by reasons, and the
// form of this client's own documentation.
func TestSeedExamplesParse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			testkit.Golden(t, strings.TrimSuffix(f, ".json")+".golden", []byte(describe(t, data)), *update)
		})
	}
}

// TestBothFormsMeanTheSame proves that gRPC's names are other names for the same fields (GA6-53).
func TestBothFormsMeanTheSame(t *testing.T) {
	data, err := os.ReadFile("testdata/policy.json")
	require.NoError(t, err)
	grpc := data
	for own, other := range map[string]string{
		"operationConfig": "methodConfig", `"operation"`: `"method"`, "retryableReasons": "retryableStatusCodes", "nonFatalReasons": "nonFatalStatusCodes",
	} {
		require.True(t, bytes.Contains(grpc, []byte(own)))
		grpc = bytes.ReplaceAll(grpc, []byte(own), []byte(other))
	}
	require.Equal(t, describe(t, data), describe(t, grpc))
}

// TestDelaysOfTheFile proves GA6-4 and GA6-8: the n-th delay is random between 0 and the least of initial *
// multiplier^(n-1) and the maximum, and every other jitter stays below the maximum too.
func TestDelaysOfTheFile(t *testing.T) {
	nearly := math.Nextafter(1, 0)
	delays := func(jitter string, d float64) []time.Duration {
		fields := map[string]string{"maxAttempts": `7`, "initialBackoff": `"0.1s"`, "maxBackoff": `"1s"`, "backoffMultiplier": `2`}
		if jitter != "" {
			fields["jitter"] = `"` + jitter + `"`
		}
		e, _ := parse(t, retryPolicy(fields), policy.ParseOptions{
			MaxAttemptsCap: 7,
			JitterSource:   random(d),
		}).For(retry.KV,
			"get")
		ds, _ := simulateIn(t, e.Strategy, retry.KVLocked, 20)
		for i := range ds {
			ds[i] = ds[i].Round(ms)
		}
		return ds
	}
	for _, c := range []struct {
		jitter string
		random float64
		want   []time.Duration
	}{
		{"", 0, inMS(0, 0, 0, 0, 0, 0)},
		{"", 0.5, inMS(50, 100, 200, 400, 500, 500)},
		{"", nearly, inMS(100, 200, 400, 800, 1000, 1000)},
		{"full", 0.5, inMS(50, 100, 200, 400, 500, 500)},
		{"none", 0.5, inMS(100, 200, 400, 800, 1000, 1000)},
		{"equal", 0, inMS(50, 100, 200, 400, 500, 500)},
		{"equal", nearly, inMS(100, 200, 400, 800, 1000, 1000)},
		{"additive", 0, inMS(100, 200, 400, 667, 667, 667)},
		{"additive", nearly, inMS(150, 300, 600, 1000, 1000, 1000)},
		{"proportional", 0, inMS(80, 160, 320, 640, 667, 667)},
		{"proportional", nearly, inMS(120, 240, 480, 960, 1000, 1000)},
		{"decorrelated", 0, inMS(100, 100, 100, 100, 100, 100)},
		{"decorrelated", nearly, inMS(100, 300, 900, 1000, 1000, 1000)},
	} {
		require.Equal(t, c.want, delays(c.jitter, c.random), "%q with %v", c.jitter, c.random)
	}
	e, _ := parse(t, retryPolicy(map[string]string{"initialBackoff": `"2s"`, "jitter": `"decorrelated"`}), policy.ParseOptions{}).For(retry.KV, "get")
	ds, _ := simulateIn(t, e.Strategy, retry.KVLocked, 20)
	require.Equal(t, inMS(1000, 1000, 1000), ds, "an initial delay above the maximum")
}
