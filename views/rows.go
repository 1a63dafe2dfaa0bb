package views

import (
	"encoding/json"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Rows are the rows of a view, while they arrive:
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

// Entry decodes the present row.
func (r *Rows) Entry() (Entry, error) {
	var e Entry
	err := r.Scan(&e)
	return e, err
}

// Entry is one row of a view.
type Entry struct {
	ID    string          `json:"id"` // of the document; empty in reduced rows
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Meta is what the service says besides the rows. What it leaves out has its zero value.
type Meta struct {
	TotalRows uint64 // in the index
	Debug     json.RawMessage
	Errors    []ServerError   // nodes that have failed the query
	Raw       json.RawMessage // the whole answer but for its rows
}

// ParseMeta reads an answer without its rows. A field that is missing or of another type is left at its zero value.
func ParseMeta(raw []byte) Meta {
	m := httpsvc.Object(raw)
	return Meta{
		TotalRows: httpsvc.Uint(m["total_rows"]), Debug: m["debug_info"],
		Errors: ParseErrors(httpsvc.List(m["errors"])), Raw: raw,
	}
}
