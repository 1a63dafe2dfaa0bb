package query

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Capabilities of a cluster that a Service asks for.
const (
	capEnhanced = "enhancedPreparedStatements"
	capReplica  = "readFromReplica"
)

// ServiceOptions are a Service's settings. The zero value is usable.
type ServiceOptions struct {
	// Supports says whether the cluster's query service has a capability; known is false while no cluster map says so.
	// Nil knows nothing.
	Supports func(capability string) (has, known bool)
	MaxPlans int // prepared statements that are kept; 0 means DefaultMaxPlans
}

// Service runs statements and keeps the plans of prepared ones. Package core has one for each cluster. It is safe for
// concurrent use and has nothing to close.
type Service struct {
	o        ServiceOptions
	plans    *plans
	enhanced atomic.Bool // once the cluster makes and runs plans in one request, that stays so
}

// NewService makes a Service.
func NewService(o ServiceOptions) *Service {
	if o.Supports == nil {
		o.Supports = func(string) (bool, bool) { return false, false }
	}
	if o.MaxPlans <= 0 {
		o.MaxPlans = DefaultMaxPlans
	}
	return &Service{o: o, plans: newPlans(o.MaxPlans)}
}

// Doer sends requests over HTTP to a service. Package core has the one: a program does not make one, and does not call
// Run itself.
type Doer = httpsvc.Doer

// Run sends a statement with d and gives its rows as soon as the first one is there, or none is to come. It blocks
// until then, at most until the request's deadline, which binds the rows as well. The error is an *Error, or says which
// field cannot be sent.
func (s *Service) Run(ctx context.Context, d Doer, r *Request) (*Rows, error) {
	if has, known := s.o.Supports(capReplica); known && !has && r.UseReplica == On {
		return nil, fmt.Errorf("query: %w: the cluster does not read from replicas", cberr.FeatureNotAvailable)
	}
	if r.Prepare {
		return s.runPrepared(ctx, d, r)
	}
	h, err := r.http(nil)
	if err != nil {
		return nil, err
	}
	return open(ctx, d, r, h, func(a *httpsvc.Answer) httpsvc.Verdict {
		return verdict(a, Answer{Readonly: r.Idempotent()})
	})
}

func open(ctx context.Context, d Doer, r *Request, h *httpsvc.Request,
	judge func(*httpsvc.Answer) httpsvc.Verdict,
) (*Rows, error) {
	rows, err := httpsvc.OpenRows(ctx, d, h, httpsvc.RowService[Meta]{
		Key: "results", Judge: judge, Meta: ParseMeta, Wrap: func(err error) error { return wrap(err, r, h.UniqueID) },
	})
	if err != nil {
		return nil, err
	}
	return &Rows{Rows: rows, prepared: r.Prepared}, nil
}

// verdict says what an answer means. asked has what is known of the request.
func verdict(a *httpsvc.Answer, asked Answer) httpsvc.Verdict {
	if a.Row {
		return httpsvc.Verdict{}
	}
	e := &Error{Failure: httpsvc.NewFailure("query", a), Errors: ParseErrors(a.Errors)}
	meta, said := ParseMeta(a.Meta), asked
	said.HTTPStatus, said.Errors, said.Status, said.Metrics = a.Status, e.Errors, meta.Status, meta.Metrics
	st := said.statement()
	reason, kind := said.classify(st)
	if kind == nil {
		return httpsvc.Verdict{}
	}
	if e.Kind = kind; len(e.Errors) == 0 {
		return st.Verdict(a, reason, e, &e.Failure, "")
	}
	return st.Verdict(a, reason, e, &e.Failure, e.Errors[0].text())
}

// execution is one run of a statement whose plan is kept.
type execution struct {
	s    *Service
	r    *Request
	d    httpsvc.Doer
	key  planKey
	plan *plan  // of the present attempt; nil: the attempt makes it
	name string // of the plan that answers; "" where it is not known
}

