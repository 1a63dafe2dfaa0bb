package sim

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Servers that drive loops: for a while a node gives an answer that makes the client do the same again, each time and
// at once. What the client may do then is in the table of docs/retry.md, "What a server can make the client do". It is
// judged from the requests and the connections that left the client (P10): see checkDriven here, and checkDials. Half
// the faults of the runs that are given to them are of this kind, over a network that is fast enough for thousands of
// rounds a second.

// fastest is the latency of such a run's network, at least; as much again is random.
const fastest = 50 * time.Microsecond

func drivingFaults() []fault {
	stale := injected("loops: each login is stale", 0, answers(mock.Status(memd.StatusAuthStale)),
		append(documentOps(), memd.OpCollectionsGetID)...)
	hangUp := injected("loops: one answer, and the end of the connection", 0, answers(mock.CloseAnswered()))
	return []fault{
		stale, hangUp,
		{name: "loops: more items, without any", begin: func(w *world, _ *source, addr string) func() int {
			in := w.m.Inject(mock.Match{Nodes: w.nodesAt(addr), Opcodes: []memd.Opcode{memd.OpRangeScanContinue}},
				mock.Reply(func(rq, rep *memd.Packet) {
					rep.Status = memd.StatusRangeScanMore
					w.drove("continuing scan " + hex.EncodeToString(rq.Extras[:min(len(rq.Extras), 16)]))
				}))
			return func() int {
				in.Remove()
				return in.Fired()
			}
		}},
		{name: "loops: Retry-After: 0", begin: func(w *world, _ *source, addr string) func() int {
			script := w.m.Script(mock.ServiceMatch{Service: mock.QueryService, Nodes: w.nodesAt(addr)}, mock.Answer{
				Func: func(rq *mock.ServiceRequest) mock.Answer {
					w.drove("executing " + tokenIn(rq))
					return mock.Answer{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"0"}}}
				},
			})
			return func() int {
				script.Remove()
				return script.Fired()
			}
		}},
	}
}

// nodesAt is the number of the node with the address, as those who match nodes want it.
func (w *world) nodesAt(addr string) []int {
	for i, n := range w.m.Nodes() {
		if w.addr(n) == addr {
			return []int{i}
		}
	}
	return nil
}

// drove notes a request that was answered so that the client sends the same one again.
func (w *world) drove(request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.driven[request] = append(w.driven[request], time.Now())
}

// Bounds of P10 for identical requests. The first retry may come at once, and one more when a newer map has another
// node; further ones follow a millisecond after a failure at the earliest, and those of a delay that the server names,
// or of a scan without progress, later.
const (
	sameWindow = time.Millisecond
	sameMost   = 3
	toldWindow = 10 * time.Millisecond
	toldMost   = 5 // a scan waits 1, 2, 4, 8 ms
)

// checkDriven judges how fast the client has sent the same request again.
func (w *world) checkDriven() {
	judge := func(what string, at []time.Time, window time.Duration, most int) {
		slices.SortFunc(at, time.Time.Compare)
		for first, last := 0, 0; last < len(at); last++ {
			for at[last].Sub(at[first]) >= window {
				first++
			}
			if n := last - first + 1; n > most {
				w.report.violateAt(at[last].Sub(w.began), "P10", "%s: %d times within %v, from %v on", what, n, window,
					at[first].Sub(w.began))
				return
			}
		}
	}
	same, alone := map[identity][]time.Time{}, map[identity]bool{}
	for _, e := range w.ledger {
		if id, ok := e.identity(); ok {
			alone[id] = true
		}
	}
	for _, s := range w.facts.traffic {
		if alone[s.same] { // otherwise several calls may look alike
			same[s.same] = append(same[s.same], s.at)
		}
	}
	for id, at := range same {
		judge(fmt.Sprintf("%v of %s = %s", id.op, id.key, id.token), at, sameWindow, sameMost)
	}
	for request, at := range w.driven {
		judge(request, at, toldWindow, toldMost)
	}
}
