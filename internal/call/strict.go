package call

import (
	"context"

	"github.com/couchcore/couchcore/retry"
)

// Strict is the strategy of the client's own requests: they are repeated by their next turn, not by a retry. It is not
// for users: the module keeps it internal.
var Strict retry.Strategy = strict{}

type strict struct{}

func (strict) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}
func (strict) Inline() bool { return true }

// OfClient reports whether the client itself asks a node: for its map, a collection's id, a sign of life or a new
// login. Such a request takes no place of a program's call, and needs none. The parts of a program's call that are sent
// with Strict are for documents.
func (c *Call) OfClient() bool {
	if c.Req.cold == nil || c.Req.cold.Retry != Strict || c.Spec().Has(Keyed) {
		return false
	}
	awaits, _ := c.AwaitsMap()
	return !awaits
}
