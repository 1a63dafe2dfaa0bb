package search

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Rows are the hits of a search, while they arrive:
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

// Row is the present hit as JSON, valid until the next call of Next or Close.
func (r *Rows) Row() []byte { return r.rows.Row() }

// Hit decodes the present row.
func (r *Rows) Hit() (Hit, error) {
	var h Hit
	err := json.Unmarshal(r.rows.Row(), &h)
	return h, err
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

// Hit is one document that was found.
type Hit struct {
	Index       string              `json:"index"` // the partition that has it
	ID          string              `json:"id"`
	Score       float64             `json:"score"`
	Fragments   map[string][]string `json:"fragments"` // with highlighting: the parts that matched, by field
	Fields      json.RawMessage     `json:"fields"`
	Locations   json.RawMessage     `json:"locations"`
	Explanation json.RawMessage     `json:"explanation"`
	Sort        []json.RawMessage   `json:"sort"`
}

// Meta is what the service says besides the hits. What it leaves out has its zero value.
type Meta struct {
	Total    uint64 // of all hits, also of those that were not asked for
	MaxScore float64
	Took     time.Duration
	Facets   map[string]json.RawMessage
	Status   Status
	Raw      json.RawMessage // the whole answer but for its hits
}

// Status is how many of the index's partitions have answered. When some have not, the hits are not all there are.
type Status struct {
	Total, Failed, Successful uint64
	Errors                    map[string]string // by partition
	Text                      string            // instead of all that: "ok" or "fail"
}

// Partial reports whether hits are missing.
func (s Status) Partial() bool { return s.Failed > 0 || len(s.Errors) > 0 }

// ParseMeta reads an answer without its hits. A field that is missing or of another type is left at its zero value.
func ParseMeta(raw []byte) Meta {
	m := httpsvc.Object(raw)
	meta := Meta{
		Total: httpsvc.Uint(m["total_hits"]), MaxScore: httpsvc.Float(m["max_score"]),
		Took: time.Duration(min(httpsvc.Uint(m["took"]), math.MaxInt64)), Facets: httpsvc.Object(m["facets"]), Raw: raw,
	}
	s := httpsvc.Object(m["status"])
	if s == nil {
		meta.Status.Text = httpsvc.Text(m["status"])
		return meta
	}
	meta.Status = Status{
		Total: httpsvc.Uint(s["total"]), Failed: httpsvc.Uint(s["failed"]), Successful: httpsvc.Uint(s["successful"]),
	}
	for name, text := range httpsvc.Object(s["errors"]) {
		if meta.Status.Errors == nil {
			meta.Status.Errors = map[string]string{}
		}
		meta.Status.Errors[name] = httpsvc.Text(text)
	}
	return meta
}
