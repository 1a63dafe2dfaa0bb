package mock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// What nodes do otherwise than healthy ones, for as long as a test wants it.

// nodeBucket names a bucket on a node.
type nodeBucket struct {
	node   int
	bucket string
}

// switches are those that are set. The cluster's mutex guards them.
type switches struct {
	noConfig map[nodeBucket]bool // the configuration is not given out over KV
	noBodies map[nodeBucket]bool // failures have no body
	mechs    map[int][]string    // by node, instead of the cluster's
	refused  memd.Features       // beside those of WithoutFeatures
}

func newSwitches() switches {
	return switches{noConfig: map[nodeBucket]bool{}, noBodies: map[nodeBucket]bool{}, mechs: map[int][]string{}}
}

// SetConfigOverKV lets nodes give out a bucket's configuration over KV, or refuse it: GET_CLUSTER_CONFIG is answered
// with NOT_SUPPORTED (0x83) then, and NOT_MY_VBUCKET has no body. It does not change what is pushed. An empty name
// means every bucket that there is, no node numbers mean all nodes.
func (c *Cluster) SetConfigOverKV(bucket string, on bool, nodes ...int) error {
	return c.onEach(bucket, nodes, func(at nodeBucket) { c.switches.noConfig[at] = !on })
}

// SetErrorBodies lets failures have the JSON body that explains them, which they have at first, or none. Arguments are
// as in SetConfigOverKV.
func (c *Cluster) SetErrorBodies(bucket string, on bool, nodes ...int) error {
	return c.onEach(bucket, nodes, func(at nodeBucket) { c.switches.noBodies[at] = !on })
}

// onEach calls do, with the mutex held, for a bucket on nodes, as SetConfigOverKV says which.
func (c *Cluster) onEach(bucket string, nodes []int, do func(at nodeBucket)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{bucket}
	if bucket == "" {
		names = sortedKeys(c.buckets)
	} else if c.buckets[bucket] == nil {
		return fmt.Errorf("mock: no bucket %q", bucket)
	}
	for _, i := range c.orAll(nodes) {
		for _, name := range names {
			do(nodeBucket{i, name})
		}
	}
	return nil
}

// orAll are node numbers, all of them when none is given. The caller holds the mutex.
func (c *Cluster) orAll(nodes []int) []int {
	if len(nodes) > 0 {
		return nodes
	}
	for i := range c.nodes {
		nodes = append(nodes, i)
	}
	return nodes
}

// switched reports whether a switch is set for the request's bucket on its node. The caller holds the mutex.
func (rq *request) switched(m map[nodeBucket]bool) bool {
	return rq.b != nil && m[nodeBucket{rq.k.n.index, rq.b.name}]
}

// bodiless reports whether failures have no body for the request's bucket.
func (c *Cluster) bodiless(rq *request) bool {
	if rq.b == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return rq.switched(c.switches.noBodies)
}

// SetMechanisms sets the SASL mechanisms that nodes offer and accept, in the order listed; nil brings back the
// cluster's. No node numbers mean all nodes.
func (c *Cluster) SetMechanisms(names []string, nodes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.orAll(nodes) {
		delete(c.switches.mechs, i)
		if names != nil {
			upper := []string{}
			for _, name := range names {
				upper = append(upper, strings.ToUpper(name))
			}
			c.switches.mechs[i] = upper
		}
	}
}

// mechanisms are the SASL mechanisms that a node offers and accepts.
func (n *Node) mechanisms() []string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if m, ok := n.c.switches.mechs[n.index]; ok {
		return slices.Clone(m)
	}
	return n.c.set.mechs
}

// RefuseFeatures makes HELLO refuse features from now on, beside those of WithoutFeatures. It replaces what it was told
// before; without features it refuses no more than the option does.
func (c *Cluster) RefuseFeatures(fs ...memd.Feature) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.switches.refused = 0
	for _, f := range fs {
		c.switches.refused = c.switches.refused.With(f)
	}
}

// refused are the features that HELLO does not grant though the node knows them.
func (c *Cluster) refused() memd.Features {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set.refused | c.switches.refused
}

// SetCompression changes what a bucket does about compressed values from now on: "passive", "off" or "active", see
// Compression.
func (c *Cluster) SetCompression(name, mode string) error {
	m, ok := compressionModes[mode]
	if !ok {
		return fmt.Errorf("mock: unknown compression mode %q", mode)
	}
	return c.withBucket(name, func(b *bucket) {
		b.compression, b.settings.CompressionMode = m, mode
	})
}

// SetSuspended makes a node silent: it accepts connections, takes their requests and does nothing, until it is told
// otherwise.
func (c *Cluster) SetSuspended(node int, on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(node)
	if err == nil {
		n.suspended.Store(on)
	}
	return err
}
