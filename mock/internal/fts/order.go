package fts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// order is one criterion by which hits are sorted.
type order struct {
	By       string `json:"by"`
	Field    string `json:"field"`
	Desc     bool   `json:"desc"`
	Type     string `json:"type"`
	Mode     string `json:"mode"`
	Missing  string `json:"missing"`
	Location any    `json:"location"`
	Unit     string `json:"unit"`
	center   point
	unit     float64
}

// orders reads the criteria; without any it is the score.
func orders(raws []json.RawMessage) ([]order, error) {
	var out []order
	for _, raw := range raws {
		var name string
		var o order
		if json.Unmarshal(raw, &name) == nil {
			o.Desc = strings.HasPrefix(name, "-")
			o.By, o.Field = "field", strings.TrimLeft(name, "+-")
			if o.Field == "_id" || o.Field == "_score" {
				o.By = o.Field[1:]
			}
		} else if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		if err := o.check(); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	if len(out) == 0 {
		out = []order{{By: "score", Desc: true}}
	}
	return out, nil
}

func (o *order) check() error {
	for _, c := range []struct {
		what, value string
		known       []string
	}{
		{"by", o.By, []string{"id", "score", "field", "geo_distance"}},
		{"field type", o.Type, []string{"", "auto", "string", "number", "date"}},
		{"field mode", o.Mode, []string{"", "default", "min", "max"}},
		{"field missing", o.Missing, []string{"", "first", "last"}},
	} {
		if !slices.Contains(c.known, c.value) {
			return fmt.Errorf("unknown search sort %s: %s", c.what, c.value)
		}
	}
	if o.By != "geo_distance" {
		return nil
	}
	var ok bool
	if o.center, ok = pointOf(o.Location); !ok {
		return fmt.Errorf("unable to parse geo_distance location")
	}
	if o.unit, ok = units[o.Unit]; !ok {
		return fmt.Errorf("unknown distance unit: %s", o.Unit)
	}
	return nil
}

// key is what a hit is sorted by: missing ones first or last, then numbers, then texts.
type key struct {
	missing int
	number  float64
	text    string
	shown   string
}

func (o *order) key(h *hit) key {
	switch o.By {
	case "id":
		return key{text: h.doc.id, shown: h.doc.id}
	case "score":
		return key{number: h.score, shown: "_score"}
	}
	var keys []key
	if f := h.doc.fields[o.Field]; f != nil {
		keys = o.keys(f)
	}
	if len(keys) == 0 {
		k := key{missing: 1, shown: "\U0010ffff\U0010ffff\U0010ffff"}
		if (o.Missing == "first") != o.Desc {
			k.missing = -1
		}
		return k
	}
	pick := slices.MinFunc[[]key]
	if o.Mode == "max" {
		pick = slices.MaxFunc[[]key]
	}
	return pick(keys, compareKeys)
}

// keys are those of a field's values.
func (o *order) keys(f *field) (out []key) {
	if o.By == "geo_distance" {
		for _, p := range f.points {
			n := distance(o.center, p) / o.unit
			out = append(out, key{number: n, shown: strconv.FormatFloat(n, 'g', -1, 64)})
		}
		return out
	}
	auto := o.Type == "" || o.Type == "auto"
	if auto || o.Type == "number" {
		for _, n := range f.numbers {
			out = append(out, key{number: n, shown: strconv.FormatFloat(n, 'g', -1, 64)})
		}
	}
	if auto || o.Type == "date" {
		for _, t := range f.dates {
			out = append(out, key{number: float64(t.UnixMilli()), shown: t.UTC().Format(time.RFC3339Nano)})
		}
	}
	if auto || o.Type == "string" {
		for t := range f.terms {
			out = append(out, key{text: t, shown: t})
		}
	}
	return out
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.missing, b.missing), cmp.Compare(a.number, b.number), cmp.Compare(a.text, b.text))
}

// sortHits sorts by the criteria, then by id.
func sortHits(hits []*hit, by []order) {
	for _, h := range hits {
		for i := range by {
			h.keys = append(h.keys, by[i].key(h))
		}
	}
	slices.SortStableFunc(hits, func(a, b *hit) int {
		for i := range by {
			c := compareKeys(a.keys[i], b.keys[i])
			if by[i].Desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return cmp.Compare(a.doc.id, b.doc.id)
	})
}
