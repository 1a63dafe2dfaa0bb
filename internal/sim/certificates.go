package sim

import (
	"math"
	"net"
	"slices"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// Certificates: in the runs with TLS nodes show wrong ones for a while, or a new one that is as good. No request may
// leave over a connection to a node that has shown a wrong one (P14), neither one for a document nor one to a service,
// which brings the password: what the client sends behind the handshake is seen by its end of the connection, which
// reads along. That calls succeed again afterwards is P9.

// showing is what a node shows since a time of the run.
type showing struct {
	kind  mock.Certificate
	since time.Duration
}

// shown is a certificate that a node has shown for a while, but the one from the beginning.
type shown struct {
	span
	kind mock.Certificate
}

// wrong certificates are to be refused.
func (s shown) wrong() bool { return s.kind != mock.RotatedCertificate }

// dated certificates are wrong only by the client's clock.
func (s shown) dated() bool {
	return s.kind == mock.ExpiredCertificate || s.kind == mock.FutureCertificate
}

// certificates are the faults that show them: each counts for each handshake that it meets, see checkCertificates.
var certificates = map[mock.Certificate]string{
	mock.ExpiredCertificate:        "47e expired certificate",
	mock.FutureCertificate:         "47e certificate of the future",
	mock.OtherNameCertificate:      "47f certificate of another host",
	mock.OtherAuthorityCertificate: "47g certificate of an unknown authority",
	mock.RotatedCertificate:        "47 certificate rotated",
}

// encrypts has the client use TLS.
func (w *world) encrypts(cfg *core.Config) {
	if cfg.TLS.Config = w.m.TLSConfig(); w.tls {
		cfg.TLS.Config.KeyLogWriter, cfg.TLS.Config.Time = &w.tap.secrets, w.now
		w.encrypted = []string{w.kvPort()}
		for _, s := range []mock.Service{
			mock.ManagementService, mock.ViewsService, mock.QueryService, mock.SearchService, mock.AnalyticsService,
			mock.EventingService,
		} {
			_, port, _ := net.SplitHostPort(w.m.Node(0).ServiceTLSAddr(s))
			w.encrypted = append(w.encrypted, port)
		}
	}
}

// linksOf are the connections to a node, those of all its services.
func (w *world) linksOf(addr string) []*mock.Link {
	return slices.DeleteFunc(w.m.Network().Links(), func(l *mock.Link) bool {
		return host(l.RemoteAddr()) != host(addr)
	})
}

// show makes a node show a certificate.
func (w *world) show(addr string, kind mock.Certificate) {
	nodes := w.nodesAt(addr)
	if err := w.m.SetCertificate(kind, nodes...); err != nil {
		w.report.violate("setup", "%v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, at := w.since(), host(addr)
	if old := w.shows[at]; old.kind != mock.GoodCertificate {
		w.shown[at] = append(w.shown[at], shown{span{old.since, now}, old.kind})
	}
	w.shows[at] = showing{kind, now}
}

// certified is a fault of what a node shows to new connections, which it makes necessary.
func certified(kind mock.Certificate) fault {
	return fault{name: certificates[kind], tls: true, begin: func(w *world, _ *source, addr string) func() int {
		w.show(addr, kind)
		w.breaks(addr)
		w.reset(w.linksOf(addr))
		return func() int {
			if kind != mock.RotatedCertificate {
				w.show(addr, mock.GoodCertificate)
			}
			return 0 // the judge knows what it has met
		}
	}}
}

// alertAnswered is the name of a fault of records, each of which counts when it goes out.
const alertAnswered = "47h alert in mid-stream"

func certificateFaults() []fault {
	return []fault{
		certified(mock.ExpiredCertificate),
		certified(mock.FutureCertificate),
		certified(mock.OtherNameCertificate),
		certified(mock.OtherAuthorityCertificate),
		certified(mock.RotatedCertificate),
		{tls: true, name: alertAnswered, begin: func(w *world, _ *source, at string) func() int {
			w.breaks(at)
			w.tap.mu.Lock()
			for _, c := range w.tap.secret {
				if c.addr == at {
					c.flip.Store(true) // the node answers a record that it cannot decrypt with an alert
				}
			}
			w.tap.mu.Unlock()
			return func() int { return 0 } // each record counts when it is sent, which may be later
		}},
		{tls: true, name: "2 silence in the handshake of TLS", begin: func(w *world, r *source, at string) func() int {
			silence := &stall{after: 1 + r.below(1500)}
			w.mu.Lock()
			w.stalls[at] = silence
			w.mu.Unlock()
			w.breaks(at)
			w.reset(w.linksTo(at))
			return func() int {
				w.mu.Lock()
				delete(w.stalls, at)
				w.mu.Unlock()
				met := sum(silence.held)()
				w.breaks(at)
				w.reset(w.linksTo(at))
				return met
			}
		}},
		{name: clockJumps, tls: true, begin: func(w *world, r *source, addr string) func() int {
			w.jump(r.between(-800*24*time.Hour, 800*24*time.Hour))
			w.breaks(addr)
			w.reset(w.linksTo(addr))
			return func() int {
				w.jump(0)
				return 0 // the judge of certificates knows what handshakes it has met
			}
		}},
	}
}

// clockJumps is the name of a fault of handshakes.
const clockJumps = "clock jumps: the client's"

// stall is the silence of a node behind so many bytes of each new connection.
type stall struct {
	after int
	held  []func() int // what of the connections has waited
}

// hold has what comes over a new connection wait, if its node is to be silent.
func (s *stall) hold(down *mock.Flow) {
	if s != nil {
		s.held = append(s.held, gained(heldPieces, down))
		down.HoldAfter(s.after)
	}
}

// now is the client's clock, as far as certificates are concerned.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) }

// jump sets how far the client's clock is from the true one.
func (w *world) jump(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clock.Swap(int64(by)) != 0 {
		w.jumps[len(w.jumps)-1].to = w.since()
	}
	if by != 0 {
		w.jumps = append(w.jumps, jump{span{w.since(), forever}, by})
	}
}

// forever is later than any run ends.
const forever = time.Duration(math.MaxInt64)

// dateless tells whether the client's clock was wrong in a part of a handshake, or in the second behind it: the client
// reads its clock when the whole certificate has come, which the judge does not see.
func (w *world) dateless(from, to time.Duration) bool {
	return slices.ContainsFunc(w.jumps, func(j jump) bool { return from <= j.to && to+time.Second >= j.from })
}

// goodAgain ends what nodes show.
func (w *world) goodAgain() {
	w.jump(0)
	for _, addr := range w.addresses() {
		if w.tls {
			w.show(addr, mock.GoodCertificate)
		}
	}
}

// jump is a stretch of the run in which the client's clock is wrong.
type jump struct {
	span
	by time.Duration
}

// tells reports whether no certificate is valid by such a clock. Those of the nodes are valid for a year, and since an
// hour before the run.
func (j jump) tells() bool { return j.by < -2*time.Hour || j.by > 366*24*time.Hour }

// untimely reports whether no certificate was valid by the client's clock through a stretch of the run.
func (w *world) untimely(from, to time.Duration) bool {
	return slices.ContainsFunc(w.jumps, func(j jump) bool { return j.tells() && from > j.from && to < j.to })
}

// checkClock judges and counts a handshake in which no certificate was valid by the client's clock; false: it violates.
func (w *world) checkClock(c *wire, from time.Duration) (ok bool) {
	end, ended := c.secret.ended()
	if !ended || !w.untimely(from, end.Sub(w.began)) {
		return true
	}
	certs := w.shown[host(c.addr)]
	if c.secret.finished.IsZero() {
		if !slices.ContainsFunc(certs, func(s shown) bool { return s.from <= end.Sub(w.began) && s.to >= from }) {
			w.report.FaultsFired[clockJumps]++ // nothing else was wrong
		}
		return true
	}
	if slices.ContainsFunc(certs, shown.dated) { // that one is valid by some other clock
		return true
	}
	w.report.violateAt(end.Sub(w.began), "P14", "the handshake with %s of %v after the beginning was finished, "+
		"although its certificate was not valid by the client's clock", c.addr, from)
	return false
}

// checkCertificates judges which connections requests have left over, and counts what handshakes have met.
func (w *world) checkCertificates() {
	for at, s := range w.shows {
		if s.kind != mock.GoodCertificate {
			w.shown[at] = append(w.shown[at], shown{span{s.since, w.finished}, s.kind})
		}
	}
	for _, c := range w.tap.secret {
		if c.secret.up.lost && c.secret.up.aead == nil {
			w.report.violate("setup", "the suite %x of TLS is not known", c.secret.suite)
			return
		}
		if c.secret.hello.IsZero() || c.secret.server.IsZero() {
			continue
		}
		w.report.Reached["a connection over TLS"]++
		from, to := c.secret.hello.Sub(w.began), c.secret.server.Sub(w.began)
		if !w.checkClock(c, from) {
			return
		}
		for _, s := range w.shown[host(c.addr)] {
			if from <= s.from || to >= s.to {
				continue
			}
			w.report.FaultsFired[certificates[s.kind]]++
			if !s.wrong() || s.dated() && w.dateless(from, to) {
				continue
			}
			w.report.Reached["a wrong certificate was shown"]++
			if c.service {
				w.report.Reached[shownToRequests]++
			}
			if c.secret.spoke {
				w.report.violateAt(to, "P14", "something went to %s over the connection of %v after the beginning, "+
					"although its certificate was wrong", c.addr, from)
				return
			}
		}
	}
}
