package search

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// VectorQuery looks for the documents whose vector is nearest to one: Vector, or the same as base64 text.
type VectorQuery struct {
	Field  string    `json:"field"`
	Vector []float32 `json:"vector,omitempty"`
	Base64 string    `json:"vector_base64,omitempty"`
	K      int       `json:"k"` // how many of them
	Boost  float64   `json:"boost,omitempty"`
	Filter any       `json:"filter,omitempty"` // a query object that narrows the search
}

// Highlight asks for the parts of a document that matched. Its zero value leaves style and fields to the service.
type Highlight struct {
	Style  string   `json:"style,omitempty"` // "html" or "ansi"
	Fields []string `json:"fields,omitempty"`
}

// Hedge asks for a request to be sent to more nodes than one, as core.Hedge says. Its fields:
//
//	MaxAttempts int              // nodes at most, the first included; below 2 there is only that one
//	Delay       time.Duration    // from one node to the next; 0 asks all at once
//	NonFatal    func(error) bool // after which failures other nodes are still of use; nil: those with a retry reason
type Hedge = httpsvc.Hedge

// Request is one search. Every field but Index, and Query or Vectors, can be left at its zero value, which means the
// service's or the cluster's default. The request is lent until its hits are there: it must not change before that.
type Request struct {
	Index  string
	Bucket string // with Scope: the index is one of this scope
	Scope  string

	Query          any // a query object, anything that encodes to one; nil with Vectors alone
	Vectors        []VectorQuery
	VectorOperator string // "and" or "or", between Vectors

	Size             int
	From             int
	Fields           []string
	Collections      []string
	Sort             []any // names of fields, or sort objects
	Facets           map[string]any
	Highlight        *Highlight
	Explain          bool
	IncludeLocations bool
	NoScoring        bool

	// ConsistentWith are mutations that the index must contain: sequence numbers by "vbucket/uuid".
	ConsistentWith map[string]uint64

	UniqueID string
	Timeout  time.Duration
	Raw      map[string]any // put into the request last, over everything else

	Retry      retry.Strategy // nil inherits
	Hedge      *Hedge         // more nodes than one for the search; nil inherits what a policy says
	OnBehalfOf string         // the user to act for, of the domain below; empty: the credentials' own

	// OnBehalfOfDomain is where that user is: "local", which an empty one means, or "external", a directory such as
	// LDAP.
	OnBehalfOfDomain string

	Endpoint string // of the node to ask; empty leaves the choice
}

// Idempotent reports whether the request may be sent again although an earlier attempt may have been executed. A
// search changes nothing, so that is always so.
func (r *Request) Idempotent() bool { return true }

// Scoped reports whether the index is one of a scope, which servers before 7.6 do not have.
func (r *Request) Scoped() bool { return r.Scope != "" }

// validate names the field that cannot be sent.
func (r *Request) validate() error {
	invalid := func(text string) error { return fmt.Errorf("search: %w: %s", cberr.InvalidArgument, text) }
	switch {
	case r.Index == "":
		return invalid("Index is empty")
	case r.Scope != "" && r.Bucket == "":
		return invalid("Scope is set without a Bucket")
	case r.Scope == "" && r.Bucket != "":
		return invalid("Bucket is set without a Scope")
	case r.Query == nil && len(r.Vectors) == 0 && r.Raw["query"] == nil:
		return invalid("Query and Vectors are empty")
	case r.VectorOperator != "" && r.VectorOperator != "and" && r.VectorOperator != "or":
		return invalid("VectorOperator is neither and nor or")
	case r.Size < 0 || r.From < 0:
		return invalid("a number is negative")
	case r.Timeout < 0:
		return invalid("Timeout is negative")
	}
	for i, v := range r.Vectors {
		if v.Field == "" || v.K <= 0 || (len(v.Vector) == 0) == (v.Base64 == "") {
			return invalid(fmt.Sprintf("Vectors[%d] needs a Field, a positive K, and one of Vector and Base64", i))
		}
	}
	if err := r.Hedge.Check(r.Idempotent(), r.Endpoint); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	return nil
}

// http is the request as it is sent, or an error that names the field that cannot be.
func (r *Request) http() (*httpsvc.Request, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	id := r.UniqueID
	if id == "" {
		id = httpsvc.NewUniqueID()
	}
	path := httpsvc.Path("api", "index", r.Index, "query")
	if r.Scoped() {
		path = httpsvc.Path("api", "bucket", r.Bucket, "scope", r.Scope, "index", r.Index, "query")
	}
	fields := r.fields()
	body := func(remaining time.Duration) ([]byte, error) {
		attempt := maps.Clone(fields)
		if _, said := r.Raw["ctl"]; !said {
			attempt["ctl"] = r.control(remaining)
		}
		return httpsvc.Marshal(attempt)
	}
	if _, err := body(time.Second); err != nil { // found here, before anything is sent
		return nil, errors.Join(fmt.Errorf("search: %w: a part cannot be encoded", cberr.InvalidArgument), err)
	}
	return &httpsvc.Request{
		Service: httpsvc.Search, Operation: "search", Method: "POST", Path: path, ContentType: "application/json",
		Body: body, Idempotent: true, Strategy: r.Retry, UniqueID: id, Timeout: r.Timeout, Endpoint: r.Endpoint,
		OnBehalfOf: r.OnBehalfOf, OnBehalfOfDomain: r.OnBehalfOfDomain,
	}, nil
}

// control is the part of the request that the service itself obeys.
func (r *Request) control(remaining time.Duration) map[string]any {
	ctl := map[string]any{"timeout": httpsvc.ServiceTimeout(remaining).Milliseconds()}
	if len(r.ConsistentWith) > 0 {
		ctl["consistency"] = map[string]any{"level": "at_plus", "vectors": map[string]any{r.Index: r.ConsistentWith}}
	}
	return ctl
}

// fields is the request's JSON object without its control part. What has its default is left out.
func (r *Request) fields() map[string]any {
	m := map[string]any{"showrequest": false} // answers repeat the request otherwise
	m["query"] = r.Query
	if r.Query == nil {
		m["query"] = map[string]any{"match_none": struct{}{}}
	}
	if len(r.Vectors) > 0 {
		m["knn"] = r.Vectors
		if r.VectorOperator != "" {
			m["knn_operator"] = r.VectorOperator
		}
	}
	if r.Size > 0 {
		m["size"] = r.Size
	}
	if r.From > 0 {
		m["from"] = r.From
	}
	if len(r.Fields) > 0 {
		m["fields"] = r.Fields
	}
	if len(r.Collections) > 0 {
		m["collections"] = r.Collections
	}
	if len(r.Sort) > 0 {
		m["sort"] = r.Sort
	}
	if len(r.Facets) > 0 {
		m["facets"] = r.Facets
	}
	if r.Highlight != nil {
		m["highlight"] = r.Highlight
	}
	if r.Explain {
		m["explain"] = true
	}
	if r.IncludeLocations {
		m["includeLocations"] = true
	}
	if r.NoScoring {
		m["score"] = "none"
	}
	maps.Copy(m, r.Raw)
	return m
}
