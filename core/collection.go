package core

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
)

// Collection runs the key-value calls of one collection: it is a kv.Dispatcher, as its bucket is, for operations that
// need not name the collection then. An operation that names one, or its id, goes there. It is safe for concurrent use,
// costs nothing to make, and has nothing to close.
//
//	users := cluster.Bucket("app").Collection("people", "users")
//	res, err := kv.Do(ctx, users, kv.Get{Key: []byte("u1")})
type Collection struct {
	*Bucket
	run collectionRunner
}

// Collection gives a collection of the bucket by the names of its scope and itself; "" means _default in both. Nothing
// is looked up or sent; the first operation finds that there is no such collection, or that a name is not valid.
func (b *Bucket) Collection(scope, name string) *Collection {
	return &Collection{b, collectionRunner{&b.run, inCollection{b.run.runner, scope, name}}}
}

// Names gives the names of the scope and the collection, as Bucket.Collection was told them.
func (c *Collection) Names() (scope, name string) { return c.run.in.scope, c.run.in.name }

// Runner implements kv.Dispatcher, as Bucket.Runner does.
func (c *Collection) Runner() kv.Runner { return &c.run }

// collectionRunner is a bucket's runner for the operations of one collection.
type collectionRunner struct {
	*counted
	in inCollection
}

// NewCall implements call.Runner.
func (r *collectionRunner) NewCall() *call.Call {
	c := r.counted.NewCall()
	c.In(r.in.scope, r.in.name)
	return c
}

// Inside implements call.Doored.
func (r *collectionRunner) Inside() call.Runner { return &r.in }

// inCollection is the same for the requests of an operation that sends several.
type inCollection struct {
	*runner
	scope, name string
}

// NewCall implements call.Runner.
func (r *inCollection) NewCall() *call.Call {
	c := r.runner.NewCall()
	c.In(r.scope, r.name)
	return c
}

// Compose implements call.Observing.
func (r *inCollection) Compose(ctx context.Context, name, scope, collection string) (context.Context, func(error)) {
	if scope == "" && collection == "" {
		scope, collection = r.scope, r.name
	}
	return r.runner.Compose(ctx, name, scope, collection)
}

// Compose implements call.Observing.
func (r *collectionRunner) Compose(ctx context.Context, name, scope, collection string) (context.Context, func(error)) {
	return r.in.Compose(ctx, name, scope, collection)
}

// String names the collection and its bucket.
func (c *Collection) String() string {
	return fmt.Sprintf("collection %q of scope %q of %s", c.run.in.name, c.run.in.scope, c.Bucket)
}

// Format writes what String gives, for every verb.
func (c *Collection) Format(f fmt.State, _ rune) { write(f, c.String()) }

// LogValue is what String gives.
func (c *Collection) LogValue() slog.Value { return slog.StringValue(c.String()) }

var _ kv.Dispatcher = (*Collection)(nil)
