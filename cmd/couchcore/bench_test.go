package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestStepsOfHistogramsHoldWhatBelongsToThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "n")
		i := stepOf(n)
		if n < startOf(i) || n >= startOf(i+1) {
			t.Fatalf("%d is not in step %d, [%d, %d)", n, i, startOf(i), startOf(i+1))
		}
		if width := startOf(i+1) - startOf(i); width > 1 && float64(width) > 0.032*float64(n) {
			t.Fatalf("step %d of %d is %d wide", i, n, width)
		}
	})
	var h histogram
	h.add(math.MaxInt64)
	h.add(-1)
	require.EqualValues(t, 2, h.total())
}

func TestHistogram(t *testing.T) {
	var h histogram
	require.Equal(t, []time.Duration{0, 0}, h.below(0.5, 0.99))
	require.Empty(t, h.bars())
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	p := h.below(0.5, 0.9, 0.999, 1)
	for i, want := range []time.Duration{500, 900, 999, 1000} {
		require.InEpsilon(t, want*time.Microsecond, p[i], 0.032)
	}
	require.Equal(t, time.Millisecond, h.longest())
	bars := h.bars()
	require.Len(t, bars, 10)
	require.Equal(t, bar{time.Microsecond, 1}, bars[0])
	require.Equal(t, bar{2 * time.Microsecond, 2}, bars[1])
	require.Equal(t, 512*time.Microsecond, bars[9].from)
	require.InDelta(t, 489, bars[9].count, 16)

	var gap histogram
	gap.add(100)
	gap.add(5 * time.Microsecond)
	require.Equal(t, []bar{{0, 1}, {time.Microsecond, 0}, {2 * time.Microsecond, 0}, {4 * time.Microsecond, 1}},
		gap.bars())
}

func TestBenchOnItsOwnMock(t *testing.T) {
	r := couchcore("bench", "--ops", "500", "--keys", "50", "--concurrency", "4", "--value-size", "100", "--read-ratio",
		"1", "--json")
	require.Zero(t, r.code, r.stderr)
	o := r.object(t)
	hasKeys(t, o, "ops", "ops_per_s", "p50_us", "p99_us", "p999_us", "max_us", "errors", "retries")
	for key, want := range map[string]float64{
		"ops": 500, "reads": 500, "writes": 0, "errors": 0, "concurrency": 4,
		"keys": 50, "value_size": 100,
	} {
		require.InDelta(t, want, o[key], 0, key)
	}
	require.Equal(t, "a mock of three nodes in this process", o["cluster"])
	ascending := []string{"p50_us", "p90_us", "p99_us", "p999_us", "max_us"}
	for i, key := range ascending[1:] {
		require.LessOrEqual(t, o[ascending[i]], o[key], key)
	}

	r = couchcore("bench", "--duration", "100ms", "--keys", "10", "--concurrency", "2", "--read-ratio", "0")
	require.Zero(t, r.code, r.stderr)
	require.Empty(t, r.stderr)
	require.Regexp(t, `^1\d\d ms   \d[\d ]* ops   \d+(\.\dk)?/s   2 callers   256 bytes   0% reads   a mock of three nodes in this process\n`+
		`p50 .* ms   p90 .* ms   p99 .* ms   p99.9 .* ms   max .* ms   retries 0   errors 0\n`, r.stdout)
	require.Regexp(t, `(?m)^\d+ us +\x{2587}{40}$`, r.stdout)
}

func TestBenchOnAClusterThatFails(t *testing.T) {
	m, c := startMock(t)
	in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 3}, mock.Status(memd.StatusTmpFail))
	r := c.run("bench", "--ops", "200", "--keys", "5", "--concurrency", "2", "--json")
	in.Remove()
	require.Zero(t, r.code, r.stderr)
	o := r.object(t)
	require.InDelta(t, 3, o["retries"], 0)
	require.Contains(t, o["reasons"], "KV_TEMPORARY_FAILURE")
	require.Equal(t, strings.TrimPrefix(m.ConnString(), "couchbase://"), o["cluster"])

	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusInternal))
	r = c.run("bench", "--ops", "100", "--keys", "5", "--concurrency", "2")
	require.Zero(t, r.code, "writes were well")
	require.Contains(t, r.stdout, "failed with internal_server_failure x")
	r = c.run("bench", "--ops", "20", "--keys", "5", "--concurrency", "2", "--read-ratio", "1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "couchcore: bench: every call has failed: ")

	c.run("bench", "--ops", "5", "-p", "wrong").failsWith(t, exitFailed, "bench: writing the documents: ")
	c.run("bench", "--ops", "5", "--collection", "nosuch", "--timeout", "1s").failsWith(t, exitFailed,
		"collection not found")
	for _, d := range m.Documents(mock.DefaultBucket) {
		require.True(t, strings.HasPrefix(d.Key, "couchcore-bench-"))
		require.NotZero(t, d.Expiry)
	}
}

func TestBenchUsage(t *testing.T) {
	for args, text := range map[string]string{
		"--ops 1 --duration 1s": "can't be used together", "--ops=-1": "not negative", "--duration=-1s": "not negative",
		"--concurrency 0": "--concurrency",
		"--keys 0":        "--keys", "--value-size=-1": "--value-size", "--read-ratio 2": "--read-ratio",
		"--read-ratio NaN": "--read-ratio",
		"--ops x":          "--ops", "more": "unexpected",
	} {
		couchcore(append([]string{"bench"}, strings.Fields(args)...)...).failsWith(t, exitUsage, text)
	}
}
