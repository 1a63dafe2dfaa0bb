package minisdk

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// Options are the settings of a Cluster. The zero value is usable.
type Options struct {
	Username   string
	Password   core.Secret
	Transcoder Transcoder           // of collections; nil is JSON
	Retry      retry.Strategy       // of calls that name none; nil is couchcore's default
	Log        *slog.Logger         // nil discards
	Tracers    trace.TracerProvider // get a span of each operation, and of its attempts below; nil for no spans

	// Adjust changes what has no option here: a dialer of a test, a limit, certificates. Nil changes nothing.
	Adjust func(*core.Config)
}

// Cluster is a client of one cluster. It is safe for concurrent use. Close ends it.
type Cluster struct {
	core       *core.Cluster
	transcoder Transcoder
	tracer     trace.Tracer // nil: no spans
}

// version of the SDK, which servers and traces are told.
const version = "0.1.0"

// Connect makes a client and waits until the cluster can be used, at most until ctx ends.
func Connect(ctx context.Context, connString string, o Options) (*Cluster, error) {
	cfg, err := core.ParseConnString(connString)
	if err != nil {
		return nil, failure("connect", "", err)
	}
	cfg.Agent = "minisdk/" + version
	cfg.Auth.Username, cfg.Auth.Password = o.Username, o.Password
	cfg.Retry.Strategy = o.Retry
	cfg.Observe.Log = o.Log
	tracer := observe(&cfg, o.Tracers)
	if o.Adjust != nil {
		o.Adjust(&cfg)
	}
	inner, err := core.Open(ctx, cfg)
	if err != nil {
		return nil, failure("connect", "", err)
	}
	if err := inner.WaitReady(ctx); err != nil {
		return nil, failure("connect", "", errors.Join(err, inner.Close()))
	}
	if o.Transcoder == nil {
		o.Transcoder = JSON{}
	}
	return &Cluster{core: inner, transcoder: o.Transcoder, tracer: tracer}, nil
}

// Close lets calls under way finish, refuses new ones, and then closes the client. When ctx ends, so do the calls that
// are left, and the error tells how many they were.
func (c *Cluster) Close(ctx context.Context) error {
	return failure("close", "", c.core.Shutdown(ctx))
}

// Collection gives a collection. Nothing is sent: the first call finds out whether it exists.
func (c *Cluster) Collection(bucket, scope, name string) *Collection {
	return &Collection{cluster: c, inner: c.core.Bucket(bucket).Collection(scope, name)}
}

// QueryOptions are the settings of one Query.
type QueryOptions struct {
	Positional []any // values of $1, $2, ...
	Readonly   bool  // the statement changes nothing, so that it may be sent again whatever happens
	Timeout    time.Duration
	Retry      retry.Strategy
}

// Query runs a statement and gives each row to f as it comes, which decodes it with row.Scan. An error of f ends the
// query.
func (c *Cluster) Query(
	ctx context.Context, statement string, o QueryOptions, f func(row interface{ Scan(v any) error }) error,
) (err error) {
	ctx, end := c.begin(ctx, "query")
	defer func() { end(err) }()
	rows, err := c.core.Query(ctx, &query.Request{
		Statement: statement, Positional: o.Positional, Readonly: o.Readonly, Timeout: o.Timeout, Retry: o.Retry,
	})
	if err != nil {
		return failure("query", "", err)
	}
	for rows.Next() {
		if err := f(rows); err != nil {
			return failure("query", "", errors.Join(err, rows.Close()))
		}
	}
	return failure("query", "", errors.Join(rows.Err(), rows.Close()))
}
