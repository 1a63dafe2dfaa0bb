package core

import (
	"fmt"
	"log/slog"

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
	scope, name string
}

// Collection gives a collection of the bucket by the names of its scope and itself; "" means _default in both. Nothing
// is looked up or sent; the first operation finds that there is no such collection, or that a name is not valid.
func (b *Bucket) Collection(scope, name string) *Collection {
	return &Collection{b, scope, name}
}

// Names gives the names of the scope and the collection, as Bucket.Collection was told them.
func (c *Collection) Names() (scope, name string) { return c.scope, c.name }

// NewCall implements kv.Dispatcher.
func (c *Collection) NewCall() *kv.Call {
	k := c.Bucket.NewCall()
	k.In(c.scope, c.name)
	return k
}

// String names the collection and its bucket.
func (c *Collection) String() string {
	return fmt.Sprintf("collection %q of scope %q of %s", c.name, c.scope, c.Bucket)
}

// Format writes what String gives, for every verb.
func (c *Collection) Format(f fmt.State, _ rune) { write(f, c.String()) }

// LogValue is what String gives.
func (c *Collection) LogValue() slog.Value { return slog.StringValue(c.String()) }

var _ kv.Dispatcher = (*Collection)(nil)
