package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// report is what came of a run: the page is made of it, and so is the JSON.
type report struct {
	Conditions conditions                    `json:"conditions"`
	Rows       []outcome                     `json:"rows"`
	Cells      []cellReport                  `json:"cells"`
	Probes     map[string]map[string]float64 `json:"probes"`
	Errors     map[string]string             `json:"errors,omitempty"` // of probes
}

// cellReport is a cell's figures: medians over the clean rounds.
type cellReport struct {
	Name    string        `json:"name"`
	Matrix  bool          `json:"matrix"`
	Rounds  int           `json:"rounds"`
	Clean   int           `json:"clean_rounds"`
	Foreign float64       `json:"foreign"`
	Lanes   []laneReport  `json:"lanes"`
	Ratios  []ratioReport `json:"ratios,omitempty"` // couchcore over gocbcore
	Error   string        `json:"error,omitempty"`
	cellVerdict

	host bool
	rank float64 // the larger the worse
}

// laneReport is one client's figures.
type laneReport struct {
	Client    string  `json:"client"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_us"`
	Allocs    float64 `json:"allocs"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
	Ticker    float64 `json:"ticker_p99_us,omitempty"`
	Echo      float64 `json:"echo_p99_us,omitempty"`
}

// ratioReport is one figure over gocbcore's, taken within rounds.
type ratioReport struct {
	Of      string  `json:"of"`
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

func newReport(r *results, c conditions) *report {
	rep := &report{
		Conditions: c, Rows: judgeRows(r), Probes: map[string]map[string]float64{},
		Errors: map[string]string{},
	}
	for _, c := range allCells() {
		if res := r.cells[c.name()]; res != nil {
			rep.Cells = append(rep.Cells, reportOf(&c, res))
		}
	}
	for name, p := range r.probes {
		if p.err != nil {
			rep.Errors[name] = p.err.Error()
			continue
		}
		rep.Probes[name] = p.medians()
	}
	return rep
}

func reportOf(c *cell, res *cellResult) cellReport {
	t := cellReport{
		Name: res.Name, Matrix: c.purpose == forMatrix, Rounds: len(res.Rounds), Clean: res.clean(),
		Foreign: res.foreign(), Error: res.Error, host: c.purpose == forHost,
	}
	for _, l := range res.Lanes {
		of := func(m metric) float64 { return finite(median(res.series(l, m))) }
		t.Lanes = append(t.Lanes, laneReport{
			Client: l, PerSecond: of(mThroughput), CPU: of(mCPU), Allocs: of(mAllocs),
			P50: of(mP50), P99: of(mP99), P999: of(mP999), Ticker: of(mTicker), Echo: of(mEcho),
		})
	}
	for _, by := range []comparison{
		{name: "throughput", m: mThroughput},
		{name: "CPU", m: mCPU},
		{name: "p50", m: mP50},
		{name: "p99", m: mP99},
		{name: "p99.9", m: mP999},
		{name: "ticker", m: mTicker},
		{name: "echo", m: mEcho},
	} {
		if rounds := res.compare(by).rounds; len(rounds) > 0 {
			lowest, highest := slices.Min(rounds), slices.Max(rounds)
			t.Ratios = append(t.Ratios, ratioReport{by.name, finite(median(rounds)), lowest, highest})
		}
	}
	if c.purpose != forMatrix {
		return t
	}
	t.cellVerdict = judgeCell(c, res)
	for _, by := range comparisons(c) {
		if !by.goal {
			t.rank = max(t.rank, finite(median(res.compare(by).rounds)))
		}
	}
	return t
}

// ratio gives the ratio of one figure; nil without one.
func (c *cellReport) ratio(of string) *ratioReport {
	for i := range c.Ratios {
		if c.Ratios[i].Of == of {
			return &c.Ratios[i]
		}
	}
	return nil
}

// lane gives a client's figures; zero when it has none.
func (c *cellReport) lane(client string) laneReport {
	for _, l := range c.Lanes {
		if l.Client == client {
			return l
		}
	}
	return laneReport{}
}

// number writes a figure with three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0 || math.IsNaN(v):
		return "0"
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// perSecond writes a rate: 12k, 3.4M.
func perSecond(v float64) string {
	switch {
	case v >= 1e6:
		return number(v/1e6) + "M"
	case v >= 1e3:
		return number(v/1e3) + "k"
	}
	return number(v)
}

// listed writes figures by name.
func listed(values map[string]float64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		out = append(out, k+" "+number(values[k]))
	}
	return strings.Join(out, ", ")
}
