package sim

import (
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Servers that want the password in the clear, or cannot prove that they know it. What the client may do then is P14:
// no password leaves over a socket without TLS, and no request for a document goes to a server without proof.

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
	w.breaks()
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
	unproven := map[uint64]bool{}
	for _, f := range frames {
		switch {
		case f.Opcode == memd.OpSASLAuth && f.Key == "PLAIN" && !w.tls:
			w.report.violate("P14", "the password went to node %d in the clear, %v after the beginning", f.Node,
				f.At.Sub(w.began))
			return
		case f.Opcode == memd.OpSASLStep && w.forged[f.At]:
			unproven[f.Conn] = true
		case unproven[f.Conn] && f.Document != "":
			w.report.violate("P14", "%v went to node %d, which has not proven that it knows the password", f.Opcode,
				f.Node)
			return
		}
	}
}
