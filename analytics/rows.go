package analytics

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Rows are the rows of a statement, while they arrive:
//
//	for rows.Next() {
//		use(rows.Row())
//	}
//	if err := rows.Err(); err != nil { ... }
//
// They are for one goroutine. Whoever got them reads them to their end or closes them.
type Rows struct {
	rows *httpsvc.Rows
	r    *Request
	id   string
	err  error
}

// Next goes to the next row. It blocks until there is one, at most until the request's deadline; false is the end, for
// the reason that Err gives.
func (r *Rows) Next() bool {
	if r.rows.Next() {
		return true
	}
	if r.err == nil {
		r.err = wrap(r.rows.Err(), r.r, r.id)
	}
	return false
}

// Row is the present row as JSON, valid until the next call of Next or Close.
func (r *Rows) Row() []byte { return r.rows.Row() }

// Scan decodes the present row into v.
func (r *Rows) Scan(v any) error { return json.Unmarshal(r.rows.Row(), v) }

// Err is why there are no more rows: an *Error, or nil at the end of a good answer, after Close, and while there are
// rows.
func (r *Rows) Err() error { return r.err }

// Close ends the reading. Rows that have not come yet never will: the service is told so. Further calls do nothing.
func (r *Rows) Close() error { return r.rows.Close() }

// Endpoint is the node that answers.
func (r *Rows) Endpoint() string { return r.rows.Response().Endpoint }

// RetryInfo says how the request was retried before its first row.
func (r *Rows) RetryInfo() retry.Info { return r.rows.Response().Retry }

// Meta is what the service says besides the rows, once Next has said false. Before that, and after Close, it is an
// error. An answer that ended with an error has its metadata as well.
func (r *Rows) Meta() (Meta, error) {
	raw, err := r.rows.Meta()
	if errors.Is(err, httpsvc.ErrRowsLeft) || raw == nil {
		if r.err != nil {
			err = r.err
		}
		return Meta{}, err
	}
	return ParseMeta(raw), r.err
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
