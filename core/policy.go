package core

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// ParsePolicy reads a retry policy file for Config.Retry.Policy: policy.Parse with the numbers and the operations of
// this client's services. The error wraps a *policy.ParseError and is a cberr.InvalidArgument.
func ParsePolicy(data []byte) (*policy.Config, error) {
	return ParsePolicyWith(data, policy.ParseOptions{})
}

// ParsePolicyWith is ParsePolicy with options, such as more attempts than five. A nil Code and nil Operations are this
// client's; with a nil JitterSource the numbers are those of the client that uses the file.
func ParsePolicyWith(data []byte, o policy.ParseOptions) (*policy.Config, error) {
	if o.Code == nil {
		o.Code = ReasonOf
	}
	if o.Operations == nil {
		o.Operations = OperationsOf
	}
	c, err := policy.Parse(data, o)
	return c, ofKind(cberr.InvalidArgument, err)
}

// methods are the operations of raw requests.
var methods = [...]string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// OperationsOf are the operations of a service that a policy file may name: of kv the commands' verbs; of the others
// the HTTP methods of raw requests, and the names of the client's own requests. It is empty for a service that does not
// exist.
func OperationsOf(service retry.Service) (list []policy.Operation) {
	switch service {
	case retry.KV:
		for op := range 256 {
			if s := call.SpecOf(memd.Opcode(op)); s != nil {
				list = append(list, policy.Operation{Name: s.Name, Hedge: s.Opcode == memd.OpGet})
			}
		}
		slices.SortFunc(list, func(a, b policy.Operation) int { return strings.Compare(a.Name, b.Name) })
		return list
	case retry.Query, retry.Search, retry.Analytics, retry.Views:
		list = append(list, policy.Operation{Name: string(service), Hedge: true})
	case retry.Management:
		list = append(list, policy.Operation{Name: "buckets"}, policy.Operation{Name: "manifest"})
	case retry.Eventing, retry.Backup, retry.Index:
	default:
		return nil
	}
	for _, m := range methods {
		list = append(list, policy.Operation{Name: m, Hedge: true})
	}
	return list
}

// ReasonOf gives the reason that a service's own number may be retried for: a KV status, an HTTP status or an error
// code. ok is false for a number that is never a reason to retry.
func ReasonOf(service retry.Service, code uint32) (why retry.Reason, ok bool) {
	switch service {
	case "kv":
		return reasonOfStatus(code)
	case "query":
		// Some codes are retryable only with this text, or of a plan that the client keeps; one that is only with the
		// service's own hint has no reason of its own.
		why, ok, _ = query.Classify(query.Answer{
			Errors: []query.ServerError{{Code: int(code), Message: "queryport.indexNotFound"}}, Plan: true,
		})
	case "analytics":
		why, ok, _ = analytics.Classify(analytics.Answer{Errors: []analytics.ServerError{{Code: int(code)}}})
	case "search":
		why, ok, _ = search.Classify(search.Answer{HTTPStatus: int(code)})
	case "views":
		why, ok, _ = views.Classify(views.Answer{HTTPStatus: int(code), Text: `{"reason":"missing"}`})
	case "management", "eventing", "backup", "index":
	default:
		return retry.Unknown, false
	}
	switch {
	case ok:
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return retry.ServiceResponseCodeIndicated, true
	}
	return why, ok
}

func reasonOfStatus(code uint32) (retry.Reason, bool) {
	st := memd.Status(code)
	if uint32(st) != code || !st.Known() {
		return retry.Unknown, false
	}
	switch d := call.Classify(memd.OpGet, st, false); d.Class { //nolint:exhaustive // the others are no reasons
	case call.ClassRetry:
		return d.Reason, true
	case call.ClassAskMap:
		return retry.KVErrorMapRetryIndicated, true
	}
	return retry.Unknown, false
}

// Answer is what a server said of a call, when the client has no retry reason for it.
type Answer struct {
	Service   retry.Service
	Operation string // its name: "get-and-touch"
	Bucket    string
	Endpoint  string
	Code      uint32 // the KV status
	Err       error  // what the call will fail with unless a reason is named
}

