package mock

import (
	"fmt"
	"slices"
	"time"
)

// rebalanceSteps is in how many steps, each with a revision of its own, a rebalance moves the vbuckets.
const rebalanceSteps = 8

// member checks a node number. The caller holds the mutex.
func (c *Cluster) node(i int) (*Node, error) {
	if i < 0 || i >= len(c.nodes) {
		return nil, fmt.Errorf("mock: no node %d", i)
	}
	return c.nodes[i], nil
}

// MoveVBucket makes node the active one of a vbucket, with the data, and announces it. A node that was a replica of it
// changes places with the old active node; otherwise that one no longer holds the vbucket.
func (c *Cluster) MoveVBucket(bucket string, vb, node int) error {
	return c.change(func() error {
		b := c.buckets[bucket]
		if b == nil {
			return fmt.Errorf("mock: no bucket %q", bucket)
		}
		n, err := c.node(node)
		if err != nil {
			return err
		}
		if n.member != memberActive || !n.runs[KVService] || vb < 0 || vb >= len(b.rows) {
			return fmt.Errorf("mock: vbucket %d of %q cannot move to node %d", vb, bucket, node)
		}
		row := slices.Clone(b.rows[vb])
		if i := slices.Index(row[1:], node); i >= 0 {
			row[1+i] = row[0]
		}
		row[0] = node
		b.setRow(vb, row)
		return nil
	})
}

// Failover takes a node out of the cluster and promotes its replicas. The node goes on running: it answers every
// document operation with NOT_MY_VBUCKET and the new configuration, in which it does not occur, and refuses to select
// buckets. Vbuckets without a replica have no active node afterwards, and their documents are lost.
func (c *Cluster) Failover(node int) error {
	return c.change(func() error {
		n, err := c.node(node)
		if err != nil {
			return err
		}
		if n.member == memberOut {
			return fmt.Errorf("mock: node %d is not in the cluster", node)
		}
		n.member = memberOut
		for _, b := range c.buckets {
			for vb := range b.rows {
				old := b.rows[vb][0]
				b.setRow(vb, without(b.rows[vb], node))
				if b.rows[vb][0] != old {
					b.store.Fork(vb)
				}
			}
		}
		return nil
	})
}

// without is a row after a node has left: the first replica left becomes the active one.
func without(row []int, node int) []int {
	out := make([]int, 0, len(row))
	for _, n := range row {
		if n >= 0 && n != node {
			out = append(out, n)
		}
	}
	for len(out) < len(row) {
		out = append(out, -1)
	}
	return out
}

// FailoverHard is Kill and Failover: the node is gone before the others know.
func (c *Cluster) FailoverHard(node int) error {
	if err := c.Kill(node); err != nil {
		return err
	}
	return c.Failover(node)
}

// Kill stops a node: its connections break and its ports refuse new ones. The map still names it. Its documents come
// back with Respawn. Until then, or until Close, the system gives its ports to no other program.
func (c *Cluster) Kill(node int) error {
	c.mu.Lock()
	n, err := c.node(node)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	r := n.detach()
	c.mu.Unlock()
	r.close()
	n.hold()
	c.tell("node stopped", "node", node)
	return nil
}

// Respawn starts a node that was killed, at the same addresses. One that was failed over or removed joins the cluster
// again, without vbuckets until the next Rebalance. It does nothing to a node that runs in the cluster.
func (c *Cluster) Respawn(node int) error {
	release, err := c.exclusively()
	if err != nil {
		return err
	}
	defer release()
	c.mu.Lock()
	n, err := c.node(node)
	up := err == nil && n.up
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if !up {
		p, err := n.open()
		if err != nil {
			return err
		}
		if err := n.serve(p); err != nil {
			p.close()
			return err
		}
	}
	return c.change(func() error {
		if n.member == memberOut {
			n.member = memberAdded
		}
		n.failed, n.recovery = false, ""
		return nil
	})
}

// AddNode starts a new node and returns its number. The configuration lists it at once, as a node without a place in
// the vbucket maps; Rebalance gives it vbuckets. It returns -1 when no port can be opened, or the cluster is closed or
// has 64 nodes.
func (c *Cluster) AddNode() int { return c.addNode(nil, "") }

