package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chartKinds are the clients that the chart shows, with their colours.
var chartKinds = []struct{ name, colour string }{
	{kindPeer, "#9aa5b1"},
	{kindOurs, "#1f77b4"},
	{kindInto, "#6baed6"},
	{kindBoundTaxed, "#e08214"},
	{kindStep, "#54a24b"},
}

const (
	chartLeft   = 200
	chartWidth  = 560
	barHeight   = 14
	groupGap    = 14
	chartTop    = 58
	chartRight  = 120
	chartBottom = 40
)

// chart is an SVG of the operations per second of Get and Upsert of 256 B at one node: a bar per client and concurrency,
// on a logarithmic scale.
func (r *report) chart() string {
	groups, most := r.chartGroups()
	decades := max(1, int(math.Ceil(math.Log10(max(most, 10)/1000))))
	scale := func(v float64) float64 { // from a thousand per second on
		return max(0, math.Log10(max(v, 1000)/1000)) / float64(decades) * chartWidth
	}
	height := chartTop + chartBottom
	for _, g := range groups {
		height += len(g.rows)*barHeight + groupGap
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		chartLeft+chartWidth+chartRight, height)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="14">Operations per second, values of 256 B, one node (logarithmic)</text>`+"\n")
	x := 10
	for _, k := range chartKinds {
		fmt.Fprintf(&b, `<rect x="%d" y="32" width="10" height="10" fill="%s"/><text x="%d" y="41">%s</text>`+"\n", x, k.colour, x+14, k.name)
		x += 40 + 7*len(k.name)
	}
	for d := range decades + 1 {
		at := chartLeft + d*chartWidth/decades
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#ddd"/><text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
			at, chartTop-4, at, height-chartBottom, at, height-chartBottom+16, perSecond(math.Pow10(d+3)))
	}
	y := chartTop
	for _, g := range groups {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", chartLeft-8, y+len(g.rows)*barHeight/2+4, html.EscapeString(g.name))
		for _, row := range g.rows {
			w := scale(row.value)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d">%s</text>`+"\n",
				chartLeft, y, w, barHeight-2, row.colour, chartLeft+w+4, y+barHeight-4, perSecond(row.value))
			y += barHeight
		}
		y += groupGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type chartGroup struct {
	name string
	rows []chartRow
}

type chartRow struct {
	colour string
	value  float64
}

// chartGroups are the cells of the chart that were measured, and the largest figure among them.
func (r *report) chartGroups() (groups []chartGroup, most float64) {
	for _, op := range []operation{opGet, opUpsert} {
		for _, w := range allWorkers {
			name := cellPlain(op, 256, w, 1)
			for _, c := range r.Cells {
				if c.Name != name {
					continue
				}
				g := chartGroup{name: fmt.Sprintf("%s, %s", op, plural(w, "worker"))}
				for _, k := range chartKinds {
					for _, row := range c.Rows {
						if row.Client == k.name {
							g.rows = append(g.rows, chartRow{k.colour, row.PerSecond})
							most = max(most, row.PerSecond)
						}
					}
				}
				groups = append(groups, g)
			}
		}
	}
	return groups, most
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
