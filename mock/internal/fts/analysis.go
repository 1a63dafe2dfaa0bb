package fts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is one term of a text: its bytes there, and its place among the tokens, from 1 on.
type token struct {
	term            string
	start, end, pos int
}

// analyzer makes terms of a text.
type analyzer struct {
	chars   []func(string) string // must not change offsets
	split   func(string) []token
	filters []func([]token) []token
}

func (a *analyzer) run(text string) []token {
	for _, f := range a.chars {
		text = f(text)
	}
	out := a.split(text)
	for _, f := range a.filters {
		out = f(out)
	}
	return out
}

// Unsupported is the error for what a search service has and this package has not.
type Unsupported struct{ What string }

func (e *Unsupported) Error() string {
	return "the mock does not support " + e.What + " in searches; script the answer with ScriptSearch, or over HTTP " +
		"with POST /v1/scripts"
}

// builtins are the analyzers that every index knows.
var builtins = map[string]analyzer{
	"standard": {split: words, filters: []func([]token) []token{lower, stopped(stopWords)}},
	"simple":   {split: runs(unicode.IsLetter), filters: []func([]token) []token{lower}},
	"keyword":  {split: whole},
	"en": {split: words, filters: []func([]token) []token{
		mapped(possessive), lower, stopped(stopWords), mapped(stem),
	}},
}

var tokenizers = map[string]func(string) []token{
	"unicode": words, "letter": runs(unicode.IsLetter), "single": whole,
	"whitespace": runs(func(r rune) bool { return !unicode.IsSpace(r) }),
}

var filters = map[string]func([]token) []token{
	"to_lower": lower, "stop_en": stopped(stopWords), "possessive_en": mapped(possessive),
	"stemmer_porter":      mapped(stem),
	"stemmer_en_snowball": mapped(stem), "apostrophe": mapped(func(s string) string {
		head, _, _ := strings.Cut(s, "'")
		return head
	}),
	"reverse": mapped(func(s string) string {
		rs := []rune(s)
		slices.Reverse(rs)
		return string(rs)
	}),
	"unique": unique,
}

// whole is the text as one token.
func whole(text string) []token {
	if text == "" {
		return nil
	}
	return []token{{text, 0, len(text), 1}}
}

// runs makes a tokenizer of the longest runs of runes that are part of a word.
func runs(part func(rune) bool) func(string) []token {
	return func(text string) (out []token) {
		begin := -1
		for i, r := range text {
			switch in := part(r); {
			case in && begin < 0:
				begin = i
			case !in && begin >= 0:
				out = append(out, token{text[begin:i], begin, i, len(out) + 1})
				begin = -1
			}
		}
		if begin >= 0 {
			out = append(out, token{text[begin:], begin, len(text), len(out) + 1})
		}
		return out
	}
}

// words are the words of a text after UAX #29, simplified: letters and digits, with a point, an apostrophe or a comma
// between two of their kind, and each ideograph on its own.
func words(text string) (out []token) {
	begin := -1
	end := func(i int) {
		if begin >= 0 {
			out = append(out, token{text[begin:i], begin, i, len(out) + 1})
		}
		begin = -1
	}
	last := rune(0)
	for i, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Thai):
			end(i)
			begin = i
			end(i + utf8.RuneLen(r))
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.M, r), r == '_':
			if begin < 0 {
				begin = i
			}
		case begin >= 0 && joins(last, r, text[i+utf8.RuneLen(r):]):
		default:
			end(i)
		}
		last = r
	}
	end(len(text))
	return out
}

// joins reports whether a mark between two runes does not end a word.
func joins(before, mark rune, behind string) bool {
	after, _ := utf8.DecodeRuneInString(behind)
	switch mark {
	case '\'', '.', '\u2019':
		return unicode.IsLetter(before) && unicode.IsLetter(after) || unicode.IsDigit(before) && unicode.IsDigit(after)
	case ':':
		return unicode.IsLetter(before) && unicode.IsLetter(after)
	case ',', ';':
		return unicode.IsDigit(before) && unicode.IsDigit(after)
	}
	return false
}

// mapped makes a filter that changes each term; one that becomes empty is left out.
func mapped(f func(string) string) func([]token) []token {
	return func(ts []token) []token {
		out := ts[:0]
		for _, t := range ts {
			if t.term = f(t.term); t.term != "" {
				out = append(out, t)
			}
		}
		return out
	}
}

var lower = mapped(strings.ToLower)

func possessive(s string) string {
	for _, end := range []string{"'s", "'S", "\u2019s", "\u2019S"} {
		s = strings.TrimSuffix(s, end)
	}
	return s
}

func stopped(set map[string]bool) func([]token) []token {
	return mapped(func(s string) string {
		if set[s] {
			return ""
		}
		return s
	})
}

func unique(ts []token) []token {
	seen := map[string]bool{}
	return slices.DeleteFunc(ts, func(t token) bool {
		had := seen[t.term]
		seen[t.term] = true
		return had
	})
}

