package core

import (
	"context"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/query"
)

// Query runs a statement and gives its rows as soon as the first one is there, or none is to come. It blocks until
// then. The deadline is the earlier one of ctx's and the request's; without either the configuration's QueryTimeout has
// to do. It binds the rows as well, and so does ctx: the caller reads the rows to their end or closes them. The error
// is a *query.Error, or says which field cannot be sent or which feature the cluster lacks.
func (c *Cluster) Query(ctx context.Context, r *query.Request) (*query.Rows, error) {
	bucket, scope := inScope(r.Bucket, r.Scope)
	return hedgeHTTP(ctx, c, hedgedRequest{
		service: Query, operation: "query", idempotent: r.Idempotent(), onlyOne: r.Endpoint != "", own: r.Hedge,
		strategy: r.Retry, inBucket: bucket, scope: scope,
		statement: withParameters(r.Statement, len(r.Positional)+len(r.Named)),
	}, func(ctx context.Context, d httpsvc.Doer) (*query.Rows, error) { return c.sql.Run(ctx, d, r) },
		closeRows[*query.Rows])
}

func closeRows[R interface{ Close() error }](rows R) { _ = rows.Close() }

func (c *Cluster) newQueries() *query.Service {
	return query.NewService(query.ServiceOptions{Supports: c.supports("n1ql")})
}

// Capability says whether a service of the cluster has a capability, by the newest cluster map: as in "search" and
// "vectorSearch". The names of services are those of cluster maps: query is "n1ql", search "search". known is false
// while no map lists any.
func (c *Cluster) Capability(service, name string) (has, known bool) {
	return c.supports(service)(name)
}

// supports says whether the newest map lists a capability of a service, by the service's name in the map.
func (c *Cluster) supports(service string) func(capability string) (has, known bool) {
	return func(capability string) (has, known bool) {
		s, _ := c.newestMap("")
		if s == nil {
			return false, false
		}
		t := s.ClusterCapability(service, capability)
		return t == topology.Supported, t != topology.Unknown
	}
}

// inScope is what spans say of where a statement's names are: nothing but for a scope.
func inScope(bucket, scope string) (ofBucket, ofScope string) {
	if scope == "" {
		return "", ""
	}
	return bucket, scope
}

// withParameters is the text of a statement for spans: without parameters its literals may be secrets.
func withParameters(text string, parameters int) string {
	if parameters == 0 {
		return ""
	}
	return text
}
