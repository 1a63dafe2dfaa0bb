package minisdk

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Collection runs calls on the documents of one collection. It is safe for concurrent use.
type Collection struct {
	cluster *Cluster
	inner   *core.Collection
}

// GetOptions are the settings of one Get. The zero value has the cluster's.
type GetOptions struct {
	Timeout    time.Duration
	Retry      retry.Strategy
	Transcoder Transcoder
}

// WriteOptions are the settings of one write. The zero value has the cluster's.
type WriteOptions struct {
	Timeout    time.Duration
	Retry      retry.Strategy
	Transcoder Transcoder
	CAS        uint64        // replace or remove only this version; 0 is any
	Expiry     time.Duration // after which the document is gone; 0 is never
	Durable    bool          // a majority of the nodes has it before the call ends
}

// Document is what a Get has found.
type Document struct {
	CAS        uint64
	Retries    int // that the call took
	value      []byte
	flags      uint32
	transcoder Transcoder
}

// Decode makes a value of the document.
func (d *Document) Decode(v any) error { return d.transcoder.Decode(d.value, d.flags, v) }

// Written is what a write has done.
type Written struct {
	CAS     uint64
	Retries int // that the call took
	Token   kv.MutationToken
}

// Get reads a document. A missing one is ErrNotFound.
func (c *Collection) Get(ctx context.Context, id string, o GetOptions) (doc *Document, err error) {
	res, err := run(ctx, c, "get", id, kv.Get{
		Common: kv.Common{Timeout: o.Timeout, Retry: o.Retry}, Key: []byte(id),
	})
	if err != nil {
		return nil, err
	}
	return &Document{
		CAS: res.CAS, Retries: res.RetryInfo().Retries(), value: res.Value, flags: res.Flags,
		transcoder: c.transcoder(o.Transcoder),
	}, nil
}

// Upsert writes a document whether it exists or not.
func (c *Collection) Upsert(ctx context.Context, id string, v any, o WriteOptions) (*Written, error) {
	return c.write(ctx, "upsert", id, v, o, func(w write) (kv.MutationResult, error) {
		return run(ctx, c, "upsert", id, kv.Upsert{
			Common: w.common, Key: []byte(id), Value: w.value, Flags: w.flags, CAS: o.CAS, Expiry: w.expiry,
			Durability: w.durability,
		})
	})
}

// Insert writes a document that does not exist yet. One that does is ErrExists.
func (c *Collection) Insert(ctx context.Context, id string, v any, o WriteOptions) (*Written, error) {
	return c.write(ctx, "insert", id, v, o, func(w write) (kv.MutationResult, error) {
		return run(ctx, c, "insert", id, kv.Insert{
			Common: w.common, Key: []byte(id), Value: w.value, Flags: w.flags, Expiry: w.expiry,
			Durability: w.durability,
		})
	})
}

// Replace writes a document that exists, of the version CAS if that is not 0. Another version is ErrChanged.
func (c *Collection) Replace(ctx context.Context, id string, v any, o WriteOptions) (*Written, error) {
	return c.write(ctx, "replace", id, v, o, func(w write) (kv.MutationResult, error) {
		return run(ctx, c, "replace", id, kv.Replace{
			Common: w.common, Key: []byte(id), Value: w.value, Flags: w.flags, CAS: o.CAS, Expiry: w.expiry,
			Durability: w.durability,
		})
	})
}

// Remove removes a document, of the version CAS if that is not 0.
func (c *Collection) Remove(ctx context.Context, id string, o WriteOptions) (*Written, error) {
	w := writeOf(o)
	return written(run(ctx, c, "remove", id, kv.Remove{
		Common: w.common, Key: []byte(id), CAS: o.CAS, Durability: w.durability,
	}))
}

// write is a write as couchcore wants it.
type write struct {
	common     kv.Common
	value      []byte
	flags      uint32
	expiry     kv.Expiry
	durability memd.DurabilityLevel
}

func writeOf(o WriteOptions) write {
	w := write{common: kv.Common{Timeout: o.Timeout, Retry: o.Retry}}
	if o.Expiry > 0 {
		w.expiry = kv.ExpireAfter(o.Expiry)
	}
	if o.Durable {
		w.durability = memd.DurabilityMajority
	}
	return w
}

// write encodes a value and has send write it.
func (c *Collection) write(
	ctx context.Context, op, id string, v any, o WriteOptions, send func(write) (kv.MutationResult, error),
) (*Written, error) {
	w := writeOf(o)
	var err error
	if w.value, w.flags, err = c.transcoder(o.Transcoder).Encode(v); err != nil {
		return nil, failure(op, id, err)
	}
	return written(send(w))
}

func written(res kv.MutationResult, err error) (*Written, error) {
	if err != nil {
		return nil, err
	}
	return &Written{CAS: res.CAS, Retries: res.RetryInfo().Retries(), Token: res.Token}, nil
}

// run has couchcore run an operation.
func run[R any, O kv.Op[R]](ctx context.Context, c *Collection, op, id string, o O) (R, error) {
	ctx, end := c.cluster.begin(ctx, op)
	res, err := kv.Do[R](ctx, c.inner, o)
	err = failure(op, id, err)
	end(err)
	return res, err
}

func (c *Collection) transcoder(own Transcoder) Transcoder {
	if own != nil {
		return own
	}
	return c.cluster.transcoder
}
