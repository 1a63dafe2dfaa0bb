package sqlpp

import (
	"maps"
	"slices"
)

// list makes a function whose first argument is an array: another value makes its value NULL. The array's length is
// spent.
func list(least, most int, f func(r *run, a []any, args []any) any) function {
	return function{least, most, false, func(r *run, args []any) any {
		a, ok := args[0].([]any)
		if !ok || !r.spend(len(a)) {
			return nil
		}
		return f(r, a, args[1:])
	}}
}

// made counts the elements of an array that a function has made.
func (r *run) made(a []any) any {
	if !r.allocate(16 * len(a)) {
		return missing
	}
	return a
}

var arrayFunctions = map[string]function{
	"ARRAY_LENGTH": list(1, 1, func(_ *run, a, _ []any) any { return int64(len(a)) }),
	"ARRAY_COUNT":  list(1, 1, func(r *run, a, _ []any) any { return r.fold("COUNT", known(a)) }),
	"ARRAY_SUM": list(1, 1, func(r *run, a, _ []any) any {
		if v := r.fold("SUM", known(a)); v != nil {
			return v
		}
		return int64(0)
	}),
	"ARRAY_AVG": list(1, 1, func(r *run, a, _ []any) any { return r.fold("AVG", known(a)) }),
	"ARRAY_MIN": list(1, 1, func(r *run, a, _ []any) any { return r.fold("MIN", known(a)) }),
	"ARRAY_MAX": list(1, 1, func(r *run, a, _ []any) any { return r.fold("MAX", known(a)) }),
	"ARRAY_CONTAINS": list(2, 2, func(r *run, a, args []any) any {
		return slices.ContainsFunc(a, func(v any) bool { return r.equal(v, args[0]) })
	}),
	"ARRAY_POSITION": list(2, 2, func(r *run, a, args []any) any {
		return int64(slices.IndexFunc(a, func(v any) bool { return r.equal(v, args[0]) }))
	}),
	"ARRAY_CONCAT": list(2, anyNumber, func(r *run, a, args []any) any {
		out := slices.Clone(a)
		for _, x := range args {
			more, ok := x.([]any)
			if !ok {
				return nil
			}
			if !r.allocate(16 * len(more)) {
				return missing
			}
			out = append(out, more...)
		}
		return r.made(out)
	}),
	"ARRAY_DISTINCT": list(1, 1, func(r *run, a, _ []any) any {
		seen := map[string]bool{}
		out := []any{}
		for _, v := range a {
			if key := r.encode(v); !seen[key] {
				seen[key] = true
				out = append(out, v)
			}
		}
		return r.made(out)
	}),
	"ARRAY_SORT": list(1, 1, func(r *run, a, _ []any) any {
		if !r.allocate(16 * len(a)) {
			return missing
		}
		return slices.SortedStableFunc(slices.Values(a), r.compare)
	}),
	"ARRAY_REVERSE": list(1, 1, func(r *run, a, _ []any) any {
		out := slices.Clone(a)
		slices.Reverse(out)
		return r.made(out)
	}),
	"ARRAY_REMOVE": list(2, anyNumber, func(r *run, a, args []any) any {
		return r.made(slices.DeleteFunc(slices.Clone(a), func(v any) bool {
			return slices.ContainsFunc(args, func(x any) bool { return r.equal(x, v) })
		}))
	}),
	"ARRAY_PUT": list(2, anyNumber, func(r *run, a, args []any) any {
		out := slices.Clone(a)
		for _, x := range args {
			if !slices.ContainsFunc(out, func(v any) bool { return r.equal(v, x) }) {
				out = append(out, x)
			}
		}
		return r.made(out)
	}),
	"ARRAY_IFNULL": list(1, 1, func(_ *run, a, _ []any) any {
		for _, v := range a {
			if !unknown(v) {
				return v
			}
		}
		return nil
	}),
	"ARRAY_FLATTEN": list(2, 2, func(r *run, a, args []any) any {
		depth, ok := integer(args[0])
		if !ok {
			return nil
		}
		return r.made(r.flatten(nil, a, depth))
	}),
	"ARRAY_RANGE": {2, 3, false, func(r *run, args []any) any {
		from, ok := integer(args[0])
		to, ok1 := integer(args[1])
		step, ok2 := int64(1), true
		if len(args) > 2 {
			step, ok2 = integer(args[2])
		}
		if !ok || !ok1 || !ok2 || step == 0 {
			return nil
		}
		out := []any{}
		for i := from; (step > 0 && i < to || step < 0 && i > to) && r.allocate(16); {
			out = append(out, i)
			next := i + step
			if (next > i) != (step > 0) {
				break // beyond the largest number
			}
			i = next
		}
		return out
	}},
}

