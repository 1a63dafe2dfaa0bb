package fts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	defaultSize = 10
	maxResults  = 10_000 // from and size together
	looks       = 256    // documents between two looks at the context
)

// Source is an index with the documents of its bucket.
type Source struct {
	Index     *Index
	Documents []Document
}

// Result is what a search has found.
type Result struct {
	Hits     []string // JSON texts
	Total    int
	MaxScore float64
	Facets   json.RawMessage // an object, or null
}

// request is what a client asks for.
type request struct {
	Query     json.RawMessage `json:"query"`
	Size      *int            `json:"size"`
	From      *int            `json:"from"`
	Highlight *struct {
		Style  *string  `json:"style"`
		Fields []string `json:"fields"`
	} `json:"highlight"`
	Fields      []string                `json:"fields"`
	Facets      map[string]facetRequest `json:"facets"`
	Explain     bool                    `json:"explain"`
	Sort        []json.RawMessage       `json:"sort"`
	Locations   bool                    `json:"includeLocations"`
	Score       string                  `json:"score"`
	KNN         []neighbors             `json:"knn"`
	Operator    string                  `json:"knn_operator"`
	Collections []string                `json:"collections"`
	After       []string                `json:"search_after"`
	Before      []string                `json:"search_before"`

	size, from int
	orders     []order
}

// hit is one document that was found.
type hit struct {
	*match
	doc   *doc
	index *Index
	keys  []key
}

