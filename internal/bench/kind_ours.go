package bench

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
)

// form is the way in which couchcore is called.
type form uint8

const (
	formDo form = iota
	formInto
	formBulk
	formBulkInto
	formGo
	formStart
	formContext
)

// bulkKeys is how many keys one call of the bulk form has.
const bulkKeys = 16

// ours is couchcore with its defaults, but for the login: the responder offers PLAIN alone.
type ours struct {
	cluster *core.Cluster
	bucket  *core.Bucket
	form    form
	absent  bool // there are no documents
	keys    [len(sizes)][][]byte
	values  [len(sizes)][]byte
	ctx     context.Context
	cancel  context.CancelFunc
}

func oursOpener(f form) func(target) (client, error) {
	return func(t target) (client, error) { return newOurs(t, f) }
}

func newOurs(t target, f form) (*ours, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	cluster, err := core.Open(ctx, core.Config{
		Hosts: t.addrs, Username: "bench", Password: core.NewSecret("bench"), Mechanisms: []string{"PLAIN"}, AllowPlain: true,
	})
	if err != nil {
		return nil, err
	}
	bucket := cluster.Bucket(string(t.mode))
	if err := bucket.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	o := &ours{cluster: cluster, bucket: bucket, form: f, absent: t.mode == modeAbsent, ctx: context.Background(), cancel: func() {}}
	if f == formContext {
		o.ctx, o.cancel = context.WithCancel(context.Background())
	}
	for class, size := range sizes {
		o.keys[class], o.values[class] = keys(class), value(size)
	}
	return o, nil
}

func (o *ours) close() {
	o.cancel()
	_ = o.cluster.Close()
}

func (o *ours) work(j job, worker int) func() (int, error) {
	class := classOf(j.Size)
	r := newRotation(j, worker, o.keys[class])
	if o.form == formBulk {
		return o.bulk(j, &r, o.values[class])
	}
	if o.form == formBulkInto {
		return o.bulkInto(j, &r)
	}
	if j.Op == opUpsert {
		return o.upsert(&r, o.values[class])
	}
	return o.get(j, &r)
}

func (o *ours) get(j job, r *rotation) func() (int, error) {
	ctx, b := o.ctx, o.bucket
	switch o.form {
	case formInto:
		buf := make([]byte, 0, j.Size)
		return func() (int, error) {
			res, err := kv.Do(ctx, b, kv.Get{Key: r.key(), Into: buf})
			return 1, gotten(res.Value, err, j.Size, o.absent)
		}
	case formGo:
		done := make(chan error, 1)
		report := func(res kv.GetResult, err error) { done <- gotten(res.Value, err, j.Size, o.absent) }
		return func() (int, error) {
			kv.Go(ctx, b, kv.Get{Key: r.key()}, report)
			return 1, <-done
		}
	case formStart:
		return func() (int, error) {
			res, err := kv.Start(ctx, b, kv.Get{Key: r.key()}).Wait(ctx)
			return 1, gotten(res.Value, err, j.Size, o.absent)
		}
	default:
		return func() (int, error) {
			res, err := kv.Do(ctx, b, kv.Get{Key: r.key()})
			return 1, gotten(res.Value, err, j.Size, o.absent)
		}
	}
}

func (o *ours) upsert(r *rotation, val []byte) func() (int, error) {
	ctx, b := o.ctx, o.bucket
	switch o.form {
	case formGo:
		done := make(chan error, 1)
		report := func(_ kv.MutationResult, err error) { done <- err }
		return func() (int, error) {
			kv.Go(ctx, b, kv.Upsert{Key: r.key(), Value: val}, report)
			return 1, <-done
		}
	case formStart:
		return func() (int, error) {
			_, err := kv.Start(ctx, b, kv.Upsert{Key: r.key(), Value: val}).Wait(ctx)
			return 1, err
		}
	default:
		return func() (int, error) {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: r.key(), Value: val})
			return 1, err
		}
	}
}

func (o *ours) bulk(j job, r *rotation, val []byte) func() (int, error) {
	if j.Op == opUpsert {
		docs := make([]kv.Upsert, bulkKeys)
		return func() (int, error) {
			for i := range docs {
				docs[i] = kv.Upsert{Key: r.key(), Value: val}
			}
			for _, out := range kv.UpsertMulti(o.ctx, o.bucket, docs) {
				if out.Err != nil {
					return 0, out.Err
				}
			}
			return bulkKeys, nil
		}
	}
	ks := make([][]byte, bulkKeys)
	return func() (int, error) {
		for i := range ks {
			ks[i] = r.key()
		}
		outs := kv.GetMulti(o.ctx, o.bucket, kv.Common{}, ks)
		for i := range outs {
			if err := gotten(outs[i].Result.Value, outs[i].Err, j.Size, o.absent); err != nil {
				return 0, err
			}
		}
		return bulkKeys, nil
	}
}

func (o *ours) bulkInto(j job, r *rotation) func() (int, error) {
	gets, mem := make([]kv.Get, bulkKeys), make([]byte, bulkKeys*j.Size)
	return func() (int, error) {
		for i := range gets {
			gets[i] = kv.Get{Key: r.key(), Into: mem[i*j.Size : i*j.Size : (i+1)*j.Size]}
		}
		outs := kv.Batch(o.ctx, o.bucket, gets, 0)
		for i := range outs {
			if err := gotten(outs[i].Result.Value, outs[i].Err, j.Size, o.absent); err != nil {
				return 0, err
			}
		}
		return bulkKeys, nil
	}
}

// gotten says what is wrong with the outcome of a read.
func gotten(value []byte, err error, size int, absent bool) error {
	switch {
	case absent:
		return missing(errors.Is(err, cberr.DocumentNotFound), err)
	case err != nil:
		return err
	}
	return checkLen(len(value), size)
}

// missing says what is wrong with a read of a document that does not exist.
func missing(is bool, err error) error {
	if !is && err == nil {
		return errNotMissing
	}
	if is {
		return nil
	}
	return err
}

var errNotMissing = errors.New("there is a document where none should be")

// silenceBefore is how long a connection has been idle when its memory is counted.
const silenceBefore = 30 * time.Second
