package kv_test

import (
	"context"
	"time"

	"github.com/couchbase/gocbcore/v10"
	gmemd "github.com/couchbase/gocbcore/v10/memd"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// foreign is the metadata of a document that another cluster has changed last. Each cell has its own: documents that
// are new in a vbucket begin behind the revisions of those that were deleted there.
func foreign(c cell) kv.Meta {
	return kv.Meta{Flags: 0x02000006, RevSeqno: c.revision, StoreCAS: 1 << 62}
}

// matrixMore are the operations that change or read a document in other ways than as a whole and by its own cluster.
func matrixMore(one []byte) []matrixOp {
	return append([]matrixOp{
		{"get-or-null", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			res, err := kv.Do(ctx, b, kv.GetOrNull{Common: c.common, Key: c.key})
			if err == nil && res.Absent {
				err = cberr.DocumentNotFound
			}
			return err
		}, nil},
		{"get-replica", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.GetReplica{Common: c.common, Key: c.key, Replica: 1}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (gocbcore.PendingOp, error) {
			s, n := scopeOf(c)
			return a.GetOneReplica(gocbcore.GetOneReplicaOptions{
				Key: c.key, ReplicaIdx: 1, ScopeName: s, CollectionName: n, RetryStrategy: theirNever{},
				Deadline: fastest(),
			}, told[*gocbcore.GetReplicaResult](done))
		}},
		{"get-with-expiry", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Get{Common: c.common, Key: c.key, WithExpiry: true}))
		}, nil},
		{"get-ex", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.GetEx{Common: c.common, Key: c.key}))
		}, nil},
		{"observe", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			res, err := kv.Do(ctx, b, kv.Observe{Common: c.common, Key: c.key})
			if err == nil && res.State >= kv.ObserveMissing {
				err = cberr.DocumentNotFound
			}
			return err
		}, nil}, // theirs refuses it where there are collections
		{"prepend", true, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Prepend{
				Common: c.common, Key: c.key, Value: one, CAS: c.cas,
				Durability: c.level,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (gocbcore.PendingOp, error) {
			s, n := scopeOf(c)
			return a.Prepend(gocbcore.AdjoinOptions{
				Key: c.key, Value: one, Cas: gocbcore.Cas(c.cas), ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.AdjoinResult](done))
		}},
	}, append(matrixMeta(one), matrixPaths(one)...)...)
}

func matrixMeta(one []byte) []matrixOp {
	return []matrixOp{
		{"set-with-meta", true, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.SetWithMeta{
				Common: c.common, Key: c.key, Value: one, Meta: foreign(c),
				CheckCAS: c.cas,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (gocbcore.PendingOp, error) {
			if c.cas != 0 {
				return nil, errNoSuchForm
			}
			s, n := scopeOf(c)
			return a.SetMeta(gocbcore.SetMetaOptions{
				Key: c.key, Value: one, Flags: foreign(c).Flags, RevNo: foreign(c).RevSeqno,
				Cas: gocbcore.Cas(foreign(c).StoreCAS), ScopeName: s,
				CollectionName: n, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.SetMetaResult](done))
		}},
		{"add-with-meta", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.AddWithMeta{Common: c.common, Key: c.key, Value: one, Meta: foreign(c)}))
		}, nil},
		{"delete-with-meta", true, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.DeleteWithMeta{
				Common: c.common, Key: c.key, Meta: foreign(c),
				CheckCAS: c.cas,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (gocbcore.PendingOp, error) {
			if c.cas != 0 {
				return nil, errNoSuchForm
			}
			s, n := scopeOf(c)
			return a.DeleteMeta(gocbcore.DeleteMetaOptions{
				Key: c.key, Flags: foreign(c).Flags, RevNo: foreign(c).RevSeqno, Cas: gocbcore.Cas(foreign(c).StoreCAS),
				ScopeName:      s,
				CollectionName: n, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.DeleteMetaResult](done))
		}},
	}
}

// matrixPaths are the commands with one path, which gocbcore does not send as requests of their own.
func matrixPaths(one []byte) []matrixOp {
	read := func(s kv.LookupSpec) matrixOp {
		return matrixOp{call.SpecOf(s.Op).Name, false, false, true, func(ctx context.Context, b *core.Bucket,
			c cell,
		) error {
			return discard(kv.Do(ctx, b, kv.LookupPath{Common: c.common, Key: c.key, Spec: s}))
		}, nil}
	}
	write := func(s kv.MutateSpec) matrixOp {
		return matrixOp{call.SpecOf(s.Op).Name, true, true, true, func(ctx context.Context, b *core.Bucket,
			c cell,
		) error {
			return discard(kv.Do(ctx, b, kv.MutatePath{
				Common: c.common, Key: c.key, Spec: s, CAS: c.cas,
				Durability: c.level,
			}))
		}, nil}
	}
	create := func(s kv.MutateSpec) matrixOp {
		s.CreateParents = true
		return write(s)
	}
	body := kv.ReplaceBody("x") // there is no such attribute
	return []matrixOp{
		read(kv.GetPath("n")), read(kv.ExistsPath("n")), read(kv.CountPath("")),
		write(kv.InsertPath("new", one)), write(kv.UpsertPath("n", one)), write(kv.ReplacePath("n", one)),
		write(kv.RemovePath("n")),
		create(kv.ArrayAppend("list", one)), create(kv.ArrayPrepend("list", one)),
		write(kv.ArrayInsert("list[0]", one)),
		create(kv.ArrayAddUnique("list", one)), write(kv.IncrementPath("n", 1)), write(body),
	}
}

// keyed are the rows of the table that have a key, and so a place in the matrix.
func keyed() []string {
	var names []string
	for op := range 256 {
		if s := call.SpecOf(memd.Opcode(op)); s != nil && s.Has(call.Keyed) {
			names = append(names, s.Name)
		}
	}
	return names
}
