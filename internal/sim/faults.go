package sim

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// clientHost is where the client dials from.
const clientHost = "10.1.0.1"

// fault is one row of the table: it begins something on the node with the address and gives what ends it. The end says
// how often the fault was met.
type fault struct {
	name  string
	begin func(w *world, r *source, addr string) (end func() int)
	tls   bool // it is for runs with TLS alone
}

// injected is a fault of some requests: those of any of the opcodes, or of documents without any.
func injected(name string, times int, f func(r *source) mock.Fault, ops ...memd.Opcode) fault {
	return fault{name: name, begin: func(w *world, r *source, addr string) func() int {
		m := mock.Match{Times: times, Opcodes: ops}
		if len(ops) == 0 {
			m.Opcodes = documentOps()
			m.Skip = r.below(10)
		}
		if times > 1 {
			m.Times = 1 + r.below(times)
		}
		m.Nodes = w.nodesAt(addr)
		in := w.m.Inject(m, f(r))
		return func() int {
			in.Remove()
			return in.Fired()
		}
	}}
}

// acting is an injected fault that does something to some of its requests only: it counts as met as often as it says
// so.
func acting(name string, times int, f func(r *source, acted func()) mock.Fault, ops ...memd.Opcode) fault {
	return fault{name: name, begin: func(w *world, r *source, addr string) func() int {
		met := new(atomic.Int32)
		one := injected(name, times, func(r *source) mock.Fault { return f(r, func() { met.Add(1) }) }, ops...)
		end := one.begin(w, r, addr)
		return func() int {
			end()
			return int(met.Load())
		}
	}}
}

// answersActing makes an acting fault without random numbers of one.
func answersActing(f func(acted func()) mock.Fault) func(*source, func()) mock.Fault {
	return func(_ *source, acted func()) mock.Fault { return f(acted) }
}

// answers makes a fault without random numbers of one.
func answers(f mock.Fault) func(*source) mock.Fault { return func(*source) mock.Fault { return f } }

// onLinks does something to the connections to an address, and undoes it. The function that do returns says how often
// that was met.
func onLinks(
	name string, do func(w *world, r *source, l *mock.Link) (met func() int), undo func(w *world, l *mock.Link),
) fault {
	return fault{name: name, begin: func(w *world, r *source, addr string) func() int {
		ls := w.linksTo(addr)
		var mets []func() int
		for _, l := range ls {
			mets = append(mets, do(w, r, l))
		}
		return func() int {
			n := sum(mets)()
			for i, l := range ls {
				if undo != nil {
					undo(w, l)
					w.apart(l, i)
				}
			}
			return n
		}
	}}
}

// onDials does something to the next dials to an address, which it makes necessary.
func onDials(name string, do func(n *mock.Network, addr string)) fault {
	return fault{name: name, begin: func(w *world, _ *source, addr string) func() int {
		n := w.m.Network()
		before := w.arrived(addr)
		do(n, addr)
		w.breaks(addr)
		w.reset(w.linksTo(addr))
		return func() int {
			met := w.arrived(addr) - before
			n.Restore(addr)
			w.breaks(addr)
			w.reset(w.linksTo(addr)) // those of a silent node stay silent
			return met
		}
	}}
}

// dialed is how often an address was dialled.
func (w *world) dialed(addr string) int {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	return len(w.tap.dials[addr])
}

// arrived is how many of those dials have come to the network.
func (w *world) arrived(addr string) int {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	return w.tap.arrived[addr]
}

// gone is the end of a fault that a connection does not survive: unless sockets vanish for good, the system notices.
func gone(w *world, l *mock.Link) {
	if !w.harsh {
		w.breaks(l.RemoteAddr())
		w.reset([]*mock.Link{l})
	}
}

// reset breaks connections, one shortly after the other.
func (w *world) reset(ls []*mock.Link) {
	for _, l := range ls {
		l.Reset()
		w.apart(l, 0)
	}
}

// apart lets a moment pass after something was done to a connection, so that the next one has an instant of its own.
func (w *world) apart(l *mock.Link, n int) {
	sleep(context.Background(), w.d.between(time.Nanosecond, 10*time.Microsecond, text("reset"), l.ID(), uint64(n)))
}

// heal ends a partition of the client and a node. What has waited goes on one direction of a connection after the
// other.
func (w *world) heal(addr string) {
	ls := w.linksTo(addr)
	for _, l := range ls {
		l.Up().Hold()
		l.Down().Hold()
	}
	w.m.Network().Heal(clientHost, host(addr))
	for _, l := range ls {
		for i, f := range []*mock.Flow{l.Up(), l.Down()} {
			w.apart(l, i)
			f.Resume()
		}
	}
}

