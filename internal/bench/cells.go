package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// purpose says what a cell is measured for.
type purpose uint8

const (
	forMatrix purpose = iota // it is one of the cells that users have, each of which is judged
	forRow                   // some row of the targets needs it
	forHost                  // the host application beside the client
)

// cell is one combination of the axes. It is measured in interleaved rounds of its lanes.
type cell struct {
	op      operation // "" is a Get
	callers int
	nodes   int // 0 is 1
	hold    time.Duration
	tls     bool
	fresh   bool // a context.WithTimeout for each call
	busy    int  // goroutines that never stop computing
	procs   int  // GOMAXPROCS of the client; 0 is defaultProcs
	rate    int  // arrivals per second; 0 is a closed loop
	purpose purpose
	mode    mode   // "" is what hold says
	lanes   []lane // besides gocbcore and couchcore, or all lanes of a cell forRow
}

// lane is one client's part of a cell.
type lane struct {
	name    string // within the cell; "" is the kind's
	kind    string
	callers int  // 0 is the cell's
	mode    mode // "" is the cell's
	without bool // no context for each call, although the cell has them
}

func (l lane) label() string {
	if l.name != "" {
		return l.name
	}
	return l.kind
}

// Names of lanes that rows refer to.
const (
	laneRTT       = "round trip"
	laneWithout   = "without contexts"
	laneCleartext = "plain"
)

const (
	defaultProcs = 2
	valueSize    = 256
	openLoop     = 1024 // callers that an open loop has at most
)

// pinned says whether client and responder share one core: with a caller alone on idle cores one measures how long a
// core takes to wake, the same for every client.
func (c *cell) pinned() bool {
	return c.callers == 1 && c.hold == 0 && c.rate == 0 && c.busy == 0 && c.op != opQuery
}

// name says what the cell has that is not usual: one node, no round trip, no TLS, no contexts, no busy goroutines, two
// processors, a closed loop.
func (c *cell) name() string {
	parts := []string{string(c.operation()), plural(c.callers, "caller")}
	if c.op == opQuery {
		parts = []string{"rows of a query"}
	}
	say := func(when bool, format string, a ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, a...))
		}
	}
	if c.rate > 0 {
		parts[1] = perSecond(float64(c.rate)) + "/s"
		say(c.callers != openLoop, "%d callers at most", c.callers)
	}
	say(c.nodes > 1, "%d nodes", c.nodes)
	say(c.hold > 0, "round trip %v ms", c.hold.Seconds()*1e3)
	say(c.tls, "TLS")
	say(c.fresh, "contexts")
	say(c.busy > 0, "%d busy", c.busy)
	say(c.procs > 0, "GOMAXPROCS %d", c.procs)
	say(c.mode == modeMoved, "NOT_MY_VBUCKET once")
	say(c.pinned(), "one core")
	say(c.purpose == forHost, "host application")
	return strings.Join(parts, ", ")
}

