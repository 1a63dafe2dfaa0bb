package sqlpp

import (
	"maps"
	"slices"
)

// loose is list for a function whose other arguments may be NULL.
func loose(least, most int, f func(r *run, a []any, args []any) any) function {
	return function{least, most, true, func(r *run, args []any) any {
		if slices.ContainsFunc(args, isMissing) {
			return missing
		}
		a, ok := args[0].([]any)
		if !ok || !r.spend(len(a)) {
			return nil
		}
		return f(r, a, args[1:])
	}}
}

// sets makes a function of arrays: an argument of another type makes its value NULL.
func sets(f func(r *run, lists [][]any) []any) function {
	return function{2, anyNumber, false, func(r *run, args []any) any {
		lists := make([][]any, len(args))
		for i, a := range args {
			list, ok := a.([]any)
			if !ok || !r.allocate(32*len(list)) {
				return nil
			}
			lists[i] = list
		}
		return r.made(f(r, lists))
	}}
}

// occurrences are the different values of arrays in the order in which they first come, with how many arrays have each.
func (r *run) occurrences(lists [][]any) (values []any, in []int) {
	at := map[string]int{}
	for _, list := range lists {
		last := map[string]bool{}
		for _, v := range list {
			key := r.encode(v)
			if last[key] {
				continue
			}
			last[key] = true
			i, known := at[key]
			if !known {
				i = len(values)
				at[key], values, in = i, append(values, v), append(in, 0)
			}
			in[i]++
		}
	}
	return values, in
}

// valuesIn are the values of which a predicate holds for the number of arrays that have them.
func valuesIn(ok func(in, all int) bool) function {
	return sets(func(r *run, lists [][]any) []any {
		values, in := r.occurrences(lists)
		out := []any{}
		for i, v := range values {
			if ok(in[i], len(lists)) {
				out = append(out, v)
			}
		}
		return out
	})
}

// indexIn is an index of an array of n elements; a negative one counts from the end.
func indexIn(v any, n int) (int, bool) {
	i, whole := integer(v)
	if i < 0 {
		i += int64(n)
	}
	return int(i), whole && i >= 0 && i < int64(n)
}

