package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// ScriptMatch says which requests a script answers; every member that is there must fit.
type ScriptMatch struct {
	Service     string  `json:"service,omitempty" doc:"query, search, analytics, views, eventing or management; absent for all"`
	Nodes       []int   `json:"nodes,omitempty" doc:"numbers of nodes"`
	Method      string  `json:"method,omitempty" doc:"of HTTP"`
	Path        string  `json:"path,omitempty" doc:"a part of the path"`
	Statement   string  `json:"statement,omitempty" doc:"a part of the statement"`
	Pattern     string  `json:"pattern,omitempty" doc:"a regular expression (RE2) that the statement must match"`
	Index       string  `json:"index,omitempty" doc:"of a search: its name, or bucket.scope.name; of views: design document/view"`
	Preparing   bool    `json:"preparing,omitempty" doc:"PREPARE instead of executions"`
	Skip        int     `json:"skip,omitempty" doc:"so many of the requests pass first"`
	Times       int     `json:"times,omitempty" doc:"how often; 0 for always"`
	Probability float64 `json:"probability,omitempty" doc:"of meeting a request, between 0 and 1; absent for every one"`
	Seed        uint64  `json:"seed,omitempty" doc:"of the random numbers behind the probability"`
}

// Script answers requests.
type Script struct {
	Match   ScriptMatch `json:"match"`
	Answers []Answer    `json:"answers" doc:"the first for the first request, and so on, the last one for all that follow"`
}

// Answer is one answer. Rows, errors, warnings and members make the service's own envelope.
type Answer struct {
	Status     int                        `json:"status,omitempty" doc:"of HTTP; absent for the one that belongs to the answer"`
	Header     map[string]string          `json:"header,omitempty"`
	Rows       []json.RawMessage          `json:"rows,omitempty"`
	Errors     []ServiceError             `json:"errors,omitempty"`
	Warnings   []ServiceError             `json:"warnings,omitempty"`
	Mutated    int                        `json:"mutated,omitempty" doc:"documents that the statement has changed"`
	Members    map[string]json.RawMessage `json:"members,omitempty" doc:"added to the envelope, or instead of what it has; null leaves out"`
	RowsLast   bool                       `json:"rows_last,omitempty" doc:"everything else comes before the rows"`
	Body       string                     `json:"body,omitempty" doc:"the whole body instead of an envelope, as text"`
	BodyBase64 string                     `json:"body_base64,omitempty"`
	Default    bool                       `json:"default,omitempty" doc:"what the mock answers without a script; the members below hold"`
	Patch      []PatchOp                  `json:"json_patch,omitempty" doc:"operations on the whole body (RFC 6902); a body that they cannot be applied to stays as it is"`
	Hold       bool                       `json:"hold,omitempty" doc:"wait for release first"`
	Delay      int64                      `json:"delay_ms,omitempty" doc:"before the headers"`
	RowDelay   int64                      `json:"row_delay_ms,omitempty" doc:"before each row"`
	Chunk      int                        `json:"chunk,omitempty" doc:"send pieces of so many bytes"`
	Trickle    int64                      `json:"trickle_ms,omitempty" doc:"between those pieces"`
	CutRows    int                        `json:"cut_rows,omitempty" doc:"break the connection after so many rows"`
	CutBytes   int                        `json:"cut_bytes,omitempty" doc:"break it after so many bytes of the body; negative: after the headers"`
	StallRows  int                        `json:"stall_rows,omitempty" doc:"send nothing more after so many rows, until release"`
	StallBytes int                        `json:"stall_bytes,omitempty" doc:"the same for bytes"`
	Never      bool                       `json:"never,omitempty" doc:"no answer at all"`
	Close      bool                       `json:"close,omitempty" doc:"break the connection instead of answering"`
	Deadline   bool                       `json:"deadline,omitempty" doc:"waits end at the timeout that the request names, with the service's error"`
}

