package core

import (
	"context"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Analytics runs a statement of the analytics service and gives its rows as soon as the first one is there, or none is
// to come; see Query for the deadline and the rows. The error is an *analytics.Error, or says which field cannot be
// sent.
func (c *Cluster) Analytics(ctx context.Context, r *analytics.Request) (*analytics.Rows, error) {
	bucket, scope := inScope(r.Bucket, r.Scope)
	return hedgeHTTP(ctx, c, hedgedRequest{
		service: Analytics, operation: "analytics", idempotent: r.Idempotent(), onlyOne: r.Endpoint != "", own: r.Hedge,
		strategy: r.Retry, inBucket: bucket, scope: scope,
		statement: withParameters(r.Statement, len(r.Positional)+len(r.Named)),
	}, func(ctx context.Context, d httpsvc.Doer) (*analytics.Rows, error) { return analytics.Run(ctx, d, r) },
		closeRows[*analytics.Rows])
}
