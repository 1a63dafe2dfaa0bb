package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

// change is one of the cluster's members. It is over when act returns: all nodes are members again. ctx ends it early.
type change struct {
	name string
	act  func(ctx context.Context, rd *round, node int, r *rand.Rand) error
}

// changes are made in turn, and one after the other: two nodes that are out at the same time could have had the only
// two copies of a document.
var changes = []change{
	{"a node is failed over and recovers", func(ctx context.Context, rd *round, node int, r *rand.Rand) error {
		return rd.failover(ctx, node, r)
	}},
	{"a node is killed, failed over and recovers", func(ctx context.Context, rd *round, node int, r *rand.Rand) error {
		n := rd.nodes[node]
		n.turn.Lock()
		defer n.turn.Unlock()
		n.kill()
		sleep(ctx, between(r, 50*time.Millisecond, 300*time.Millisecond))
		failed := rd.failover(ctx, node, r)
		if err := rd.restart(n); err != nil {
			return err
		}
		return failed
	}},
	{"a node is rebalanced out and in again", func(ctx context.Context, rd *round, node int, r *rand.Rand) error {
		if err := rd.m.RemoveNode(node); err != nil {
			return err
		}
		sleep(ctx, between(r, 50*time.Millisecond, 600*time.Millisecond))
		return rd.rejoin(node)
	}},
}

// failover takes a node out of the cluster at once, and lets it come back.
func (rd *round) failover(ctx context.Context, node int, r *rand.Rand) error {
	if err := rd.m.Failover(node); err != nil {
		return err
	}
	sleep(ctx, between(r, 50*time.Millisecond, 600*time.Millisecond))
	return rd.rejoin(node)
}

// rejoin makes a node a member again, with a share of the vbuckets.
func (rd *round) rejoin(node int) error {
	if err := rd.m.Respawn(node); err != nil {
		return err
	}
	return rd.m.Rebalance()
}

// rearrange changes the cluster's members until ctx ends. It leaves all nodes as members.
func (rd *round) rearrange(ctx context.Context, r *rand.Rand) {
	for n := rd.number; ; n++ {
		sleep(ctx, between(r, 50*time.Millisecond, 500*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		c := changes[n%len(changes)]
		if err := c.act(ctx, rd, r.IntN(nodes), r); err != nil {
			rd.report.violate("setup", "%s: %v", c.name, err)
			return
		}
		rd.report.fired(c.name, 1)
	}
}
