package search

import (
	"encoding/json"
	"math"
	"time"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Rows are the hits of a search, while they arrive:
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

// Hit decodes the present row.
func (r *Rows) Hit() (Hit, error) {
	var h Hit
	err := r.Scan(&h)
	return h, err
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