// faults is the table. The names' numbers are those of the list of faults that a client has to bear.
func faults() []fault {
	return slices.Concat(networkFaults(), slowAndLost(), protocolFaults(), requestFaults(), oddFaults(),
		wrongMapFaults(), []fault{poorMaps()}, drivingFaults(), loginFaults(), certificateFaults(),
		callbackFaults(), planFaults())
}

func networkFaults() []fault {
	return []fault{
		onDials("1 connection refused", func(n *mock.Network, addr string) { n.Refuse(addr) }),
		onDials("2 accepted, then silence", func(n *mock.Network, addr string) { n.Silence(addr) }),
		onDials("17 too many open files", func(n *mock.Network, addr string) { n.FailDial(addr, syscall.EMFILE) }),
		onLinks("7 half-open", func(_ *world, _ *source, l *mock.Link) func() int {
			l.Up().Drop()
			l.Down().Drop()
			return gained(lostPieces, both(l)...)
		}, gone),
		onLinks("9 one-byte reads", func(w *world, _ *source, l *mock.Link) func() int {
			w.pieces(l, l.Down(), func(int) int { return 1 })
			return gained(splitPieces, l.Down())
		}, func(w *world, l *mock.Link) { w.pieces(l, l.Down(), whole) }),
		onLinks("9 pieces of any size", func(w *world, _ *source, l *mock.Link) func() int {
			for _, f := range both(l) {
				w.pieces(l, f, func(n int) int {
					return 1 + w.d.below(n, text("piece"), l.ID(), uint64(time.Now().UnixNano()), uint64(n))
				})
			}
			return gained(splitPieces, both(l)...)
		}, func(w *world, l *mock.Link) {
			w.pieces(l, l.Up(), whole)
			w.pieces(l, l.Down(), whole)
		}),
		onLinks("10 short write", func(_ *world, r *source, l *mock.Link) func() int {
			l.Up().FailAfter(r.below(400), syscall.EPIPE)
			return gained(failedWrites, l.Up())
		}, gone),
		onLinks("11 latency spike", func(w *world, r *source, l *mock.Link) func() int {
			return w.spike(l, r.between(20*time.Millisecond, 500*time.Millisecond))
		}, func(w *world, l *mock.Link) {
			w.pace(l.Up(), 2*l.ID(), w.latency)
			w.pace(l.Down(), 2*l.ID()+1, w.latency)
		}),
	}
}

// slowAndLost are faults of what goes over connections slowly, or no more.
func slowAndLost() []fault {
	return []fault{
		onLinks("12 little bandwidth", func(_ *world, _ *source, l *mock.Link) func() int {
			l.Up().SetBandwidth(1000)
			l.Down().SetBandwidth(4000)
			return gained(slowedPieces, both(l)...)
		}, func(_ *world, l *mock.Link) {
			l.Up().SetBandwidth(0)
			l.Down().SetBandwidth(0)
		}),
		onLinks("13 stall, then the rest", func(_ *world, r *source, l *mock.Link) func() int {
			l.Down().HoldAfter(r.below(300))
			return gained(heldPieces, l.Down())
		}, func(_ *world, l *mock.Link) { l.Down().Resume() }),
		onLinks("14a requests are lost", func(_ *world, _ *source, l *mock.Link) func() int {
			l.Up().Drop()
			return gained(lostPieces, l.Up())
		}, gone),
		onLinks("14b replies are lost", func(_ *world, _ *source, l *mock.Link) func() int {
			l.Down().Drop()
			return gained(lostPieces, l.Down())
		}, gone),
		onLinks("5 end of stream anywhere", func(w *world, r *source, l *mock.Link) func() int {
			w.breaks(l.RemoteAddr())
			met := gained(endedReads, l.Down())
			l.Down().EndAfter(r.below(200))
			return met
		}, nil),
		{name: "15 partition", begin: func(w *world, _ *source, addr string) func() int {
			met := gained(heldPieces, both(w.linksOf(addr)...)...)
			w.m.Network().Partition(clientHost, host(addr))
			return func() int {
				n := met()
				w.heal(addr)
				return n
			}
		}},
		{name: "16 all sockets reset", begin: func(w *world, _ *source, _ string) func() int {
			ls := w.m.Network().Links()
			met := gained(brokenReads, downs(ls)...)
			w.breaks(everywhere)
			w.reset(ls)
			return met
		}},
	}
}