// ServiceError is an error or a warning of an answer.
type ServiceError struct {
	Code    int             `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	Retry   bool            `json:"retry,omitempty" doc:"the service says that a retry may help"`
	Reason  json.RawMessage `json:"reason,omitempty"`
	Cause   json.RawMessage `json:"cause,omitempty"`
	Raw     json.RawMessage `json:"raw,omitempty" doc:"the whole element instead of all others"`
}

func script(c *call, in *Script) (InForce, error) {
	m := mock.ServiceMatch{
		Nodes: in.Match.Nodes, Method: in.Match.Method, Path: in.Match.Path, Statement: in.Match.Statement,
		Index: in.Match.Index, Preparing: in.Match.Preparing, Skip: in.Match.Skip, Times: in.Match.Times,
		Probability: in.Match.Probability, Seed: in.Match.Seed,
	}
	var err error
	if m.Service, err = service("match.service", in.Match.Service); err != nil {
		return InForce{}, err
	}
	if m.Pattern, err = pattern("match.pattern", in.Match.Pattern); err != nil {
		return InForce{}, err
	}
	if err := c.nodes("match.nodes", in.Match.Nodes); err != nil {
		return InForce{}, err
	}
	if err := often(in.Match.Skip, in.Match.Times, in.Match.Probability); err != nil {
		return InForce{}, err
	}
	if len(in.Answers) == 0 {
		return InForce{}, invalid("answers", "say what to answer")
	}
	if len(in.Answers) > MaxObjects {
		return InForce{}, tooMany("answers", MaxObjects)
	}
	var answers []mock.Answer
	for i := range in.Answers {
		a, err := in.Answers[i].make(fmt.Sprintf("answers[%d].", i))
		if err != nil {
			return InForce{}, err
		}
		answers = append(answers, a)
	}
	return c.x.put(scripts, &inForce{what: in}, func() *mock.Injection { return c.x.c.Script(m, answers...) })
}

// make is the mock's answer.
func (a *Answer) make(at string) (mock.Answer, error) {
	out := mock.Answer{
		Status: a.Status, Mutated: a.Mutated, RowsLast: a.RowsLast, Default: a.Default, Hold: a.Hold,
		Chunk: a.Chunk, CutRows: a.CutRows, CutBytes: a.CutBytes, StallRows: a.StallRows, StallBytes: a.StallBytes,
		Never: a.Never, Close: a.Close, Deadline: a.Deadline,
		Errors: serviceErrors(a.Errors), Warnings: serviceErrors(a.Warnings),
	}
	for name, d := range map[string]struct {
		ms int64
		to *time.Duration
	}{
		"delay_ms": {a.Delay, &out.Delay}, "row_delay_ms": {a.RowDelay, &out.RowDelay},
		"trickle_ms": {a.Trickle, &out.Trickle},
	} {
		if d.ms < 0 || d.ms > MaxWait.Milliseconds() {
			e := invalid(at+name, "%d ms are not allowed", d.ms)
			e.Limit = MaxWait.Milliseconds()
			return out, e
		}
		*d.to = time.Duration(d.ms) * time.Millisecond
	}
	if a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		return out, invalid(at+"status", "%d is not between 200 and 599", a.Status)
	}
	for name, value := range a.Header {
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set(name, value)
	}
	for _, row := range a.Rows {
		out.Rows = append(out.Rows, string(row))
	}
	for name, text := range a.Members {
		if out.Members == nil {
			out.Members = map[string]string{}
		}
		out.Members[name] = rawText(text)
	}
	var err error
	if out.Body, err = bytesOf(at+"body", a.Body, a.BodyBase64); err != nil {
		return out, err
	}
	for i := range a.Patch {
		if err := a.Patch[i].check(); err != nil {
			return out, invalid(fmt.Sprintf("%sjson_patch[%d]", at, i), "%v", err)
		}
	}
	if len(a.Patch) > 0 {
		out.Rewrite = func(body []byte) []byte {
			if b, err := patch(body, a.Patch); err == nil {
				return b
			}
			return body
		}
	}
	return out, nil
}

// rawText is a JSON value as text; null is the empty text.
func rawText(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

func serviceErrors(list []ServiceError) (out []mock.ServiceError) {
	for _, e := range list {
		out = append(out, mock.ServiceError{
			Code: e.Code, Message: e.Message, Retry: e.Retry, Reason: reasonText(e.Reason), Cause: rawText(e.Cause),
			Raw: rawText(e.Raw),
		})
	}
	return out
}

// reasonText is a reason as the mock takes it: JSON, or the text that views have.
func reasonText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return rawText(raw)
}

// Unsupported are statements that the mock does not support.
type Unsupported struct {
	Items []UnsupportedStatement `json:"items"`
}

// UnsupportedStatement is one of them.
type UnsupportedStatement struct {
	Service   string `json:"service"`
	Statement string `json:"statement" doc:"for search the query, as JSON"`
	Message   string `json:"message" doc:"what is not supported"`
	Requests  int    `json:"requests"`
}

func unsupported(c *call, _ *nothing) (Unsupported, error) {
	out := Unsupported{Items: []UnsupportedStatement{}}
	for _, u := range c.x.c.Unsupported() {
		out.Items = append(out.Items, UnsupportedStatement{serviceName(u.Service), u.Statement, u.Message, u.Requests})
	}
	return out, nil
}

func clearUnsupported(c *call, _ *nothing) (nothing, error) {
	c.x.c.ClearUnsupported()
	return nothing{}, nil
}
