package analytics

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
}

// Meta is what the service says besides the rows. What it leaves out has its zero value.
type Meta struct {
	RequestID       string
	ClientContextID string
	Status          string // "success", "errors", "timeout" ...
	Signature       json.RawMessage
	Warnings        []Warning
	Metrics         Metrics
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
	Elapsed, Execution   time.Duration
	Results, ResultBytes uint64
	Processed            uint64 // objects
	Errors, Warnings     uint64
}

// ParseMeta reads an answer without its rows. A field that is missing or of another type is left at its zero value.
func ParseMeta(raw []byte) Meta {
	m := httpsvc.Object(raw)
	text := func(key string) string { return httpsvc.Text(m[key]) }
	meta := Meta{
		RequestID: text("requestID"), ClientContextID: text("clientContextID"), Status: text("status"),
		Signature: m["signature"], Raw: raw,
	}
	for _, w := range httpsvc.List(m["warnings"]) {
		o := httpsvc.Object(w)
		code, _ := httpsvc.Int(o["code"])
		meta.Warnings = append(meta.Warnings, Warning{code, httpsvc.Text(o["msg"]), w})
	}
	o := httpsvc.Object(m["metrics"])
	meta.Metrics = Metrics{
		Elapsed: httpsvc.Duration(o["elapsedTime"]), Execution: httpsvc.Duration(o["executionTime"]),
		Results: httpsvc.Uint(o["resultCount"]), ResultBytes: httpsvc.Uint(o["resultSize"]),
		Processed: httpsvc.Uint(o["processedObjects"]), Errors: httpsvc.Uint(o["errorCount"]),
		Warnings: httpsvc.Uint(o["warningCount"]),
	}
	return meta
}
