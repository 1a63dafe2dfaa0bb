//go:build ignore

package gocbcore

import (
	"context"
	"sync"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/kv"
	ccmemd "github.com/couchcore/couchcore/memd"
)

// LookupIn reads paths of a document.
func (c *crudComponent) LookupIn(o LookupInOptions, cb LookupInCallback) (PendingOp, error) {
	if o.Flags&memd.SubdocDocFlagReplicaRead != 0 &&
		c.mux.BucketCapabilityStatus(BucketCapabilityReplicaRead) == CapabilityStatusUnsupported {
		return nil, errFeatureNotAvailable
	}
	specs := make([]kv.LookupSpec, len(o.Ops))
	for i, op := range o.Ops {
		switch op.Op {
		case memd.SubDocOpGet, memd.SubDocOpExists, memd.SubDocOpGetDoc, memd.SubDocOpGetCount:
		default:
			return nil, errInvalidArgument
		}
		if op.Value != nil {
			return nil, errInvalidArgument
		}
		specs[i] = kv.LookupSpec{
			Op: ccmemd.Opcode(op.Op), Path: op.Path, Xattr: op.Flags&memd.SubdocFlagXattrPath != 0,
			Binary: op.Flags&memd.SubdocFlagBinaryXattr != 0,
		}
	}
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("LookupIn", memd.CmdSubDocMultiLookup, &t)
	return run(k, kv.LookupIn{
		Common: k.common(&t), Key: o.Key, Specs: specs, AccessDeleted: o.Flags&memd.SubdocDocFlagAccessDeleted != 0,
		Replica: max(o.ReplicaIdx, 0), ServerGroup: o.ServerGroup,
	}, lookedUp, cb)
}

func lookedUp(k *kvCall, r kv.LookupInResult) *LookupInResult {
	res := &LookupInResult{Cas: Cas(r.CAS), Ops: k.pathResults(r.Paths, r)}
	res.Internal.IsDeleted = r.Deleted
	res.Internal.ResourceUnits = units(r.Units())
	return res
}

// pathResults are what became of each path. A path that failed has the error that a call of its own would have.
func (k *kvCall) pathResults(paths []kv.PathResult, r facts) []SubDocResult {
	list := make([]SubDocResult, len(paths))
	for i, p := range paths {
		list[i].Value = value(p.Value)
		if p.Err() == nil {
			continue
		}
		status := memd.StatusCode(p.Status)
		list[i].Err = SubDocumentError{Index: i, InnerError: &KeyValueError{
			InnerError: statusError(status, k.cmd, k.cas), StatusCode: status, DocumentKey: string(k.key),
			BucketName: k.c.bucket.Name(), ErrorName: p.Status.String(), LastDispatchedTo: r.Endpoint(),
			LastDispatchedFrom: r.LocalAddr(), LastConnectionID: r.Connection(),
		}}
	}
	return list
}

