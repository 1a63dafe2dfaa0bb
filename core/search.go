package core

import (
	"context"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/search"
)

// Search runs a search and gives its hits as soon as the first one is there, or none is to come; see Query for the
// deadline and the rows. A search that some partitions have not answered has not failed: its metadata names them.
// The error is a *search.Error, or says which field cannot be sent or which feature the cluster lacks.
func (c *Cluster) Search(ctx context.Context, r *search.Request) (*search.Rows, error) {
	return hedgeHTTP(ctx, c, hedgedRequest{
		service: Search, operation: "search", idempotent: true, onlyOne: r.Endpoint != "", own: r.Hedge,
		strategy: r.Retry, inBucket: r.Bucket, scope: r.Scope,
	}, func(ctx context.Context, d httpsvc.Doer) (*search.Rows, error) {
		return search.Run(ctx, d, r, c.supports("search"))
	}, closeRows[*search.Rows])
}
