package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Options say what to run.
type Options struct {
	Seed uint64
	Ops  int // calls that the workers make, about; 0 means 5000
	// Without leaves out parts of what the seed draws: Parts, and faults and changes by their names, see Faults.
	// Workers and Nodes are upper limits; 0 means no limit. What is left is drawn as before. They are for smaller runs
	// that show the same.
	Without        []string
	Workers, Nodes int
	// Progress, unless it is nil, says how far the run is while it goes on.
	Progress *Progress
	// Drawings is where a history that is not linearizable is drawn, as a page of HTML; "" draws none.
	Drawings string
	// Break plants a defect, to see that the property that forbids it fails. See Defects.
	Break Defect
	// abandon takes the report of a run that has left goroutines blocked and so cannot end; it ends the process.
	abandon func(*Report)
}

// Defect is a planted defect.
type Defect string

// The defects that Options.Break knows, each with the property that notices it.
const (
	LateEnd        Defect = "late-end"        // P1: a call's end is told late
	NeverEnds      Defect = "never-ends"      // P1: a call's end is never told
	EndsTwice      Defect = "ends-twice"      // P1: a call's end is told twice
	DoubledWrite   Defect = "doubled-write"   // P2: the network repeats writes
	LostWrite      Defect = "lost-write"      // P3: a node acknowledges what it does not store
	LostTouch      Defect = "lost-touch"      // P3: a node acknowledges an expiry that it does not set
	LyingStatus    Defect = "lying-status"    // P4: a node refuses what it stores
	StaleRead      Defect = "stale-read"      // P5: a node answers with an older version
	NoRecovery     Defect = "no-recovery"     // P9: a fault goes on when all have stopped
	RepeatedRead   Defect = "repeated-read"   // P10: the network repeats reads many times
	LeakedSocket   Defect = "leaked-socket"   // P11: a socket stays open
	LeakedRoutine  Defect = "leaked-routine"  // P11: a goroutine stays
	LeakedTimer    Defect = "leaked-timer"    // P11: a timer stays
	UnboundedParks Defect = "unbounded-parks" // P12: more calls may wait than was asked for
	LoggedError    Defect = "logged-error"    // P16: the log tells of a broken invariant
	Unsteady       Defect = "unsteady"        // Replay: no two runs of a seed have the same trace
)

// Defects gives the property that each planted defect breaks.
func Defects() map[Defect]string {
	return map[Defect]string{
		LateEnd: "P1", NeverEnds: "P1", EndsTwice: "P1", DoubledWrite: "P2", LostWrite: "P3", LostTouch: "P3",
		LyingStatus: "P4",
		StaleRead:   "P5",
		NoRecovery:  "P9", RepeatedRead: "P10", LeakedSocket: "P11", LeakedRoutine: "P11", LeakedTimer: "P11",
		UnboundedParks: "P12",
		LoggedError:    "P16", Unsteady: Replay,
	}
}

// Bounds of a run in virtual time.
const (
	closeLimit   = 5 * time.Second
	pollInterval = 2500*time.Millisecond + 503
	cancelSlack  = 5*time.Millisecond + time.Microsecond // how late the end of a context may be noticed
)

// plan is what a seed draws for its run.
type plan struct {
	Options
	d random

	nodes, replicas, vbuckets int
	keys, workers             int
	latency                   time.Duration // of the network, at least; as much again is random
	pause                     time.Duration // between two calls of a worker, on average
	pushes                    bool          // nodes tell of new maps
	whole                     bool          // they push the maps themselves, not that there are newer ones
	topology                  bool          // the cluster changes
	flush                     bool          // the bucket is emptied now and then
	renew                     bool          // the bucket is deleted and created again now and then
	// the password changes, which also replaces connections that have fallen silent
	rotate      bool
	harsh       bool // sockets vanish for good instead of for a while
	bursts      bool // workers start many calls at once
	tight       bool // small limits of what may wait
	calm        bool // it ends with a calm phase
	asks        bool // the query service is asked, too
	scans       bool // the bucket is scanned, too
	drives      bool // nodes drive loops more than anything else, over a fast network
	faults      int  // so many of them at the same time
	breaker     bool
	tls         bool // all connections are encrypted
	packs       bool // values are long enough to be compressed
	active      bool // nodes compress values and maps by themselves
	names       bool // nodes are found by a DNS SRV record, too
	single      bool // one node alone runs some of the services
	unready     int  // so many maps have no vbuckets at first
	connections int
	private     bool // some workers have documents of their own, for operations of all kinds
	clear       bool // the password may go in the clear
	chooses     bool // the configuration names mechanisms
	mechanisms  []string
	barred      time.Duration // for so long no login is accepted, from the beginning on
}

