package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Consistency is how current the indexes must be that a statement reads.
type Consistency uint8

// The consistencies. NotBounded is the service's default.
const (
	NotBounded  Consistency = iota
	RequestPlus             // with everything that was written before the request
	AtPlus                  // with the mutations of ScanVectors
)

// Profile is how much a statement's answer says about its execution.
type Profile uint8

// The profiles.
const (
	ProfileOff Profile = iota
	ProfilePhases
	ProfileTimings
)

// Toggle is a switch that can be left to the service.
type Toggle uint8

// The positions of a Toggle.
const (
	Unset Toggle = iota
	On
	Off
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
	ClientContextID string
	Timeout         time.Duration
	Consistency     Consistency
	ScanVectors     json.RawMessage // of AtPlus: a mutation state in the JSON form that SDKs exchange
	ScanWait        time.Duration
	MaxParallelism  int
	PipelineBatch   int
	PipelineCap     int
	ScanCap         int
	Profile         Profile
	Metrics         bool
	PreserveExpiry  bool
	UseReplica      Toggle
	FlexIndex       bool // search indexes may be used

	// Prepare keeps the statement's plan and uses it again for the same text and scope: the first time costs more, each
	// later time less.
	Prepare bool

	// Prepared names a plan to execute instead of Statement; EncodedPlan is the plan itself, for servers that want it.
	// AutoExecute makes a PREPARE statement run the plan at once.
	Prepared    string
	EncodedPlan string
	AutoExecute bool

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
	invalid := func(text string) error { return fmt.Errorf("query: %w: %s", cberr.InvalidArgument, text) }
	switch {
	case r.Statement == "" && r.Prepared == "" && r.Raw["statement"] == nil:
		return invalid("Statement is empty")
	case r.Prepare && (r.Statement == "" || r.Prepared != "" || r.EncodedPlan != "" || r.AutoExecute):
		return invalid("Prepare needs a Statement and no plan")
	case r.Scope != "" && r.Bucket == "":
		return invalid("Scope is set without a Bucket")
	case r.Scope == "" && r.Bucket != "":
		return invalid("Bucket is set without a Scope")
	case r.Consistency > AtPlus:
		return invalid("Consistency is unknown")
	case r.Consistency == AtPlus && len(r.ScanVectors) == 0:
		return invalid("AtPlus needs ScanVectors")
	case r.Consistency != AtPlus && len(r.ScanVectors) > 0:
		return invalid("ScanVectors needs AtPlus")
	case r.Profile > ProfileTimings:
		return invalid("Profile is unknown")
	case r.UseReplica > Off:
		return invalid("UseReplica is unknown")
	case r.ScanWait < 0 || r.Timeout < 0:
		return invalid("a duration is negative")
	case r.MaxParallelism < 0 || r.PipelineBatch < 0 || r.PipelineCap < 0 || r.ScanCap < 0:
		return invalid("a number is negative")
	}
	if err := r.Hedge.Check(r.Idempotent(), r.Endpoint); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// http is the request as it is sent, or an error that names the field that cannot be. last has a last word about the
// fields of each attempt; nil has none.
func (r *Request) http(last func(fields map[string]any)) (*httpsvc.Request, error) {
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
		if last != nil {
			last(attempt)
		}
		if _, said := r.Raw["timeout"]; !said {
			attempt["timeout"] = httpsvc.ServiceTimeout(remaining).String()
		}
		return httpsvc.Marshal(attempt)
	}
	if _, err := body(time.Second); err != nil { // found here, before anything is sent
		return nil, errors.Join(fmt.Errorf("query: %w: an argument cannot be encoded", cberr.InvalidArgument), err)
	}
	return &httpsvc.Request{
		Service: httpsvc.Query, Operation: "query", Method: "POST", Path: httpsvc.Path("query", "service"),
		ContentType: "application/json", Body: body, Idempotent: r.Idempotent(), Strategy: r.Retry, UniqueID: id,
		Timeout: r.Timeout, Endpoint: r.Endpoint, OnBehalfOf: r.OnBehalfOf, OnBehalfOfDomain: r.OnBehalfOfDomain,
	}, nil
}

// fields is the request's JSON object without its timeout. What has its default is left out.
func (r *Request) fields(id string) map[string]any {
	m := map[string]any{"client_context_id": id}
	text := func(key, v string) {
		if v != "" {
			m[key] = v
		}
	}
	number := func(key string, v int) { // the service takes these as text
		if v != 0 {
			m[key] = strconv.Itoa(v)
		}
	}
	flag := func(key string, v bool) {
		if v {
			m[key] = true
		}
	}
	if r.Prepared == "" {
		text("statement", r.Statement)
	}
	text("prepared", r.Prepared)
	text("encoded_plan", r.EncodedPlan)
	if r.Scope != "" {
		m["query_context"] = "default:" + quoted(r.Bucket) + "." + quoted(r.Scope)
	}
	if len(r.Positional) > 0 {
		m["args"] = r.Positional
	}
	for name, v := range r.Named {
		m["$"+strings.TrimPrefix(name, "$")] = v
	}
	flag("auto_execute", r.AutoExecute)
	flag("readonly", r.Readonly)
	flag("metrics", r.Metrics)
	flag("preserve_expiry", r.PreserveExpiry)
	flag("use_fts", r.FlexIndex)
	number("max_parallelism", r.MaxParallelism)
	number("pipeline_batch", r.PipelineBatch)
	number("pipeline_cap", r.PipelineCap)
	number("scan_cap", r.ScanCap)
	text("scan_consistency", [...]string{NotBounded: "", RequestPlus: "request_plus", AtPlus: "at_plus"}[r.Consistency])
	text("profile", [...]string{ProfileOff: "", ProfilePhases: "phases", ProfileTimings: "timings"}[r.Profile])
	text("use_replica", [...]string{Unset: "", On: "on", Off: "off"}[r.UseReplica])
	if r.Consistency == AtPlus {
		m["scan_vectors"] = r.ScanVectors
	}
	if r.ScanWait > 0 && r.Consistency != NotBounded {
		m["scan_wait"] = r.ScanWait.String()
	}
	maps.Copy(m, r.Raw)
	return m
}

// quoted is an identifier between back-ticks, with its own doubled.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
