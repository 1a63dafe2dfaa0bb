package dispatch

import (
	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/retry"
)

// picker is an immutable view of the topology: a cluster map, and which node serves which of its entries. It says where
// a call goes. Its methods only read: they send, park, start and change nothing, and may be called from anywhere. What
// follows from an answer is its caller's, which is Router.find for a call that is to be sent.
type picker struct {
	snap    *topology.Snapshot
	network string  // on which the nodes are reached
	nodes   []*node // by the snapshot's node index; nil where a node cannot be reached
	// number counts the pickers, from 1. since is the number of the first one of the bucket's incarnation: before that
	// one it was another bucket of the same name, with other ids for its collections.
	number, since uint32
}

// next is the picker that follows on pk, which may be nil. Its nodes are still to be filled in. replaced says that its
// map is of another bucket than that of pk.
func (pk *picker) next(s *topology.Snapshot, network string, replaced bool) *picker {
	next := &picker{snap: s, network: network, nodes: make([]*node, len(s.Nodes)), number: 1, since: 1}
	if pk != nil {
		next.number, next.since = pk.number+1, pk.since
	}
	if replaced {
		next.since = next.number
	}
	return next
}

// does reports whether the map, which may be nil, does for an operation that needs one, with vbuckets or without. A
// memcached bucket has none.
func (pk *picker) does(vbuckets bool) bool {
	return pk != nil && (!vbuckets || pk.snap.NumVBuckets() > 0 || pk.snap.Locator == topology.LocatorKetama)
}

// target is where a call goes. Without a node, the first of the last four that is set says why it has none.
type target struct {
	node       *node
	vbucket    uint16
	collection uint32
	forward    bool // the node is that of the forward map
	turned     bool // any node will do, and it was this one's turn

	arrived bool         // the call waits for a map, and this one does
	wait    call.Stage   // what the call waits for: StageConfig or StageCollection
	err     error        // the map forbids the call, and no retry could change that
	why     retry.Reason // there is no way at present
}

// surroundings are what a pick reads beside the call and the map. They are the same for all calls of a router.
type surroundings struct {
	ids *collections.Cache
	// connected gives any node that is connected, in the map or not; nil without one.
	connected func() *node
}

// pick gives the target of a call's next attempt. pk is nil before the first map. turn spreads the calls that any node
// may take.
func (pk *picker) pick(c *call.Call, s *surroundings, turn uint32) target {
	if pk == nil {
		if awaits, _ := c.AwaitsMap(); !awaits && !c.Spec().Has(call.Keyed) && !c.Req.Pinned && !c.Req.ByVBucket {
			if n := s.connected(); n != nil {
				return target{node: n} // the request for the first map itself
			}
		}
		return target{wait: call.StageConfig}
	}
	if c.Req.Simple() && !c.Route.Forward {
		if n, vb := pk.active(c.Route.Hash); n != nil {
			return target{node: n, vbucket: vb, collection: c.Route.CollectionID}
		}
	}
	if awaits, vbuckets := c.AwaitsMap(); awaits {
		return target{arrived: pk.does(vbuckets), why: retry.NotReady}
	}
	id, known := collectionOf(c, s.ids)
	if !known {
		if pk.snap.Capability(call.CapabilityCollections) == topology.Unsupported {
			return target{err: &call.FeatureError{Capability: call.CapabilityCollections}}
		}
		return target{wait: call.StageCollection}
	}
	if c.Req.Restricted() {
		if err := pk.restrict(c); err != nil {
			return target{err: err}
		}
	}
	t := pk.nodeFor(c, s, turn)
	t.collection = id
	return t
}

// collectionOf gives the id of the call's collection, as far as it is known.
func collectionOf(c *call.Call, ids *collections.Cache) (id uint32, known bool) {
	switch {
	case !c.Spec().Has(call.CollectionAware), c.Req.InDefaultCollection() && !(c.Req.LooksUp() && ids.Doubted()):
		return c.Route.CollectionID, true
	case c.Req.CollectionID() != 0:
		return c.Req.CollectionID(), true
	}
	e, known := ids.Get(pathOf(c))
	return e.ID, known
}

// nodeFor is pick without a look at the collection.
func (pk *picker) nodeFor(c *call.Call, s *surroundings, turn uint32) target {
	t := target{vbucket: c.Route.VBucket}
	n := pk.snap.NumVBuckets()
	switch {
	case !keyed(c):
		t.turned = !c.Req.Pinned
		if t.node = pk.node(c.Req.Node()); t.turned {
			t.node = pk.inTurn(s, turn)
		}
	case n == 0 && pk.snap.Locator != topology.LocatorKetama:
		t.why = retry.NotReady
		return t
	case n == 0:
		t.vbucket, t.node = 0, pk.onRing(c)
	default:
		if t.vbucket = c.Req.VBucket; !c.Req.ByVBucket {
			t.vbucket = vbucketOf(c.Route.Hash, n)
		}
		t.node, t.forward = pk.copyOf(c, t.vbucket)
	}
	if t.node == nil {
		t.why = retry.NodeNotAvailable
	}
	return t
}

