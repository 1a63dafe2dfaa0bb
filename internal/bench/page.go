package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// page is the one page of results, in Markdown.
func (r *report) page() string {
	var b strings.Builder
	b.WriteString("# Results\n\nWritten by `go run ./bench --matrix --gate`; do not edit. [METHOD.md](METHOD.md) " +
		"says how it is measured and judged.\n\n")
	b.WriteString(r.Conditions.line() + "\n")
	if unmeasured != "" {
		b.WriteString("\nNot measured: " + unmeasured + ".\n")
	}
	r.pageRows(&b)
	r.pageGoals(&b)
	r.pageMatrix(&b)
	r.pageHost(&b)
	r.pageExtras(&b)
	r.pageFailures(&b)
	return wrapped(b.String())
}

const maxColumns = 120

// wrapped breaks the lines of prose that are too long; what follows a bullet's first line is indented.
func wrapped(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if len(line) <= maxColumns || line[0] == '|' {
			b.WriteString(line)
			continue
		}
		column, indent := 0, ""
		if line[0] == '*' {
			indent = "  "
		}
		for _, word := range strings.Fields(line) {
			switch {
			case column == 0:
			case column+1+len(word) > maxColumns:
				b.WriteString("\n" + indent)
				column = len(indent)
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *report) pageRows(b *strings.Builder) {
	count := map[verdict]int{}
	for i := range r.Rows {
		count[r.Rows[i].Verdict]++
	}
	fmt.Fprintf(b, "\n## Targets\n\n%d musts are met, %d are not, %d are inconclusive.\n\n", count[met], count[notMet],
		count[inconclusive])
	rows := [][]string{{"row", "figure", "must", "verdict", "goal", "rounds"}}
	for i := range r.Rows {
		o := &r.Rows[i]
		figure, rounds, goal, v := "-", "-", o.Goal.String(), string(o.Verdict)
		if o.Rounds > 0 {
			figure = strings.TrimSpace(number(o.Value) + " " + o.Unit)
			rounds = fmt.Sprintf("%d: %s .. %s", o.Rounds, number(o.Lowest), number(o.Highest))
			if o.GoalMet {
				goal += " (met)"
			}
		}
		if o.Verdict == notMet {
			v = "**not met**"
		}
		if o.Reason != "" {
			v += ": " + o.Reason
		}
		rows = append(rows, []string{o.What, figure, o.Must.String(), v, goal, rounds})
	}
	b.WriteString(mdTable(rows))
}

// pageGoals has a sentence for each goal that is missed.
func (r *report) pageGoals(b *strings.Builder) {
	var lines []string
	for i := range r.Rows {
		o := &r.Rows[i]
		if o.Rounds == 0 || o.GoalMet {
			continue
		}
		where := ""
		if o.Where != "" {
			where = "; the worst cell is " + o.Where
		}
		if o.Name == "cells" && o.Goal.holds(o.Value) {
			where = "; " + cmp.Or(o.Reason, "some cells have a worse p99.9")
		}
		lines = append(lines, fmt.Sprintf("* %s: %s for a goal of %s%s.\n", o.What,
			strings.TrimSpace(number(o.Value)+" "+o.Unit), o.Goal, where))
	}
	if len(lines) > 0 {
		b.WriteString("\n## Goals that are missed\n\n" + strings.Join(lines, ""))
	}
}

func (r *report) pageMatrix(b *strings.Builder) {
	rows := [][]string{{"cell", "thousand/s", "CPU us", "p50 us", "p99 us", "p99.9 us", "spread", "foreign", "mark"}}
	cells := slices.Clone(r.Cells)
	slices.SortStableFunc(cells, func(a, b cellReport) int { return cmp.Compare(b.rank, a.rank) })
	for i := range cells {
		c := &cells[i]
		if !c.Matrix || c.Error != "" {
			continue
		}
		ours, theirs := c.lane(kindOurs), c.lane(kindPeer)
		spread := "-"
		if s := c.ratio("p50"); s != nil {
			spread = number(s.Lowest) + " .. " + number(s.Highest)
		}
		rows = append(rows, []string{
			c.Name, c.pair("throughput", ours.PerSecond/1e3, theirs.PerSecond/1e3),
			c.pair("CPU", ours.CPU, theirs.CPU), c.pair("p50", ours.P50, theirs.P50),
			c.pair("p99", ours.P99, theirs.P99), c.pair("p99.9", ours.P999, theirs.P999),
			spread, number(c.Foreign), c.mark(),
		})
	}
	if len(rows) == 1 {
		return
	}
	fmt.Fprintf(b, "\n## The matrix\n\n%d cells, the worst first. Each figure is couchcore's, gocbcore's, and in "+
		"bold the first over the second (median of the rounds' ratios): throughput is better above 1, everything "+
		"else below. *Spread* is the lowest and the highest ratio of the p50. CPU per operation beside busy "+
		"goroutines holds theirs and is not judged.\n\n", len(rows)-1)
	b.WriteString(mdTable(rows))
}

// pair writes a figure of both clients and their ratio.
func (c *cellReport) pair(of string, ours, theirs float64) string {
	s := c.ratio(of)
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s **%s**", number(ours), number(theirs), number(s.Median))
}

// mark is what a cell comes to, in a few words.
func (c *cellReport) mark() string {
	var out []string
	if len(c.Worse) > 0 {
		out = append(out, "**worse**: "+strings.Join(c.Worse, ", "))
	}
	if c.Verdict == inconclusive {
		out = append(out, "inconclusive")
	}
	if c.Reason != "" {
		out = append(out, c.Reason)
	}
	if c.Tail {
		out = append(out, "p99.9 worse")
	}
	return strings.Join(out, "; ")
}

func (r *report) pageHost(b *strings.Builder) {
	rows := [][]string{{"cell", "thousand/s", "ticker p99 us", "echo p99 us", "foreign"}}
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.host || c.Error != "" {
			continue
		}
		ours, theirs := c.lane(kindOurs), c.lane(kindPeer)
		rows = append(rows, []string{
			c.Name, c.pair("throughput", ours.PerSecond/1e3, theirs.PerSecond/1e3),
			c.pair("ticker", ours.Ticker, theirs.Ticker), c.pair("echo", ours.Echo, theirs.Echo), number(c.Foreign),
		})
	}
	if len(rows) > 1 {
		b.WriteString("\n## The host application\n\nWhat has nothing to do with the client, beside couchcore and " +
			"beside gocbcore at the same load: a ticker of 1 ms, and an echo over a socket.\n\n" + mdTable(rows))
	}
}

func (r *report) pageExtras(b *strings.Builder) {
	rows := [][]string{{"cell", "client", "thousand/s", "CPU us", "allocations", "p50 us", "p99 us"}}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.host || c.Error != "" || c.Matrix && len(c.Lanes) == 2 {
			continue
		}
		for _, l := range c.Lanes {
			rows = append(rows, []string{
				c.Name, l.Client, number(l.PerSecond / 1e3), number(l.CPU), number(l.Allocs), number(l.P50),
				number(l.P99),
			})
		}
	}
	if len(rows) > 1 {
		b.WriteString("\n## Beside the matrix\n\nCells that single rows need, and the clients that are measured " +
			"beside the two.\n\n" + mdTable(rows))
	}
	if len(r.Probes) > 0 {
		rows = [][]string{{"probe", "found"}}
		for _, name := range slices.Sorted(maps.Keys(r.Probes)) {
			rows = append(rows, []string{name, listed(r.Probes[name])})
		}
		b.WriteString("\n" + mdTable(rows))
	}
}

// pageFailures names what has failed.
func (r *report) pageFailures(b *strings.Builder) {
	var lines []string
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Error != "" {
			lines = append(lines, "* "+c.Name+": "+c.Error+"\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Errors)) {
		lines = append(lines, "* "+r.Errors[name]+"\n")
	}
	if len(lines) > 0 {
		b.WriteString("\n## What has failed\n\n" + strings.Join(lines, ""))
	}
}

func mdTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(row, "\x00"), "|", "/"))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return strings.ReplaceAll(b.String(), "\x00", " | ")
}
