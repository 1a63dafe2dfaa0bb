package chaos

import (
	"fmt"
	"slices"
	"time"
)

// SoakReport is what a soak has shown.
type SoakReport struct {
	Seed     uint64      `json:"seed"`
	Took     string      `json:"took"`
	OK       bool        `json:"ok"`
	Verdicts []Verdict   `json:"verdicts"`
	Failures []Violation `json:"failures"`
	Samples  []Sample    `json:"samples"`
}

// Verdict is a figure of a soak, and the limit that it must not pass.
type Verdict struct {
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	OK    bool    `json:"ok"`
}

// Limits of a soak.
const (
	leastSamples = 12
	countGrowth  = 2.0       // goroutines or descriptors, in the whole run
	heapPerHour  = 1 << 20   // bytes
	heapNoise    = 1 << 20   // bytes that a run of any length may grow by
	drift        = 1.10      // of the 99th percentile, its end against its beginning
	driftNoise   = 0.1       // ms that it may be longer in any case
	driftShort   = 2.0       // the same in a run of less than ten minutes, which the machine's own load decides
	failures     = 1.0       // per cent of the calls; each reset fails a few of them
	slowing      = 80.0      // per cent that the rate of calls may lose
	hour         = 3600.0    // s
	warmUp       = 0.25      // share of the samples that is left out at the beginning
	megabyte     = 1_000_000 // of figures
)

// judge holds the samples against the limits. What grows is judged by the median of the slopes between all pairs of
// samples, which a few odd ones do not change.
func (r *SoakReport) judge() {
	r.Verdicts = nil
	if len(r.Samples) < leastSamples {
		r.Verdicts = []Verdict{{"samples", "", float64(len(r.Samples)), leastSamples, false}}
		r.OK = false
		return
	}
	ss := r.Samples[int(warmUp*float64(len(r.Samples))):]
	first, last := ss[0], ss[len(ss)-1]
	hours := (last.At - first.At) / hour
	add := func(what, unit string, value, limit float64) {
		r.Verdicts = append(r.Verdicts, Verdict{what, unit, value, limit, value <= limit})
	}
	growth := func(f func(Sample) float64) float64 { return slope(ss, f) * (last.At - first.At) }
	add("goroutines, growth", "", growth(func(s Sample) float64 { return float64(s.Goroutines) }), countGrowth)
	add("descriptors, growth", "", growth(func(s Sample) float64 { return float64(s.Descriptors) }), countGrowth)
	add("live heap, growth", "MB", growth(func(s Sample) float64 { return float64(s.Heap) })/megabyte,
		max(heapPerHour*hours, heapNoise)/megabyte)
	third := len(ss) / 3
	was, is := middle(ss[:third], p99), middle(ss[len(ss)-third:], p99)
	noise := driftNoise
	if hours < 1.0/6 {
		noise = driftShort
	}
	add("p99 of calls at the end", "ms", is, max(was*drift, was+noise))
	add("failed calls", "%", 100*failed(ss), failures)
	// calls that never end have no duration
	add("calls a second, loss", "%", 100*(1-rate(ss[len(ss)-third:])/max(rate(ss[:third]), 1)), slowing)
	r.OK = !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return !v.OK })
}

// failed is the share of the calls that have failed. Without a call, it is all of them.
func failed(ss []Sample) float64 {
	calls := ss[len(ss)-1].Calls - ss[0].Calls
	if calls == 0 {
		return 1
	}
	return float64(ss[len(ss)-1].Failed-ss[0].Failed) / float64(calls)
}

// rate is how many calls ended in a second.
func rate(ss []Sample) float64 {
	first, last := ss[0], ss[len(ss)-1]
	return float64(last.Calls-first.Calls) / max(last.At-first.At, 1e-3)
}

func p99(s Sample) float64 { return s.P99 }

// slope is the median growth of f in a second.
func slope(ss []Sample, f func(Sample) float64) float64 {
	ss = thinned(ss)
	var all []float64
	for i, a := range ss {
		for _, b := range ss[i+1:] {
			if b.At > a.At {
				all = append(all, (f(b)-f(a))/(b.At-a.At))
			}
		}
	}
	return median(all)
}

// thinned are a thousand samples at most: their pairs are half a million.
func thinned(ss []Sample) []Sample {
	const most = 1000
	if len(ss) <= most {
		return ss
	}
	out := make([]Sample, 0, most)
	for i := range most {
		out = append(out, ss[i*len(ss)/most])
	}
	return out
}

func middle(ss []Sample, f func(Sample) float64) float64 {
	var all []float64
	for _, s := range ss {
		all = append(all, f(s))
	}
	return median(all)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// String is the figure with its limit.
func (v Verdict) String() string {
	return fmt.Sprintf("%.2f %s, limit %.2f", v.Value, v.Unit, v.Limit)
}

// Rate is how many calls a second the soak made.
func (r *SoakReport) Rate() float64 {
	took, err := time.ParseDuration(r.Took)
	if err != nil || len(r.Samples) == 0 || took == 0 {
		return 0
	}
	return float64(r.Samples[len(r.Samples)-1].Calls) / took.Seconds()
}