// protocolFaults are answers that break the protocol, or that come at another time than they should.
func protocolFaults() []fault {
	return []fault{
		injected("18 unknown opaque", 3, answers(mock.CorruptOpaque())),
		injected("19 answered twice", 6, answers(mock.Twice())),
		acting("19 answered like the request before", 6, answersActing(lateTwin), memd.OpGet),
		delaying("20 answered out of order", mock.DelayReply),
		delaying("20 executed late", mock.Delay),
		injected("22 wrong magic", 1, answers(mock.CorruptMagic())),
		injected("23 lengths that do not add up", 1, answers(mock.CorruptParts())),
		injected("24 body of 4 GiB", 1, answers(mock.CorruptLength())),
	}
}

func requestFaults() []fault {
	return []fault{
		resetting(beforeHello, memd.OpHello),
		injected("5 end of stream in a header", 3, func(r *source) mock.Fault { return mock.Truncate(r.below(24)) }),
		acting("6 end of stream in a body", 3, func(r *source, acted func()) mock.Fault {
			return cutOff(header+r.below(12), acted)
		}),
		injected("14 request dropped", 4, answers(mock.Drop())),
		injected("14 reply dropped", 4, answers(mock.DropReply())),
		injected("5 closed before it is executed", 2, answers(mock.CloseBefore())),
		injected("5 closed after it is executed", 2, answers(mock.CloseAfter())),
		injected("32 temporary failure", 20, answers(mock.Status(memd.StatusTmpFail))),
		injected("33a locked", 10, answers(mock.Status(memd.StatusLocked))),
		injected("33b busy", 10, answers(mock.Status(memd.StatusBusy))),
		injected("34 out of memory", 10, answers(mock.Status(memd.StatusOutOfMemory))),
		injected("35a durable write in progress", 5, answers(mock.Status(memd.StatusSyncWriteInProgress)), memd.OpSet,
			memd.OpAdd, memd.OpReplace),
		injected("35b commit in progress", 5, answers(mock.Status(memd.StatusSyncWriteReCommitInProgress)), memd.OpSet,
			memd.OpAdd, memd.OpReplace),
		injected(movedMapped, 10, answers(mock.NotMyVBucket(true, nil))),
		injected("37 not my vbucket, without a map", 10, answers(mock.NotMyVBucket(false, nil))),
		injected("38 not my vbucket all the time", 0, answers(mock.NotMyVBucket(true, nil))),
		unknownCollection(),
		{name: "41 no answer about a collection", begin: func(w *world, r *source, addr string) func() int {
			if w.d.below(2, text("lag"), uint64(time.Now().UnixNano())) == 0 && !w.leavesOut(lagging) {
				return w.lag(r, addr)
			}
			in := w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpCollectionsGetID}}, mock.Drop())
			w.recreate(r, false)
			// four nodes are asked, one after the other
			sleep(context.Background(), r.between(time.Second, 5*time.Second))
			return func() int {
				in.Remove()
				return in.Fired()
			}
		}},
		injected("14 no answer about the map", 3, answers(mock.Drop()), memd.OpGetClusterConfig),
		{name: "39 maps of many versions", begin: func(w *world, r *source, _ string) func() int {
			n := 1 + r.below(6)
			for range n {
				if r.below(5) == 0 {
					w.m.BumpEpoch()
				} else {
					w.m.BumpRevision()
				}
				sleep(context.Background(), r.between(time.Microsecond, 20*time.Millisecond))
			}
			return func() int { return n }
		}},
	}
}

// unknownCollection is a refusal without a manifest: half of them are of the collection whose id is to be forgotten.
func unknownCollection() fault {
	return fault{name: "40 unknown collection", begin: func(w *world, r *source, addr string) func() int {
		m := mock.Match{
			Nodes: w.nodesAt(addr), Opcodes: []memd.Opcode{memd.OpSet, memd.OpAdd}, Times: 1 + r.below(3),
		}
		if r.below(2) == 0 {
			m.Collection = collectionPath
		}
		in := w.m.Inject(m, mock.Status(memd.StatusUnknownCollection))
		return func() int {
			in.Remove()
			return in.Fired()
		}
	}}
}

// lateTwin answers a request once more, instead of the next one that has the upper half of its opaque: where that is
// the place in which the request waits, the place was used again.
func lateTwin(acted func()) mock.Fault {
	last := map[uint32]memd.Packet{}
	return mock.Rewrite(func(rq, rep *memd.Packet) {
		place, now := rq.Opaque>>16, *rep
		now.Value, now.Extras = slices.Clone(rep.Value), slices.Clone(rep.Extras)
		if before, again := last[place]; again && before.Opaque != rq.Opaque {
			*rep = before
			acted()
		}
		last[place] = now
	})
}

