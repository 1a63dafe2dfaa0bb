//go:build ignore

package gocbcore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/core"
)

// contextDeadline is a deadline that may be missing.
type contextDeadline time.Time

func (d contextDeadline) context() (context.Context, context.CancelFunc) {
	if time.Time(d).IsZero() {
		return context.WithCancel(context.Background())
	}
	return context.WithDeadline(context.Background(), time.Time(d))
}

// kvMux is what there is to know of a bucket's cluster map.
type kvMux struct {
	bucket *core.Bucket
	closed atomic.Bool
	known  atomic.Bool // there has been a map: asking for it does not block any more
}

// kvMuxState is one cluster map.
type kvMuxState struct {
	core.Layout
	servers []int // the nodes that hold data
}

func newState(l core.Layout) *kvMuxState { return &kvMuxState{l, l.DataNodes()} }

// seen reports whether there has been a map.
func (m *kvMux) seen() bool {
	if !m.known.Load() {
		_, ok := m.bucket.Map()
		m.known.Store(ok)
	}
	return m.known.Load()
}

// state is the newest map, or nil.
func (m *kvMux) state() *kvMuxState {
	if !m.seen() {
		return nil
	}
	l, err := m.bucket.Layout(context.Background())
	if err != nil {
		return nil
	}
	return newState(l)
}

// labels are the names of the cluster, as the newest map has them.
func (m *kvMux) labels() ClusterLabels {
	l, _ := m.names()
	return l
}

// names are the labels; false before the first map, and after the end of the bucket.
func (m *kvMux) names() (l ClusterLabels, ok bool) {
	if !m.seen() {
		return l, false
	}
	s, err := m.bucket.Layout(context.Background())
	if err != nil {
		return l, false
	}
	l.ClusterUUID, l.ClusterName = s.Cluster()
	return l, true
}

// bucketCapabilities are the names of capabilities in cluster maps.
var bucketCapabilities = map[BucketCapability]string{
	BucketCapabilityDurableWrites:        "durableWrite",
	BucketCapabilityCreateAsDeleted:      "tombstonedUserXAttrs",
	BucketCapabilityReplaceBodyWithXattr: "subdoc.ReplaceBodyWithXattr",
	BucketCapabilityRangeScan:            "rangeScan",
	BucketCapabilityReplicaRead:          "subdoc.ReplicaRead",
	BucketCapabilityNonDedupedHistory:    "nonDedupedHistory",
	BucketCapabilityReviveDocument:       "subdoc.ReviveDocument",
	BucketCapabilityBinaryXattr:          "subdoc.BinaryXattr",
	BucketCapabilitySubdocAccessDeleted:  "subdoc.AccessDeleted",
}

func status(has, known bool) CapabilityStatus {
	switch {
	case !known:
		return CapabilityStatusUnknown
	case has:
		return CapabilityStatusSupported
	}
	return CapabilityStatusUnsupported
}

func (m *kvMux) capable(name string) CapabilityStatus {
	s := m.state()
	if s == nil {
		return CapabilityStatusUnknown
	}
	return status(s.Capability(name))
}

// BucketCapabilityStatus says whether the bucket has a capability.
func (m *kvMux) BucketCapabilityStatus(c BucketCapability) CapabilityStatus {
	return m.capable(bucketCapabilities[c])
}

// PipelineSnapshot, and NumPipelines of what it gives, are asked for by tests of gocbcore's, as the next three are.
func (m *kvMux) PipelineSnapshot() (*kvMuxState, error) {
	if s := m.state(); s != nil {
		return s, nil
	}
	return nil, errCliInternalError
}

// NumPipelines is the number of nodes that hold data.
func (s *kvMuxState) NumPipelines() int { return len(s.servers) }

// NumPipelines is the number of nodes that hold data, 0 before the first map.
func (m *kvMux) NumPipelines() int {
	if s := m.state(); s != nil {
		return s.NumPipelines()
	}
	return 0
}

// NumReplicas is the number of replicas, 0 before the first map.
func (m *kvMux) NumReplicas() int {
	if s := m.state(); s != nil {
		return s.Layout.NumReplicas()
	}
	return 0
}

// KeyToVbucket is the vbucket of a key.
func (m *kvMux) KeyToVbucket(key []byte) (uint16, error) {
	s, err := m.ConfigSnapshot()
	if err != nil {
		return 0, err
	}
	return s.KeyToVbucket(key)
}

// HasBucketCapabilityStatus reports whether that is what is known of a capability.
func (s *kvMuxState) HasBucketCapabilityStatus(c BucketCapability, want CapabilityStatus) bool {
	return status(s.Capability(bucketCapabilities[c])) == want
}

