//go:build ignore

package gocbcore

import (
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/kv"
)

// RangeScanCreate begins a scan of one vbucket.
func (c *crudComponent) RangeScanCreate(vbID uint16, o RangeScanCreateOptions, cb RangeScanCreateCallback) (PendingOp,
	error,
) {
	if c.mux.BucketCapabilityStatus(BucketCapabilityRangeScan) == CapabilityStatusUnsupported {
		return nil, errFeatureNotAvailable
	}
	t := target{
		nil, o.ScopeName, o.CollectionName, o.CollectionID, nil, o.Deadline, o.User, o.TraceContext,
	}
	op := kv.RangeScanCreate{VBucket: vbID, KeysOnly: o.KeysOnly}
	if err := scanOf(&op, &o); err != nil {
		return nil, err
	}
	k := c.begin("RangeScanCreate", memd.CmdRangeScanCreate, &t)
	op.Common = k.common(&t)
	return run(k, op, func(_ *kvCall, r kv.RangeScan) *scanResult {
		return &scanResult{c: c, scan: r, keysOnly: o.KeysOnly}
	}, func(r *scanResult, err error) {
		if err != nil {
			cb(nil, err)
			return
		}
		cb(r, nil)
	})
}

// scanOf says what is scanned.
func scanOf(op *kv.RangeScanCreate, o *RangeScanCreateOptions) error {
	if (o.Range == nil) == (o.Sampling == nil) {
		return wrapError(errInvalidArgument, "a scan has either a range or a sampling")
	}
	if r := o.Range; r != nil {
		if r.hasStart() == r.hasExclusiveStart() || r.hasEnd() == r.hasExclusiveEnd() {
			return wrapError(errInvalidArgument, "a range has one start and one end")
		}
		op.Range = &kv.ScanRange{Start: r.Start, End: r.End}
		if r.hasExclusiveStart() {
			op.Range.Start, op.Range.ExcludeStart = r.ExclusiveStart, true
		}
		if r.hasExclusiveEnd() {
			op.Range.End, op.Range.ExcludeEnd = r.ExclusiveEnd, true
		}
	}
	if s := o.Sampling; s != nil {
		if s.Samples == 0 {
			return wrapError(errInvalidArgument, "samples within sampling must be set")
		}
		op.Samples, op.Seed = s.Samples, s.Seed
	}
	if s := o.Snapshot; s != nil {
		if s.VbUUID == 0 || s.SeqNo == 0 {
			return wrapError(errInvalidArgument, "a snapshot has a vbuuid and a seqno")
		}
		op.Snapshot = kv.MutationToken{VBucket: op.VBucket, UUID: uint64(s.VbUUID), Seqno: uint64(s.SeqNo)}
		op.MustExist = s.SeqNoExists
		if !o.Deadline.IsZero() {
			op.SnapshotWait = max(time.Until(o.Deadline), time.Millisecond)
		}
	}
	return nil
}

// scanResult is a scan under way.
type scanResult struct {
	c        *crudComponent
	scan     kv.RangeScan
	keysOnly bool
}

// ScanUUID is the scan's id.
func (s *scanResult) ScanUUID() []byte { return s.scan.ID[:] }

// KeysOnly reports whether items have no values.
func (s *scanResult) KeysOnly() bool { return s.keysOnly }

// RangeScanContinue asks for the next items.
func (s *scanResult) RangeScanContinue(o RangeScanContinueOptions, dataCb RangeScanContinueDataCallback,
	actionCb RangeScanContinueActionCallback,
) (PendingOp, error) {
	t := target{deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := s.c.begin("RangeScanContinue", memd.CmdRangeScanContinue, &t)
	k.blocks = true
	op := kv.RangeScanContinue{
		Common: k.common(&t), Scan: s.scan, MaxItems: o.MaxCount, MaxBytes: o.MaxBytes,
	}
	if !o.Deadline.IsZero() {
		op.MaxTime = max(time.Until(o.Deadline), time.Millisecond)
	}
	return run(k, op, func(_ *kvCall, r kv.ScanItems) *RangeScanContinueResult {
		if len(r.Items) > 0 {
			dataCb(itemsOf(r.Items))
		}
		return &RangeScanContinueResult{More: !r.Complete, Complete: r.Complete}
	}, actionCb)
}

func itemsOf(list []kv.ScanItem) []RangeScanItem {
	items := make([]RangeScanItem, len(list))
	for i, it := range list {
		items[i] = RangeScanItem{
			Value: it.Value, Key: it.Key, Flags: it.Flags, Cas: Cas(it.CAS), Expiry: seconds(it.Expiry),
			SeqNo: SeqNo(it.Seqno), Datatype: uint8(it.Datatype),
		}
	}
	return items
}

// RangeScanCancel ends the scan on the server.
func (s *scanResult) RangeScanCancel(o RangeScanCancelOptions, cb RangeScanCancelCallback) (PendingOp, error) {
	t := target{deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := s.c.begin("RangeScanCancel", memd.CmdRangeScanCancel, &t)
	op := kv.RangeScanCancel{Common: k.common(&t), Scan: s.scan}
	return run(k, op, func(*kvCall, kv.Result) *RangeScanCancelResult { return &RangeScanCancelResult{} }, cb)
}
