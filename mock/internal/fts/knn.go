package fts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	maxNeighbors = 10_000
	exactScore   = math.MaxFloat32 // of a vector at no distance
)

// neighbors asks for the documents whose vector is nearest to one.
type neighbors struct {
	Field  string          `json:"field"`
	Vector []float32       `json:"vector"`
	Base64 string          `json:"vector_base64"`
	K      int             `json:"k"`
	Boost  *float64        `json:"boost"`
	Filter json.RawMessage `json:"filter"`
}

// found are the scores of the nearest documents of an index.
func (q *neighbors) found(p *parser, docs []*doc) (map[*doc]float64, error) {
	vector, similarity, err := q.vector(p.ix)
	if err != nil {
		return nil, err
	}
	var filter node
	if len(q.Filter) > 0 && string(q.Filter) != "null" {
		if filter, err = p.query(q.Filter, 0); err != nil {
			return nil, err
		}
		filter.prepare(docs)
	}
	type scored struct {
		d     *doc
		score float64
	}
	var all []scored
	for _, d := range docs {
		f := d.fields[q.Field]
		if f == nil || filter != nil && filter.match(d) == nil {
			continue
		}
		best, has := 0.0, false
		for _, v := range f.vectors {
			if len(v) == len(vector) {
				if s := closeness(similarity, vector, v); !has || s > best {
					best, has = s, true
				}
			}
		}
		if has {
			all = append(all, scored{d, best})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.d.id, b.d.id))
	})
	out := map[*doc]float64{}
	boost := (&members{Boost: q.Boost}).boost()
	for _, s := range all[:min(q.K, len(all))] {
		if s.score != exactScore {
			s.score *= boost
		}
		out[s.d] = s.score
	}
	return out, nil
}

// vector is the vector of a query that an index can answer, and how it is compared with others.
func (q *neighbors) vector(ix *Index) (vector []float32, similarity string, err error) {
	vector, similarity = q.Vector, "l2_norm"
	if q.Base64 != "" {
		var ok bool
		if vector, ok = vectorOf(q.Base64); !ok {
			return nil, "", errors.New("vector_base64 of a knn query must be base64 of floats")
		}
	}
	switch {
	case q.K <= 0 || q.K > maxNeighbors:
		return nil, "", fmt.Errorf("k must be between 1 and %d", maxNeighbors)
	case len(vector) == 0:
		return nil, "", errors.New("knn query must have a vector")
	}
	f, _ := ix.mapping.fieldNamed(q.Field)
	if f == nil {
		return vector, similarity, nil
	}
	if f.Dims != 0 && f.Dims != len(vector) {
		return nil, "", fmt.Errorf("knn query has %d dimensions, the field %q has %d", len(vector), q.Field, f.Dims)
	}
	return vector, cmp.Or(f.Similarity, similarity), nil
}

// closeness is the score of two vectors of one length.
func closeness(similarity string, a, b []float32) float64 {
	var dot, square, la, lb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot += x * y
		square += (x - y) * (x - y)
		la += x * x
		lb += y * y
	}
	switch {
	case similarity == "dot_product":
		return dot
	case similarity == "cosine" && la > 0 && lb > 0:
		return dot / math.Sqrt(la*lb)
	case similarity == "cosine":
		return 0
	case square == 0:
		return exactScore
	}
	return 1 / square
}
