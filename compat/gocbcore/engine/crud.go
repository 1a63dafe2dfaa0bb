//go:build ignore

package gocbcore

import (
	"math"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/kv"
	ccmemd "github.com/couchcore/couchcore/memd"
)

// Get reads a document.
func (c *crudComponent) Get(o GetOptions, cb GetCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Get", memd.CmdGet, &t)
	return run(k, kv.Get{Common: k.common(&t), Key: o.Key}, func(_ *kvCall, r kv.GetResult) *GetResult {
		res := &GetResult{Value: value(r.Value), Flags: r.Flags, Datatype: uint8(r.Datatype), Cas: Cas(r.CAS)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// GetAndTouch reads a document and sets its expiry.
func (c *crudComponent) GetAndTouch(o GetAndTouchOptions, cb GetAndTouchCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("GetAndTouch", memd.CmdGAT, &t)
	op := kv.GetAndTouch{Common: k.common(&t), Key: o.Key, Expiry: expiryOf(o.Expiry)}
	return run(k, op, func(_ *kvCall, r kv.GetResult) *GetAndTouchResult {
		res := &GetAndTouchResult{Value: value(r.Value), Flags: r.Flags, Datatype: uint8(r.Datatype), Cas: Cas(r.CAS)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// GetAndLock reads a document and locks it.
func (c *crudComponent) GetAndLock(o GetAndLockOptions, cb GetAndLockCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("GetAndLock", memd.CmdGetLocked, &t)
	op := kv.GetAndLock{
		Common: k.common(&t), Key: o.Key, LockTime: min(time.Duration(o.LockTime)*time.Second, kv.MaxLockTime),
	}
	return run(k, op, func(_ *kvCall, r kv.GetResult) *GetAndLockResult {
		res := &GetAndLockResult{Value: value(r.Value), Flags: r.Flags, Datatype: uint8(r.Datatype), Cas: Cas(r.CAS)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// GetOneReplica reads a document from one replica.
func (c *crudComponent) GetOneReplica(o GetOneReplicaOptions, cb GetReplicaCallback) (PendingOp, error) {
	if o.ReplicaIdx <= 0 {
		return nil, errInvalidReplica
	}
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("GetOneReplica", memd.CmdGetReplica, &t)
	op := kv.GetReplica{Common: k.common(&t), Key: o.Key, Replica: o.ReplicaIdx, ServerGroup: o.ServerGroup}
	return run(k, op, func(_ *kvCall, r kv.GetResult) *GetReplicaResult {
		res := &GetReplicaResult{Value: value(r.Value), Flags: r.Flags, Datatype: uint8(r.Datatype), Cas: Cas(r.CAS)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// Touch sets a document's expiry.
func (c *crudComponent) Touch(o TouchOptions, cb TouchCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Touch", memd.CmdTouch, &t)
	op := kv.Touch{Common: k.common(&t), Key: o.Key, Expiry: expiryOf(o.Expiry)}
	return run(k, op, func(_ *kvCall, r kv.MutationResult) *TouchResult {
		res := &TouchResult{Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// Unlock ends a lock.
func (c *crudComponent) Unlock(o UnlockOptions, cb UnlockCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Unlock", memd.CmdUnlockKey, &t)
	k.cas = uint64(o.Cas)
	op := kv.Unlock{Common: k.common(&t), Key: o.Key, CAS: uint64(o.Cas)}
	return run(k, op, func(_ *kvCall, r kv.Result) *UnlockResult {
		res := &UnlockResult{Cas: Cas(r.CAS)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

// Delete removes a document.
func (c *crudComponent) Delete(o DeleteOptions, cb DeleteCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Delete", memd.CmdDelete, &t)
	k.cas = uint64(o.Cas)
	op := kv.Remove{
		Common: k.common(&t), Key: o.Key, CAS: uint64(o.Cas), Durability: level(o.DurabilityLevel),
	}
	return run(k, op, func(_ *kvCall, r kv.MutationResult) *DeleteResult {
		res := &DeleteResult{Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}

func stored(_ *kvCall, r kv.MutationResult) *StoreResult {
	res := &StoreResult{Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
	res.Internal.ResourceUnits = units(r.Units())
	return res
}

// Add writes a document that is not there.
func (c *crudComponent) Add(o AddOptions, cb StoreCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Add", memd.CmdAdd, &t)
	k.inserts = true
	return run(k, kv.Insert{
		Common: k.common(&t), Key: o.Key, Value: o.Value, Flags: o.Flags, Datatype: ccmemd.Datatype(o.Datatype),
		Expiry: expiryOf(o.Expiry), Durability: level(o.DurabilityLevel),
	}, stored, cb)
}

// Set writes a document.
func (c *crudComponent) Set(o SetOptions, cb StoreCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Set", memd.CmdSet, &t)
	return run(k, kv.Upsert{
		Common: k.common(&t), Key: o.Key, Value: o.Value, Flags: o.Flags, Datatype: ccmemd.Datatype(o.Datatype),
		Expiry: expiryOf(o.Expiry), PreserveExpiry: o.PreserveExpiry, Durability: level(o.DurabilityLevel),
	}, stored, cb)
}

// Replace writes a document that is there.
func (c *crudComponent) Replace(o ReplaceOptions, cb StoreCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Replace", memd.CmdReplace, &t)
	k.cas = uint64(o.Cas)
	return run(k, kv.Replace{
		Common: k.common(&t), Key: o.Key, Value: o.Value, Flags: o.Flags, Datatype: ccmemd.Datatype(o.Datatype),
		CAS: uint64(o.Cas), Expiry: expiryOf(o.Expiry), PreserveExpiry: o.PreserveExpiry,
		Durability: level(o.DurabilityLevel),
	}, stored, cb)
}

func adjoined(_ *kvCall, r kv.MutationResult) *AdjoinResult {
	res := &AdjoinResult{Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
	res.Internal.ResourceUnits = units(r.Units())
	return res
}

// Append adds bytes to the end of a document.
func (c *crudComponent) Append(o AdjoinOptions, cb AdjoinCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Append", memd.CmdAppend, &t)
	k.cas = uint64(o.Cas)
	return run(k, kv.Append{
		Common: k.common(&t), Key: o.Key, Value: o.Value, CAS: uint64(o.Cas), PreserveExpiry: o.PreserveExpiry,
		Durability: level(o.DurabilityLevel),
	}, adjoined, cb)
}

// Prepend adds bytes to the front of a document.
func (c *crudComponent) Prepend(o AdjoinOptions, cb AdjoinCallback) (PendingOp, error) {
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Prepend", memd.CmdPrepend, &t)
	k.cas = uint64(o.Cas)
	return run(k, kv.Prepend{
		Common: k.common(&t), Key: o.Key, Value: o.Value, CAS: uint64(o.Cas), PreserveExpiry: o.PreserveExpiry,
		Durability: level(o.DurabilityLevel),
	}, adjoined, cb)
}

func counted(_ *kvCall, r kv.CounterResult) *CounterResult {
	res := &CounterResult{Value: r.Value, Cas: Cas(r.CAS), MutationToken: tokenOf(r.Token)}
	res.Internal.ResourceUnits = units(r.Units())
	return res
}

// initial is what a missing counter is made with, nil to leave it missing.
func initial(o *CounterOptions) (*uint64, error) {
	if o.Initial != math.MaxUint64 {
		return &o.Initial, nil
	}
	if o.Expiry != 0 {
		return nil, wrapError(errInvalidArgument, "a counter that is not created has no expiry")
	}
	return nil, nil
}

// Increment adds to a counter.
func (c *crudComponent) Increment(o CounterOptions, cb CounterCallback) (PendingOp, error) {
	first, err := initial(&o)
	if err != nil {
		return nil, err
	}
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Increment", memd.CmdIncrement, &t)
	return run(k, kv.Increment{
		Common: k.common(&t), Key: o.Key, Delta: o.Delta, Initial: first, Expiry: expiryOf(o.Expiry),
		PreserveExpiry: o.PreserveExpiry, Durability: level(o.DurabilityLevel),
	}, counted, cb)
}

// Decrement subtracts from a counter.
func (c *crudComponent) Decrement(o CounterOptions, cb CounterCallback) (PendingOp, error) {
	first, err := initial(&o)
	if err != nil {
		return nil, err
	}
	t := target{
		o.Key, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("Decrement", memd.CmdDecrement, &t)
	return run(k, kv.Decrement{
		Common: k.common(&t), Key: o.Key, Delta: o.Delta, Initial: first, Expiry: expiryOf(o.Expiry),
		PreserveExpiry: o.PreserveExpiry, Durability: level(o.DurabilityLevel),
	}, counted, cb)
}

// GetRandom reads some document.
func (c *crudComponent) GetRandom(o GetRandomOptions, cb GetRandomCallback) (PendingOp, error) {
	t := target{
		nil, o.ScopeName, o.CollectionName, o.CollectionID, o.RetryStrategy, o.Deadline, o.User, o.TraceContext,
	}
	k := c.begin("GetRandom", memd.CmdGetRandom, &t)
	return run(k, kv.GetRandom{Common: k.common(&t)}, func(_ *kvCall, r kv.RandomResult) *GetRandomResult {
		res := &GetRandomResult{
			Key: r.Key, Value: value(r.Value), Flags: r.Flags, Datatype: uint8(r.Datatype), Cas: Cas(r.CAS),
		}
		res.Internal.ResourceUnits = units(r.Units())
		return res
	}, cb)
}
