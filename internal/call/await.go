package call

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// MapWait is what an operation says that waits for a cluster map before it sends anything.
type MapWait struct {
	Verb     string         // what errors call the operation
	Retry    retry.Strategy // nil means the cluster's
	Timeout  time.Duration  // 0 means that of a call
	VBuckets bool           // a map that has no vbuckets yet does not do, unless the bucket never has any
}

// awaitSpec is the row of a call that waits for a map. It is not in the table: the call has no request, and ends when
// the map is there.
var awaitSpec = &Spec{Opcode: memd.OpNoop, Name: "await-map", Traits: Idempotent | AnyNode, ReqExtras: none}

// AwaitMap has run let a call wait for a map. What a call without a node meets, it meets too.
func AwaitMap(ctx context.Context, run Runner, w MapWait) error {
	c := run.NewCall()
	defer run.Release(c)
	o := c.Req.Own()
	*o = Cold{spec: awaitSpec, Verb: w.Verb, Retry: w.Retry}
	c.has |= hasSpec
	c.Req.Opcode, c.Req.Timeout, c.Req.ByVBucket = memd.OpNoop, w.Timeout, w.VBuckets
	return c.Run(ctx, run)
}

// AwaitsMap reports whether the call has no request and waits for a map, and whether the map must have vbuckets.
func (c *Call) AwaitsMap() (awaits, vbuckets bool) {
	return c.has&hasSpec != 0 && c.Req.cold.spec == awaitSpec, c.Req.ByVBucket
}
