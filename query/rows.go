package query

import (
	"encoding/json"
	"time"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Rows are the rows of a statement, while they arrive:
//
//	for rows.Next() {
//		use(rows.Row())
//	}
//	if err := rows.Err(); err != nil { ... }
//
// Next goes to the next row and blocks until there is one, at most until the request's deadline; false is the end. Row
// is the present row as JSON, valid until the next call of Next or Close; Scan decodes it. Err is an *Error, or nil at
// the end of a good answer. Meta gives the Meta of the answer once Next has said false. Endpoint is the node that
// answers, and RetryInfo says how the request was retried before its first row. Close ends the reading early.
//
// They are for one goroutine, which reads them to their end or closes them.
type Rows struct {
	httpsvc.Rows[Meta]

	prepared string
}

// Prepared is the name of the plan that answers a request with Prepare or Prepared, before the first row already; ""
// where the service has not said it there.
func (r *Rows) Prepared() string { return r.prepared }

// Meta is what the service says besides the rows. What it leaves out has its zero value.
type Meta struct {
	RequestID       string
	ClientContextID string
	Status          string // "success", "errors", "timeout" ...
	Signature       json.RawMessage
	Profile         json.RawMessage
	Warnings        []Warning
	Metrics         Metrics
	Prepared        string          // the name of the plan that was made or used
	Raw             json.RawMessage // the whole answer but for its rows
}

// Warning is what the service has to remark.
type Warning struct {
	Code    int
	Message string
	Raw     json.RawMessage
}

// Metrics are what a statement took.
type Metrics struct {
	Elapsed, Execution           time.Duration
	Results, ResultBytes         uint64
	Mutations, Sorted            uint64
	Errors, Warnings             uint64
	ServiceLoad, UsedMemoryBytes uint64
}

// ParseMeta reads an answer without its rows. A field that is missing or of another type is left at its zero value.
func ParseMeta(raw []byte) Meta {
	m := httpsvc.Object(raw)
	text := func(key string) string { return httpsvc.Text(m[key]) }
	meta := Meta{
		RequestID: text("requestID"), ClientContextID: text("clientContextID"), Status: text("status"),
		Signature: m["signature"], Profile: m["profile"], Prepared: text("prepared"), Raw: raw,
	}
	for _, w := range httpsvc.List(m["warnings"]) {
		o := httpsvc.Object(w)
		code, _ := httpsvc.Int(o["code"])
		meta.Warnings = append(meta.Warnings, Warning{code, httpsvc.Text(o["msg"]), w})
	}
	o := httpsvc.Object(m["metrics"])
	number := func(key string) uint64 { return httpsvc.Uint(o[key]) }
	meta.Metrics = Metrics{
		Elapsed: httpsvc.Duration(o["elapsedTime"]), Execution: httpsvc.Duration(o["executionTime"]),
		Results: number("resultCount"), ResultBytes: number("resultSize"), Mutations: number("mutationCount"),
		Sorted: number("sortCount"), Errors: number("errorCount"), Warnings: number("warningCount"),
		ServiceLoad: number("serviceLoad"), UsedMemoryBytes: number("usedMemory"),
	}
	return meta
}
