package bench

import (
	"math"
	"slices"
)

// median is the middle of xs, or the mean of the two middle ones, or NaN.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

// paired divides within each round; a round in which b is 0 gives nothing.
func paired(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}

// minus subtracts within each round.
func minus(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]-b[i])
	}
	return out
}

// times multiplies every figure.
func times(xs []float64, f float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x * f
	}
	return out
}

// spread is how far apart the middle half of xs is, as a part of their median; 0 for less than two.
func spread(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	cut := len(s) / 4
	return finite((s[len(s)-1-cut] - s[cut]) / median(s))
}

// finite makes what is no number, and what JSON cannot hold, 0.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// metric is a figure of a slice.
type metric func(s *slice) float64

func mThroughput(s *slice) float64 { return s.rate() }
func mCPU(s *slice) float64        { return s.perOp(float64(s.CPU)) / 1e3 } // us
func mAllocs(s *slice) float64     { return s.perOp(float64(s.Mallocs)) }
func mP50(s *slice) float64        { return s.P50 }
func mP99(s *slice) float64        { return s.P99 }
func mP999(s *slice) float64       { return s.P999 }
func mTicker(s *slice) float64     { return s.Ticker }
func mEcho(s *slice) float64       { return s.Echo }
