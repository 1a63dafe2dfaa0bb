package bench

import (
	"fmt"
	"slices"
	"strings"
)

// markdown is the report as it is committed.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Results\n\nWritten by `go run ./bench --md bench/RESULTS.md`; do not edit.\n\n")
	r.writeConditions(&b)
	b.WriteString("## Targets\n\n")
	if r.Met {
		b.WriteString("Every must is met.\n\n")
	} else {
		fmt.Fprintf(&b, "Not met or inconclusive: %s.\n\n", strings.Join(blocked(r.Checks), ", "))
	}
	b.WriteString(mdTable(r.targets()))
	b.WriteString("\n## Clients\n\n| name | what it is |\n|---|---|\n")
	for _, k := range r.kinds {
		fmt.Fprintf(&b, "| %s | %s |\n", k.name, k.about)
	}
	b.WriteString("\nThroughput is in thousand operations per second, *x* the median of the rounds' ratios to the first row, " +
		"*CPU us* the client's CPU time per operation, *server us* the responder's, *per read* the requests that one read of the " +
		"responder brought, *foreign* the share of the cores that others used.\n\n")
	for _, c := range r.Cells {
		fmt.Fprintf(&b, "## %s\n\n%d rounds, %d of them clean", c.Name, c.Rounds, c.Clean)
		if c.Headroom > 0 {
			fmt.Fprintf(&b, "; the responder's own limit is %s per second, %s times the fastest client", perSecond(c.Limit), number(c.Headroom))
		}
		b.WriteString(".\n\n")
		if c.Error != "" {
			fmt.Fprintf(&b, "Failed operations: %s\n\n", c.Error)
		}
		b.WriteString(mdTable(c.table()) + "\n")
	}
	b.WriteString("## Probes\n\n| probe | found |\n|---|---|\n")
	for _, name := range slices.Sorted(keysOf(r.Probes)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, listed(r.Probes[name]))
	}
	for _, name := range slices.Sorted(keysOf(r.Errors)) {
		fmt.Fprintf(&b, "| %s | failed: %s |\n", name, r.Errors[name])
	}
	return b.String()
}

func (r *report) writeConditions(b *strings.Builder) {
	c := r.Conditions
	fmt.Fprintf(b, "| condition | |\n|---|---|\n| date | %s |\n| machine | %d cores, %s, %s MiB, %s |\n", c.Date, c.Cores, c.CPU, number(float64(c.Memory>>20)), c.Kernel)
	fmt.Fprintf(b, "| Go | %s, GOMAXPROCS %d, GOGC %s, ballast %d MiB per client |\n", c.Go, c.GOMAXPROCS, c.GOGC, c.Ballast>>20)
	for _, name := range slices.Sorted(keysOf(c.Versions)) {
		fmt.Fprintf(b, "| %s | %s |\n", name, c.Versions[name])
	}
	if c.Commit != "" {
		changed := ""
		if c.Modified {
			changed = ", with changes"
		}
		fmt.Fprintf(b, "| commit | %s%s |\n", c.Commit, changed)
	}
	fmt.Fprintf(b, "| rounds | %d, %d where a target is judged, slices of %s |\n", c.Rounds, c.GateRounds, c.Slice)
	b.WriteString("\n")
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