// parts are what a plan can do without.
var parts = map[string]func(p *plan) *bool{
	"topology": func(p *plan) *bool { return &p.topology }, "flush": func(p *plan) *bool { return &p.flush },
	"renew": func(p *plan) *bool { return &p.renew }, "rotate": func(p *plan) *bool { return &p.rotate },
	"harsh": func(p *plan) *bool { return &p.harsh }, "bursts": func(p *plan) *bool { return &p.bursts },
	"tight": func(p *plan) *bool { return &p.tight }, "asks": func(p *plan) *bool { return &p.asks },
	"scans": func(p *plan) *bool { return &p.scans }, "drives": func(p *plan) *bool { return &p.drives },
	"breaker": func(p *plan) *bool { return &p.breaker }, "tls": func(p *plan) *bool { return &p.tls },
	"packs": func(p *plan) *bool { return &p.packs }, "active": func(p *plan) *bool { return &p.active },
	"names": func(p *plan) *bool { return &p.names }, "single": func(p *plan) *bool { return &p.single },
	"private": func(p *plan) *bool { return &p.private }, "clear": func(p *plan) *bool { return &p.clear },
	"chooses": func(p *plan) *bool { return &p.chooses },
}

// Parts are the parts of a run that Options.Without may name, besides faults and changes.
func Parts() []string { return slices.Sorted(maps.Keys(parts)) }

// Plan says what the seed draws for a run, as the run's report does.
func Plan(o Options) string { return draw(o).String() }

// leavesOut reports whether the run is without the fault or change.
func (p *plan) leavesOut(name string) bool { return slices.Contains(p.Without, name) }

func draw(o Options) *plan {
	if o.Ops <= 0 {
		o.Ops = 5000
	}
	d := random(mix(o.Seed))
	r := newSource(d, text("plan"))
	p := &plan{
		Options: o, d: d,
		nodes: 2 + r.below(4), replicas: r.below(3), vbuckets: []int{1, 4, 64, 256, 1024}[r.below(5)],
		keys: 40 + r.below(200), workers: 8 + r.below(25),
		latency: r.between(50*time.Microsecond, 2*time.Millisecond), pause: r.between(2*time.Millisecond,
			60*time.Millisecond),
		pushes: r.below(3) > 0, topology: r.below(4) > 0, flush: r.below(6) == 0, harsh: r.below(3) == 0,
		bursts: r.below(3) == 0,
		tight:  r.below(4) == 0, calm: r.below(4) > 0, faults: 1 + r.below(4), breaker: r.below(5) == 0, connections: 1,
	}
	if o.Nodes > 0 {
		p.nodes = min(p.nodes, o.Nodes)
	}
	if o.Workers > 0 {
		p.workers = min(p.workers, o.Workers)
	}
	p.replicas = min(p.replicas, p.nodes-1)
	p.bursts = p.bursts || p.tight // else they would not meet their limits
	if r.below(8) == 0 {
		p.connections = 2
	}
	p.renew, p.rotate, p.whole = r.below(6) == 0, r.below(4) == 0, r.below(3) == 0
	p.asks, p.scans, p.drives = r.below(2) == 0, r.below(3) == 0, r.below(4) == 0
	p.tls, p.packs, p.active, p.names = r.below(5) < 2, r.below(2) == 0, r.below(2) == 0, r.below(2) == 0
	p.single = r.below(3) == 0
	if r.below(6) == 0 {
		p.unready = 1 + r.below(6)
	}
	p.private = r.below(2) == 0
	p.drawLogins(r)
	// Over TLS a goroutine of the client's writes, and which calls find a place under a small limit depends on when it
	// gets the processor.
	p.tls = p.tls && !p.tight
	if o.Break != "" { // what they break is in the clear
		p.tls, p.packs = false, false
	}
	p.active = p.active && p.packs
	for name, of := range parts {
		if slices.Contains(o.Without, name) {
			*of(p) = false
		}
	}
	p.fitLogins()
	if p.drives {
		p.latency, p.asks, p.scans = fastest, true, true
	}
	// While there is no bucket the client finds services over connections without one. They are dialled at the instant
	// at which those of the bucket are, and nothing tells the dials apart.
	p.asks = p.asks && !p.renew
	p.calm = p.calm || o.Break == NoRecovery
	p.tight = p.tight || o.Break == UnboundedParks
	return p
}

// maxParked is how many calls may wait for their retry, maxQueued for a connection, maxInFlight for an answer on one.
func (p *plan) limits() (maxParked, maxQueued, maxInFlight int) {
	if p.tight {
		return 12, 16, 12
	}
	return 0, 0, 0
}

// String says what the seed has drawn.
func (p *plan) String() string {
	return fmt.Sprintf("%d nodes, %d replicas, %d vbuckets, %d keys, %d workers, latency %v, pause %v, pushes %t, "+
		"whole %t, topology %t, flush %t, renew %t, rotate %t, harsh %t, bursts %t, tight %t, calm %t, asks %t, "+
		"scans %t, drives %t, faults %d, breaker %t, tls %t, packs %t, active %t, names %t, "+
		"single %t, unready %d, connections %d, private %t, clear %t, mechanisms %v, barred %v",
		p.nodes, p.replicas, p.vbuckets, p.keys, p.workers, p.latency, p.pause, p.pushes, p.whole, p.topology, p.flush,
		p.renew, p.rotate, p.harsh, p.bursts, p.tight, p.calm, p.asks, p.scans, p.drives, p.faults, p.breaker,
		p.tls, p.packs, p.active, p.names, p.single, p.unready, p.connections, p.private, p.clear, p.mechanisms,
		p.barred)
}
