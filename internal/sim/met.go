package sim

import (
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// A fault counts what has met it, not what it was set for: a connection over which nothing goes while its answers would
// be lost meets nothing. What goes over connections is counted by the network, see mock.Effects. A change of the
// cluster counts when it has been made: a map that is new is met by each call behind it.

// fired counts a fault that was met.
func (w *world) fired(name string, n int) {
	if n <= 0 {
		return
	}
	w.mu.Lock()
	w.report.FaultsFired[name] += n
	w.mu.Unlock()
}

// reached counts what a set of seeds has to come to, while the run goes on.
func (w *world) reached(name string, n int) {
	if n <= 0 {
		return
	}
	w.mu.Lock()
	w.report.Reached[name] += n
	w.mu.Unlock()
}

// Effects of faults on a direction of a connection.
func failedWrites(e mock.Effects) int { return e.Failed }
func lostPieces(e mock.Effects) int   { return e.Lost }
func endedReads(e mock.Effects) int   { return e.Ended }
func brokenReads(e mock.Effects) int  { return e.Broken }
func heldPieces(e mock.Effects) int   { return e.Held }
func splitPieces(e mock.Effects) int  { return e.Split }
func slowedPieces(e mock.Effects) int { return e.Slowed }

// gained starts to count what faults do to directions of connections: met says how much that was until now.
func gained(of func(mock.Effects) int, fs ...*mock.Flow) (met func() int) {
	all := func() (n int) {
		for _, f := range fs {
			n += of(f.Effects())
		}
		return n
	}
	before := all()
	return func() int { return all() - before }
}

// ups are the directions to the nodes.
func ups(ls []*mock.Link) (fs []*mock.Flow) {
	for _, l := range ls {
		fs = append(fs, l.Up())
	}
	return fs
}

// downs are the directions from the nodes.
func downs(ls []*mock.Link) (fs []*mock.Flow) {
	for _, l := range ls {
		fs = append(fs, l.Down())
	}
	return fs
}

// both are both directions.
func both(ls ...*mock.Link) []*mock.Flow { return append(ups(ls), downs(ls)...) }

// spike makes both directions deliver after lo to twice lo. What is written once another spike has ended this one is
// not met, nor is the end of a stream, which asks for a latency, too.
func (w *world) spike(l *mock.Link, lo time.Duration) (met func() int) {
	var mets []func() int
	for i, f := range both(l) {
		asked := new(atomic.Int64)
		delayed := gained(func(e mock.Effects) int { return e.Delayed }, f)
		w.paceWith(f, 2*l.ID()+uint64(i), lo, func() { asked.Add(1) })
		mets = append(mets, func() int { return min(int(asked.Load()), delayed()) })
	}
	return sum(mets)
}

// sum adds up what several counters say.
func sum(mets []func() int) (met func() int) {
	return func() (n int) {
		for _, m := range mets {
			n += m()
		}
		return n
	}
}
