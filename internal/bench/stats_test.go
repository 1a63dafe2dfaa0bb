package bench

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.True(t, math.IsNaN(median(nil)))
	require.InDelta(t, 3, median([]float64{3}), 0)
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 1.5, median([]float64{2, 1}), 0)
	xs := []float64{3, 1, 2}
	median(xs)
	require.Equal(t, []float64{3, 1, 2}, xs, "what is measured stays in the order of the rounds")
}

// TestRatiosArePaired shows why ratios are taken within rounds: the median of the ratios is not the ratio of the
// medians.
func TestRatiosArePaired(t *testing.T) {
	fast, slow := []float64{10, 100, 30}, []float64{1, 20, 10}
	require.Equal(t, []float64{10, 5, 3}, paired(fast, slow))
	require.InDelta(t, 5, median(paired(fast, slow)), 0)
	require.NotEqual(t, median(fast)/median(slow), median(paired(fast, slow)))
	require.Equal(t, []float64{2}, paired([]float64{1, 2}, []float64{0, 1}), "nothing is divided by 0")
	require.Equal(t, []float64{1, 2}, minus([]float64{3, 4, 5}, []float64{2, 2}))
	require.Equal(t, []float64{2, 4}, times([]float64{1, 2}, 2))
}

func TestHistogram(t *testing.T) {
	var h histogram
	require.Zero(t, h.quantile(0.5))
	for _, ns := range []int64{0, 1, 15, 16, 17, 31, 32, 33, 999, 1000, 123456, 1 << 40} {
		b := bucketOf(ns)
		require.LessOrEqual(t, lowest(b), ns)
		require.Greater(t, lowest(b+1), ns, "%d is in bucket %d", ns, b)
	}
	require.Equal(t, 0, bucketOf(-5), "a clock that went back")
	require.Less(t, bucketOf(math.MaxInt64), len(h.counts))
	for i := range int64(1015) { // which fills the last bucket
		h.add((i + 1) * 1000)
	}
	for q, want := range map[float64]float64{0.5: 507.5, 0.99: 1005, 0.999: 1014} {
		require.InEpsilon(t, want, h.quantile(q), 0.005, "%v", q) // a bucket has 6 percent
	}
	var one histogram
	for range 3 {
		one.add(1000)
	}
	for _, q := range []float64{0, 0.5, 0.999, 1} {
		require.Greater(t, one.quantile(q), float64(lowest(bucketOf(1000)))/1e3)
		require.Less(t, one.quantile(q), float64(lowest(bucketOf(1000)+1))/1e3)
	}
	var other histogram
	other.merge(&h)
	require.Equal(t, h, other)
	other.reset()
	require.Zero(t, other.n)
}

// TestBucketsAreNarrow keeps two figures that differ by more than 7 percent apart.
func TestBucketsAreNarrow(t *testing.T) {
	for ns := int64(16); ns < 1<<40; ns += ns/7 + 1 {
		b := bucketOf(ns)
		require.LessOrEqual(t, float64(lowest(b+1))/float64(lowest(b)), 1.0626)
	}
}

func TestKeysAreWhatTheResponderReads(t *testing.T) {
	for class := range sizes {
		for i, k := range keys(class) {
			require.Len(t, k, keyLen)
			require.Equal(t, class, int(k[0]-'0'))
			require.Equal(t, i, keyNumber(k))
			require.Less(t, int(vbucketOf(k)), vbuckets)
		}
		require.Equal(t, class, classOf(sizes[class]))
	}
	require.Equal(t, -1, classOf(17))
}

func TestWorkersHaveKeysOfTheirOwn(t *testing.T) {
	all := keys(0)
	seen := map[string]int{}
	const workers = 128
	for w := range workers {
		r := newRotation(job{Callers: workers}, w, all)
		for range keyCount / workers {
			seen[string(r.key())]++
		}
	}
	require.Len(t, seen, keyCount, "together they visit every key once")
	r := newRotation(job{Callers: 1024}, 1023, all)
	for range 10 {
		r.key()
	}
}

func TestSpread(t *testing.T) {
	require.Zero(t, spread(nil))
	require.Zero(t, spread([]float64{3}))
	require.InDelta(t, 2.0/3, spread([]float64{2, 3, 4}), 1e-9)
	require.Zero(t, spread([]float64{1, 5, 5, 5, 5, 5, 5, 9}), "a round that is far from the others")
	require.Zero(t, spread([]float64{0, 0}))
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123",
		7: "7", 262144: "262144",
	} {
		require.Equal(t, want, number(v))
	}
	require.Equal(t, "0", number(math.NaN()))
	require.Equal(t, "1.20M", perSecond(1.2e6))
	require.Equal(t, "150k", perSecond(150e3))
	require.Equal(t, "12", perSecond(12))
}

func TestParseBenchmarks(t *testing.T) {
	ns, allocs := parseBenchmarks("goos: linux\nBenchmarkA-2   \t 100\t 12.5 ns/op\t 0 B/op\t 1 " +
		"allocs/op\nBenchmarkA-2 50 13.5 ns/op 0 B/op 1 allocs/op\n" +
		"BenchmarkB/x-y 1 9 ns/op\nBenchmarkBroken\nok \n")
	require.Equal(t, map[string][]float64{"BenchmarkA": {12.5, 13.5}, "BenchmarkB/x-y": {9}}, ns)
	require.Equal(t, map[string][]float64{"BenchmarkA": {1, 1}}, allocs)

	p := &probeResult{}
	p.fill(map[string][]float64{"BenchmarkOperationOff": {5, 7}, "BenchmarkOperationMetrics": {300, 310}},
		map[string][]float64{"BenchmarkOperationOff": {0, 0}, "BenchmarkOperationMetrics": {0, 1}})
	require.NoError(t, p.err)
	require.Equal(t, []map[string]float64{
		{"off_ns": 5, "off_allocs": 0, "metrics_ns": 300, "metrics_allocs": 0}, {
			"off_ns": 7, "off_allocs": 0,
			"metrics_ns": 310, "metrics_allocs": 1,
		},
	}, p.rounds)
	p = &probeResult{}
	p.fill(nil, nil)
	require.Error(t, p.err, "a benchmark that is gone is no result")
}
