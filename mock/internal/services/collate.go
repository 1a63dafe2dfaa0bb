package services

import (
	"cmp"
	"maps"
	"slices"
	"unicode"
)

// collate orders JSON values as views do: null, false, true, numbers, strings, arrays, objects. Objects are compared by
// their members in the order of the names.
func collate(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case float64:
		f, _ := b.(float64)
		return cmp.Compare(a, f)
	case string:
		s, _ := b.(string)
		return collateText(a, s)
	case []any:
		o, _ := b.([]any)
		return slices.CompareFunc(a, o, collate)
	case map[string]any:
		o, _ := b.(map[string]any)
		as, bs := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(o))
		for i := range min(len(as), len(bs)) {
			if c := cmp.Or(collateText(as[i], bs[i]), collate(a[as[i]], o[bs[i]])); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(as), len(bs))
	}
	return 0
}

func rank(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 2
		}
		return 1
	case float64:
		return 3
	case string:
		return 4
	case []any:
		return 5
	}
	return 6
}

// collateText comes near to the order of a dictionary: other characters, digits, letters; upper and lower case are
// alike, unless that is all that differs, and then lower case is first.
func collateText(a, b string) int {
	as, bs := []rune(a), []rune(b)
	weigh := func(x, y rune) int {
		return cmp.Or(cmp.Compare(letterClass(x), letterClass(y)), cmp.Compare(unicode.ToLower(x), unicode.ToLower(y)))
	}
	if c := slices.CompareFunc(as, bs, weigh); c != 0 {
		return c
	}
	return slices.CompareFunc(as, bs, func(x, y rune) int { return cmp.Compare(y, x) })
}

func letterClass(r rune) int {
	switch {
	case unicode.IsLetter(r):
		return 2
	case unicode.IsDigit(r):
		return 1
	}
	return 0
}
