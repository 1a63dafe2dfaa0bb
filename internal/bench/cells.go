package bench

import (
	"fmt"
	"slices"
)

// lane is one client's part of a cell.
type lane struct {
	name    string // within the cell; "" is the kind's
	kind    string
	nodes   int  // 0 means the cell's
	workers int  // 0 means the cell's
	mode    mode // "" means the cell's
}

// cell is what is measured together, in interleaved rounds. Its first lane is what the others' ratios are to.
type cell struct {
	name    string
	op      operation
	size    int
	workers int
	nodes   int
	mode    mode
	pinned  bool // client and responder share one core
	gate    bool // some target is judged by it: it gets the most rounds
	lanes   []lane
}

func (l lane) label() string {
	if l.name != "" {
		return l.name
	}
	return l.kind
}

func (c *cell) job(l lane) job {
	j := job{Op: c.op, Workers: c.workers, Size: c.size}
	if l.workers > 0 {
		j.Workers = l.workers
	}
	return j
}

func (c *cell) place(l lane) place {
	p := place{kind: l.kind, nodes: c.nodes, mode: c.mode, pinned: c.pinned}
	if l.nodes > 0 {
		p.nodes = l.nodes
	}
	if l.mode != "" {
		p.mode = l.mode
	}
	return p
}

func lanes(kinds ...string) []lane {
	out := make([]lane, len(kinds))
	for i, k := range kinds {
		out[i].kind = k
	}
	return out
}

// Names of the cells and lanes that checks refer to.
const (
	cellOne     = "get 256 B, 1 worker, one core"
	cellNodes   = "get 256 B, 20 nodes with 1024 workers and 1 node with 128"
	cellMoved   = "get 256 B, 128 workers, told once that the vbucket moved"
	cellTmpFail = "get 256 B, 1 worker, failed once for the moment"
	cellPacked  = "get 256 B, 128 workers, compressed"
	cellAbsent  = "get 256 B, 128 workers, no such document"

	laneFew       = "1 node, 128 workers"
	laneMany      = "20 nodes, 1024 workers"
	laneFewBound  = "bound-taxed, 1 node, 128 workers"
	laneManyBound = "bound-taxed, 20 nodes, 1024 workers"
	lanePlain     = "plain"
	laneRTT       = "round trip"
)

func cellHeld(workers int) string { return fmt.Sprintf("get 256 B, %d workers, answers held", workers) }

// wireWorkers is the concurrency in whose cells, of one node, the limit of the responder and the wire is measured.
const wireWorkers = 128

// heldWorkers and sharedWorkers are the concurrencies at which round trips and shares of the bound are judged.
var (
	heldWorkers   = []int{2, 4, 8, 16}
	sharedWorkers = []int{16, 128, 1024}
	allWorkers    = []int{1, 16, 128, 1024}
	allNodes      = []int{1, 3, 20}
)

func cellPlain(op operation, size, workers, nodes int) string {
	name := fmt.Sprintf("%s %s, %s", op, sizeName(size), plural(workers, "worker"))
	if nodes > 1 {
		name += fmt.Sprintf(", %d nodes", nodes)
	}
	return name
}

func sizeName(size int) string {
	if size >= 1024 {
		return fmt.Sprintf("%d KiB", size/1024)
	}
	return fmt.Sprintf("%d B", size)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// allCells is everything that is measured in rounds. Cells of the same environment follow each other, so that processes
// live through several.
func allCells() []cell {
	var out []cell
	for _, nodes := range allNodes {
		for _, size := range sizes {
			for _, op := range []operation{opGet, opUpsert} {
				for _, w := range allWorkers {
					out = append(out, plainCell(op, size, w, nodes))
				}
			}
		}
	}
	out = append(out,
		cell{
			name: cellNodes, op: opGet, size: 256, workers: 128, nodes: 1, mode: modePlain, gate: true,
			lanes: []lane{
				{name: laneFew, kind: kindOurs},
				{name: laneMany, kind: kindOurs, nodes: 20, workers: 1024},
				{name: laneFewBound, kind: kindBoundTaxed},
				{name: laneManyBound, kind: kindBoundTaxed, nodes: 20, workers: 1024},
			},
		},
		cell{
			name: cellOne, op: opGet, size: 256, workers: 1, nodes: 1, mode: modePlain, pinned: true, gate: true,
			lanes: lanes(kindPeer, kindOurs, kindBoundTaxed, kindStep),
		})
	for _, w := range heldWorkers {
		out = append(out, cell{
			name: cellHeld(w), op: opGet, size: 256, workers: w, nodes: 1, mode: modeHold, gate: true,
			lanes: []lane{{kind: kindPeer}, {kind: kindOurs}, {name: laneRTT, kind: kindStep, workers: 1}},
		})
	}
	return append(out,
		cell{
			name: cellMoved, op: opGet, size: 256, workers: 128, nodes: 1, mode: modeMoved, gate: true,
			lanes: []lane{{kind: kindPeer}, {kind: kindOurs}, {name: lanePlain, kind: kindOurs, mode: modePlain}},
		},
		cell{
			name: cellTmpFail, op: opGet, size: 256, workers: 1, nodes: 1, mode: modeTmpFail, gate: true,
			lanes: lanes(kindPeer, kindOurs),
		},
		cell{
			name: cellPacked, op: opGet, size: 256, workers: 128, nodes: 1, mode: modePacked,
			lanes: lanes(kindPeer, kindOurs, kindInto, kindBulk, kindBulkInto),
		},
		cell{
			name: cellAbsent, op: opGet, size: 256, workers: 128, nodes: 1, mode: modeAbsent,
			lanes: lanes(kindPeer, kindOurs, kindBulk),
		})
}

// plainCell is a cell of the matrix. Those at one node with 256 B have more clients, because targets are judged there.
func plainCell(op operation, size, workers, nodes int) cell {
	c := cell{
		name: cellPlain(op, size, workers, nodes), op: op, size: size, workers: workers, nodes: nodes, mode: modePlain,
		lanes: lanes(kindPeer, kindOurs),
	}
	if op == opGet && nodes == 1 {
		c.lanes = append(c.lanes, lane{kind: kindInto})
	}
	c.lanes = append(c.lanes, lane{kind: kindBoundTaxed})
	if nodes > 1 {
		return c
	}
	if size < 65536 {
		c.lanes = append(c.lanes, lane{kind: kindStep})
	}
	if size == 256 && workers > 1 {
		c.gate = true
	}
	if workers == wireWorkers {
		c.lanes = append(c.lanes, lane{kind: kindWire})
		if size == 256 {
			c.lanes = append(c.lanes, lane{kind: kindBulk})
		}
		if size == 256 && op == opGet {
			c.lanes = append(c.lanes, lanes(kindBulkInto, kindPeerDeadline, kindContext, kindCallback, kindFuture, kindBound, kindNull)...)
		}
	}
	return c
}

// places are those of a cell's lanes.
func (c *cell) places() []place {
	var out []place
	for _, l := range c.lanes {
		if p := c.place(l); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