// leadsElsewhere reports whether a call that waits for a connection to the node has a better way now: another node
// serves what it asks for, or none does, or any node would do and one is connected. A call for a certain node has not.
func (pk *picker) leadsElsewhere(c *call.Call, waitsFor *node) bool {
	if !keyed(c) && c.Req.Pinned || c.Req.Connection() != "" {
		return false
	}
	t := pk.nodeFor(c, &surroundings{connected: func() *node { return nil }}, 0)
	return t.node != waitsFor && (keyed(c) || t.node != nil && t.node.connected())
}

// keyed reports whether the map alone says which node a call is for.
func keyed(c *call.Call) bool { return c.Spec().Has(call.Keyed) || c.Req.ByVBucket }

// node is the node with that index in the map; nil for one that cannot be reached.
func (pk *picker) node(i int) *node {
	if i < 0 || i >= len(pk.nodes) {
		return nil
	}
	return pk.nodes[i]
}

// vbucketOf is the vbucket of a key whose hash it is given, of n.
func vbucketOf(hash uint32, n int) uint16 { return uint16(hash >> 16 & 0x7fff % uint32(n)) }

// active is the node that the vbucket of a key is active on; nil without one.
func (pk *picker) active(hash uint32) (*node, uint16) {
	n := pk.snap.NumVBuckets()
	if n == 0 {
		return nil, 0
	}
	vb := vbucketOf(hash, n)
	return pk.node(pk.snap.NodeIndex(vb, 0)), vb
}

// copyOf is the node of that copy of a vbucket which the call names, the active one or a replica. During a rebalance a
// map may say beside where its vbuckets are also where they go: a call that was turned there, see forward, stays there
// as long as the map stays.
func (pk *picker) copyOf(c *call.Call, vb uint16) (n *node, forward bool) {
	if c.Req.Replica() != 0 {
		i, _ := call.PickReplica(layout{pk}, vb, c.Req.Replica(), c.Req.Wrap, c.Req.ServerGroup())
		return pk.node(i), false
	}
	if forward = c.Route.Forward && c.Slow().ForwardRev == pk.snap.Rev; forward {
		if i := pk.snap.ForwardIndex(vb); i >= 0 {
			return pk.node(i), true
		}
	}
	return pk.node(pk.snap.NodeIndex(vb, 0)), forward
}

// forward is the node that the call's vbucket moves to, if that is another one than has refused the call; nil when it
// is not, or the call was turned there before.
func (pk *picker) forward(c *call.Call, vb uint16, refusedBy string) *node {
	if c.Req.Replica() != 0 || c.Route.Forward && c.Slow().ForwardRev == pk.snap.Rev {
		return nil
	}
	if n := pk.node(pk.snap.ForwardIndex(vb)); n != nil && n.addr != refusedBy {
		return n
	}
	return nil
}

// inTurn prefers nodes that are connected. A map without a data node leaves those that are connected beside it, because
// they bring the next map.
func (pk *picker) inTurn(s *surroundings, turn uint32) (n *node) {
	for k := range pk.nodes {
		other := pk.nodes[(int(turn)+k)%len(pk.nodes)]
		switch {
		case other == nil:
		case other.connected():
			return other
		case n == nil:
			n = other
		}
	}
	if n == nil {
		n = s.connected()
	}
	return n
}

// onRing is the node of a key in a bucket without vbuckets: a memcached one spreads its keys over a ring.
func (pk *picker) onRing(c *call.Call) *node {
	i := -1
	if !c.Req.ByVBucket && c.Req.Replica() == 0 {
		c.Borrow(func(key []byte) { i = pk.snap.KetamaIndex(key) }) // a call that has ended needs no node
	}
	return pk.node(i)
}

// restrict says why the map forbids the call: a capability that it lacks, a vbucket or a replica that it does not have.
// Such a call ends, because nothing that a retry could wait for would change it.
func (pk *picker) restrict(c *call.Call) error {
	if pk.snap.Locator == topology.LocatorKetama && (c.Req.ByVBucket || c.Req.Replica() != 0) {
		return &call.FeatureError{Capability: "vbuckets"}
	}
	l := layout{pk}
	if err := c.Req.Check(l); err != nil {
		return err
	}
	n := l.NumVBuckets()
	if c.Req.Replica() == 0 || n == 0 {
		return nil
	}
	vb := c.Req.VBucket
	if !c.Req.ByVBucket {
		vb = vbucketOf(c.Route.Hash, n)
	}
	_, err := call.PickReplica(l, vb, c.Req.Replica(), c.Req.Wrap, c.Req.ServerGroup())
	return err
}