// classifier gives the dispatcher the user's hook, nil without one.
func (c *Cluster) classifier() func(operation string, err *kv.Error) retry.Reason {
	if c.cfg.Retry.Classify == nil {
		return nil
	}
	return func(operation string, err *kv.Error) retry.Reason {
		return c.cfg.Retry.Classify(Answer{
			Service: "kv", Operation: operation, Bucket: err.Bucket, Endpoint: err.Endpoint, Code: uint32(err.Status),
			Err: err,
		})
	}
}

// SetPolicy replaces the policy file for calls and requests that begin from now on; nil removes it. Those under way
// keep what they have begun with. The throttles of nodes and the budget begin full: they are the new file's.
func (c *Cluster) SetPolicy(p *policy.Config) {
	c.replacing.Lock()
	defer c.replacing.Unlock()
	p = p.WithJitterSource(c.cfg.Retry.JitterSource)
	c.policy.Store(p)
	c.orch.SetDefault(p.Throttled(c.cfg.Retry.Strategy))
	for _, b := range c.every() { // a bucket that is made from now on has the new one
		b.router.SetPolicies(c.kvPolicies(p))
	}
}

// kvPolicies are what a policy file says about key-value calls, nil without one.
func (c *Cluster) kvPolicies(p *policy.Config) *dispatch.Policies {
	if p == nil {
		return nil
	}
	var table [256]*dispatch.OpPolicy
	for op := range table {
		if s := call.SpecOf(memd.Opcode(op)); s != nil {
			table[op] = opPolicy(p, s.Name)
		}
	}
	ps := &dispatch.Policies{Of: func(op memd.Opcode) *dispatch.OpPolicy { return table[op] }}
	if _, _, ok := p.Throttling(); ok {
		ps.Throttle = p
		ps.Feedback = func(addr string) conn.Feedback {
			if t := p.Tokens(addr); t != nil {
				return t
			}
			return nil
		}
	}
	return ps
}

func opPolicy(file *policy.Config, name string) *dispatch.OpPolicy {
	e, _ := file.For("kv", name)
	return &dispatch.OpPolicy{Rule: ruleOf[call.Hedge](&e), Timeout: e.Timeout}
}

// ruleOf is what a policy file has for an operation, as the sender of its requests hedges them.
func ruleOf[H call.Hedge | Hedge](e *policy.Entry) retry.Rule[H] {
	r := retry.Rule[H]{Strategy: e.Strategy, Pinned: e.Pinned, Bound: e.Bound}
	if h := e.Hedge; h != nil {
		r.Hedge = new(H(call.Hedge{MaxAttempts: h.MaxAttempts, Delay: h.Delay, NonFatal: h.IsNonFatal}))
	}
	return r
}

// httpWell says that a node has given an answer that is no retryable failure.
func (c *Cluster) httpWell(endpoint string) { c.policy.Load().Tokens(endpoint).Success() }

// forgetNodes drops the tokens of nodes that no cluster map names any more.
func (c *Cluster) forgetNodes() {
	p := c.policy.Load()
	if _, _, ok := p.Throttling(); !ok {
		return
	}
	hosts := map[string]bool{}
	for _, b := range c.all() {
		for _, i := range b.router.Nodes() {
			hosts[hostOf(b.router.Address(i))] = true
		}
	}
	p.Retain(func(endpoint string) bool { return hosts[hostOf(endpoint)] })
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// httpPolicy is what the policy has for a request to a service: the strategy that it is sent with, and how long it may
// take, 0 for the service's default. own is the strategy that the request names, nil for none.
func (c *Cluster) httpPolicy(service retry.Service, operation string, own retry.Strategy) (retry.Strategy,
	time.Duration,
) {
	if own == call.Strict { // the client's own requests, which are sent once
		return own, 0
	}
	e, _ := c.policy.Load().For(service, operation)
	s, _ := e.StrategyOf(own)
	return s, e.Timeout
}
