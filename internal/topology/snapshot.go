package topology

import (
	"fmt"
	"slices"
)

// Locator says how keys find their node.
type Locator uint8

// Locators. A map of the whole cluster has none.
const (
	LocatorNone Locator = iota
	LocatorVBucket
	LocatorKetama
)

// Tri is what is known of a capability.
type Tri uint8

// What is known of a capability.
const (
	Unknown Tri = iota
	Supported
	Unsupported
)

// Snapshot is one cluster map. It does not change after Parse, so it may be read from anywhere; its holder must
// not change it either. Its functions are total: every input has an answer.
type Snapshot struct {
	Bucket, UUID string // empty in a map of the whole cluster
	Epoch        int64
	Rev          uint64
	Locator      Locator
	Replicas     int
	// those that hold the bucket's data first, in the order that the vbucket map counts by
	Nodes                    []Node
	ClusterUUID, ClusterName string
	Product                  string // "analytics" marks an Enterprise Analytics cluster
	ManifestUID              uint64 // of the bucket's collections

	kvNodes     int // how many of Nodes hold data
	vbuckets    vbucketRows
	forward     vbucketRows // nil or as long as vbuckets
	ring        []point     // of a memcached bucket
	caps        map[string]bool
	hasCaps     bool
	clusterCaps map[string][]string
}

// Capability says whether the bucket has a capability; Unknown when the map does not list any.
func (s *Snapshot) Capability(name string) Tri {
	switch {
	case s.caps[name]:
		return Supported
	case s.hasCaps:
		return Unsupported
	}
	return Unknown
}

// Supports reports whether the bucket is known to have a capability.
func (s *Snapshot) Supports(name string) bool { return s.Capability(name) == Supported }

// ClusterCapability says whether a service of the cluster, by its name in the map, has a capability; Unknown when the
// map does not list any of the cluster's.
func (s *Snapshot) ClusterCapability(service, name string) Tri {
	switch {
	case slices.Contains(s.clusterCaps[service], name):
		return Supported
	case s.clusterCaps != nil:
		return Unsupported
	}
	return Unknown
}

// Conflict says why s cannot follow the other map of the same bucket, which may be nil: the number of vbuckets is for
// the bucket's life. It is nil when it can.
func (s *Snapshot) Conflict(with *Snapshot) error {
	if with == nil || s.UUID != with.UUID || !s.HasVBuckets() || !with.HasVBuckets() ||
		s.NumVBuckets() == with.NumVBuckets() {
		return nil
	}
	return &ParseError{Field: "number of vbuckets", Err: fmt.Errorf("has changed from %d to %d", with.NumVBuckets(),
		s.NumVBuckets())}
}
