package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// change is one row of the changes of the cluster.
type change struct {
	name string
	run  func(w *world, r *source) error
}

func changes() []change {
	pause := func(r *source) { sleep(context.Background(), r.between(time.Microsecond, 600*time.Millisecond)) }
	return []change{
		{"36 vbuckets move", func(w *world, r *source) error {
			for range 1 + r.below(8) {
				if err := w.m.MoveVBucket(bucketName, r.below(w.vbuckets), w.member(r)); err != nil {
					return err
				}
				sleep(context.Background(), r.between(time.Microsecond, 5*time.Millisecond))
			}
			return nil
		}},
		{"43b rebalance in", func(w *world, r *source) error {
			if len(w.m.Nodes()) >= maxNodes {
				return errSkipped
			}
			if w.m.AddNode() < 0 {
				return fmt.Errorf("no node could be added")
			}
			pause(r)
			return w.rebalances(r)
		}},
		{"43c rebalance out and in again", func(w *world, r *source) error {
			n := w.member(r)
			defer w.falls(n)()
			if err := w.goesOut(w.m.RemoveNode, n); err != nil {
				return err
			}
			pause(r)
			return w.rejoin(n)
		}},
		{"43d swap", func(w *world, r *source) error {
			if len(w.m.Nodes()) >= maxNodes {
				return errSkipped
			}
			out := w.member(r)
			if w.m.AddNode() < 0 {
				return fmt.Errorf("no node could be added")
			}
			if err := w.goesOut(w.m.RemoveNode, out); err != nil {
				return err
			}
			pause(r)
			return w.rejoin(out)
		}},
		{"43d every node replaced", func(w *world, r *source) error {
			old := len(w.m.Nodes())
			if 2*old > maxNodes {
				return errSkipped
			}
			for range old {
				if w.m.AddNode() < 0 {
					return fmt.Errorf("no node could be added")
				}
			}
			for n := range old {
				if err := w.goesOut(w.m.RemoveNode, n); err != nil {
					return err
				}
				pause(r)
			}
			for n := range old {
				if err := w.rejoin(n); err != nil {
					return err
				}
			}
			return nil
		}},
		{"43a failover", func(w *world, r *source) error {
			if w.replicas == 0 {
				return errSkipped
			}
			n := w.member(r)
			if err := w.goesOut(w.m.Failover, n); err != nil {
				return err
			}
			pause(r)
			return w.rejoin(n)
		}},
		{"43a node dies and is failed over", func(w *world, r *source) error {
			if w.replicas == 0 {
				return errSkipped
			}
			n := w.member(r)
			w.breaks(w.addr(w.m.Node(n)))
			if err := w.m.Kill(n); err != nil {
				return err
			}
			pause(r)
			if err := w.goesOut(w.m.Failover, n); err != nil {
				return err
			}
			pause(r)
			return w.rejoin(n)
		}},
		{"43 node dies and returns", func(w *world, r *source) error {
			n := w.member(r)
			w.breaks(w.addr(w.m.Node(n)))
			if err := w.m.Kill(n); err != nil {
				return err
			}
			pause(r)
			w.breaks(w.addr(w.m.Node(n)))
			return w.m.Respawn(n)
		}},
		{"44b password rotated", func(w *world, r *source) error {
			if !w.rotate {
				return errSkipped
			}
			password := fmt.Sprintf("canary-%016x", r.next())
			if w.asks && !w.tap.connected(w.addresses()) {
				return errSkipped // the bucket's and the cluster's connection to it would be dialled at one instant
			}
			w.mu.Lock()
			w.password, w.renewed = password, append(w.renewed, w.since())
			w.secrets.Add(mock.DefaultUser, password)
			w.mu.Unlock()
			w.breaks(everywhere) // each connection is replaced by one that has logged in with it
			if err := w.m.SetPassword(mock.DefaultUser, password); err != nil {
				return err
			}
			w.c.RenewLogins()
			return nil
		}},
		{"40 collection dropped and created again", func(w *world, r *source) error {
			w.recreate(r, false)
			return nil
		}},
		{"40 scope dropped and created again", func(w *world, r *source) error {
			w.recreate(r, true)
			return nil
		}},
	}
}

// goesOut takes a node out of the map, and notes when.
func (w *world) goesOut(how func(n int) error, n int) error {
	w.mu.Lock()
	w.out = append(w.out, breakage{time.Now(), w.addr(w.m.Node(n))})
	w.mu.Unlock()
	return how(n)
}

