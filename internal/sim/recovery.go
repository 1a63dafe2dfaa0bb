package sim

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// Requests to services when the faults have stopped for so long that calls must succeed (P9). They only read, so that
// one whose connection breaks is sent again, and the services do what they are asked to. Each must give all rows. A
// client that has given up a node of a service, or that waits for what a failed request has not given back, passes
// every other judge.

const (
	calmAsks  = 6 // requests to each service
	calmLimit = 2500 * time.Millisecond
	calmRows  = 4 // of each answer
)

// askedInCalm is the name of what services do then.
const askedInCalm = "asked when the faults have stopped"

// servedInCalm is what a large set of seeds comes to, for each service.
func servedInCalm(of mock.Service) string { return served(of, askedInCalm) }

// obliging is the table of what services do then.
func obliging() []execution {
	return []execution{{askedInCalm, true, 1, mock.Answer{Rows: rows(calmRows)}}}
}

// calmToken is how the tokens of these requests begin.
const calmToken = "calm-"

// askInCalm makes the requests to a service.
func (w *world) askInCalm(of mock.Service) {
	r := newSource(w.d, text("calm requests"), uint64(of))
	sleep(context.Background(), w.faulted+w.calmGrace()-w.since())
	for n := range calmAsks {
		sleep(context.Background(), r.between(100*time.Millisecond, 1400*time.Millisecond))
		a := asking{
			token: fmt.Sprintf("%s%d-%d", calmToken, of, n), began: w.since(), of: of, limit: calmLimit,
			calm: w.reachable(of),
		}
		if of == mock.QueryService || of == mock.AnalyticsService {
			w.state(&statement{asking: a, reads: true}, r)
		} else {
			w.lookOnce(&a)
		}
	}
}

// reachable reports whether a request to a service can succeed at all. The views of a bucket are at the nodes that have
// active vbuckets of it. Without TLS the password goes to no node that the configuration does not name, and a small
// bucket may be at such nodes alone. Every other service is at the first node, too, which the configuration names.
func (w *world) reachable(of mock.Service) bool {
	if of != mock.ViewsService || w.tls || w.clear {
		return true
	}
	addresses, table := w.addresses(), w.m.Map(bucketName)
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(table, func(row []int) bool {
		return row[0] >= 0 && w.named[host(addresses[row[0]])]
	})
}

// checkInCalm judges one of them. Rows that break off cannot be asked for again: that is the one failure that the
// connections' last loss excuses.
func (w *world) checkInCalm(a *asking, what fmt.Stringer) {
	cut := a.err != nil && a.got > 0 && a.began < w.broken.to && a.ended >= w.broken.from
	switch {
	case !a.calm || cut:
	case a.err != nil || a.got != calmRows:
		w.report.violateWith("P9", func() []string { return w.historyOf(a.of) },
			"%s: of %d rows the %s service has given %d, %v after the last fault was over: %v", what, calmRows,
			serviceNames[a.of], a.got, a.began-w.faulted, a.err)
	default:
		w.report.Reached[servedInCalm(a.of)]++
	}
}

// historyOf are the last lines of what happened to a service: the requests, the dials to its nodes, and the instants
// that broke connections.
func (w *world) historyOf(of mock.Service) []string {
	var ls []event
	for _, a := range w.askings() {
		if a.of == of {
			ls = append(ls, event{a.began, "begins  " + a.String()},
				event{a.ended, fmt.Sprintf("ends    %s, %d retries %v", a.token, a.retries, a.reasons)})
		}
	}
	for addr, at := range w.facts.dials {
		if !w.isPortOf(of, addr) {
			continue
		}
		for _, t := range at {
			ls = append(ls, event{t.Sub(w.began), "dial " + addr})
		}
	}
	for _, b := range w.disturbed {
		where := b.host
		if where == everywhere {
			where = "all nodes"
		}
		ls = append(ls, event{b.at.Sub(w.began), "connections break: " + where})
	}
	return lastLines(ls)
}

// isPortOf reports whether an address is one of a service.
func (w *world) isPortOf(of mock.Service, addr string) bool {
	_, port, _ := net.SplitHostPort(addr)
	return slices.ContainsFunc([]string{w.m.Node(0).ServiceAddr(of), w.m.Node(0).ServiceTLSAddr(of)},
		func(a string) bool {
			_, p, _ := net.SplitHostPort(a)
			return p != "" && p == port
		})
}
