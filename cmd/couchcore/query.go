package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/query"
)

// statementFlags are those of both services that run statements.
type statementFlags struct {
	Statement string            `arg:"" help:"The statement; - reads standard input."`
	Arg       []string          `sep:"none" placeholder:"VALUE" help:"The next of $1, $2, ...: JSON, or another text. Can be repeated."`
	Named     map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"The value of $NAME. Can be repeated."`
	Readonly  bool              `help:"The statement only reads; then it may be sent again after a lost connection (default: no)."`
	ContextID string            `name:"client-context-id" placeholder:"ID" help:"The request's id in the service's logs (default: a random one)."`
	Raw       map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A field of the request as it is. Can be repeated."`
	Endpoint  string            `placeholder:"HOST:PORT" help:"The node to ask (default: any)."`
}

// positional are the values of $1, $2 and so on.
func (f *statementFlags) positional() (list []any) {
	for _, arg := range f.Arg {
		list = append(list, jsonOrText(arg))
	}
	return list
}

// statement reads the STATEMENT argument.
func (f *statementFlags) statement(a *app) (string, error) {
	text, err := valueOf(a, f.Statement)
	return string(text), err
}

type queryCmd struct {
	clusterFlags
	scopeFlag
	statementFlags

	Consistency    string        `name:"scan-consistency" enum:"not-bounded,request-plus,at-plus" default:"not-bounded" placeholder:"LEVEL" help:"not-bounded, request-plus or at-plus (default: not-bounded)."`
	ScanVectors    string        `placeholder:"JSON" help:"The mutation state that at-plus waits for."`
	ScanWait       time.Duration `help:"How long the index may take to get there (default: the service's)."`
	Prepare        bool          `help:"Prepare the statement and run the plan (default: no)."`
	Profile        string        `enum:"off,phases,timings" default:"off" placeholder:"LEVEL" help:"off, phases or timings (default: off)."`
	Metrics        bool          `help:"Ask for metrics (default: no)."`
	PreserveExpiry bool          `help:"Keep the expiry of documents that are changed (default: no)."`
	UseReplica     bool          `help:"Allow reads from replicas (default: no)."`
	FlexIndex      bool          `help:"Allow search indexes (default: no)."`
	MaxParallelism int           `placeholder:"N" help:"How many processors of a node the statement may use (default: the service's)."`
	PipelineBatch  int           `placeholder:"N" help:"Items that an operator hands on at a time (default: the service's)."`
	PipelineCap    int           `placeholder:"N" help:"Items between two operators (default: the service's)."`
	ScanCap        int           `placeholder:"N" help:"Items between the indexer and the service (default: the service's)."`
}

// request is what the flags describe.
func (c *queryCmd) request(a *app) (*query.Request, error) {
	text, err := c.statement(a)
	if err != nil {
		return nil, err
	}
	r := &query.Request{
		Statement: text, Scope: c.Scope, Positional: c.positional(), Named: jsonValues(c.Named), Readonly: c.Readonly,
		ClientContextID: c.ContextID, Timeout: c.Timeout, ScanWait: c.ScanWait, MaxParallelism: c.MaxParallelism,
		PipelineBatch: c.PipelineBatch, PipelineCap: c.PipelineCap, ScanCap: c.ScanCap, Metrics: c.Metrics,
		PreserveExpiry: c.PreserveExpiry, FlexIndex: c.FlexIndex, Prepare: c.Prepare, Raw: jsonValues(c.Raw),
		Endpoint: c.Endpoint,
		Consistency: map[string]query.Consistency{
			"request-plus": query.RequestPlus,
			"at-plus":      query.AtPlus,
		}[c.Consistency],
		Profile: map[string]query.Profile{
			"phases":  query.ProfilePhases,
			"timings": query.ProfileTimings,
		}[c.Profile],
	}
	if c.UseReplica {
		r.UseReplica = query.On
	}
	r.ScanVectors, err = jsonFlag("--scan-vectors", c.ScanVectors)
	return r, err
}

// Run implements the command.
func (c *queryCmd) Run(a *app) error {
	r, err := c.request(a)
	if err != nil {
		return err
	}
	return c.runRows(a, func(ctx context.Context, cl *core.Cluster, bucket string) (answer, error) {
		if r.Scope != "" {
			r.Bucket = bucket
		}
		rows, err := cl.Query(ctx, r)
		if err != nil {
			return answer{}, err
		}
		return answer{rows, func() (json.RawMessage, []string, error) {
			m, err := rows.Meta()
			var warnings []string
			for _, w := range m.Warnings {
				warnings = append(warnings, fmt.Sprintf("%d %s", w.Code, w.Message))
			}
			return m.Raw, warnings, err
		}}, nil
	})
}

type analyticsCmd struct {
	clusterFlags
	scopeFlag
	statementFlags

	Consistency string `name:"scan-consistency" enum:"not-bounded,request-plus" default:"not-bounded" placeholder:"LEVEL" help:"not-bounded or request-plus (default: not-bounded)."`
	Priority    bool   `help:"Run it before the requests of other clients (default: no)."`
}

// Run implements the command.
func (c *analyticsCmd) Run(a *app) error {
	text, err := c.statement(a)
	if err != nil {
		return err
	}
	r := &analytics.Request{
		Statement: text, Scope: c.Scope, Positional: c.positional(), Named: jsonValues(c.Named), Readonly: c.Readonly,
		RequestPlus: c.Consistency == "request-plus", Priority: c.Priority, ClientContextID: c.ContextID,
		Timeout: c.Timeout,
		Raw:     jsonValues(c.Raw), Endpoint: c.Endpoint,
	}
	return c.runRows(a, func(ctx context.Context, cl *core.Cluster, bucket string) (answer, error) {
		if r.Scope != "" {
			r.Bucket = bucket
		}
		rows, err := cl.Analytics(ctx, r)
		if err != nil {
			return answer{}, err
		}
		return answer{rows, func() (json.RawMessage, []string, error) {
			m, err := rows.Meta()
			var warnings []string
			for _, w := range m.Warnings {
				warnings = append(warnings, fmt.Sprintf("%d %s", w.Code, w.Message))
			}
			return m.Raw, warnings, err
		}}, nil
	})
}
