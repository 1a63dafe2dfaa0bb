package call

import (
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// Layout is one cluster map, as package core describes it.
type Layout interface {
	NumVBuckets() int
	NumReplicas() int
	VBucket(key []byte) uint16
	NodeIndex(vb uint16, replica int) int
	DataNodes() []int
	ServerGroup(node int) string
	Capability(name string) (has, known bool)
	Version() (epoch, rev int64)
	BucketUUID() string
	Cluster() (uuid, name string)
}

// Capabilities of a bucket, by their names in the cluster map.
const (
	CapabilityCollections    = "collections"
	CapabilityDurableWrite   = "durableWrite"
	CapabilityReplicaLookup  = "subdoc.ReplicaRead"
	CapabilityReviveDocument = "subdoc.ReviveDocument"
	CapabilityRangeScan      = "rangeScan"
)

// ReplicaError means that the newest cluster map has no node for the replica that a request names. It unwraps to its
// kind: cberr.ReplicaIndexOutOfBounds when the bucket has fewer replicas, cberr.ReplicaIndexCurrentlyUnavailable when
// no node holds that replica at present. Nothing was sent.
type ReplicaError struct {
	VBucket  uint16
	Replica  int // from 1
	Replicas int // of the vbucket in the map
	Kind     *cberr.Kind
}

func (e *ReplicaError) Error() string {
	if e.Kind == cberr.ReplicaIndexOutOfBounds {
		return fmt.Sprintf("replica %d is asked for, the bucket has %d", e.Replica, e.Replicas)
	}
	return fmt.Sprintf("no node holds replica %d of vbucket %d", e.Replica, e.VBucket)
}

func (e *ReplicaError) Unwrap() error { return e.Kind }

// PickReplica finds the replica that a request asks for in l: replica counts from 1. With wrap a number beyond the last
// replica starts again at the first, and one without a node goes on to the next. group, when not "", is the only server
// group whose nodes count.
func PickReplica(l Layout, vb uint16, replica int, wrap bool, group string) (node int, err error) {
	n := l.NumReplicas()
	if n == 0 || replica < 1 || replica > n && !wrap {
		return -1, &ReplicaError{VBucket: vb, Replica: replica, Replicas: n, Kind: cberr.ReplicaIndexOutOfBounds}
	}
	tries := 1
	if wrap {
		tries = n
	}
	for i := range tries {
		at := (replica-1+i)%n + 1
		if node := l.NodeIndex(vb, at); node >= 0 && (group == "" || l.ServerGroup(node) == group) {
			return node, nil
		}
	}
	return -1, &ReplicaError{VBucket: vb, Replica: replica, Replicas: n, Kind: cberr.ReplicaIndexCurrentlyUnavailable}
}

// Restricted reports whether a map may forbid the request: then Check and, for a replica, PickReplica say so.
func (r *Request) Restricted() bool {
	return r.Replica() != 0 || r.ByVBucket || r.Capability() != ""
}

// Check says why l forbids a request of this form: a capability that the map is known not to have, or a vbucket that it
// does not have. It is nil when it does not.
func (r *Request) Check(l Layout) error {
	if r.Capability() != "" {
		if has, known := l.Capability(r.Capability()); known && !has {
			return &FeatureError{Capability: r.Capability()}
		}
	}
	if n := l.NumVBuckets(); r.ByVBucket && n > 0 && int(r.VBucket) >= n { // a map that is still empty says nothing
		return OutOfRange("vbucket", int64(r.VBucket), int64(l.NumVBuckets())-1)
	}
	return nil
}

// Continues reports whether p is one packet of an answer that has several, and not its last.
func Continues(p *memd.Packet) bool {
	switch {
	case p.Status != memd.StatusSuccess:
		return false
	case p.Opcode == memd.OpStat:
		return len(p.Key) > 0 || len(p.Value) > 0
	case p.Opcode == memd.OpRangeScanContinue:
		return true
	}
	return false
}
