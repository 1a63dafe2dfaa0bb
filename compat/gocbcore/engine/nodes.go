//go:build ignore

package gocbcore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/kv"
	ccmemd "github.com/couchcore/couchcore/memd"
)

// GetMeta reads what a server keeps about a document.
func (c *crudComponent) GetMeta(o GetMetaOptions, cb GetMetaCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("GetMeta", memd.CmdGetMeta, &t)
	return run(k, kv.GetMeta{Common: k.common(&t), Key: o.Key}, func(_ *kvCall, r kv.MetaResult) *GetMetaResult {
		res := &GetMetaResult{
			Value: []byte{}, Flags: r.Flags, Cas: Cas(r.CAS), Expiry: seconds(r.Expiry), SeqNo: SeqNo(r.RevSeqno),
			Datatype: uint8(r.Datatype),
		}
		if r.Deleted {
			res.Deleted = 1
		}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// Options of writes with metadata, as the protocol has them (kv_engine).
const (
	skipConflictResolution = 1
	forceAccept            = 2
	regenerateCAS          = 4
	isExpiration           = 16
)

func metaOf(options, flags, expiry uint32, rev uint64, cas Cas, extra []byte) kv.Meta {
	m := kv.Meta{
		Flags: flags, RevSeqno: rev, StoreCAS: uint64(cas), Extra: extra,
		SkipConflictResolution: options&skipConflictResolution != 0, ForceAccept: options&forceAccept != 0,
		RegenerateCAS: options&regenerateCAS != 0, IsExpiration: options&isExpiration != 0,
	}
	if expiry != 0 {
		m.Expiry = time.Unix(int64(expiry), 0)
	}
	return m
}

// SetMeta writes a document with its metadata.
func (c *crudComponent) SetMeta(o SetMetaOptions, cb SetMetaCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("SetMeta", memd.CmdSetMeta, &t)
	return run(k, kv.SetWithMeta{
		Common: k.common(&t), Key: o.Key, Value: o.Value, Datatype: ccmemd.Datatype(o.Datatype),
		Meta: metaOf(o.Options, o.Flags, o.Expiry, o.RevNo, o.Cas, o.Extra),
	}, func(_ *kvCall, r kv.MutationResult) *SetMetaResult {
		res := &SetMetaResult{Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// DeleteMeta makes a tombstone with its metadata.
func (c *crudComponent) DeleteMeta(o DeleteMetaOptions, cb DeleteMetaCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("DeleteMeta", memd.CmdDelMeta, &t)
	return run(k, kv.DeleteWithMeta{
		Common: k.common(&t), Key: o.Key, Value: o.Value, Datatype: ccmemd.Datatype(o.Datatype),
		Meta: metaOf(o.Options, o.Flags, o.Expiry, o.RevNo, o.Cas, o.Extra),
	}, func(_ *kvCall, r kv.MutationResult) *DeleteMetaResult {
		res := &DeleteMetaResult{Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// observeComponent asks copies how far they have got.
type observeComponent struct{ crud *crudComponent }

// Observe asks one copy of a document for its state. A memcached bucket has no copies.
func (c *observeComponent) Observe(o ObserveOptions, cb ObserveCallback) (PendingOp, error) {
	if s := c.crud.mux.state(); s != nil && s.NumVBuckets() == 0 {
		c.crud.tracer.StartTelemeteryHandler(metricValueServiceKeyValue, "Observe", o.TraceContext).Finish()
		return nil, errFeatureNotAvailable
	}
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.crud.begin("Observe", memd.CmdObserve, &t)
	op := kv.Observe{Common: k.common(&t), Key: o.Key, Replica: o.ReplicaIdx}
	return run(k, op, func(_ *kvCall, r kv.ObserveResult) *ObserveResult {
		res := &ObserveResult{KeyState: memd.KeyState(r.State), Cas: Cas(r.CAS)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// ObserveVb asks one copy of a vbucket how far a history has got.
func (c *observeComponent) ObserveVb(o ObserveVbOptions, cb ObserveVbCallback) (PendingOp, error) {
	t := target{strategy: o.RetryStrategy, deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := c.crud.begin("ObserveVb", memd.CmdObserveSeqNo, &t)
	op := kv.ObserveSeqno{
		Common: k.common(&t), VBucket: o.VbID, UUID: uint64(o.VbUUID), Replica: o.ReplicaIdx,
	}
	return run(k, op, func(_ *kvCall, r kv.SeqnoResult) *ObserveVbResult {
		res := &ObserveVbResult{
			DidFailover: r.FailedOver, VbID: r.VBucket, VbUUID: VbUUID(r.UUID), PersistSeqNo: SeqNo(r.Persisted),
			CurrentSeqNo: SeqNo(r.Current), OldVbUUID: VbUUID(r.OldUUID), LastSeqNo: SeqNo(r.OldSeqno),
		}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// statsComponent asks nodes for their statistics.
type statsComponent struct{ crud *crudComponent }

// Stats asks all nodes for a group of their statistics, or the node of one vbucket.
func (c *statsComponent) Stats(o StatsOptions, cb StatsCallback) (PendingOp, error) {
	if c.crud.mux.closed.Load() {
		return nil, errShutdown
	}
	t := target{strategy: o.RetryStrategy, deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := c.crud.begin("Stats", memd.CmdStat, &t)
	op := kv.Stat{Common: k.common(&t), Group: o.Key}
	if vb, ok := o.Target.(VBucketIDStatsTarget); ok {
		op.ByVBucket, op.VBucket = true, vb.VbID
		return run(k, op, func(_ *kvCall, r kv.StatResult) *StatsResult {
			return &StatsResult{Servers: map[string]SingleServerStats{r.Endpoint(): statsOf(r)}}
		}, cb)
	}
	return blocking(contextDeadline(o.Deadline), func(ctx context.Context) {
		all, err := kv.StatAll(ctx, c.crud.bucket, op)
		if err != nil {
			cb(nil, k.failed(err))
			return
		}
		k.succeeded(kv.Result{})
		res := &StatsResult{Servers: map[string]SingleServerStats{}}
		for node, one := range all {
			name, stats := c.crud.nodeOf(node, one.Result, one.Err), statsOf(one.Result)
			if one.Err != nil {
				stats.Error = k.callError(one.Err)
			}
			res.Servers[name] = stats
		}
		cb(res, nil)
	}), nil
}

// nodeOf is the address of the node, by its index, that an outcome is from: of one that was not asked in the end, that
// of the map.
func (c *crudComponent) nodeOf(node int, r facts, err error) string {
	var e *kv.Error
	switch {
	case err == nil:
		return r.Endpoint()
	case errors.As(err, &e) && e.Endpoint != "":
		return e.Endpoint
	}
	if m, ok := c.bucket.Map(); ok && node < len(m.Nodes) {
		return m.Nodes[node]
	}
	return strconv.Itoa(node)
}

func statsOf(r kv.StatResult) SingleServerStats {
	s := SingleServerStats{Stats: map[string]string{}}
	for _, e := range r.Stats {
		s.Stats[e.Name] = e.Value
		s.StatsKeys = append(s.StatsKeys, []byte(e.Name))
		s.StatsChunks = append(s.StatsChunks, []byte(e.Value))
	}
	return s
}

// collectionsComponent asks for the bucket's collections.
type collectionsComponent struct{ crud *crudComponent }

// GetCollectionID asks a node for the id of a collection.
func (c *collectionsComponent) GetCollectionID(scope, collection string, o GetCollectionIDOptions,
	cb GetCollectionIDCallback,
) (PendingOp, error) {
	t := target{strategy: o.RetryStrategy, deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := c.crud.begin("GetCollectionID", memd.CmdCollectionsGetID, &t)
	op := kv.GetCollectionID{Common: k.common(&t), Path: scope + "." + collection}
	return run(k, op, func(_ *kvCall, r kv.IDResult) *GetCollectionIDResult {
		res := &GetCollectionIDResult{ManifestID: r.ManifestUID, CollectionID: r.ID}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// GetCollectionManifest asks a node for the bucket's collections.
func (c *collectionsComponent) GetCollectionManifest(o GetCollectionManifestOptions, cb GetCollectionManifestCallback) (
	PendingOp, error,
) {
	t := target{strategy: o.RetryStrategy, deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := c.crud.begin("GetCollectionManifest", memd.CmdCollectionsGetManifest, &t)
	op := kv.GetManifest{Common: k.common(&t)}
	return run(k, op, func(_ *kvCall, r kv.Manifest) *GetCollectionManifestResult {
		res := &GetCollectionManifestResult{Manifest: r.JSON}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// GetAllCollectionManifests asks all nodes for the bucket's collections.
func (c *collectionsComponent) GetAllCollectionManifests(o GetAllCollectionManifestsOptions,
	cb GetAllCollectionManifestsCallback,
) (PendingOp, error) {
	if c.crud.mux.closed.Load() {
		return nil, errShutdown
	}
	t := target{strategy: o.RetryStrategy, deadline: o.Deadline, user: o.User, trace: o.TraceContext}
	k := c.crud.begin("GetAllCollectionManifests", memd.CmdCollectionsGetManifest, &t)
	op := kv.GetManifest{Common: k.common(&t)}
	return blocking(contextDeadline(o.Deadline), func(ctx context.Context) {
		all, err := kv.ManifestAll(ctx, c.crud.bucket, op)
		if err != nil {
			cb(nil, k.failed(err))
			return
		}
		k.succeeded(kv.Result{})
		res := &GetAllCollectionManifestsResult{Manifests: map[string]SingleServerManifestResult{}}
		for node, one := range all {
			m := SingleServerManifestResult{Manifest: one.Result.JSON}
			if one.Err != nil {
				m.Error = k.callError(one.Err)
			}
			res.Manifests[c.crud.nodeOf(node, one.Result, one.Err)] = m
		}
		cb(res, nil)
	}), nil
}
