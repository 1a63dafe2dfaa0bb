package bench

import (
	"math"
	"slices"
)

// median is the middle of xs, or the mean of the two middle ones; NaN when there are none.
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

// metric is a figure of a slice.
type metric func(s *slice) float64

func mThroughput(s *slice) float64 { return s.rate() }
func mCPU(s *slice) float64        { return s.perOp(float64(s.CPU)) / 1e3 } // us
func mServerCPU(s *slice) float64  { return s.perOp(float64(s.ServerCPU)) / 1e3 }
func mAllocs(s *slice) float64     { return s.perOp(float64(s.Mallocs)) }
func mBytes(s *slice) float64      { return s.perOp(float64(s.Bytes)) }
func mP50(s *slice) float64        { return s.P50 }
func mP99(s *slice) float64        { return s.P99 }
func mP999(s *slice) float64       { return s.P999 }
func mPerRead(s *slice) float64    { return s.PerRead }
func mForeign(s *slice) float64    { return s.Foreign }