// cutOff ends the connection behind so many bytes of an answer, which acts where it is longer.
func cutOff(n int, acted func()) mock.Fault {
	return mock.Combine(mock.Corrupt(func(b []byte) []byte {
		if len(b) > n {
			acted()
		}
		return b
	}), mock.Truncate(n))
}

// delaying is a fault of some requests, each of which takes a time of its own.
func delaying(name string, f func(time.Duration) mock.Fault) fault {
	return fault{name: name, begin: func(w *world, r *source, addr string) func() int {
		var ends []func() int
		for range 1 + r.below(6) {
			one := injected(name, 1,
				func(r *source) mock.Fault { return f(r.between(time.Microsecond, 300*time.Millisecond)) })
			ends = append(ends, one.begin(w, r, addr))
		}
		return func() (n int) {
			for _, end := range ends {
				n += end()
			}
			return n
		}
	}}
}

// resetting is a fault of handshakes, which it makes necessary: a node closes the connection, or resets it.
func resetting(name string, op memd.Opcode) fault {
	return fault{name: name, begin: func(w *world, r *source, addr string) func() int {
		resets, how := r.below(2) == 0 && !w.leavesOut(resetAt(name)), mock.CloseBefore()
		if resets {
			how = mock.ResetBefore()
		}
		end := injected(name, 1, answers(how), op).begin(w, r, addr)
		w.breaks(addr)
		w.reset(w.linksTo(addr))
		return func() int {
			n := end()
			if resets {
				w.fired(resetAt(name), n)
				return 0
			}
			return n
		}
	}}
}

// resetAt is the name of the resets among the faults of a step of the handshake.
func resetAt(name string) string { return strings.Replace(name, "closed", "reset", 1) }

// beforeHello is the name of the first of them.
const beforeHello = "3 closed before HELLO"

// closedAt is the name of the others.
func closedAt(step memd.Opcode) string { return "4 closed at " + step.String() }

// disturb causes one fault after the other until ctx ends.
func (w *world) disturb(ctx context.Context, id int) {
	r := newSource(w.d, text("faults"), uint64(id))
	n := uint64(0)
	table, driving := slices.DeleteFunc(faults(), func(f fault) bool { return f.tls && !w.tls }), drivingFaults()
	for {
		sleep(ctx, r.between(time.Millisecond, 150*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		f := table[r.below(len(table))]
		if w.drives && r.below(2) == 0 {
			f = driving[r.below(len(driving))]
		}
		as, at := w.addresses(), r.next()
		n++
		end := func() int { return 0 }
		if !w.leavesOut(f.name) {
			// with throws of its own, so that those of the others stay as they are when it is left out
			end = f.begin(w, newSource(w.d, text("fault"), uint64(id), n), as[at%uint64(len(as))])
		}
		// Mostly short, now and then long enough for every call to run out of time.
		most := 40 * math.Pow(2, float64(r.below(7)))
		sleep(ctx, r.between(time.Microsecond, time.Duration(most)*time.Millisecond))
		w.fired(f.name, end())
	}
}

// plant puts a defect into the cluster or the network.
func (w *world) plant() {
	in := func(f mock.Fault, skip, times int, ops ...memd.Opcode) {
		w.m.Inject(mock.Match{Opcodes: ops, Skip: skip, Times: times}, f)
	}
	switch w.Break {
	case DoubledWrite:
		w.tap.doubled = func(b []byte) bool { return len(b) > header && memd.Opcode(b[1]) == memd.OpSet }
	case RepeatedRead:
		w.tap.doubled = func(b []byte) bool { return len(b) > header && memd.Opcode(b[1]) == memd.OpGet }
	case LostWrite:
		in(mock.LoseWrite(), 50, 5, memd.OpSet)
	case LostTouch:
		in(mock.LoseWrite(), 5, 5, memd.OpTouch, memd.OpGAT)
	case LyingStatus:
		in(mock.StatusAfter(memd.StatusNotSupported), 20, 5, memd.OpSet)
	case StaleRead:
		in(mock.Rewrite(func(_, rep *memd.Packet) {
			if rep.Status == memd.StatusSuccess {
				rep.Value = []byte("v-0-0")
			}
		}), 100, 5, memd.OpGet)
	case LeakedSocket:
		w.tap.open++
	case LoggedError:
		w.logger().Error("An invariant is broken")
	case LeakedRoutine, LeakedTimer, LateEnd, NeverEnds, EndsTwice, NoRecovery, UnboundedParks, Unsteady:
	}
}
