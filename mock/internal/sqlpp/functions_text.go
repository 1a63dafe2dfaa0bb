package sqlpp

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// onText makes a function of strings: another argument makes its value NULL. The length of its arguments is spent.
func onText(least, most int, f func(r *run, s []string) any) function {
	return function{least, most, false, func(r *run, args []any) any {
		ss := make([]string, len(args))
		for i, a := range args {
			s, ok := a.(string)
			if !ok {
				return nil
			}
			ss[i] = s
			r.spend(len(s) / 16)
		}
		return r.keep(f(r, ss))
	}}
}

// keep counts the bytes of a text that a function has made.
func (r *run) keep(v any) any {
	if s, ok := v.(string); ok && !r.allocate(len(s)) {
		return missing
	}
	return v
}

var textFunctions = map[string]function{
	"LOWER":     onText(1, 1, func(_ *run, s []string) any { return strings.ToLower(s[0]) }),
	"UPPER":     onText(1, 1, func(_ *run, s []string) any { return strings.ToUpper(s[0]) }),
	"LENGTH":    onText(1, 1, func(_ *run, s []string) any { return int64(len(s[0])) }),
	"MB_LENGTH": onText(1, 1, func(_ *run, s []string) any { return int64(utf8.RuneCountInString(s[0])) }),
	"CONTAINS":  onText(2, 2, func(_ *run, s []string) any { return strings.Contains(s[0], s[1]) }),
	"POSITION":  onText(2, 2, func(_ *run, s []string) any { return int64(strings.Index(s[0], s[1])) }),
	"POSITION1": onText(2, 2, func(_ *run, s []string) any { return int64(strings.Index(s[0], s[1]) + 1) }),
	"TRIM":      onText(1, 2, func(_ *run, s []string) any { return strings.Trim(s[0], cutset(s)) }),
	"LTRIM":     onText(1, 2, func(_ *run, s []string) any { return strings.TrimLeft(s[0], cutset(s)) }),
	"RTRIM":     onText(1, 2, func(_ *run, s []string) any { return strings.TrimRight(s[0], cutset(s)) }),
	"TITLE":     onText(1, 1, func(_ *run, s []string) any { return title(s[0]) }),
	"INITCAP":   onText(1, 1, func(_ *run, s []string) any { return title(s[0]) }),
	"REVERSE": onText(1, 1, func(_ *run, s []string) any {
		runes := []rune(s[0])
		for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
			runes[i], runes[j] = runes[j], runes[i]
		}
		return string(runes)
	}),
	"SPLIT": onText(1, 2, func(r *run, s []string) any {
		parts := strings.Fields(s[0])
		if len(s) > 1 {
			parts = strings.Split(s[0], s[1])
		}
		r.allocate(32 * len(parts))
		out := make([]any, len(parts))
		for i, p := range parts {
			out[i] = p
		}
		return out
	}),
	"REGEXP_LIKE":     onText(2, 2, func(r *run, s []string) any { return r.matches(s[0], "^(?:"+s[1]+")$") }),
	"REGEXP_CONTAINS": onText(2, 2, func(r *run, s []string) any { return r.matches(s[0], s[1]) }),
	"CONCAT":          {1, anyNumber, false, func(r *run, args []any) any { return r.concat(args) }},
	"SUBSTR":          {2, 3, false, func(_ *run, args []any) any { return substring(args, 0) }},
	"SUBSTR1":         {2, 3, false, func(_ *run, args []any) any { return substring(args, 1) }},
	"REPEAT": {2, 2, false, func(r *run, args []any) any {
		s, ok := args[0].(string)
		n, whole := integer(args[1])
		if !ok || !whole || n < 0 {
			return nil
		}
		if len(s) > 0 && n > int64(r.limits.Bytes/len(s)) {
			r.allocate(r.limits.Bytes + 1)
			return missing
		}
		return r.keep(strings.Repeat(s, int(n)*min(len(s), 1)))
	}},
	"REPLACE": {3, 4, false, func(r *run, args []any) any {
		s, ok := args[0].(string)
		old, ok1 := args[1].(string)
		new, ok2 := args[2].(string)
		n := int64(-1)
		if len(args) > 3 {
			var whole bool
			if n, whole = integer(args[3]); !whole {
				return nil
			}
		}
		if !ok || !ok1 || !ok2 {
			return nil
		}
		if !r.allocate(len(s) + strings.Count(s, old)*len(new)) {
			return missing
		}
		return strings.Replace(s, old, new, int(n))
	}},
}

// cutset is what a trim takes away.
func cutset(s []string) string {
	if len(s) > 1 {
		return s[1]
	}
	return " \t\n\r"
}

func title(s string) string {
	words := strings.Split(strings.ToLower(s), " ")
	for i, w := range words {
		if w != "" {
			_, n := utf8.DecodeRuneInString(w)
			words[i] = strings.ToUpper(w[:n]) + w[n:]
		}
	}
	return strings.Join(words, " ")
}

// substring is a part of a text from a position, which counts from base, or from the end when it is negative.
func substring(args []any, base int64) any {
	s, ok := args[0].(string)
	from, to, inside := cut(int64(len(s)), args, base)
	if !ok || !inside {
		return nil
	}
	return s[from:to]
}

// cut are the ends of the part that the arguments of substring name of so many bytes or characters; false for a
// position that is outside of them.
func cut(size int64, args []any, base int64) (from, to int64, ok bool) {
	at, whole := integer(args[1])
	if at < 0 {
		at += size
	} else {
		at = max(at-base, 0)
	}
	if !whole || at < 0 || at >= size {
		return 0, 0, false
	}
	to = size
	if len(args) > 2 {
		n, whole := integer(args[2])
		if !whole || n < 0 {
			return 0, 0, false
		}
		to = min(size, at+min(n, size))
	}
	return at, to, true
}

const maxPattern = 1000

// cache keeps what a statement has made and may need again.
func (r *run) cache(key string, v any) {
	if r.cached == nil {
		r.cached = map[string]any{}
	}
	r.cached[key] = v
}

// expression is a regular expression, nil for a pattern that cannot be read.
func (r *run) expression(pattern string) *regexp.Regexp {
	re, known := r.cached[pattern].(*regexp.Regexp)
	if known || len(pattern) > maxPattern {
		return re
	}
	re, err := regexp.Compile(pattern)
	if err != nil || !r.spend(10*len(pattern)) {
		return nil
	}
	r.cache(pattern, re)
	r.allocate(100 * len(pattern))
	return re
}

// matches looks for a regular expression in a text; NULL for a pattern that cannot be read.
func (r *run) matches(s, pattern string) any {
	re := r.expression(pattern)
	if re == nil {
		return nil
	}
	if !r.spend(len(s) * (len(pattern) + 1) / 64) {
		return missing
	}
	return re.MatchString(s)
}
