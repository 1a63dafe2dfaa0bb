package fts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// facetRequest asks for counts of a field's terms, or of ranges of its values.
type facetRequest struct {
	Field   string `json:"field"`
	Size    int    `json:"size"`
	Numbers []struct {
		Name string   `json:"name"`
		Min  *float64 `json:"min"`
		Max  *float64 `json:"max"`
	} `json:"numeric_ranges"`
	Dates []struct {
		Name   string `json:"name"`
		Start  string `json:"start"`
		End    string `json:"end"`
		Parser string `json:"datetime_parser"`
	} `json:"date_ranges"`
}

// facet is the answer to a facetRequest.
type facet struct {
	Field   string         `json:"field"`
	Total   int            `json:"total"`
	Missing int            `json:"missing"`
	Other   int            `json:"other"`
	Terms   []*facetTerm   `json:"terms,omitempty"`
	Numbers []*facetNumber `json:"numeric_ranges,omitempty"`
	Dates   []*facetDate   `json:"date_ranges,omitempty"`
}

type facetTerm struct {
	Term  string `json:"term"`
	Count int    `json:"count"`
}

type facetNumber struct {
	Name  string   `json:"name"`
	Min   *float64 `json:"min,omitempty"`
	Max   *float64 `json:"max,omitempty"`
	Count int      `json:"count"`
}

type facetDate struct {
	Name       string  `json:"name"`
	Start      *string `json:"start,omitempty"`
	End        *string `json:"end,omitempty"`
	Count      int     `json:"count"`
	start, end time.Time
}

// facetFor begins a facet, with its ranges.
func (m *indexMapping) facetFor(r *facetRequest) (*facet, error) {
	out := &facet{Field: r.Field}
	if len(r.Numbers) > 0 && len(r.Dates) > 0 {
		return nil, errors.New("facet can only contain numeric ranges or date ranges, not both")
	}
	if r.Size < 0 || len(r.Numbers)+len(r.Dates) > maxClauses {
		return nil, errors.New("facet has a negative size, or too many ranges")
	}
	for _, n := range r.Numbers {
		if n.Min == nil && n.Max == nil {
			return nil, fmt.Errorf("numeric range must specify min, max or both for range name '%s'", n.Name)
		}
		out.Numbers = append(out.Numbers, &facetNumber{Name: n.Name, Min: n.Min, Max: n.Max})
	}
	for _, d := range r.Dates {
		f := &facetDate{Name: d.Name}
		for _, end := range []struct {
			text string
			to   *time.Time
			as   **string
		}{{d.Start, &f.start, &f.Start}, {d.End, &f.end, &f.End}} {
			if end.text == "" {
				continue
			}
			t, err := m.parseDate(end.text, d.Parser)
			if err != nil {
				return nil, err
			}
			text := t.Format(time.RFC3339Nano)
			*end.to, *end.as = t, &text
		}
		if f.Start == nil && f.End == nil {
			return nil, fmt.Errorf("date range must specify start, end or both for range name '%s'", d.Name)
		}
		out.Dates = append(out.Dates, f)
	}
	return out, nil
}

// count adds a document that was found.
func (f *facet) count(d *doc, terms map[string]int) {
	fd := d.fields[f.Field]
	ranged := f.Numbers != nil || f.Dates != nil
	if fd == nil || !ranged && len(fd.terms) == 0 || f.Numbers != nil && fd.numbers == nil ||
		f.Dates != nil && fd.dates == nil {
		f.Missing++
		return
	}
	if !ranged {
		for t := range fd.terms {
			terms[t]++
			f.Total++
		}
		return
	}
	for _, r := range f.Numbers {
		for _, n := range fd.numbers {
			if (r.Min == nil || n >= *r.Min) && (r.Max == nil || n < *r.Max) {
				r.Count++
				f.Total++
			}
		}
	}
	for _, r := range f.Dates {
		for _, t := range fd.dates {
			if (r.Start == nil || !t.Before(r.start)) && (r.End == nil || t.Before(r.end)) {
				r.Count++
				f.Total++
			}
		}
	}
}

// largest are the first of a list by their counts, then by their names.
func largest[T any](list []T, size int, by func(T) (int, string)) []T {
	slices.SortFunc(list, func(a, b T) int {
		countA, nameA := by(a)
		countB, nameB := by(b)
		return cmp.Or(cmp.Compare(countB, countA), cmp.Compare(nameA, nameB))
	})
	return list[:min(size, len(list))]
}

// end keeps the largest counts.
func (f *facet) end(terms map[string]int, size int) {
	for t, n := range terms {
		f.Terms = append(f.Terms, &facetTerm{t, n})
	}
	f.Terms = largest(f.Terms, size, func(t *facetTerm) (int, string) { return t.Count, t.Term })
	f.Numbers = largest(f.Numbers, size, func(r *facetNumber) (int, string) { return r.Count, r.Name })
	f.Dates = largest(f.Dates, size, func(r *facetDate) (int, string) { return r.Count, r.Name })
	f.Other = f.Total
	for _, t := range f.Terms {
		f.Other -= t.Count
	}
	for _, r := range f.Numbers {
		f.Other -= r.Count
	}
	for _, r := range f.Dates {
		f.Other -= r.Count
	}
}
