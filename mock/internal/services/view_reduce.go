package services

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// reduceBatch is how many rows a reduce function gets at once; more are reduced again.
const reduceBatch = 100

// nativeReducers are the reduce functions that need no engine.
var nativeReducers = map[string]func(rows []viewRow) ([]byte, error){
	"_count": func(rows []viewRow) ([]byte, error) { return strconv.AppendInt(nil, int64(len(rows)), 10), nil },
	"_sum": func(rows []viewRow) ([]byte, error) {
		s, err := statsOf("_sum", rows)
		return number(s.sum), err
	},
	"_stats": func(rows []viewRow) ([]byte, error) {
		s, err := statsOf("_stats", rows)
		return fmt.Appendf(nil, `{"sum":%s,"count":%d,"min":%s,"max":%s,"sumsqr":%s}`, number(s.sum), len(rows), number(s.min),
			number(s.max), number(s.squares)), err
	},
}

type viewStats struct{ sum, min, max, squares float64 }

func statsOf(name string, rows []viewRow) (viewStats, error) {
	s := viewStats{min: math.Inf(1), max: math.Inf(-1)}
	for i := range rows {
		f, err := strconv.ParseFloat(string(rows[i].value), 64)
		if err != nil {
			return viewStats{}, fmt.Errorf("builtin %s function requires map values to be numbers", name)
		}
		s.sum, s.squares = s.sum+f, s.squares+f*f
		s.min, s.max = min(s.min, f), max(s.max, f)
	}
	return s, nil
}

// number is a number in JSON; what JSON has no word for is null.
func number(f float64) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return []byte("null")
	}
	return b
}

// reduce is the reduced value of rows.
func (rn *viewRun) reduce(rows []viewRow) ([]byte, error) {
	if native := nativeReducers[rn.source.Reduce]; native != nil {
		return native(rows)
	}
	var parts [][]byte
	for len(rows) > 0 {
		batch := rows[:min(len(rows), reduceBatch)]
		rows = rows[len(batch):]
		var keys, values [][]byte
		for i := range batch {
			r := &batch[i]
			keys = append(keys, fmt.Appendf(nil, "[%s,%s]", r.key, quote(r.id)))
			values = append(values, r.value)
		}
		part, err := rn.f.Reduce(rn.ctx, jsonArray(keys), jsonArray(values), false)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return rn.f.Reduce(rn.ctx, []byte("null"), jsonArray(parts), true)
}

func jsonArray(parts [][]byte) []byte {
	b := append([]byte{'['}, bytes.Join(parts, []byte{','})...)
	return append(b, ']')
}

// viewGroup is a run of rows that are reduced together.
type viewGroup struct {
	key  []byte
	rows []viewRow
}

// groups splits rows, which are in order, by their keys: level 0 makes one group, a negative level groups equal keys,
// any other level the first so many elements of array keys.
func groups(rows []viewRow, level int) []viewGroup {
	if level == 0 {
		if len(rows) == 0 {
			return nil
		}
		return []viewGroup{{[]byte("null"), rows}}
	}
	var out []viewGroup
	var last any
	for i := range rows {
		key, sort := rows[i].key, rows[i].sort
		if elements, ok := sort.([]any); ok && level > 0 && len(elements) > level {
			sort = elements[:level]
			key, _ = json.Marshal(sort) // was decoded from JSON
		}
		if len(out) == 0 || collate(last, sort) != 0 {
			out = append(out, viewGroup{key: key})
			last = sort
		}
		g := &out[len(out)-1]
		g.rows = append(g.rows, rows[i])
	}
	return out
}
