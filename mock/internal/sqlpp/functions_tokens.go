package sqlpp

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokens are the different words and values within a value, in order.
func tokens(r *run, args []any) any {
	options := map[string]any{}
	if len(args) > 1 {
		var ok bool
		if options, ok = args[1].(map[string]any); !ok && !isMissing(args[1]) {
			return nil
		}
	}
	if isMissing(args[0]) || options == nil {
		return missing
	}
	var out []any
	r.eachToken(args[0], options, func(v any) { out = append(out, v) })
	slices.SortFunc(out, r.compare)
	return r.made(slices.CompactFunc(out, r.equal))
}

func containsToken(r *run, args []any) any {
	options := map[string]any{}
	if len(args) > 2 {
		var ok bool
		if options, ok = args[2].(map[string]any); !ok {
			return nil
		}
	}
	found := false
	r.eachToken(args[0], options, func(v any) { found = found || r.equal(v, args[1]) })
	return found
}

// eachToken finds the tokens of a value: the words of texts and of names of members, and other values as they are. An
// option leaves out names.
func (r *run) eachToken(v any, options map[string]any, yield func(any)) {
	if !r.spend(1) || !r.allocate(16) {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			r.eachToken(x, options, yield)
		}
	case map[string]any:
		for _, name := range r.names(v) {
			if options["names"] != false {
				r.eachToken(name, options, yield)
			}
			r.eachToken(v[name], options, yield)
		}
	case string:
		for _, word := range words(v, options) {
			r.allocate(16 + len(word))
			yield(word)
		}
	case missingValue:
	default:
		yield(v)
	}
}

// words are the tokens of a text.
func words(s string, options map[string]any) []string {
	fold := func(s string) string { return s }
	switch text, _ := options["case"].(string); strings.ToLower(text) {
	case "lower":
		fold = strings.ToLower
	case "upper":
		fold = strings.ToUpper
	}
	special := func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) }
	if options["split"] == false {
		if options["trim"] != false {
			s = strings.TrimSpace(s)
		}
		return []string{fold(s)}
	}
	var out []string
	for _, word := range strings.FieldsFunc(s, special) {
		out = append(out, fold(word))
	}
	if options["specials"] == true {
		for _, word := range strings.FieldsFunc(s, func(c rune) bool {
			return unicode.IsSpace(c) || strings.ContainsRune("()[]{}", c)
		}) {
			if word = strings.TrimRightFunc(word, special); word != "" {
				out = append(out, fold(word))
			}
		}
	}
	return out
}

var jsonFunctions = map[string]function{
	"BASE64_ENCODE": {1, 1, true, func(r *run, args []any) any {
		if isMissing(args[0]) {
			return missing
		}
		return r.keep(base64.StdEncoding.EncodeToString([]byte(r.encode(args[0]))))
	}},
	"BASE64_DECODE": onText(1, 1, func(_ *run, s []string) any {
		raw, err := base64.StdEncoding.DecodeString(s[0])
		v, ok := Decode(raw)
		return orNull(v, err == nil && ok)
	}),
	"LEN": {1, 1, false, length},
	"MB_LEN": {1, 1, false, func(r *run, args []any) any {
		if s, ok := args[0].(string); ok {
			return int64(utf8.RuneCountInString(s))
		}
		return length(r, args)
	}},
	"PAIRS": {1, 1, false, func(r *run, args []any) any {
		if kindOf(args[0]) < 6 {
			return nil
		}
		return r.pairs([]any{}, args[0])
	}},
	"POLY_LENGTH": {1, 1, false, func(_ *run, args []any) any {
		switch v := args[0].(type) {
		case string:
			return int64(len(v))
		case []any:
			return int64(len(v))
		case map[string]any:
			return int64(len(v))
		}
		return nil
	}},
}

// length is how long a value is: how many bytes a text has, how many elements or members another value, and how many
// characters a number is written with.
func length(r *run, args []any) any {
	switch v := args[0].(type) {
	case string:
		return int64(len(v))
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	case bool:
		return int64(1)
	}
	return int64(len(r.encode(args[0])))
}

// pairs appends the names and values of all members within a value. Elements of an array that is a member have its
// name.
func (r *run) pairs(out []any, v any) []any {
	if !r.spend(1) || !r.allocate(64) {
		return out
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range r.names(v) {
			out = append(out, []any{name, v[name]})
			if list, ok := v[name].([]any); ok {
				for _, x := range list {
					r.allocate(64)
					out = append(out, []any{name, x})
				}
			}
			out = r.pairs(out, v[name])
		}
	case []any:
		for _, x := range v {
			out = r.pairs(out, x)
		}
	}
	return out
}
