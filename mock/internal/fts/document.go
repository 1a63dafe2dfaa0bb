package fts

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// Document is one document as the caller has it.
type Document struct {
	ID, Scope, Collection string
	Value                 []byte
}

// allFields is the field that stands for all that are included in it.
const allFields = "_all"

// place is where a term stands in a document.
type place struct {
	Pos   int      `json:"pos"`
	Start int      `json:"start"`
	End   int      `json:"end"`
	Array []uint64 `json:"array_positions"`
}

// field is what a document has under one name.
type field struct {
	inAll   bool
	terms   map[string][]place
	length  int // of the terms, repeated ones too
	numbers []float64
	dates   []time.Time
	points  []point
	flags   []bool
	vectors [][]float32
	stored  []any
	texts   []text // those that are stored
}

// text is a value of a field, for its fragments.
type text struct {
	array []uint64
	value string
}

// doc is a document as an index has it.
type doc struct {
	id     string
	fields map[string]*field
}

// named are the fields that a name in a query stands for.
func (d *doc) named(name string, each func(name string, f *field)) {
	if name != allFields {
		if f := d.fields[name]; f != nil {
			each(name, f)
		}
		return
	}
	for n, f := range d.fields {
		if f.inAll {
			each(n, f)
		}
	}
}

// walk indexes one document.
type walk struct {
	m    *indexMapping
	root *docMapping
	doc  *doc
	err  error // of an analyzer
}

// document indexes a document; nil for one that the index does not have.
func (ix *Index) document(d *Document) (*doc, error) {
	var object map[string]any
	if len(d.Value) == 0 || d.Value[0] == '"' || json.Unmarshal(d.Value, &object) != nil {
		return nil, nil
	}
	dm := ix.mappingOf(d, object)
	if dm == nil {
		return nil, nil
	}
	w := &walk{m: &ix.mapping, root: dm, doc: &doc{id: d.ID, fields: map[string]*field{}}}
	w.object(object, nil, nil)
	return w.doc, w.err
}

func (w *walk) object(members map[string]any, path []string, array []uint64) {
	for name, v := range members {
		w.value(v, append(path[:len(path):len(path)], name), array)
	}
}

func (w *walk) value(v any, path []string, array []uint64) {
	exact, closest := w.root.at(path)
	if exact != nil && !exact.Enabled {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		w.mappedTo(exact, v, path, array)
		w.object(v, path, array)
	case []any:
		if w.mappedTo(exact, v, path, array) {
			return
		}
		for i, e := range v {
			w.value(e, path, append(array[:len(array):len(array)], uint64(i)))
		}
	case nil:
	default:
		switch {
		case exact != nil:
			w.mappedTo(exact, v, path, array)
		case closest.Dynamic && w.m.IndexDynamic:
			w.dynamic(v, path, array)
		}
	}
}

// dynamic indexes a value that no mapping names: as what it is.
func (w *walk) dynamic(v any, path []string, array []uint64) {
	f := fieldMapping{Index: true, InAll: true, Store: w.m.StoreDynamic, Type: "text"}
	switch v := v.(type) {
	case float64:
		f.Type = "number"
	case bool:
		f.Type = "boolean"
	case string:
		if _, err := w.m.parseDate(v, ""); err == nil {
			f.Type = "datetime"
		}
	}
	w.put(&f, v, path, array)
}

// mappedTo indexes a value by its mappings, and reports whether it was taken as a whole.
func (w *walk) mappedTo(exact *docMapping, v any, path []string, array []uint64) (taken bool) {
	if exact == nil {
		return false
	}
	for i := range exact.Fields {
		f := &exact.Fields[i]
		_, list := v.([]any)
		if w.put(f, v, path, array) && list {
			taken = true
		}
	}
	return taken
}

// put indexes a value as one field, and reports whether it is of the field's type.
func (w *walk) put(m *fieldMapping, v any, path []string, array []uint64) bool {
	name := m.nameAt(path)
	f := w.doc.fields[name]
	if f == nil {
		f = &field{terms: map[string][]place{}}
	}
	ok, stored := false, v
	switch m.Type {
	case "text", "":
		var s string
		if s, ok = v.(string); ok {
			ok = w.text(m, f, s, path, array)
		}
	case "number":
		var n float64
		if n, ok = v.(float64); ok && m.Index {
			f.numbers = append(f.numbers, n)
		}
	case "boolean":
		var b bool
		if b, ok = v.(bool); ok && m.Index {
			f.flags = append(f.flags, b)
		}
	case "datetime":
		var t time.Time
		if t, ok = w.date(m, v); ok {
			if stored = t.UTC().Format(time.RFC3339Nano); m.Index {
				f.dates = append(f.dates, t)
			}
		}
	case "geopoint":
		var p point
		if p, ok = pointOf(v); ok {
			if stored = []float64{p.lon, p.lat}; m.Index {
				f.points = append(f.points, p)
			}
		}
	case "vector", "vector_base64":
		var vec []float32
		if vec, ok = vectorOf(v); ok && len(vec) == m.Dims {
			f.vectors = append(f.vectors, vec)
		}
	}
	if !ok {
		return false
	}
	f.inAll = f.inAll || m.InAll
	if m.Store {
		f.stored = append(f.stored, stored)
	}
	w.doc.fields[name] = f
	return true
}

func (w *walk) date(m *fieldMapping, v any) (time.Time, bool) {
	s, ok := v.(string)
	if !ok {
		return time.Time{}, false
	}
	t, err := w.m.parseDate(s, m.DateFormat)
	return t, err == nil
}

// text indexes a text.
func (w *walk) text(m *fieldMapping, f *field, s string, path []string, array []uint64) bool {
	if m.Store {
		f.texts = append(f.texts, text{slices.Clone(array), s})
	}
	if !m.Index {
		return true
	}
	name := m.Analyzer
	if name == "" {
		name = w.root.analyzerAt(path, w.m.Analyzer)
	}
	a, err := w.m.analyzer(name)
	if err != nil {
		w.err = err
		return false
	}
	for _, t := range a.run(s) {
		f.terms[t.term] = append(f.terms[t.term], place{t.pos, t.start, t.end, array})
		f.length++
	}
	return true
}

// dateLayouts are those of dates that are recognized without a format.
var dateLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04:05 -0700", time.DateOnly,
}

// parseDate reads a date in the layouts of a parser; "" is the index's own.
func (m *indexMapping) parseDate(s, parser string) (t time.Time, err error) {
	if parser == "" {
		parser = m.DateParser
	}
	layouts := dateLayouts
	if def, ok := m.Analysis.Dates[parser]; ok && def.Type == "flexiblego" {
		layouts = def.Layouts
	} else if parser != "dateTimeOptional" {
		return t, &Unsupported{"the date parser " + parser}
	}
	if len(s) < 4 || len(s) > 64 {
		return t, errNoDate
	}
	for _, layout := range layouts {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, errNoDate
}

// vectorOf reads a list of numbers, or base64 of 32-bit floats with the lowest byte first.
func vectorOf(v any) ([]float32, bool) {
	switch v := v.(type) {
	case []any:
		out := make([]float32, len(v))
		for i, e := range v {
			n, ok := e.(float64)
			if !ok {
				return nil, false
			}
			out[i] = float32(n)
		}
		return out, len(out) > 0
	case string:
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(v))
		if err != nil || len(b) == 0 || len(b)%4 != 0 {
			return nil, false
		}
		out := make([]float32, len(b)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return out, true
	}
	return nil, false
}
