package analytics

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Hedge asks for a request to be sent to more nodes than one, as core.Hedge says. Its fields:
//
//	MaxAttempts int              // nodes at most, the first included; below 2 there is only that one
//	Delay       time.Duration    // from one node to the next; 0 asks all at once
//	NonFatal    func(error) bool // after which failures other nodes are still of use; nil: those with a retry reason
type Hedge = httpsvc.Hedge

// Request is one statement. Every field but Statement can be left at its zero value, which means the service's or the
// cluster's default. The request is lent until its rows are there: it must not change before that.
type Request struct {
	Statement string
	Bucket    string // with Scope: unqualified names are collections of this scope
	Scope     string

	Positional []any          // values of $1, $2, ...
	Named      map[string]any // values by name, with or without the $

	Readonly        bool // the statement changes nothing; only then it is sent again when its outcome is in doubt
	RequestPlus     bool // with everything that was written before the request
	Priority        bool // before the requests of others
	ClientContextID string
	Timeout         time.Duration

	Raw map[string]any // put into the request last, over everything else

	Retry      retry.Strategy // nil inherits
	Hedge      *Hedge         // more nodes than one for a statement that is Readonly; nil inherits what a policy says
	OnBehalfOf string         // the user to act for, of the domain below; empty: the credentials' own

	// OnBehalfOfDomain is where that user is: "local", which an empty one means, or "external", a directory such as
	// LDAP.
	OnBehalfOfDomain string

	Endpoint string // of the node to ask; empty leaves the choice
}

// Idempotent reports whether the request may be sent again although an earlier attempt may have been executed: if and
// only if it says readonly.
func (r *Request) Idempotent() bool {
	if v, ok := r.Raw["readonly"]; ok {
		said, isBool := v.(bool)
		return isBool && said
	}
	return r.Readonly
}

// validate names the field that cannot be sent.
func (r *Request) validate() error {
	invalid := func(text string) error { return fmt.Errorf("analytics: %w: %s", cberr.InvalidArgument, text) }
	switch {
	case r.Statement == "" && r.Raw["statement"] == nil:
		return invalid("Statement is empty")
	case r.Scope != "" && r.Bucket == "":
		return invalid("Scope is set without a Bucket")
	case r.Scope == "" && r.Bucket != "":
		return invalid("Bucket is set without a Scope")
	case r.Timeout < 0:
		return invalid("Timeout is negative")
	}
	if err := r.Hedge.Check(r.Idempotent(), r.Endpoint); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// http is the request as it is sent, or an error that names the field that cannot be.
func (r *Request) http() (*httpsvc.Request, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	id := r.ClientContextID
	if id == "" {
		id = httpsvc.NewUniqueID()
	}
	fields := r.fields(id)
	body := func(remaining time.Duration) ([]byte, error) {
		attempt := maps.Clone(fields)
		if _, said := r.Raw["timeout"]; !said {
			attempt["timeout"] = httpsvc.ServiceTimeout(remaining).String()
		}
		return httpsvc.Marshal(attempt)
	}
	if _, err := body(time.Second); err != nil { // found here, before anything is sent
		return nil, errors.Join(fmt.Errorf("analytics: %w: an argument cannot be encoded", cberr.InvalidArgument), err)
	}
	h := &httpsvc.Request{
		Service: httpsvc.Analytics, Operation: "analytics", Method: "POST", Path: httpsvc.Path("query", "service"),
		ContentType: "application/json", Body: body, Idempotent: r.Idempotent(), Strategy: r.Retry, UniqueID: id,
		Timeout: r.Timeout, Endpoint: r.Endpoint, OnBehalfOf: r.OnBehalfOf, OnBehalfOfDomain: r.OnBehalfOfDomain,
	}
	if r.Priority {
		h.Header = map[string]string{"Analytics-Priority": "-1"}
	}
	return h, nil
}

// fields is the request's JSON object without its timeout. What has its default is left out.
func (r *Request) fields(id string) map[string]any {
	m := map[string]any{"client_context_id": id, "statement": r.Statement}
	if r.Scope != "" {
		m["query_context"] = "default:" + quoted(r.Bucket) + "." + quoted(r.Scope)
	}
	if len(r.Positional) > 0 {
		m["args"] = r.Positional
	}
	for name, v := range r.Named {
		m["$"+strings.TrimPrefix(name, "$")] = v
	}
	if r.Readonly {
		m["readonly"] = true
	}
	if r.RequestPlus {
		m["scan_consistency"] = "request_plus"
	}
	maps.Copy(m, r.Raw)
	return m
}

// quoted is an identifier between back-ticks, with its own doubled.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
