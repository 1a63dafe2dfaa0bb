package sim

import (
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Bounds of P10 for dials.
const (
	// dials to one address within a second, for each connection: four for what is lost, six for handshakes that fail,
	// two for logins that are called stale, one for what an answer ends, one for new credentials
	dialsFree   = 4 + 6 + 2 + 1 + 1
	dialsBroken = 3 // and this many more for each time that connections to its node were broken within that
)

// breakage is an instant that breaks connections.
type breakage struct {
	at   time.Time
	host string // to this node; everywhere: to all of them
}

// everywhere is the address of all nodes.
const everywhere = ""

// breaks notes that connections to an address are about to break.
func (w *world) breaks(addr string) {
	w.mu.Lock()
	w.disturbed = append(w.disturbed, breakage{time.Now(), host(addr)})
	w.mu.Unlock()
}

// brokenWithin is how often connections to an address were broken within a span of time: those to any, everywhere.
func (w *world) brokenWithin(addr string, from, to time.Time) (n int) {
	for _, b := range w.disturbed {
		if (b.host == everywhere || addr == everywhere || b.host == host(addr)) && b.at.After(from) && b.at.Before(to) {
			n++
		}
	}
	return n
}

// bucketlessSince is when the client has had a connection without a bucket for the first time; ok is false when it
// never has. It makes them besides those with a bucket when services are asked while no connection with a bucket works.
func (w *world) bucketlessSince() (at time.Time, ok bool) {
	selected := map[uint64]bool{}
	for _, f := range w.facts.frames {
		switch {
		case f.Opcode == memd.OpSelectBucket:
			selected[f.Conn] = true
		case f.Opcode == memd.OpGetClusterConfig && !selected[f.Conn]:
			return f.At, true
		}
	}
	return time.Time{}, false
}

// checkDials judges how often the client has tried to connect.
func (w *world) checkDials() {
	since, both := w.bucketlessSince()
	for addr, at := range w.facts.dials {
		for i := range at {
			end, n := at[i].Add(time.Second), 0
			for _, t := range at[i:] {
				if !t.Before(end) {
					break
				}
				n++
			}
			broken, links := w.brokenWithin(addr, at[i].Add(-time.Second), end), w.connections
			if both && since.Before(end) {
				links++
			}
			if most := links * (dialsFree + dialsBroken*broken); n > most {
				w.report.violateAt(end.Sub(w.began), "P10", "%s was dialled %d times in a second from %v on, with "+
					"connections to its node broken %d times", addr, n, at[i].Sub(w.began), broken)
				return
			}
		}
	}
}
