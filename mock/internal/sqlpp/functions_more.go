package sqlpp

import (
	"math"
	"math/bits"
	"math/rand"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// firstNumber is the first argument that a predicate holds for; NULL before another kind of value than a number.
func firstNumber(ok func(float64) bool) function {
	return function{2, anyNumber, true, func(_ *run, args []any) any {
		var out any
		for _, a := range args {
			switch {
			case isMissing(a):
				out = missing
			case !isNumber(a):
				return nil
			case ok(float(a)):
				return a
			}
		}
		return out
	}}
}

// unequal is its first argument, or a number that stands for it when the second is the same.
func unequal(instead float64) function {
	return function{2, 2, false, func(r *run, args []any) any {
		if r.equal(args[0], args[1]) {
			return instead
		}
		return args[0]
	}}
}

// bitwise folds whole numbers.
func bitwise(f func(a, b int64) int64) function {
	return function{2, anyNumber, false, func(_ *run, args []any) any {
		out, ok := integer(args[0])
		for _, a := range args[1:] {
			n, whole := integer(a)
			out, ok = f(out, n), ok && whole
		}
		return orNull(out, ok)
	}}
}

// bitMask are the bits that a number or an array of numbers names, 1 being the lowest and 64 the highest.
func bitMask(v any) (mask uint64, ok bool) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	for _, x := range list {
		n, whole := integer(x)
		if !whole || n < 1 || n > 64 {
			return 0, false
		}
		mask |= 1 << (n - 1)
	}
	return mask, true
}

// masked changes the bits of a number that the second argument names.
func masked(f func(n, mask uint64) uint64) function {
	return function{2, 2, false, func(_ *run, args []any) any {
		n, whole := integer(args[0])
		mask, ok := bitMask(args[1])
		return orNull(int64(f(uint64(n), mask)), whole && ok)
	}}
}

var moreNumbers = map[string]function{
	"MOD":  {2, 2, false, func(_ *run, args []any) any { return modulo(args[0], args[1]) }},
	"IMOD": {2, 2, false, wholeModulo},
	"ADD":  {2, 2, false, func(_ *run, args []any) any { return arithmetic("+", args[0], args[1]) }},
	"SUB":  {2, 2, false, func(_ *run, args []any) any { return arithmetic("-", args[0], args[1]) }},
	"MULT": {2, 2, false, func(_ *run, args []any) any { return arithmetic("*", args[0], args[1]) }},
	"DIV":  {2, 2, false, func(_ *run, args []any) any { return arithmetic("/", args[0], args[1]) }},
	"NEG":  {1, 1, false, func(_ *run, args []any) any { return arithmetic("-", int64(0), args[0]) }},
	"ATAN2": {2, 2, false, func(_ *run, args []any) any {
		return orNull(math.Atan2(float(args[0]), float(args[1])), isNumber(args[0]) && isNumber(args[1]))
	}},
	"RANDOM":        {0, 1, false, random},
	"ROUND_NEAREST": {1, 2, false, rounded(math.Round)},
	"NAN":           {0, 0, false, func(*run, []any) any { return math.NaN() }},
	"POSINF":        {0, 0, false, func(*run, []any) any { return math.Inf(1) }},
	"NEGINF":        {0, 0, false, func(*run, []any) any { return math.Inf(-1) }},
	"IFINF":         firstNumber(func(x float64) bool { return !math.IsInf(x, 0) }),
	"IFNAN":         firstNumber(func(x float64) bool { return !math.IsNaN(x) }),
	"IFNANORINF":    firstNumber(func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }),
	"NANIF":         unequal(math.NaN()),
	"POSINFIF":      unequal(math.Inf(1)),
	"NEGINFIF":      unequal(math.Inf(-1)),
	"BITAND":        bitwise(func(a, b int64) int64 { return a & b }),
	"BITOR":         bitwise(func(a, b int64) int64 { return a | b }),
	"BITXOR":        bitwise(func(a, b int64) int64 { return a ^ b }),
	"BITSET":        masked(func(n, mask uint64) uint64 { return n | mask }),
	"BITCLEAR":      masked(func(n, mask uint64) uint64 { return n &^ mask }),
	"BITNOT": {1, 1, false, func(_ *run, args []any) any {
		n, ok := integer(args[0])
		return orNull(^n, ok)
	}},
	"BITSHIFT": {2, 3, false, func(_ *run, args []any) any {
		n, ok := integer(args[0])
		by, whole := integer(args[1])
		rotate := false
		if len(args) > 2 {
			r, isBool := args[2].(bool)
			rotate, ok = r, ok && isBool
		}
		switch x := uint64(n); {
		case !ok || !whole:
			return nil
		case rotate:
			return int64(bits.RotateLeft64(x, int(by%64)))
		case by < 0:
			return int64(x >> min(uint64(-by), 64))
		default:
			return int64(x << min(uint64(by), 64))
		}
	}},
	"BITTEST": {2, 3, false, func(_ *run, args []any) any {
		n, whole := integer(args[0])
		mask, ok := bitMask(args[1])
		all := false
		if len(args) > 2 {
			a, isBool := args[2].(bool)
			all, ok = a, ok && isBool
		}
		found := uint64(n) & mask
		return orNull(found == mask && all || found != 0 && !all, whole && ok)
	}},
}

// modulo is the rest of a division, NULL for one by zero.
func modulo(a, b any) any { return arithmetic("%", a, b) }

// wholeModulo is the rest of a division of whole parts.
func wholeModulo(_ *run, args []any) any {
	if !isNumber(args[0]) || !isNumber(args[1]) {
		return nil
	}
	return modulo(int64(float(args[0])), int64(float(args[1])))
}