func (c *cell) operation() operation {
	if c.op == "" {
		return opGet
	}
	return c.op
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// all are the cell's lanes; the first is what the second is compared with.
func (c *cell) all() []lane {
	if c.purpose == forRow {
		return c.lanes
	}
	return append([]lane{{kind: kindPeer}, {kind: kindOurs}}, c.lanes...)
}

func (c *cell) job(l lane) job {
	j := job{
		Op: c.operation(), Callers: c.callers, Size: valueSize, Fresh: c.fresh && !l.without, Busy: c.busy,
		Rate: c.rate,
		Host: c.purpose == forHost,
	}
	if l.callers > 0 {
		j.Callers = l.callers
	}
	return j
}

func (c *cell) place(l lane) place {
	p := place{kind: l.kind, nodes: max(c.nodes, 1), mode: c.mode, tls: c.tls, procs: c.procs, pinned: c.pinned()}
	if p.procs == 0 {
		p.procs = defaultProcs
	}
	switch {
	case l.mode != "":
		p.mode = l.mode
	case c.mode != "":
	case c.hold == shortHold:
		p.mode = modeShortHold
	case c.hold == longHold:
		p.mode = modeLongHold
	default:
		p.mode = modeCleartext
	}
	return p
}

// places are those of a cell's lanes.
func (c *cell) places() []place {
	var out []place
	for _, l := range c.all() {
		if p := c.place(l); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// slow says that a slice of the usual length would hold too few operations, or too few turns of a scheduler whose turns
// last 10 ms.
func (c *cell) slow() bool {
	return c.busy > 0 || c.op == opQuery || c.hold > 0 && c.callers <= 16 || c.rate > 0 && c.rate <= 5000
}

// family is cells that differ in operation and callers alone.
type family struct {
	like         cell
	gets, writes []int // callers
}

// families are the cells that users have. Those with the same processes follow each other.
func families() []family {
	all, most, two, one := []int{1, 16, 128, 1024}, []int{16, 128, 1024}, []int{16, 128}, []int{128}
	open := []int{openLoop}
	return []family{
		{like: cell{}, gets: all, writes: all},
		{like: cell{fresh: true}, gets: most, writes: one},
		{like: cell{busy: 1}, gets: two, writes: one},
		{like: cell{busy: 2}, gets: two, writes: one},
		{like: cell{rate: 5_000}, gets: open, writes: open},
		{like: cell{rate: 20_000}, gets: open, writes: open},
		{like: cell{rate: 50_000}, gets: open, writes: open},
		{like: cell{rate: 100_000}, gets: open, writes: open},
		{like: cell{procs: 1}, gets: most, writes: one},
		{like: cell{procs: 4}, gets: most, writes: one},
		{like: cell{tls: true}, gets: all, writes: all},
		{like: cell{tls: true, busy: 1}, gets: one},
		{like: cell{tls: true, busy: 2}, gets: one},
		{like: cell{tls: true, rate: 5_000}, gets: open},
		{like: cell{tls: true, rate: 20_000}, gets: open},
		{like: cell{tls: true, rate: 50_000}, gets: open},
		{like: cell{tls: true, procs: 1}, gets: one},
		{like: cell{tls: true, procs: 4}, gets: one},
		{like: cell{hold: shortHold}, gets: all, writes: two},
		{like: cell{hold: shortHold, busy: 2}, gets: one},
		{like: cell{hold: longHold}, gets: all, writes: two},
		{like: cell{nodes: 3}, gets: all, writes: most},
		{like: cell{nodes: 3, busy: 1}, gets: one},
		{like: cell{nodes: 3, busy: 2}, gets: one},
		{like: cell{nodes: 3, tls: true}, gets: one, writes: one},
		{like: cell{nodes: 3, tls: true, hold: shortHold}, gets: most, writes: one},
		{like: cell{nodes: 3, tls: true, hold: shortHold, fresh: true}, gets: one},
		{like: cell{nodes: 3, tls: true, hold: shortHold, rate: 20_000}, gets: open},
		{like: cell{nodes: 3, tls: true, hold: shortHold, rate: 50_000}, gets: open},
		{like: cell{nodes: 3, tls: true, hold: longHold}, gets: most, writes: one},
		{like: cell{nodes: 20}, gets: all, writes: most},
		{like: cell{nodes: 20, hold: shortHold}, gets: two, writes: one},
	}
}

// heldCallers are those at which the round trip is judged, beside the cells of the matrix.
var heldCallers = []int{2, 4, 8}

// hostCells are the host application beside few and many callers, with more and more processors that others keep busy.
// The load is what both clients carry there.
func hostCells() []cell {
	var out []cell
	for busy, rate := range []int{10_000, 5_000, 200} {
		for _, callers := range []int{16, 128} {
			out = append(out, cell{callers: callers, busy: busy, rate: rate, purpose: forHost})
		}
	}
	return out
}

// allCells is everything that is measured in rounds.
func allCells() []cell {
	var out []cell
	for _, f := range families() {
		for _, n := range f.gets {
			out = append(out, member(f.like, opGet, n))
		}
		for _, n := range f.writes {
			out = append(out, member(f.like, opUpsert, n))
		}
	}
	for _, hold := range []time.Duration{shortHold, longHold} {
		for _, n := range heldCallers {
			out = append(out, heldCell(hold, n))
		}
	}
	return append(append(out, movedCell(), queryCell()), hostCells()...)
}

// member is a cell of a family, with the lanes that rows need beside the two clients.
func member(like cell, op operation, callers int) cell {
	c := like
	c.op, c.callers = op, callers
	if c.nodes > 1 || c.tls || c.busy > 0 || c.procs > 0 || c.rate > 0 {
		return c
	}
	busiest := op == opGet && callers == 128
	switch {
	case c.fresh && busiest:
		c.lanes = []lane{{name: laneWithout, kind: kindOurs, without: true}}
	case c.fresh:
	case c.hold > 0 && op == opGet && callers == 16:
		c.lanes = []lane{{name: laneRTT, kind: kindStep, callers: 1}, {kind: kindBound}}
	case c.hold > 0 || callers < 16:
	case busiest:
		c.lanes = []lane{{kind: kindBound}, {kind: kindBulk}}
	default:
		c.lanes = []lane{{kind: kindBound}}
	}
	return c
}

func heldCell(hold time.Duration, callers int) cell {
	return cell{
		callers: callers, hold: hold, purpose: forRow,
		lanes: []lane{{kind: kindOurs}, {name: laneRTT, kind: kindStep, callers: 1}},
	}
}

func movedCell() cell {
	return cell{
		callers: 128, mode: modeMoved, purpose: forRow,
		lanes: []lane{{kind: kindOurs}, {name: laneCleartext, kind: kindOurs, mode: modeCleartext}},
	}
}

func queryCell() cell {
	return cell{
		op: opQuery, callers: 1, mode: modeQuery, purpose: forRow, lanes: []lane{{kind: kindPeer}, {kind: kindOurs}},
	}
}
