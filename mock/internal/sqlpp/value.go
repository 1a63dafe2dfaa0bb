package sqlpp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A value is nil (NULL), missing, bool, int64, float64, string, []any or map[string]any. Values are never changed in
// place once another part of the interpreter may have them.

type missingValue struct{}

// missing is the value of what is not there.
var missing any = missingValue{}

func isMissing(v any) bool { return v == missing }

// unknown reports whether a value is MISSING or NULL.
func unknown(v any) bool { return v == nil || v == missing }

// kindOf is the place of a value's type in the order of types.
func kindOf(v any) int {
	switch v := v.(type) {
	case missingValue:
		return 0
	case nil:
		return 1
	case bool:
		if v {
			return 3
		}
		return 2
	case int64, float64:
		return 4
	case string:
		return 5
	case []any:
		return 6
	default:
		return 7
	}
}

// kindNames are the names that TYPE has for them.
var kindNames = [...]string{"missing", "null", "boolean", "boolean", "number", "string", "array", "object"}

// truth reports whether a condition holds. Numbers, strings, arrays and objects count as true when they are not zero or
// empty.
func truth(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0 && !math.IsNaN(v)
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// compare orders two values: MISSING, NULL, FALSE, TRUE, numbers, strings, arrays, objects. Objects are ordered by
// their size, then by their sorted names, then by the values.
func (r *run) compare(a, b any) int {
	if !r.spend(1) {
		return 0
	}
	if c := cmp.Compare(kindOf(a), kindOf(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(float64(a), float(b))
	case float64:
		return cmp.Compare(a, float(b))
	case string:
		b, _ := b.(string)
		r.spend(min(len(a), len(b)) / 64)
		return strings.Compare(a, b)
	case []any:
		b, _ := b.([]any)
		return slices.CompareFunc(a, b, r.compare)
	case map[string]any:
		b, _ := b.(map[string]any)
		if c := cmp.Compare(len(a), len(b)); c != 0 {
			return c
		}
		an, bn := r.names(a), r.names(b)
		if c := slices.Compare(an, bn); c != 0 {
			return c
		}
		for _, name := range an {
			if c := r.compare(a[name], b[name]); c != 0 {
				return c
			}
		}
	}
	return 0
}

func (r *run) equal(a, b any) bool { return r.compare(a, b) == 0 }

// names are the sorted names of an object's members.
func (r *run) names(o map[string]any) []string {
	r.spend(len(o))
	return slices.Sorted(maps.Keys(o))
}

// float is a number as a float64; 0 for another value.
func float(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

func isNumber(v any) bool { return kindOf(v) == 4 }

// integer is a number without a fraction, false for any other value.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int64(v), true
		}
	}
	return 0, false
}

// number is a float64 as the value that is written without a fraction where it has none.
func number(f float64) any {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return int64(f)
	}
	return f
}

// Decode reads one JSON value; false for what is no JSON.
func Decode(b []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return missing, false
	}
	if _, err := d.Token(); err != io.EOF {
		return missing, false
	}
	return numbers(v), true
}

// numbers replaces the texts of numbers by numbers, in place.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return parseNumber(string(v))
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

func parseNumber(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil // too large for a number
	}
	return f
}

// encode is a value as JSON text, with sorted names. MISSING is null, and left out of objects.
func (r *run) encode(v any) string {
	b := r.appendJSON(nil, v)
	r.allocate(len(b))
	return string(b)
}

func (r *run) appendJSON(b []byte, v any) []byte {
	if !r.spend(1) || len(b) > r.limits.Bytes {
		return append(b, "null"...)
	}
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		switch { // JSON has no such numbers, and the server writes texts for them
		case math.IsNaN(v):
			return append(b, `"NaN"`...)
		case math.IsInf(v, 1):
			return append(b, `"+Infinity"`...)
		case math.IsInf(v, -1):
			return append(b, `"-Infinity"`...)
		}
		return appendMarshaled(b, v)
	case string:
		return appendMarshaled(b, v)
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.appendJSON(b, x)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		first := true
		for _, name := range r.names(v) {
			if isMissing(v[name]) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(b, quote(name)...), ':')
			b = r.appendJSON(b, v[name])
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendMarshaled(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, text...)
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string cannot fail
	return string(b)
}

// field is a member of an object. MISSING has none; a value of another type has none and is NULL only for NULL.
func field(v any, name string) any {
	o, ok := v.(map[string]any)
	if !ok {
		if v == nil {
			return nil
		}
		return missing
	}
	if m, ok := o[name]; ok {
		return m
	}
	return missing
}

// element is an element of an array; a negative index counts from the end.
func element(v, index any) any {
	a, ok := v.([]any)
	i, whole := integer(index)
	switch {
	case isMissing(v) || isMissing(index):
		return missing
	case !ok || !whole:
		if v == nil || index == nil {
			return nil
		}
		return missing
	}
	if i < 0 {
		i += int64(len(a))
	}
	if i < 0 || i >= int64(len(a)) {
		return missing
	}
	return a[i]
}
