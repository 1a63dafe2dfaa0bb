package views

import (
	"encoding/json"
	"errors"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Rows are the rows of a view, while they arrive:
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

// Entry decodes the present row.
func (r *Rows) Entry() (Entry, error) {
	var e Entry
	err := json.Unmarshal(r.rows.Row(), &e)
	return e, err
}

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
		TotalRows: httpsvc.Uint(m["total_rows"]), Debug: m["debug_info"], Errors: ParseErrors(httpsvc.List(m["errors"])), Raw: raw,
	}
}