// random is a number from 0 to 1. Numbers of the same seed are the same, in each statement anew.
func random(r *run, args []any) any {
	if len(args) == 0 {
		return rand.Float64()
	}
	seed, ok := integer(args[0])
	if !ok {
		return nil
	}
	key := "random " + r.encode(seed)
	source, known := r.cached[key].(*rand.Rand)
	if !known {
		source = rand.New(rand.NewSource(seed))
		r.cache(key, source)
	}
	return source.Float64()
}

// pad fills a text up to a length, in front or behind, or cuts it.
func pad(front, runes bool) function {
	return function{2, 3, false, func(r *run, args []any) any {
		s, ok := args[0].(string)
		n, whole := integer(args[1])
		filler := " "
		if len(args) > 2 {
			f, text := args[2].(string)
			filler, ok = f, ok && text
		}
		if !ok || !whole || n < 0 || filler == "" {
			return nil
		}
		if n > int64(r.limits.Bytes) || !r.allocate(4*int(n)) {
			r.allocate(r.limits.Bytes + 1)
			return missing
		}
		if runes {
			return string(padded([]rune(s), []rune(filler), int(n), front))
		}
		return string(padded([]byte(s), []byte(filler), int(n), front))
	}}
}

func padded[T rune | byte](s, filler []T, n int, front bool) []T {
	if len(s) >= n {
		return s[:n]
	}
	more := make([]T, n-len(s))
	for i := range more {
		more[i] = filler[i%len(filler)]
	}
	if front {
		return append(more, s...)
	}
	return append(s, more...)
}

// runePosition is where a text is in another one, in characters from base on.
func runePosition(base int64) function {
	return onText(2, 2, func(_ *run, s []string) any {
		at := strings.Index(s[0], s[1])
		if at < 0 {
			return base - 1
		}
		return int64(utf8.RuneCountInString(s[0][:at])) + base
	})
}

var moreText = map[string]function{
	"LPAD": pad(true, false), "RPAD": pad(false, false), "MB_LPAD": pad(true, true), "MB_RPAD": pad(false, true),
	"MB_POSITION": runePosition(0), "MB_POSITION1": runePosition(1),
	"MB_SUBSTR":  {2, 3, false, func(_ *run, args []any) any { return runeSubstring(args, 0) }},
	"MB_SUBSTR1": {2, 3, false, func(_ *run, args []any) any { return runeSubstring(args, 1) }},
	"URLENCODE":  onText(1, 1, func(_ *run, s []string) any { return url.QueryEscape(s[0]) }),
	"URLDECODE": onText(1, 1, func(_ *run, s []string) any {
		text, err := url.QueryUnescape(s[0])
		return orNull(text, err == nil)
	}),
	"SUFFIXES": onText(1, 1, func(r *run, s []string) any {
		out := []any{}
		for i := range s[0] {
			if !r.allocate(32) {
				return missing
			}
			out = append(out, s[0][i:])
		}
		return out
	}),
	"TOKENS":          {1, 2, true, tokens},
	"CONTAINS_TOKEN":  {2, 3, false, containsToken},
	"REGEXP_REPLACE":  {3, 4, false, replaceExpression},
	"REGEXP_POSITION": onExpression(func(re *regexp.Regexp, s string) any { return expressionIndex(re, s) }),
	"REGEXP_POSITION1": onExpression(func(re *regexp.Regexp, s string) any {
		return expressionIndex(re, s) + 1
	}),
	"REGEXP_MATCHES": onExpression(func(re *regexp.Regexp, s string) any { return anys(re.FindAllString(s, -1)) }),
	"REGEXP_SPLIT": onExpression(func(re *regexp.Regexp, s string) any {
		if !re.MatchString(s) {
			return []any{}
		}
		return anys(re.Split(s, -1))
	}),
}

func anys(list []string) any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// onExpression makes a function of a text and a regular expression; NULL for one that cannot be read.
func onExpression(f func(re *regexp.Regexp, s string) any) function {
	return onText(2, 2, func(r *run, s []string) any {
		re := r.expression(s[1])
		if re == nil || !r.spend(len(s[0])*(len(s[1])+1)/64) || !r.allocate(2*len(s[0])) {
			return nil
		}
		return f(re, s[0])
	})
}

func expressionIndex(re *regexp.Regexp, s string) int64 {
	if at := re.FindStringIndex(s); at != nil {
		return int64(at[0])
	}
	return -1
}

// replaceExpression replaces what matches a regular expression, at most so often as the last argument says.
func replaceExpression(r *run, args []any) any {
	s, ok := args[0].(string)
	pattern, ok1 := args[1].(string)
	with, ok2 := args[2].(string)
	most, whole := int64(len(s)+1), true
	if len(args) > 3 {
		most, whole = integer(args[3])
	}
	if !ok || !ok1 || !ok2 || !whole {
		return nil
	}
	re := r.expression(pattern)
	if re == nil || !r.spend(len(s)*(len(pattern)+1)/64) || !r.allocate(len(s)*(len(with)+1)) {
		return nil
	}
	return re.ReplaceAllStringFunc(s, func(found string) string {
		if most <= 0 {
			return found
		}
		most--
		return with
	})
}

// runeSubstring is substring in characters.
func runeSubstring(args []any, base int64) any {
	s, ok := args[0].(string)
	if !ok {
		return nil
	}
	runes := []rune(s)
	from, to, ok := cut(int64(len(runes)), args, base)
	return orNull(string(runes[from:to]), ok)
}