// custom is what a definition says about analysis.
type custom struct {
	Analyzers  map[string]customAnalyzer `json:"analyzers"`
	Chars      map[string]customPart     `json:"char_filters"`
	Tokenizers map[string]customPart     `json:"tokenizers"`
	Filters    map[string]customPart     `json:"token_filters"`
	Words      map[string]customPart     `json:"token_maps"`
	Dates      map[string]customPart     `json:"date_time_parsers"`
}

type customAnalyzer struct {
	Type      string   `json:"type"`
	Chars     []string `json:"char_filters"`
	Tokenizer string   `json:"tokenizer"`
	Filters   []string `json:"token_filters"`
}

type customPart struct {
	Type    string          `json:"type"`
	Regexp  string          `json:"regexp"`
	Replace string          `json:"replace"`
	Tokens  []string        `json:"tokens"`
	Layouts []string        `json:"layouts"`
	Words   string          `json:"stop_token_map"`
	Min     float64         `json:"min"`
	Max     float64         `json:"max"`
	Length  float64         `json:"length"`
	Back    json.RawMessage `json:"back"`
}

// analyzerNamed finds an analyzer of the definition, or one that every index knows.
func (c *custom) analyzerNamed(name string) (*analyzer, error) {
	def, ok := c.Analyzers[name]
	if !ok {
		if a, ok := builtins[name]; ok {
			return &a, nil
		}
		return nil, &Unsupported{fmt.Sprintf("the analyzer %q", name)}
	}
	a := &analyzer{}
	for _, n := range def.Chars {
		f, err := c.char(n)
		if err != nil {
			return nil, err
		}
		a.chars = append(a.chars, f)
	}
	if a.split = tokenizers[def.Tokenizer]; a.split == nil {
		part := c.Tokenizers[def.Tokenizer]
		re, err := regexp.Compile(part.Regexp)
		if part.Type != "regexp" || err != nil {
			return nil, &Unsupported{fmt.Sprintf("the tokenizer %q", def.Tokenizer)}
		}
		a.split = matches(re)
	}
	for _, n := range def.Filters {
		f, err := c.filter(n)
		if err != nil {
			return nil, err
		}
		a.filters = append(a.filters, f)
	}
	return a, nil
}

// matches makes a tokenizer of what an expression matches.
func matches(re *regexp.Regexp) func(string) []token {
	return func(text string) (out []token) {
		for _, at := range re.FindAllStringIndex(text, -1) {
			if at[0] < at[1] {
				out = append(out, token{text[at[0]:at[1]], at[0], at[1], len(out) + 1})
			}
		}
		return out
	}
}

var markup = regexp.MustCompile(`</?[!\w]+(\s[^>]*)?>`)

// char is a filter of characters. What it takes away becomes blanks, so that offsets stay.
func (c *custom) char(name string) (func(string) string, error) {
	re := markup
	if part, ok := c.Chars[name]; ok {
		var err error
		re, err = regexp.Compile(part.Regexp)
		if part.Type != "regexp" || err != nil || strings.TrimSpace(part.Replace) != "" {
			return nil, &Unsupported{fmt.Sprintf("the character filter %q", name)}
		}
	} else if name != "html" {
		return nil, &Unsupported{fmt.Sprintf("the character filter %q", name)}
	}
	return func(text string) string {
		return re.ReplaceAllStringFunc(text, func(m string) string { return strings.Repeat(" ", len(m)) })
	}, nil
}

// maxGram is the longest n-gram that a filter makes.
const maxGram = 64

func (c *custom) filter(name string) (func([]token) []token, error) {
	if f := filters[name]; f != nil {
		return f, nil
	}
	part := c.Filters[name]
	least, most := int(part.Min), int(part.Max)
	switch part.Type {
	case "stop_tokens":
		set := stopWords
		if part.Words != "stop_en" {
			words, ok := c.Words[part.Words]
			if !ok {
				break
			}
			set = map[string]bool{}
			for _, w := range words.Tokens {
				set[w] = true
			}
		}
		return stopped(set), nil
	case "length":
		return mapped(func(s string) string {
			if n := utf8.RuneCountInString(s); n < least || most > 0 && n > most {
				return ""
			}
			return s
		}), nil
	case "truncate_token":
		return mapped(func(s string) string {
			return string([]rune(s)[:min(int(max(part.Length, 0)), utf8.RuneCountInString(s))])
		}), nil
	case "edge_ngram", "ngram":
		if least < 1 || most < least || most > maxGram || string(part.Back) != "" && string(part.Back) != "false" {
			break
		}
		return grams(least, most, part.Type == "edge_ngram"), nil
	}
	return nil, &Unsupported{fmt.Sprintf("the token filter %q", name)}
}

// grams makes terms of the parts of a term that have a length between two.
func grams(least, most int, edge bool) func([]token) []token {
	return func(ts []token) (out []token) {
		for _, t := range ts {
			rs := []rune(t.term)
			for from := range rs {
				for n := least; n <= most && from+n <= len(rs); n++ {
					part := t
					part.term = string(rs[from : from+n])
					out = append(out, part)
				}
				if edge {
					break
				}
			}
		}
		return out
	}
}
