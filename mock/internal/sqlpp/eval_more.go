package sqlpp

import (
	"math"
	"slices"
	"strings"
)

// each binds the names of bindings to the elements of their arrays, in step, until yield returns false. It returns
// MISSING or NULL for an array that is not one, and otherwise true.
func (r *run) each(binds []binding, s *scope, yield func(*scope) bool) any {
	arrays := make([][]any, len(binds))
	least := -1
	for i, b := range binds {
		v := r.eval(b.in, s)
		if b.within && !unknown(v) {
			v = r.descendants(v)
		}
		a, ok := v.([]any)
		switch {
		case isMissing(v):
			return missing
		case !ok:
			return nil
		}
		arrays[i] = a
		if least < 0 || len(a) < least {
			least = len(a)
		}
	}
	for n := 0; n < least && r.spend(1); n++ {
		inner := s
		for i, b := range binds {
			inner = inner.with(b.name, arrays[i][n])
			if b.index != "" {
				inner = inner.with(b.index, int64(n))
			}
		}
		if !yield(inner) {
			break
		}
	}
	return true
}

func (r *run) quantified(e *expr, s *scope) any {
	some, all := false, true
	v := r.each(e.binds, s, func(inner *scope) bool {
		ok := truth(r.eval(e.when, inner))
		some, all = some || ok, all && ok
		return r.err == nil && (e.name == "ANY" && !some || e.name != "ANY" && all)
	})
	switch {
	case v != true:
		return v
	case e.name == "ANY":
		return some
	case e.name == "EVERY":
		return all
	}
	return some && all
}

func (r *run) collect(e *expr, s *scope) any {
	list, object := []any{}, map[string]any{}
	v := r.each(e.binds, s, func(inner *scope) bool {
		if e.when != nil && !truth(r.eval(e.when, inner)) {
			return r.err == nil
		}
		x := r.eval(e.args[len(e.args)-1], inner)
		if e.name == "OBJECT" {
			if name, ok := r.eval(e.args[0], inner).(string); ok && !isMissing(x) {
				object[name] = x
			}
			return r.allocate(32)
		}
		if !isMissing(x) {
			list = append(list, x)
		}
		return r.allocate(16) && e.name != "FIRST"
	})
	switch {
	case v != true:
		return v
	case e.name == "OBJECT":
		return object
	case e.name == "ARRAY":
		return list
	case len(list) == 0:
		return missing
	}
	return list[0]
}

// subquery is the array of the rows of a SELECT in brackets.
func (r *run) subquery(e *expr, s *scope) any {
	rows := r.query(e.query, s)
	r.allocate(16 * len(rows))
	return rows
}

// call evaluates a function.
func (r *run) call(e *expr, s *scope) any {
	if e.name == "META" {
		return r.meta(e, s)
	}
	if aggregates[e.name] {
		for ; s != nil; s = s.up {
			if v, ok := s.aggs[e]; ok {
				return v
			}
		}
		r.fail(fail(CodeSemantics, "Aggregate function %s is not allowed here", e.name))
		return missing
	}
	f, ok := functions[e.name]
	if !ok {
		return missing
	}
	args := make([]any, len(e.args))
	for i, a := range e.args {
		args[i] = r.eval(a, s)
	}
	if r.err != nil {
		return missing
	}
	if !f.sees {
		for _, a := range args {
			if isMissing(a) {
				return missing
			}
		}
		for _, a := range args {
			if a == nil {
				return nil
			}
		}
	}
	return f.call(r, args)
}

// meta is the object that META has for a document.
func (r *run) meta(e *expr, s *scope) any {
	var at *scope
	switch f := s.frame(); {
	case len(e.args) == 1 && e.args[0].op == opIdent:
		at = s.find(e.args[0].name)
	case len(e.args) == 0 && f != nil && f.sole != "":
		at = s.find(f.sole)
	case len(e.args) == 0:
		r.fail(fail(4310, "META() in query with multiple FROM terms requires an argument."))
		return missing
	}
	if at == nil || at.doc == nil {
		return missing
	}
	r.allocate(128)
	kind := "json"
	if _, ok := Decode(at.doc.Value); !ok {
		kind = "base64"
	}
	return map[string]any{
		"id": at.doc.Key, "cas": int64(at.doc.CAS), "flags": int64(at.doc.Flags), "expiration": int64(at.doc.Expiry),
		"type": kind, "keyspace": at.ks,
	}
}

// aggregate computes an aggregate over the rows of a group.
func (r *run) aggregate(e *expr, rows []*scope) any {
	var values []any
	seen := map[string]bool{}
	for _, row := range rows {
		if e.args[0].op == opStar {
			values = append(values, true)
			continue
		}
		v := r.eval(e.args[0], row)
		if isMissing(v) || v == nil && e.name != "ARRAY_AGG" {
			continue
		}
		if e.distinct {
			key := r.encode(v)
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		values = append(values, v)
		if !r.spend(1) {
			return missing
		}
	}
	if strings.HasPrefix(e.name, "ARRAY") && len(values) > 0 {
		r.allocate(16 * len(values))
		return values
	}
	return r.fold(e.name, values)
}

// fold computes COUNT, SUM, AVG, MIN and MAX of values that are neither MISSING nor NULL.
func (r *run) fold(name string, values []any) any {
	var sum, best any = int64(0), nil
	numbers := 0
	for _, v := range values {
		if isNumber(v) {
			numbers++
			sum = arithmetic("+", sum, v)
		}
		if c := r.compare(v, best); best == nil || name == "MIN" && c < 0 || name == "MAX" && c > 0 {
			best = v
		}
	}
	switch name {
	case "COUNT":
		return int64(len(values))
	case "COUNTN":
		return int64(numbers)
	case "MIN", "MAX":
		return best
	}
	switch {
	case numbers == 0:
		return nil
	case name == "SUM":
		return sum
	case name == "AVG" || name == "MEAN":
		return arithmetic("/", sum, int64(numbers))
	}
	return spread(name, slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !isNumber(v) }))
}

// spread computes MEDIAN, and the variances and deviations of numbers: those of samples are NULL for a single number.
func spread(name string, numbers []any) any {
	xs := make([]float64, len(numbers))
	mean := 0.0
	for i, v := range numbers {
		xs[i] = float(v)
		mean += xs[i] / float64(len(xs))
	}
	n := float64(len(xs))
	if name == "MEDIAN" {
		slices.Sort(xs)
		return number((xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2)
	}
	squares := 0.0
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	switch pop := strings.HasSuffix(name, "_POP"); {
	case len(xs) == 1 && strings.HasSuffix(name, "_SAMP"):
		return nil
	case len(xs) == 1:
		return int64(0)
	case !pop:
		n--
	}
	if strings.HasPrefix(name, "STDDEV") {
		return number(math.Sqrt(squares / n))
	}
	return number(squares / n)
}
