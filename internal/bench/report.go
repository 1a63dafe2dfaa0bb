package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// report is what the program prints: for machines as JSON, for people as text or Markdown.
type report struct {
	Met        bool                          `json:"met"` // every must
	Conditions conditions                    `json:"conditions"`
	Checks     []outcome                     `json:"targets"`
	Cells      []cellReport                  `json:"cells"`
	Probes     map[string]map[string]float64 `json:"probes"`
	Errors     map[string]string             `json:"errors,omitempty"`

	kinds []kind
}

// cellReport is a cell's table: medians over the clean rounds.
type cellReport struct {
	Name     string      `json:"name"`
	Rounds   int         `json:"rounds"`
	Clean    int         `json:"clean_rounds"`
	Error    string      `json:"error,omitempty"`
	Limit    float64     `json:"responder_limit,omitempty"`    // operations per second that the responder and the wire can do
	Headroom float64     `json:"responder_headroom,omitempty"` // that over the fastest client
	Rows     []rowReport `json:"rows"`
}

// rowReport is one client's row. Ratios are to the first row, taken within rounds.
type rowReport struct {
	Client    string  `json:"client"`
	PerSecond float64 `json:"per_second"`
	X         float64 `json:"x"`
	CPU       float64 `json:"cpu_us"`
	CPUX      float64 `json:"cpu_x"`
	ServerCPU float64 `json:"server_cpu_us"`
	Allocs    float64 `json:"allocs"`
	Bytes     float64 `json:"bytes"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
	PerRead   float64 `json:"requests_per_server_read"`
	Foreign   float64 `json:"foreign"`
}

func newReport(r *results, c conditions) *report {
	rep := &report{Conditions: c, Checks: judged(r), Probes: map[string]map[string]float64{}, Errors: map[string]string{}, kinds: allKinds()}
	rep.Met = len(blocked(rep.Checks)) == 0
	for _, cell := range allCells() {
		if res := r.cells[cell.name]; res != nil {
			rep.Cells = append(rep.Cells, tableOf(res, r.responderLimit(&cell)))
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

// responderLimit is what the responder and the wire can do of a cell's operation, per second: measured where that is one of the lanes,
// 0 when it was not, or when the cell's responder does something else than answer.
func (r *results) responderLimit(c *cell) float64 {
	if c.mode != modePlain || c.pinned {
		return 0
	}
	wire := r.cells[cellPlain(c.op, c.size, wireWorkers, 1)].series(kindWire, mThroughput)
	return finite(median(wire))
}

// tableOf is a cell's table; limit is the responder's own.
func tableOf(res *cellResult, limit float64) cellReport {
	t := cellReport{Name: res.Name, Rounds: len(res.Rounds), Clean: res.clean(), Error: res.Error}
	first := res.Lanes[0]
	fastest := 0.0
	for _, l := range res.Lanes {
		of := func(m metric) float64 { return finite(median(res.series(l, m))) }
		x := func(m metric) float64 { return finite(median(paired(res.series(l, m), res.series(first, m)))) }
		row := rowReport{
			Client: l, PerSecond: of(mThroughput), X: x(mThroughput), CPU: of(mCPU), CPUX: x(mCPU), ServerCPU: of(mServerCPU),
			Allocs: of(mAllocs), Bytes: of(mBytes), P50: of(mP50), P99: of(mP99), P999: of(mP999), PerRead: of(mPerRead),
			Foreign: of(mForeign),
		}
		if l != kindWire && l != kindNull && l != kindStep {
			fastest = max(fastest, row.PerSecond)
		}
		t.Rows = append(t.Rows, row)
	}
	if limit > 0 && fastest > 0 {
		t.Limit, t.Headroom = limit, limit/fastest
	}
	return t
}

// finite makes what JSON cannot hold 0.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// write prints the report to out and into the files that are named.
func (r *report) write(out io.Writer, asJSON bool, md string) error {
	var errs []error
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		errs = append(errs, enc.Encode(r))
	} else {
		_, err := io.WriteString(out, r.text())
		errs = append(errs, err)
	}
	if md != "" {
		errs = append(errs, os.WriteFile(md, []byte(r.markdown()), 0o644))
	}
	return errors.Join(errs...)
}

// text is the report for a terminal.
func (r *report) text() string {
	var b strings.Builder
	for _, c := range r.Cells {
		fmt.Fprintf(&b, "%s (%d rounds, %d clean)\n%s", c.Name, c.Rounds, c.Clean, aligned(c.table()))
		if c.Headroom > 0 {
			fmt.Fprintf(&b, "the responder's own limit is %s per second, %s times the fastest client\n", perSecond(c.Limit), number(c.Headroom))
		}
		if c.Error != "" {
			fmt.Fprintf(&b, "failed operations: %s\n", c.Error)
		}
		b.WriteString("\n")
	}
	b.WriteString(aligned(r.targets()))
	return b.String()
}

// columns of a cell's table.
var columns = []string{
	"client", "kops/s", "x", "CPU us", "x", "server us", "allocs", "B", "p50 us", "p99 us", "p99.9 us", "per read", "foreign",
}

func (c *cellReport) table() [][]string {
	rows := [][]string{columns}
	for _, r := range c.Rows {
		row := []string{r.Client}
		for _, v := range []float64{
			r.PerSecond / 1e3, r.X, r.CPU, r.CPUX, r.ServerCPU, r.Allocs, r.Bytes, r.P50, r.P99, r.P999, r.PerRead, r.Foreign,
		} {
			row = append(row, number(v))
		}
		rows = append(rows, row)
	}
	return rows
}

// targets is the table of checks.
func (r *report) targets() [][]string {
	rows := [][]string{{"target", "value", "must", "verdict", "goal", "near", "lowest .. highest", "rounds", "remark"}}
	for _, o := range r.Checks {
		goal := "-"
		if o.GoalMet {
			goal = "met"
		} else if o.GoalNear > 0 {
			goal = number(o.GoalNear)
		}
		v := string(o.Verdict)
		if o.Verdict == inconclusive && o.Provisional != inconclusive {
			v += " (looks " + string(o.Provisional) + ")"
		}
		if o.Rounds == 0 {
			rows = append(rows, []string{o.What, "-", o.Must.String(), v, o.Goal.String(), "-", "-", "0", o.Reason})
			continue
		}
		rows = append(rows, []string{
			o.What, strings.TrimSpace(number(o.Value) + " " + o.Unit), o.Must.String(), v, o.Goal.String(), goal,
			number(o.Lowest) + " .. " + number(o.Highest), fmt.Sprint(o.Rounds), o.Reason,
		})
	}
	return rows
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

// aligned writes a table in columns.
func aligned(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, s := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(s))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, s := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], s)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// listed writes figures by name.
func listed(values map[string]float64) string {
	var out []string
	for _, k := range slices.Sorted(keysOf(values)) {
		out = append(out, k+" "+number(values[k]))
	}
	return strings.Join(out, ", ")
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