// Search executes a request, a JSON object, over one index or, for an alias, several. Its error says what is wrong with
// the request; an *Unsupported says what is missing here.
func Search(ctx context.Context, sources []Source, body []byte) (*Result, error) {
	var rq request
	if err := json.Unmarshal(body, &rq); err != nil {
		return nil, fmt.Errorf("parsing searchRequest, err: %w", err)
	}
	if err := rq.check(); err != nil {
		return nil, err
	}
	var hits []*hit
	facets := map[string]*counted{}
	for _, s := range sources {
		found, err := rq.in(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := rq.count(facets, s.Index, found); err != nil {
			return nil, err
		}
		hits = append(hits, found...)
	}
	out := &Result{Total: len(hits), Facets: json.RawMessage("null")}
	for _, h := range hits {
		out.MaxScore = max(out.MaxScore, h.score)
	}
	sortHits(hits, rq.orders)
	from := min(rq.from, len(hits))
	for _, h := range hits[from:min(from+rq.size, len(hits))] {
		out.Hits = append(out.Hits, string(marshal(rq.row(h))))
	}
	if len(rq.Facets) > 0 {
		out.Facets = rq.counts(facets)
	}
	return out, nil
}

func (rq *request) check() (err error) {
	rq.size = defaultSize
	if rq.Size != nil {
		rq.size = *rq.Size
	}
	if rq.From != nil {
		rq.from = *rq.From
	}
	switch {
	case rq.size < 0 || rq.from < 0:
		return errors.New("size and from must not be negative")
	case rq.size > maxResults || rq.from > maxResults || rq.size+rq.from > maxResults:
		return fmt.Errorf("bleveMaxResultWindow exceeded, from + size > %d", maxResults)
	case len(rq.After)+len(rq.Before) > 0:
		return &Unsupported{"search_after and search_before"}
	case rq.Operator != "" && rq.Operator != "or" && rq.Operator != "and":
		return fmt.Errorf("unknown knn_operator: %s", rq.Operator)
	}
	rq.orders, err = orders(rq.Sort)
	return err
}

// in finds what one index has.
func (rq *request) in(ctx context.Context, s Source) ([]*hit, error) {
	p := &parser{ix: s.Index}
	query := none
	if len(rq.Query) > 0 {
		var err error
		if query, err = p.query(rq.Query, 0); err != nil {
			return nil, fmt.Errorf("parsing searchRequest, err: %w", err)
		}
	}
	docs, err := rq.documents(ctx, s)
	if err != nil {
		return nil, err
	}
	query.prepare(docs)
	var near []map[*doc]float64
	for i := range rq.KNN {
		found, err := rq.KNN[i].found(p, docs)
		if err != nil {
			return nil, err
		}
		near = append(near, found)
	}
	var hits []*hit
	for i, d := range docs {
		if i%looks == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		m := rq.nearest(query.match(d), d, near)
		if m == nil {
			continue
		}
		if rq.Score == "none" {
			m.score = 0
		}
		hits = append(hits, &hit{match: m, doc: d, index: s.Index})
	}
	return hits, nil
}

// nearest adds to a match what the vectors of a document say: each of them, or all when the request says so.
func (rq *request) nearest(m *match, d *doc, near []map[*doc]float64) *match {
	sum, count := 0.0, 0
	for _, found := range near {
		if score, ok := found[d]; ok {
			sum += score
			count++
		}
	}
	if count == 0 || rq.Operator == "and" && count < len(near) {
		return m
	}
	if m == nil {
		m = &match{}
	}
	m.score += sum
	return m
}

// documents are those that the index has, and the request asks for.
func (rq *request) documents(ctx context.Context, s Source) ([]*doc, error) {
	var out []*doc
	for i := range s.Documents {
		if i%looks == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d, err := s.Index.document(&s.Documents[i])
		if err != nil {
			return nil, err
		}
		if d != nil && (len(rq.Collections) == 0 || slices.Contains(rq.Collections, s.Documents[i].Collection)) {
			out = append(out, d)
		}
	}
	return out, nil
}

// Count is how many documents an index has.
func Count(s Source) (n int) {
	for i := range s.Documents {
		if d, _ := s.Index.document(&s.Documents[i]); d != nil { // counted as far as it can be analyzed
			n++
		}
	}
	return n
}

// row is a hit as it is sent.
func (rq *request) row(h *hit) map[string]any {
	row := map[string]any{"index": h.index.Name + "_" + h.index.uuid + "_4c1c5584", "id": h.doc.id, "score": h.score}
	var shown []string
	for _, k := range h.keys {
		shown = append(shown, k.shown)
	}
	row["sort"] = shown
	if rq.Explain {
		row["explanation"] = map[string]any{"value": h.score, "message": "score of the mock"}
	}
	if (rq.Locations || rq.Highlight != nil) && len(h.found) > 0 {
		row["locations"] = locations(h.found)
	}
	if rq.Highlight != nil {
		if f := rq.fragments(h); len(f) > 0 {
			row["fragments"] = f
		}
	}
	if f := rq.stored(h.doc); len(f) > 0 {
		row["fields"] = f
	}
	return row
}

// locations are the places of terms by field and term, in order.
func locations(all []found) map[string]map[string][]place {
	out := map[string]map[string][]place{}
	for _, f := range all {
		if out[f.field] == nil {
			out[f.field] = map[string][]place{}
		}
		list := out[f.field][f.term]
		if !slices.ContainsFunc(list, func(p place) bool {
			return p.Start == f.Start && slices.Equal(p.Array, f.Array)
		}) {
			out[f.field][f.term] = append(list, f.place)
		}
	}
	return out
}

// stored are the fields that a request asks for, as far as the index stores them.
func (rq *request) stored(d *doc) map[string]any {
	out := map[string]any{}
	for name, f := range d.fields {
		if len(f.stored) == 0 || !slices.ContainsFunc(rq.Fields, func(asked string) bool {
			head, wild := strings.CutSuffix(asked, "*")
			return asked == name || wild && strings.HasPrefix(name, head)
		}) {
			continue
		}
		if out[name] = f.stored; len(f.stored) == 1 {
			out[name] = f.stored[0]
		}
	}
	return out
}

// counted is a facet while it is counted.
type counted struct {
	*facet
	terms map[string]int
}

// count adds hits to the facets.
func (rq *request) count(facets map[string]*counted, ix *Index, hits []*hit) error {
	for name, r := range rq.Facets {
		c := facets[name]
		if c == nil {
			f, err := ix.mapping.facetFor(&r)
			if err != nil {
				return err
			}
			c = &counted{f, map[string]int{}}
			facets[name] = c
		}
		for _, h := range hits {
			c.count(h.doc, c.terms)
		}
	}
	return nil
}

func (rq *request) counts(facets map[string]*counted) json.RawMessage {
	out := map[string]*facet{}
	for name, c := range facets {
		c.end(c.terms, rq.Facets[name].Size)
		out[name] = c.facet
	}
	return marshal(out)
}