// runPrepared runs a statement by its plan. The plan is looked up for each attempt, so that one that the service has
// forgotten is made again by the next.
func (s *Service) runPrepared(ctx context.Context, d Doer, r *Request) (*Rows, error) {
	if has, _ := s.o.Supports(capEnhanced); has && s.enhanced.CompareAndSwap(false, true) {
		s.plans.clear() // made the other way
	}
	x := &execution{s: s, r: r, d: d, key: planKey{statement: r.Statement}}
	if r.Scope != "" {
		x.key.context = quoted(r.Bucket) + "." + quoted(r.Scope)
	}
	h, err := r.http(x.fields)
	if err != nil {
		return nil, err
	}
	h.Before = x.find
	rows, err := open(ctx, d, r, h, x.verdict)
	if err != nil {
		return nil, err
	}
	rows.prepared = x.name
	return rows, nil
}

// find looks for the plan. Where the service does not make and run a plan in one request, it has it made.
func (x *execution) find(ctx context.Context) error {
	x.plan = x.s.plans.get(x.key)
	if x.plan != nil || x.s.enhanced.Load() {
		return nil
	}
	pl, err := x.make(ctx)
	if err != nil {
		return err
	}
	x.plan = pl
	x.s.plans.put(x.key, pl)
	return nil
}

// make has the service prepare the statement, which executes nothing.
func (x *execution) make(ctx context.Context) (*plan, error) {
	p := &Request{
		Statement: "PREPARE " + x.r.Statement, Bucket: x.r.Bucket, Scope: x.r.Scope, FlexIndex: x.r.FlexIndex,
		Timeout: x.r.Timeout, Retry: x.r.Retry, OnBehalfOf: x.r.OnBehalfOf, OnBehalfOfDomain: x.r.OnBehalfOfDomain,
		Endpoint: x.r.Endpoint,
	}
	h, err := p.http(nil)
	if err != nil {
		return nil, err
	}
	h.Operation, h.Idempotent = "prepare", true
	rows, err := open(ctx, x.d, x.r, h, func(a *httpsvc.Answer) httpsvc.Verdict {
		return verdict(a, Answer{Readonly: true})
	})
	if err != nil {
		return nil, err
	}
	pl := &plan{}
	if rows.Next() {
		m := httpsvc.Object(rows.Row())
		pl.name, pl.encoded = httpsvc.Text(m["name"]), httpsvc.Text(m["encoded_plan"])
	}
	for rows.Next() { // there is one row
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if pl.name == "" {
		e := &Error{
			Failure:   httpsvc.NewFailure("query", &httpsvc.Answer{Endpoint: rows.Endpoint()}),
			Statement: httpsvc.HideSecrets(x.r.Statement), ClientContextID: h.UniqueID,
		}
		e.Kind, e.Text = cberr.DecodingFailure, "the service has prepared the statement and not said its name"
		return nil, e
	}
	return pl, nil
}

// fields makes the attempt's request: it runs the plan, or has it made and run.
func (x *execution) fields(m map[string]any) {
	if x.plan == nil {
		m["statement"] = "PREPARE " + x.r.Statement
		m["auto_execute"] = true
		return
	}
	delete(m, "statement")
	m["prepared"] = x.plan.name
	if x.plan.encoded != "" {
		m["encoded_plan"] = x.plan.encoded
	}
	maps.Copy(m, x.r.Raw)
}

// verdict is that of any statement. A plan that the service does not know is dropped.
func (x *execution) verdict(a *httpsvc.Answer) httpsvc.Verdict {
	v := verdict(a, Answer{Readonly: x.r.Idempotent(), Plan: true})
	switch {
	case v.Err == nil:
		if x.plan != nil {
			x.name = x.plan.name
		} else {
			head := a.Meta
			if head == nil {
				head = a.Head
			}
			if x.name = httpsvc.Text(httpsvc.Object(head)["prepared"]); x.name != "" {
				x.s.plans.put(x.key, &plan{name: x.name})
			}
		}
	case x.plan != nil && v.Reason == retry.QueryPreparedStatementFailure:
		x.s.plans.drop(x.key, x.plan)
	}
	return v
}