// falls lets half of the nodes that are about to leave fall silent, so that calls wait for connections to them. It
// gives the end of that.
func (w *world) falls(n int) (end func()) {
	addr := w.addr(w.m.Node(n))
	if w.d.below(2, text("silent"), uint64(time.Now().UnixNano())) == 0 {
		return func() {}
	}
	lose := func() {
		w.breaks(addr)
		w.reset(w.linksTo(addr))
		sleep(context.Background(), w.d.between(time.Microsecond, 100*time.Millisecond, text("silence"),
			uint64(time.Now().UnixNano())))
	}
	w.m.Network().Silence(addr)
	lose()
	return func() {
		w.m.Network().Restore(addr)
		lose() // what was dialled stays silent
	}
}

// recreate drops the collection, or its scope, and creates it again shortly after. What two do at the same time may
// fail in part; in the end it exists.
func (w *world) recreate(r *source, scope bool) {
	defer w.goes()()
	if scope {
		_ = w.m.DropScope(bucketName, "s")
	} else {
		_ = w.m.DropCollection(bucketName, "s", "c")
	}
	sleep(context.Background(), r.between(time.Microsecond, 50*time.Millisecond))
	_, _ = w.m.CreateCollection(bucketName, "s", "c")
}

// Names of changes that only some runs have.
const (
	bucketFlushed = "43 bucket flushed"
	bucketRenewed = "42 bucket deleted and created again"
)

// loses reports whether the bucket loses its documents now and then.
func (p *plan) loses() bool { return p.flush || p.renew }

// lose lets the bucket lose its documents if it is time for that.
func (w *world) lose(r *source) bool {
	name, how := bucketFlushed, func() error { return w.m.Flush(bucketName) }
	switch {
	case w.flush && r.below(4) == 0:
	case w.renew && r.below(6) == 0:
		name, how = bucketRenewed, func() error { return w.renewBucket(r) }
	default:
		return false
	}
	from := w.since()
	if err := how(); err != nil {
		w.report.violate("setup", "%s: %v", name, err)
	}
	w.flushes = append(w.flushes, span{from, w.since()})
	w.fired(name, 1)
	return true
}

// renewBucket deletes the bucket and creates another one of its name.
func (w *world) renewBucket(r *source) error {
	w.breaks(everywhere)
	w.applied = append(w.applied, w.m.ApplyLog(bucketName)...)
	if err := w.m.DropBucket(bucketName); err != nil {
		return err
	}
	sleep(context.Background(), r.between(time.Microsecond, 400*time.Millisecond))
	w.breaks(everywhere)
	return w.m.CreateBucket(bucketName, w.vbuckets, w.bucketOptions()...)
}

// maxNodes is how many nodes a run's cluster has at most.
const maxNodes = 8

var errSkipped = fmt.Errorf("not possible in this run")

// member is a node that runs and holds vbuckets.
func (w *world) member(r *source) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.m.Nodes())
	return r.below(n)
}

// rejoin lets a node that has left come back.
func (w *world) rejoin(n int) error {
	if err := w.m.Respawn(n); err != nil {
		return err
	}
	return w.rebalances(newSource(w.d, text("rejoin"), uint64(n), uint64(w.since())))
}

// rebalances spreads the vbuckets over the nodes: in half of the cases at once, in the others in the time that it
// takes, while a node refuses requests for vbuckets that it is about to give away.
func (w *world) rebalances(r *source) error {
	if r.below(2) == 0 {
		return w.m.Rebalance()
	}
	if !w.leavesOut(movedMapped) {
		match := mock.Match{Nodes: []int{w.member(r)}, Opcodes: documentOps(), Times: 1 + r.below(20)}
		in := w.m.Inject(match, mock.NotMyVBucket(true, nil))
		defer func() {
			in.Remove()
			w.fired(movedMapped, in.Fired())
		}()
	}
	return w.m.RebalanceSlowly(r.between(time.Millisecond, 40*time.Millisecond))
}

// rearrange changes the cluster until ctx ends. It leaves it whole.
func (w *world) rearrange(ctx context.Context) {
	r := newSource(w.d, text("changes"))
	n := uint64(0)
	table := changes()
	for {
		sleep(ctx, r.between(20*time.Millisecond, 900*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		if w.lose(r) {
			continue
		}
		if !w.topology {
			continue
		}
		n++
		c := table[r.below(len(table))]
		if w.leavesOut(c.name) {
			continue
		}
		switch err := c.run(w, newSource(w.d, text("change"), n)); {
		case err == nil:
			w.fired(c.name, 1)
		case err != errSkipped: //nolint:errorlint // its own value
			w.report.violate("setup", "%s: %v", c.name, err)
		}
	}
}

// movedMapped is the name of a fault.
const movedMapped = "36 not my vbucket, with the map"
