package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/packets"
)

type topCmd struct {
	Node             string        `required:"" placeholder:"HOST:PORT" help:"Be a proxy between clients and the cluster of this node, without TLS."`
	Listen           string        `placeholder:"HOST:PORT" help:"Where clients connect to (default: 127.0.0.1 and a free port)."`
	Interval         time.Duration `default:"1s" placeholder:"DURATION" help:"The time between two tables (default: 1s)."`
	Count            int           `placeholder:"N" help:"End after this many tables (default: when interrupted)."`
	ExitOnStdinClose bool          `help:"End when standard input ends (default: when interrupted)."`
}

// Run implements the command.
func (c *topCmd) Run(a *app) error {
	if c.Interval < 10*time.Millisecond || c.Count < 0 {
		return usagef("top: --interval is at least 10ms, and --count not negative")
	}
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	var mu sync.Mutex // for load
	load, tables := loads{}, 0
	p := proxied{node: c.Node, listen: c.Listen, exitOnStdinClose: c.ExitOnStdinClose}
	p.each = func(r packets.Record) {
		mu.Lock()
		defer mu.Unlock()
		load.take(r)
	}
	p.next = func(ctx context.Context) error {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return io.EOF
		}
		mu.Lock()
		rows := load.rows(c.Interval)
		mu.Unlock()
		if err := c.table(a, rows); err != nil {
			return err
		}
		if tables++; tables == c.Count {
			return io.EOF
		}
		return nil
	}
	return p.run(a)
}

// loads are the nodes' loads by address.
type loads map[string]*load

// load is what one node has had to do since the last table.
type load struct {
	open     map[int]int // requests without an answer, by the number of the connection
	answers  int
	failures int
	reasons  map[string]int // failures after which a client may send the request again
	took     []time.Duration
}

// mostTimes bounds what a table remembers of one node.
const mostTimes = 100_000

// take counts a record.
func (l loads) take(r packets.Record) {
	n := l[r.Node]
	if n == nil {
		n = &load{open: map[int]int{}, reasons: map[string]int{}}
		l[r.Node] = n
	}
	switch r.Kind {
	case packets.Note:
		if delete(n.open, r.Conn); r.Detail == "connected" {
			n.open[r.Conn] = 0
		}
	case packets.Request:
		n.open[r.Conn]++
	case packets.Answer:
		if n.open[r.Conn] > 0 {
			n.open[r.Conn]--
		}
		n.answers++
		if r.Answered && len(n.took) < mostTimes {
			n.took = append(n.took, r.Took)
		}
		if r.Failed() {
			n.failures++
		}
		if why := retryReason(&r); why != "" {
			n.reasons[why]++
		}
	case packets.Push:
	}
}

// topRow is a node in a table.
type topRow struct {
	Node        string         `json:"node"`
	Connections int            `json:"connections"`
	InFlight    int            `json:"in_flight"`
	OpsPerS     float64        `json:"ops_per_s"`
	P50US       float64        `json:"p50_us"`
	P99US       float64        `json:"p99_us"`
	MaxUS       float64        `json:"max_us"`
	Failures    int            `json:"failures"`
	Reasons     map[string]int `json:"retry_reasons"`
}

// rows gives the table of the time since the last one, and begins the next.
func (l loads) rows(since time.Duration) (rows []topRow) {
	for node, n := range l {
		slices.Sort(n.took)
		at := func(share float64) float64 {
			if len(n.took) == 0 {
				return 0
			}
			return float64(n.took[int(share*float64(len(n.took)-1))]) / 1e3
		}
		row := topRow{
			Node: node, Connections: len(n.open), OpsPerS: float64(n.answers) / since.Seconds(),
			P50US: at(0.5), P99US: at(0.99), MaxUS: at(1), Failures: n.failures, Reasons: n.reasons,
		}
		for _, waiting := range n.open {
			row.InFlight += waiting
		}
		rows = append(rows, row)
		n.answers, n.failures, n.took, n.reasons = 0, 0, n.took[:0], map[string]int{}
	}
	slices.SortFunc(rows, func(a, b topRow) int { return cmp.Compare(a.Node, b.Node) })
	return rows
}

// clearScreen is what a terminal does before a table takes the place of the last one.
const clearScreen = "\x1b[H\x1b[2J"

func (c *topCmd) table(a *app, rows []topRow) error {
	if a.json {
		return a.emit(map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "nodes": rows})
	}
	var b strings.Builder
	if a.terminal {
		b.WriteString(clearScreen)
	}
	fmt.Fprintf(&b, "%-22s %5s %9s %9s %8s %8s  %s", "NODE", "CONNS", "IN FLIGHT", "OPS/S", "P50", "P99", "FAILURES")
	for _, r := range rows {
		fmt.Fprintf(&b, "\n%-22s %5d %9d %9.0f %8s %8s  %d", r.Node, r.Connections, r.InFlight, r.OpsPerS,
			short(time.Duration(r.P50US*1e3)), short(time.Duration(r.P99US*1e3)), r.Failures)
		for _, why := range slices.Sorted(maps.Keys(r.Reasons)) {
			fmt.Fprintf(&b, "  %s x%d", why, r.Reasons[why])
		}
	}
	return a.print("%s", b.String())
}