// known are the values that are neither MISSING nor NULL.
func known(a []any) []any {
	return slices.DeleteFunc(slices.Clone(a), unknown)
}

// flatten appends the elements of arrays within an array; a negative depth means any.
func (r *run) flatten(out, a []any, depth int64) []any {
	for _, v := range a {
		if !r.spend(1) {
			break
		}
		if inner, ok := v.([]any); ok && depth != 0 {
			out = r.flatten(out, inner, depth-1)
			continue
		}
		out = append(out, v)
	}
	return out
}

// members makes a function whose first argument is an object: another value makes its value NULL.
func members(least, most int, f func(r *run, o map[string]any, args []any) any) function {
	return function{least, most, true, func(r *run, args []any) any {
		o, ok := args[0].(map[string]any)
		switch {
		case isMissing(args[0]):
			return missing
		case !ok || !r.spend(len(o)):
			return nil
		}
		return f(r, o, args[1:])
	}}
}

// changed is a copy of an object with a member that has a value, or without it when that is MISSING.
func (r *run) changed(o map[string]any, name string, v any) any {
	if !r.allocate(32 * len(o)) {
		return missing
	}
	out := maps.Clone(o)
	if isMissing(v) {
		delete(out, name)
	} else {
		out[name] = v
	}
	return out
}

var objectFunctions = map[string]function{
	"OBJECT_LENGTH": members(1, 1, func(_ *run, o map[string]any, _ []any) any { return int64(len(o)) }),
	"OBJECT_NAMES": members(1, 1, func(r *run, o map[string]any, _ []any) any {
		out := []any{}
		for _, name := range r.names(o) {
			out = append(out, name)
		}
		return r.made(out)
	}),
	"OBJECT_VALUES": members(1, 1, func(r *run, o map[string]any, _ []any) any {
		out := []any{}
		for _, name := range r.names(o) {
			out = append(out, o[name])
		}
		return r.made(out)
	}),
	"OBJECT_PAIRS": members(1, 1, func(r *run, o map[string]any, _ []any) any {
		out := []any{}
		for _, name := range r.names(o) {
			r.allocate(64)
			out = append(out, map[string]any{"name": name, "val": o[name]})
		}
		return r.made(out)
	}),
	"OBJECT_PUT": members(3, 3, func(r *run, o map[string]any, args []any) any { return r.put(o, args, true) }),
	"OBJECT_ADD": members(3, 3, func(r *run, o map[string]any, args []any) any { return r.put(o, args, false) }),
	"OBJECT_REMOVE": members(2, 2, func(r *run, o map[string]any, args []any) any {
		return r.put(o, []any{args[0], missing}, true)
	}),
	"OBJECT_CONCAT": members(1, anyNumber, func(r *run, o map[string]any, args []any) any {
		out := maps.Clone(o)
		for _, a := range args {
			more, ok := a.(map[string]any)
			if !ok {
				return nil
			}
			if !r.allocate(32 * len(more)) {
				return missing
			}
			maps.Copy(out, more)
		}
		return out
	}),
}

// put sets a member of an object; one that is there stays unless it may be replaced.
func (r *run) put(o map[string]any, args []any, replace bool) any {
	name, ok := args[0].(string)
	if !ok {
		return nil
	}
	if _, has := o[name]; has && !replace {
		return o
	}
	return r.changed(o, name, args[1])
}
