package core

import (
	"context"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/views"
)

// View queries a view of the bucket and gives its rows as soon as the first one is there, or none is to come; see
// Cluster.Query for the deadline and the rows. The request goes to a node that holds active data of the bucket; its
// field Bucket may be left out. The error is a *views.Error, or says which field cannot be sent.
func (b *Bucket) View(ctx context.Context, r *views.Request) (*views.Rows, error) {
	own := *r
	own.Bucket = b.name
	return hedgeHTTP(ctx, b.c, hedgedRequest{
		service: Views, operation: "views", bucket: b.name, idempotent: true, onlyOne: r.Endpoint != "", own: r.Hedge,
		strategy: r.Retry,
	}, func(ctx context.Context, d httpsvc.Doer) (*views.Rows, error) { return views.Run(ctx, d, &own) },
		closeRows[*views.Rows])
}