// addNode is AddNode for a node with services and a server group that may differ from the options.
func (c *Cluster) addNode(runs *[serviceCount]bool, group string) int {
	release, err := c.exclusively()
	if err != nil {
		return -1
	}
	defer release()
	if err := c.startNodeAs(memberAdded, runs, group); err != nil {
		return -1
	}
	var index int
	_ = c.change(func() error { // cannot fail
		index = len(c.nodes) - 1
		return nil
	})
	return index
}

// RemoveNode moves a node's vbuckets to the others, step by step as Rebalance does, and takes it out of the cluster. It
// goes on running, as after Failover.
func (c *Cluster) RemoveNode(node int) error {
	c.mu.Lock()
	n, err := c.node(node)
	if err == nil && n.member == memberOut {
		err = fmt.Errorf("mock: node %d is not in the cluster", node)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.rebalance(0, node)
}

// Rebalance spreads the vbuckets of every bucket evenly over the nodes, those added included. It publishes the goal as
// the forward map, then moves the vbuckets in several steps with a revision each, and at last withdraws the forward
// map.
func (c *Cluster) Rebalance() error { return c.rebalance(0) }

// RebalanceSlowly is Rebalance with a pause before each of its eight steps, and before the forward map is withdrawn. It
// blocks for that long, or until the cluster is closed.
func (c *Cluster) RebalanceSlowly(pause time.Duration) error { return c.rebalance(pause) }

// rebalance is Rebalance with pauses, and with nodes that leave the cluster.
func (c *Cluster) rebalance(pause time.Duration, leaving ...int) error {
	release, err := c.exclusively()
	if err != nil {
		return err
	}
	defer release()
	err = c.change(func() error {
		for _, n := range c.nodes {
			if n.member == memberAdded && !slices.Contains(leaving, n.index) {
				n.member = memberActive
			}
		}
		goal := slices.DeleteFunc(c.active(), func(i int) bool { return slices.Contains(leaving, i) })
		if len(goal) == 0 {
			return fmt.Errorf("mock: no node is left to hold the vbuckets")
		}
		for _, b := range c.buckets {
			b.replicas = b.settings.Replicas
			b.forward = spread(goal, len(b.rows), b.replicas)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for step := range rebalanceSteps {
		c.sleep(pause)
		if err := c.change(func() error { return c.rebalanceStep(step) }); err != nil {
			return err
		}
	}
	c.sleep(pause)
	return c.change(func() error {
		for _, b := range c.buckets {
			b.forward = nil
		}
		for _, i := range leaving {
			n := c.nodes[i]
			n.member, n.failed, n.recovery = memberOut, false, ""
		}
		return nil
	})
}

// sleep waits for d, or until the cluster is closed.
func (c *Cluster) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.done:
	}
}

// rebalanceStep moves a share of every bucket's vbuckets. The caller holds the mutex.
func (c *Cluster) rebalanceStep(step int) error {
	for _, b := range c.buckets {
		if b.forward == nil { // created meanwhile
			continue
		}
		n := len(b.rows)
		for vb := n * step / rebalanceSteps; vb < n*(step+1)/rebalanceSteps; vb++ {
			row := slices.Clone(b.forward[vb])
			for i, node := range row {
				if node >= 0 && c.nodes[node].member == memberOut { // failed over meanwhile
					row[i] = -1
				}
			}
			b.setRow(vb, without(row, -1))
		}
	}
	return nil
}

// exclusively waits until no other action that opens ports or rebalances is under way, and keeps such actions out until
// release is called.
func (c *Cluster) exclusively() (release func(), err error) {
	select {
	case c.admin <- struct{}{}:
		return func() { <-c.admin }, nil
	case <-c.done:
		return nil, fmt.Errorf("mock: the cluster is closed")
	}
}

// CloseConns breaks a node's KV connections; it accepts new ones.
func (c *Cluster) CloseConns(node int) error {
	c.mu.Lock()
	n, err := c.node(node)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	ks := n.takeConns()
	c.mu.Unlock()
	remains{conns: ks}.close()
	return nil
}

// DisconnectAll breaks the KV connections of every node.
func (c *Cluster) DisconnectAll() {
	c.mu.Lock()
	var ks []*conn
	for _, n := range c.nodes {
		ks = append(ks, n.takeConns()...)
	}
	c.mu.Unlock()
	remains{conns: ks}.close()
}
