package views

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Stale is how current a view's index must be. Its zero value is the service's default.
type Stale uint8

// The values of Stale.
const (
	StaleUnset       Stale = iota
	StaleFalse             // with everything that is persisted: the index is updated first
	StaleOK                // as it is
	StaleUpdateAfter       // as it is, and updated after the answer
)

// Order is the order of rows.
type Order uint8

// The orders. OrderUnset is the service's default, which is ascending.
const (
	OrderUnset Order = iota
	Ascending
	Descending
)

// OnError is what the view engine does when a node fails it. Its zero value is the service's default.
type OnError uint8

// The values of OnError.
const (
	OnErrorUnset OnError = iota
	OnErrorStop
	OnErrorContinue
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

// Request is one query of a view. Every field but Bucket, Design and View can be left at its zero value, which means
// the service's or the cluster's default. The request is lent until its rows are there: it must not change before that.
// Keys are anything that encodes to JSON; a key that is null is json.RawMessage("null").
type Request struct {
	Bucket      string
	Design      string // the design document, without the prefix of development ones
	View        string
	Development bool // of the design document in development

	Stale         Stale
	Order         Order
	OnError       OnError
	Skip          int
	Limit         int
	Key           any
	Keys          []any
	StartKey      any
	EndKey        any
	StartKeyDocID string
	EndKeyDocID   string
	InclusiveEnd  Toggle
	Reduce        Toggle
	Group         bool
	GroupLevel    int
	Debug         bool

	UniqueID string
	Timeout  time.Duration
	Raw      map[string]string // put into the query string last, over everything else

	Retry      retry.Strategy // nil inherits
	Hedge      *Hedge         // more nodes than one for the query; nil inherits what a policy says
	OnBehalfOf string         // the user to act for, of the domain below; empty: the credentials' own

	// OnBehalfOfDomain is where that user is: "local", which an empty one means, or "external", a directory such as
	// LDAP.
	OnBehalfOfDomain string

	Endpoint string // of the node to ask; empty leaves the choice
}

// longKeys is the length of Keys in JSON from which they go into a body: long query strings are refused on the way.
const longKeys = 1000

// Idempotent reports whether the request may be sent again although an earlier attempt may have been executed. A view
// query changes nothing, so that is always so, also when it is a POST.
func (r *Request) Idempotent() bool { return true }

// validate names the field that cannot be sent.
func (r *Request) validate() error {
	invalid := func(text string) error { return fmt.Errorf("views: %w: %s", cberr.InvalidArgument, text) }
	switch {
	case r.Bucket == "":
		return invalid("Bucket is empty")
	case r.Design == "":
		return invalid("Design is empty")
	case r.View == "":
		return invalid("View is empty")
	case r.Stale > StaleUpdateAfter:
		return invalid("Stale is unknown")
	case r.Order > Descending:
		return invalid("Order is unknown")
	case r.OnError > OnErrorContinue:
		return invalid("OnError is unknown")
	case r.InclusiveEnd > Off || r.Reduce > Off:
		return invalid("a Toggle is unknown")
	case r.Skip < 0 || r.Limit < 0 || r.GroupLevel < 0:
		return invalid("a number is negative")
	case r.Timeout < 0:
		return invalid("Timeout is negative")
	}
	if err := r.Hedge.Check(r.Idempotent(), r.Endpoint); err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return nil
}

// http is the request as it is sent, or an error that names the field that cannot be.
func (r *Request) http() (*httpsvc.Request, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	params, err := r.params()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("views: %w: a key cannot be encoded", cberr.InvalidArgument), err)
	}
	id := r.UniqueID
	if id == "" {
		id = httpsvc.NewUniqueID()
	}
	design := r.Design
	if r.Development {
		design = "dev_" + design
	}
	h := &httpsvc.Request{
		Service: httpsvc.Views, Operation: "views", Method: "GET", Path: httpsvc.Path(r.Bucket, "_design", design,
			"_view", r.View), Query: params,
		Idempotent: true, Strategy: r.Retry, UniqueID: id, Timeout: r.Timeout,
		Endpoint: r.Endpoint, Bucket: r.Bucket, OnBehalfOf: r.OnBehalfOf, OnBehalfOfDomain: r.OnBehalfOfDomain,
	}
	if keys := params.Get("keys"); len(keys) > longKeys {
		params.Del("keys")
		h.Method, h.ContentType = "POST", "application/json"
		h.Body = func(time.Duration) ([]byte, error) { return []byte(`{"keys":` + keys + `}`), nil }
	}
	return h, nil
}

// params is the query string. What has its default is left out.
func (r *Request) params() (url.Values, error) {
	v := url.Values{}
	text := func(name, s string) {
		if s != "" {
			v.Set(name, s)
		}
	}
	number := func(name string, n int) {
		if n > 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	var failed error
	key := func(name string, k any) {
		raw, err := httpsvc.Marshal(k)
		if err != nil {
			failed = errors.Join(failed, err)
			return
		}
		v.Set(name, string(raw))
	}
	text("stale", [...]string{
		StaleUnset: "", StaleFalse: "false", StaleOK: "ok", StaleUpdateAfter: "update_after",
	}[r.Stale])
	text("descending", [...]string{OrderUnset: "", Ascending: "false", Descending: "true"}[r.Order])
	text("on_error", [...]string{OnErrorUnset: "", OnErrorStop: "stop", OnErrorContinue: "continue"}[r.OnError])
	text("inclusive_end", [...]string{Unset: "", On: "true", Off: "false"}[r.InclusiveEnd])
	text("reduce", [...]string{Unset: "", On: "true", Off: "false"}[r.Reduce])
	text("startkey_docid", r.StartKeyDocID)
	text("endkey_docid", r.EndKeyDocID)
	number("skip", r.Skip)
	number("limit", r.Limit)
	number("group_level", r.GroupLevel)
	if r.Group {
		v.Set("group", "true")
	}
	if r.Debug {
		v.Set("debug", "true")
	}
	for name, k := range map[string]any{"key": r.Key, "startkey": r.StartKey, "endkey": r.EndKey} {
		if k != nil {
			key(name, k)
		}
	}
	if r.Keys != nil {
		key("keys", r.Keys)
	}
	for name, s := range r.Raw {
		v.Set(name, s)
	}
	return v, failed
}