// BlockUntilFirstConfig calls cb with the newest map: at once if there is one, otherwise as soon as there is.
func (m *kvMux) BlockUntilFirstConfig(deadline time.Time, operation string, cb func(*kvMuxState, error)) (PendingOp,
	error,
) {
	if m.closed.Load() {
		return nil, errShutdown
	}
	if s := m.state(); s != nil {
		cb(s, nil)
		return &noopOp, nil
	}
	began := time.Now()
	return blocking(contextDeadline(deadline), func(ctx context.Context) {
		l, err := m.bucket.Layout(ctx)
		if err != nil {
			cb(nil, waitError(err, operation, began))
			return
		}
		cb(newState(l), nil)
	}), nil
}

// waitError is the error of a wait that has ended with err.
func waitError(err error, operation string, began time.Time) error {
	kind := kindError(err)
	if errors.Is(kind, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return &TimeoutError{InnerError: errUnambiguousTimeout, OperationID: operation, TimeObserved: time.Since(began)}
	}
	if errors.Is(err, context.Canceled) {
		return errRequestCanceled
	}
	return kind
}

// ConfigSnapshot is the newest map.
func (m *kvMux) ConfigSnapshot() (*ConfigSnapshot, error) {
	if m.closed.Load() {
		return nil, errShutdown
	}
	if s := m.state(); s != nil {
		return &ConfigSnapshot{s}, nil
	}
	return nil, errCliInternalError
}

// WaitForConfigSnapshot calls cb with the newest map, once there is one.
func (m *kvMux) WaitForConfigSnapshot(deadline time.Time, cb WaitForConfigSnapshotCallback) (PendingOp, error) {
	return m.BlockUntilFirstConfig(deadline, "WaitForConfigSnapshot", func(s *kvMuxState, err error) {
		if err != nil {
			cb(nil, err)
			return
		}
		cb(&WaitForConfigSnapshotResult{Snapshot: &ConfigSnapshot{s}}, nil)
	})
}

// ConfigSnapshot is one cluster map.
type ConfigSnapshot struct {
	state *kvMuxState
}

// RevID is the map's revision.
func (pi ConfigSnapshot) RevID() int64 {
	_, rev := pi.state.Version()
	return rev
}

// BucketUUID is the uuid of the bucket.
func (pi ConfigSnapshot) BucketUUID() string { return pi.state.BucketUUID() }

// NumServers is the number of nodes that hold data.
func (pi ConfigSnapshot) NumServers() (int, error) { return len(pi.state.servers), nil }

func (pi ConfigSnapshot) check() error {
	if pi.state.NumVBuckets() == 0 {
		return errUnsupportedOperation
	}
	return nil
}

// NumVbuckets is the number of vbuckets.
func (pi ConfigSnapshot) NumVbuckets() (int, error) { return pi.state.NumVBuckets(), pi.check() }

// NumReplicas is the number of replicas.
func (pi ConfigSnapshot) NumReplicas() (int, error) { return pi.state.NumReplicas(), pi.check() }

// KeyToVbucket is the vbucket of a key.
func (pi ConfigSnapshot) KeyToVbucket(key []byte) (uint16, error) {
	if err := pi.check(); err != nil {
		return 0, err
	}
	return pi.state.VBucket(key), nil
}

// VbucketToServer is the node of a vbucket's copy, -1 when no node has it.
func (pi ConfigSnapshot) VbucketToServer(vbID uint16, replicaIdx uint32) (int, error) {
	switch {
	case pi.check() != nil:
		return 0, errUnsupportedOperation
	case int(vbID) >= pi.state.NumVBuckets():
		return 0, errInvalidVBucket
	case int(replicaIdx) > pi.state.NumReplicas():
		return 0, errInvalidReplica
	}
	return pi.state.NodeIndex(vbID, int(replicaIdx)), nil
}

// KeyToServer is the node of a key's copy.
func (pi ConfigSnapshot) KeyToServer(key []byte, replicaIdx uint32) (int, error) {
	vb, err := pi.KeyToVbucket(key)
	if err != nil {
		return 0, err
	}
	return pi.VbucketToServer(vb, replicaIdx)
}

// VbucketsOnServer are the vbuckets whose active copy a node has.
func (pi ConfigSnapshot) VbucketsOnServer(index int) ([]uint16, error) {
	if err := pi.check(); err != nil {
		return nil, err
	}
	var list []uint16
	for vb := range pi.state.NumVBuckets() {
		if pi.state.NodeIndex(uint16(vb), 0) == index {
			list = append(list, uint16(vb))
		}
	}
	if len(list) == 0 && index >= len(pi.state.servers) {
		return nil, errInvalidServer
	}
	return list, nil
}

// KeyToServersByServerGroup are the copies of a key, by their numbers, in each server group.
func (pi ConfigSnapshot) KeyToServersByServerGroup(key []byte) (map[string][]int, error) {
	vb, err := pi.KeyToVbucket(key)
	if err != nil {
		return nil, err
	}
	groups := map[string][]int{}
	for i := range pi.state.NumReplicas() + 1 {
		if node := pi.state.NodeIndex(vb, i); node >= 0 {
			group := pi.state.ServerGroup(node)
			groups[group] = append(groups[group], i)
		}
	}
	return groups, nil
}