// MutateIn changes paths of a document.
func (c *crudComponent) MutateIn(o MutateInOptions, cb MutateInCallback) (PendingOp, error) {
	if err := c.refused(&o); err != nil {
		return nil, err
	}
	specs := make([]kv.MutateSpec, len(o.Ops))
	for i, op := range o.Ops {
		specs[i] = kv.MutateSpec{
			Op: ccmemd.Opcode(op.Op), Path: op.Path, Value: op.Value,
			Xattr:         op.Flags&memd.SubdocFlagXattrPath != 0,
			CreateParents: op.Flags&memd.SubdocFlagMkDirP != 0,
			ExpandMacros:  op.Flags&memd.SubdocFlagExpandMacros != 0,
			Binary:        op.Flags&memd.SubdocFlagBinaryXattr != 0,
		}
	}
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("MutateIn", memd.CmdSubDocMultiMutation, &t)
	k.cas = uint64(o.Cas)
	op := kv.MutateIn{
		Common: k.common(&t), Key: o.Key, Specs: specs, Expiry: expiryOf(o.Expiry), CAS: uint64(o.Cas),
		Durability: level(o.DurabilityLevel), PreserveExpiry: o.PreserveExpiry,
		AccessDeleted:   o.Flags&memd.SubdocDocFlagAccessDeleted != 0,
		CreateAsDeleted: o.Flags&memd.SubdocDocFlagCreateAsDeleted != 0,
		Revive:          o.Flags&memd.SubdocDocFlagReviveDocument != 0,
	}
	switch {
	case o.Flags&memd.SubdocDocFlagAddDoc != 0:
		op.Store, k.inserts = kv.StoreInsert, true
	case o.Flags&memd.SubdocDocFlagMkDoc != 0:
		op.Store = kv.StoreUpsert
	}
	if o.userFlags != 0 {
		op.Flags = &o.userFlags
	}
	return run(k, op, func(k *kvCall, r kv.MutateInResult) *MutateInResult {
		res := &MutateInResult{
			Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token), Ops: k.pathResults(r.Paths, r),
		}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// refused are the requests that are known not to be understood.
func (c *crudComponent) refused(o *MutateInOptions) error {
	if len(o.Ops) == 0 {
		return wrapError(errInvalidArgument, "at least one op must be present")
	}
	lacks := func(wanted bool, b BucketCapability) bool {
		return wanted && c.mux.BucketCapabilityStatus(b) == CapabilityStatusUnsupported
	}
	if lacks(o.DurabilityLevel > 0, BucketCapabilityDurableWrites) ||
		lacks(o.Flags&memd.SubdocDocFlagCreateAsDeleted != 0, BucketCapabilityCreateAsDeleted) ||
		lacks(o.Flags&memd.SubdocDocFlagReviveDocument != 0, BucketCapabilityReviveDocument) {
		return errFeatureNotAvailable
	}
	for _, op := range o.Ops {
		if lacks(op.Op == memd.SubDocOpReplaceBodyWithXattr, BucketCapabilityReplaceBodyWithXattr) ||
			lacks(op.Flags&memd.SubdocFlagBinaryXattr != 0, BucketCapabilityBinaryXattr) {
			return errFeatureNotAvailable
		}
	}
	return nil
}

// LookupInAnyReplica reads paths from whichever copy answers first; of those in one server group if one is named.
func (c *crudComponent) LookupInAnyReplica(group *string, o LookupInOptions, cb LookupInCallback) (PendingOp, error) {
	return c.mux.WaitForConfigSnapshot(o.Deadline, func(w *WaitForConfigSnapshotResult, err error) {
		if err != nil {
			cb(nil, err)
			return
		}
		copies, name, err := copiesIn(w.Snapshot, o.Key, group)
		if err != nil {
			cb(nil, err)
			return
		}
		c.race(copies, name, o, cb)
	})
}

// copiesIn are the copies of a key, by their numbers, where 0 is the active one.
func copiesIn(s *ConfigSnapshot, key []byte, group *string) (copies []int, name string, err error) {
	if group == nil {
		n, err := s.NumReplicas()
		for i := 0; err == nil && i <= n; i++ {
			copies = append(copies, i)
		}
		return copies, "", err
	}
	groups, err := s.KeyToServersByServerGroup(key)
	if err != nil {
		return nil, "", err
	}
	if len(groups[*group]) == 0 {
		return nil, "", errNoReplicasInServerGroup
	}
	return groups[*group], *group, nil
}

// race asks all copies, gives the first good answer and cancels what else is under way.
func (c *crudComponent) race(copies []int, group string, o LookupInOptions, cb LookupInCallback) {
	var lock sync.Mutex
	var ops []PendingOp
	open, won := len(copies), false
	ended := func(res *LookupInResult, err error) {
		lock.Lock()
		open--
		first := err == nil && !won
		won = won || first
		last, started := open == 0, ops
		lock.Unlock()
		switch {
		case first:
			for _, op := range started {
				op.Cancel()
			}
			cb(res, nil)
		case last && !won:
			cb(nil, errDocumentUnretrievable)
		}
	}
	for _, i := range copies {
		one := o
		one.ReplicaIdx, one.ServerGroup = i, ""
		if i > 0 {
			one.Flags, one.ServerGroup = one.Flags|memd.SubdocDocFlagReplicaRead, group
		}
		op, err := c.LookupIn(one, ended)
		if err != nil {
			ended(nil, err)
			continue
		}
		lock.Lock()
		ops = append(ops, op)
		late := won
		lock.Unlock()
		if late {
			op.Cancel()
		}
	}
}

// blocking runs f on a goroutine of its own with a context that a deadline or Cancel ends.
func blocking(deadline contextDeadline, f func(ctx context.Context)) PendingOp {
	ctx, cancel := deadline.context()
	go func() {
		defer cancel()
		f(ctx)
	}()
	return canceler(cancel)
}

type canceler context.CancelFunc

func (c canceler) Cancel() { c() }
