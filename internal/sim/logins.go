package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Servers that want the password in the clear, or cannot prove that they know it, and configurations that allow PLAIN,
// or name the mechanisms. What the client may do then is P14: it begins with the first mechanism that is allowed and
// uses none that is not, no password leaves over a socket without TLS unless that is allowed, and no request for a
// document goes to a server without proof.

// mechanismSets are what configurations name.
func mechanismSets() [][]string {
	return [][]string{
		{"SCRAM-SHA256", "SCRAM-SHA1"}, {"SCRAM-SHA1"}, {"SCRAM-SHA1", inClear}, {inClear, "SCRAM-SHA512"}, {inClear},
	}
}

// drawLogins draws how the client logs in, and how long that is refused at first.
func (p *plan) drawLogins(r *source) {
	p.clear, p.chooses = r.below(5) == 0, r.below(2) == 0
	p.mechanisms = mechanismSets()[r.below(len(mechanismSets()))]
	if r.below(3) == 0 {
		p.barred = r.between(time.Millisecond, 2*time.Second)
	}
}

// fitLogins leaves out what the run is without, and what would keep it from any login. Requests to services would wait
// for the first map while no login is accepted, and which of them chooses a node first when it comes is up to the
// scheduler.
func (p *plan) fitLogins() {
	if !p.chooses || len(p.logins()) == 0 {
		p.mechanisms = nil
	}
	if p.leavesOut(barredAtFirst) || p.asks || p.drives {
		p.barred = 0
	}
}

// logsIn has the client log in as the plan says.
func (w *world) logsIn(cfg *core.Config) {
	cfg.Auth.AllowPlain, cfg.Auth.Mechanisms = w.clear, w.mechanisms
	w.name(cfg.Seeds.Hosts...)
	w.name(cfg.Seeds.HTTPHosts...)
}

// logins are the mechanisms that the client may use, the first of them first.
func (p *plan) logins() []string {
	all := p.mechanisms
	if len(all) == 0 {
		all = []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", inClear}
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == inClear && !p.tls && !p.clear })
}

// inClear is the mechanism that sends the password as it is.
const inClear = "PLAIN"

// barredAtFirst is the name of what only some runs begin with.
const barredAtFirst = "44a login refused from the start"

// bar has nodes refuse every login, in the runs that begin so.
func (w *world) bar() {
	if w.barred > 0 {
		w.bars = w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLAuth}}, mock.Status(memd.StatusAuthError))
	}
}

// admit ends that when it is time.
func (w *world) admit(ctx context.Context) {
	if w.bars == nil {
		return
	}
	sleep(ctx, w.barred)
	w.bars.Remove()
	w.fired(barredAtFirst, w.bars.Fired())
}

// loginFaults make new logins necessary.
func loginFaults() []fault {
	return []fault{
		{name: "44 no mechanism but PLAIN", begin: func(w *world, _ *source, addr string) func() int {
			nodes := w.nodesAt(addr)
			list := w.m.Inject(mock.Match{Nodes: nodes, Opcodes: []memd.Opcode{memd.OpSASLListMechs}},
				mock.Rewrite(func(_, rep *memd.Packet) { rep.Value = []byte("PLAIN") }))
			login := w.m.Inject(mock.Match{Nodes: nodes, Opcodes: []memd.Opcode{memd.OpSASLAuth}},
				mock.Status(memd.StatusAuthError))
			return w.loginsAnew(addr, list, login)
		}},
		{name: "44 no proof of the password", begin: func(w *world, _ *source, addr string) func() int {
			in := w.m.Inject(mock.Match{Nodes: w.nodesAt(addr), Opcodes: []memd.Opcode{memd.OpSASLStep}},
				mock.Rewrite(func(_, rep *memd.Packet) {
					if rep.Status != memd.StatusSuccess {
						return
					}
					rep.Value = []byte("v=" + strings.Repeat("A", 86) + "==")
					w.mu.Lock()
					w.forged[time.Now()] = true
					w.mu.Unlock()
				}))
			return w.loginsAnew(addr, in)
		}},
	}
}

// loginsAnew breaks the connections to the address, and gives the end of the injections.
func (w *world) loginsAnew(addr string, ins ...*mock.Injection) (end func() int) {
	w.breaks(addr)
	w.reset(w.linksTo(addr))
	return func() (fired int) {
		for _, in := range ins {
			in.Remove()
			fired = in.Fired()
		}
		return fired
	}
}

// checkLogins judges the frames of logins: P14.
func (w *world) checkLogins(frames []mock.Frame) {
	unproven, begun, allowed := map[uint64]bool{}, map[uint64]bool{}, w.logins()
	for _, f := range frames {
		if f.Opcode == memd.OpSASLAuth {
			w.report.Reached[loginPrefix+f.Key]++
			if f.Key == inClear && !w.tls {
				w.report.Reached[clearLogin]++
			}
			if !slices.Contains(allowed, f.Key) || !begun[f.Conn] && f.Key != allowed[0] {
				at := f.At.Sub(w.began)
				w.report.violateAt(at, "P14", "%v after the beginning a login to node %d was one by %s, the first on "+
					"its connection: %t; allowed are %v, TLS %t", at, f.Node, f.Key, !begun[f.Conn], allowed, w.tls)
				return
			}
			begun[f.Conn] = true
		}
		switch {
		case f.Opcode == memd.OpSASLStep && w.forged[f.At]:
			unproven[f.Conn] = true
		case unproven[f.Conn] && f.Document != "":
			w.report.violateAt(f.At.Sub(w.began), "P14", "%v went to node %d, which has not proven that it knows the "+
				"password", f.Opcode, f.Node)
			return
		}
	}
}

// What a large set of seeds comes to.
const (
	loginPrefix = "a login by "
	clearLogin  = "the password went in the clear, as allowed"
)
