package sim

import (
	"bytes"
	"maps"
	"net"
	"slices"
	"time"
)

// Who is told the password, beside the logins (P14). Requests to services bring it, so that they go to nodes of the
// cluster alone; without TLS and unless the configuration allows PLAIN, only to those that it names itself, or whose
// names its SRV record gives. In the runs with TLS nothing at all goes to a port without, whatever has failed before.

// authorization is a request to a service that brought credentials.
type authorization struct {
	addr string
	at   time.Time
}

// authorizing is how credentials begin in a request, which net/http writes so.
const authorizing = "\r\nAuthorization: "

// shownToRequests is what a large set of seeds comes to.
const shownToRequests = "a wrong certificate was shown to a request to a service"

// requests takes what has left over a connection to a service.
func (w *wire) requests(clear []byte) {
	w.out = append(w.out, clear...)
	if n := bytes.Count(w.out, []byte(authorizing)); n > 0 {
		w.tap.mu.Lock()
		for range n {
			w.tap.authorized = append(w.tap.authorized, authorization{w.addr, time.Now()})
		}
		w.tap.mu.Unlock()
		w.out = w.out[:0] // another one has a whole request before it
	}
	if most := len(authorizing) - 1; len(w.out) > most { // one may have left in part
		w.out = append(w.out[:0], w.out[len(w.out)-most:]...)
	}
}

// checkAuthorized judges where credentials went.
func (w *world) checkAuthorized() {
	nodes := map[string]bool{}
	for _, n := range w.m.Nodes() {
		nodes[host(w.addr(n))] = true
	}
	for _, a := range w.tap.authorized {
		to := host(a.addr)
		switch {
		case !nodes[to]:
			w.report.violate("P14", "the password went to %s, %v after the beginning: that is not a node", a.addr,
				a.at.Sub(w.began))
			return
		case !w.tls && !w.clear && !w.named[to]:
			w.report.violate("P14", "the password went in the clear to %s, %v after the beginning, which only a map "+
				"names", a.addr, a.at.Sub(w.began))
			return
		case !w.tls && !w.named[to]:
			w.report.Reached[toldAnyNode]++
		}
	}
}

// toldAnyNode is what a large set of seeds comes to.
const toldAnyNode = "the password went to a node that only a map names, as allowed"

// checkDialled judges which ports the client has dialled in a run with TLS.
func (w *world) checkDialled() {
	if !w.tls {
		return
	}
	for _, addr := range slices.Sorted(maps.Keys(w.facts.dials)) {
		if _, port, _ := net.SplitHostPort(addr); !slices.Contains(w.encrypted, port) {
			w.report.violate("P14", "%s was dialled, %v after the beginning, where nothing is encrypted", addr,
				w.facts.dials[addr][0].Sub(w.began))
			return
		}
	}
}

// name takes note of hosts that the configuration names, or its SRV record.
func (w *world) name(addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		w.named[host(a)] = true
	}
}
