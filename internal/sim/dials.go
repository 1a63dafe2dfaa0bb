package sim

import "time"

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

// checkDials judges how often the client has tried to connect.
func (w *world) checkDials() {
	for addr, at := range w.facts.dials {
		for i := range at {
			end, n := at[i].Add(time.Second), 0
			for _, t := range at[i:] {
				if !t.Before(end) {
					break
				}
				n++
			}
			broken := w.brokenWithin(addr, at[i].Add(-time.Second), end)
			if most := w.connections * (dialsFree + dialsBroken*broken); n > most {
				w.report.violateAt(end.Sub(w.began), "P10", "%s was dialled %d times in a second from %v on, with "+
					"connections to its node broken %d times", addr, n, at[i].Sub(w.began), broken)
				return
			}
		}
	}
}