var moreLists = map[string]function{
	"ARRAY_APPEND": loose(2, anyNumber, func(r *run, a, args []any) any {
		r.allocate(16 * len(a))
		return r.made(slices.Concat(a, args))
	}),
	"ARRAY_PREPEND": {2, anyNumber, true, func(r *run, args []any) any {
		if slices.ContainsFunc(args, isMissing) {
			return missing
		}
		a, ok := args[len(args)-1].([]any)
		if !ok || !r.allocate(16*len(a)) {
			return nil
		}
		return r.made(slices.Concat(args[:len(args)-1], a))
	}},
	"ARRAY_INSERT": loose(3, anyNumber, func(r *run, a, args []any) any {
		at, ok := indexIn(args[0], len(a)+1)
		if n, whole := integer(args[0]); whole && n < 0 {
			at, ok = indexIn(args[0], len(a)) // before the element that it names
		}
		if !ok || !r.allocate(16*len(a)) {
			return nil
		}
		return r.made(slices.Insert(slices.Clone(a), at, args[1:]...))
	}),
	"ARRAY_REPLACE": loose(3, 4, func(r *run, a, args []any) any {
		most, whole := int64(len(a)), true
		if len(args) > 2 {
			most, whole = integer(args[2])
		}
		if args[0] == nil || !whole {
			return nil
		}
		out := slices.Clone(a)
		for i := range out {
			if most > 0 && r.equal(out[i], args[0]) {
				out[i] = args[1]
				most--
			}
		}
		return r.made(out)
	}),
	"ARRAY_REPEAT": {2, 2, true, func(r *run, args []any) any {
		if slices.ContainsFunc(args, isMissing) {
			return missing
		}
		n, whole := integer(args[1])
		if !whole || n < 0 {
			return nil
		}
		if n > int64(r.limits.Bytes) || !r.allocate(16*int(n)) {
			r.allocate(r.limits.Bytes + 1)
			return missing
		}
		return slices.Repeat([]any{args[0]}, int(n))
	}},
	"ARRAY_STAR": list(1, 1, func(r *run, a, _ []any) any {
		out := map[string]any{}
		for _, v := range a {
			o, _ := v.(map[string]any)
			for name := range o {
				if out[name] == nil && r.allocate(16*len(a)) {
					out[name] = make([]any, len(a))
				}
			}
		}
		for name, v := range out {
			for i := range a {
				if m := field(a[i], name); !isMissing(m) {
					v.([]any)[i] = m
				}
			}
		}
		return out
	}),
	"ARRAY_UNION":    valuesIn(func(int, int) bool { return true }),
	"ARRAY_SYMDIFF":  valuesIn(func(in, _ int) bool { return in == 1 }),
	"ARRAY_SYMDIFFN": valuesIn(func(in, _ int) bool { return in%2 == 1 }),
	"ARRAY_INTERSECT": sets(func(r *run, lists [][]any) []any {
		values, in := r.occurrences(lists)
		out := []any{}
		for i, v := range values {
			if in[i] == len(lists) && !unknown(v) {
				out = append(out, v)
			}
		}
		return out
	}),
	"ARRAY_EXCEPT": list(2, 2, func(r *run, a, args []any) any {
		b, ok := args[0].([]any)
		if !ok {
			return nil
		}
		out := []any{}
		for _, v := range a {
			if !slices.ContainsFunc(b, func(x any) bool { return r.equal(x, v) }) {
				out = append(out, v)
			}
		}
		return r.made(out)
	}),
	"ARRAY_CONTAINS_ALL": list(2, 2, func(r *run, a, args []any) any {
		for _, want := range elements(args[0]) {
			if !slices.ContainsFunc(a, func(v any) bool { return r.equal(v, want) }) {
				return false
			}
		}
		return true
	}),
	"ARRAY_CONTAINS_ANY": list(2, 2, func(r *run, a, args []any) any {
		return slices.ContainsFunc(elements(args[0]), func(want any) bool {
			return want != nil && slices.ContainsFunc(a, func(v any) bool { return r.equal(v, want) })
		})
	}),
	"ARRAY_SWAP": list(3, 3, func(r *run, a, args []any) any {
		i, ok := indexIn(args[0], len(a))
		j, ok2 := indexIn(args[1], len(a))
		if !ok || !ok2 {
			return nil
		}
		out := slices.Clone(a)
		out[i], out[j] = out[j], out[i]
		return r.made(out)
	}),
	"ARRAY_MOVE": list(3, 3, func(r *run, a, args []any) any {
		i, ok := indexIn(args[0], len(a))
		j, ok2 := indexIn(args[1], len(a))
		if !ok || !ok2 {
			return nil
		}
		return r.made(slices.Insert(slices.Delete(slices.Clone(a), i, i+1), j, a[i]))
	}),
	"ARRAY_BINARY_SEARCH": loose(2, 2, func(r *run, a, args []any) any {
		if i, found := slices.BinarySearchFunc(a, args[0], r.compare); found {
			return int64(i)
		}
		return int64(-1)
	}),
}

// elements are those of an array, and another value is one of its own.
func elements(v any) []any {
	if a, ok := v.([]any); ok {
		return a
	}
	return []any{v}
}

var moreObjects = map[string]function{
	"OBJECT_RENAME": members(3, 3, func(r *run, o map[string]any, args []any) any {
		from, ok := args[0].(string)
		to, ok2 := args[1].(string)
		if isMissing(args[0]) || isMissing(args[1]) {
			return missing
		}
		v, has := o[from]
		switch {
		case !ok || !ok2:
			return nil
		case !has || from == to:
			return o
		case !r.allocate(32 * len(o)):
			return missing
		}
		out := maps.Clone(o)
		delete(out, from)
		out[to] = v
		return out
	}),
	"OBJECT_REPLACE": members(3, 3, func(r *run, o map[string]any, args []any) any {
		if unknown(args[0]) {
			return args[0]
		}
		if !r.allocate(32 * len(o)) {
			return missing
		}
		out := maps.Clone(o)
		for name, v := range o {
			switch {
			case !r.equal(v, args[0]):
			case isMissing(args[1]):
				delete(out, name)
			default:
				out[name] = args[1]
			}
		}
		return out
	}),
	"OBJECT_UNWRAP": members(1, 1, func(_ *run, o map[string]any, _ []any) any {
		for _, v := range o {
			if len(o) == 1 {
				return v
			}
		}
		return nil
	}),
	"TO_OBJECT": {1, 1, false, func(_ *run, args []any) any {
		if o, ok := args[0].(map[string]any); ok {
			return o
		}
		return map[string]any{}
	}},
	"TO_ATOM": {1, 1, false, func(r *run, args []any) any { return r.atom(args[0]) }},
}

// atom is the value within arrays and objects of one element; NULL for those of more or none.
func (r *run) atom(v any) any {
	for r.spend(1) {
		switch x := v.(type) {
		case []any:
			if len(x) != 1 {
				return nil
			}
			v = x[0]
		case map[string]any:
			if len(x) != 1 {
				return nil
			}
			for _, m := range x {
				v = m
			}
		default:
			return v
		}
	}
	return missing
}
