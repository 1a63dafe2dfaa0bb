package fts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// The query string language: words, "phrases", /expressions/ and wild*cards, each with field: before it, + or - in
// front for what must and must not be there, ~ and ^ behind it for fuzziness and boost, and comparisons of numbers and
// dates.

// piece is a part of a query string: a mark, or a text.
type piece struct {
	mark   byte // '"' for a phrase, 'w' for a word, '1' for a number; else itself
	text   string
	joined bool // nothing stands between it and what follows
}

const marks = `+-:><=^~`

// pieces splits a query string.
func pieces(s string) (out []piece, err error) {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case unicode.IsSpace(rune(c)):
			if len(out) > 0 {
				out[len(out)-1].joined = false
			}
			i++
			continue
		case c == '"':
			text, n, ok := quoted(s[i+1:])
			if !ok {
				return nil, errors.New("unterminated quote")
			}
			out = append(out, piece{'"', text, true})
			i += n + 1
		case c == '^' || c == '~':
			end := i + 1
			for end < len(s) && s[end] != ' ' && s[end] != '^' {
				end++
			}
			out = append(out, piece{c, s[i+1 : end], true})
			i = end
		case strings.IndexByte(marks, c) >= 0:
			out = append(out, piece{c, "", true})
			i++
		default:
			text, n := word(s[i:])
			p := piece{'w', text, true}
			if strings.Trim(s[i:i+n], "0123456789.") == "" && strings.Count(text, ".") < 2 {
				p.mark = '1'
			}
			out = append(out, p)
			i += n
		}
	}
	return out, nil
}

const escapable = "+-=&|><!(){}[]^\"~*?:\\/ "

// escaped is what a backslash and the byte after it stand for.
func escaped(c byte) string {
	if strings.IndexByte(escapable, c) >= 0 {
		return string(c)
	}
	return `\` + string(c)
}

// quoted reads up to the quote that ends a phrase, and says how many bytes that are.
func quoted(s string) (text string, n int, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1, true
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteString(escaped(s[i]))
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, false
}

// word reads a word, which ends at a blank, a colon, or a mark of fuzziness or boost.
func word(s string) (text string, n int) {
	var b strings.Builder
	i := 0
	for ; i < len(s) && strings.IndexByte(" :^~\t\n\r", s[i]) < 0; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			b.WriteString(escaped(s[i]))
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String(), i
}

// queryString reads a query string as a boolean query.
func (p *parser) queryString(m *members, depth int) (node, error) {
	all, err := pieces(m.Query)
	if err != nil {
		return nil, fmt.Errorf("could not parse '%s': %w", m.Query, err)
	}
	var must, should, not []node
	for len(all) > 0 {
		to := &should
		switch all[0].mark {
		case '+':
			to, all = &must, all[1:]
		case '-':
			to, all = &not, all[1:]
		}
		n, after, err := p.clause(all, depth)
		if err != nil {
			return nil, fmt.Errorf("could not parse '%s': %w", m.Query, err)
		}
		*to, all = append(*to, n), after
	}
	if len(must)+len(should)+len(not) == 0 {
		return none, nil
	}
	out := &boolNode{}
	if len(must) > 0 {
		out.must = &allOf{parts: must}
	}
	if len(should) > 0 {
		out.should = &anyOf{parts: should}
	}
	if len(not) > 0 {
		out.not = &anyOf{parts: not}
	}
	if out.must == nil && out.should == nil {
		out.must = &constant{boost: 1, test: every}
	}
	boosted(out.scored().parts, m.boost())
	return out, nil
}

var errSyntax = errors.New("syntax error")

// clause reads one part of a query string, and returns what follows it.
func (p *parser) clause(all []piece, depth int) (node, []piece, error) {
	q := map[string]any{}
	if len(all) > 2 && strings.IndexByte(`w"1`, all[0].mark) >= 0 && all[1].mark == ':' {
		q["field"] = all[0].text
		all = all[2:]
	}
	comparison := ""
	for len(all) > 0 && strings.IndexByte("><=", all[0].mark) >= 0 {
		comparison += string(all[0].mark)
		all = all[1:]
	}
	negative := len(all) > 1 && q["field"] != nil && all[0].mark == '-' && all[1].mark == '1'
	if negative {
		all = all[1:]
	}
	if len(all) == 0 || strings.IndexByte(`w"1`, all[0].mark) < 0 {
		return nil, nil, errSyntax
	}
	value := all[0]
	if negative {
		value.text = "-" + value.text
	}
	all = all[1:]
	for len(all) > 0 && (all[0].mark == '^' || all[0].mark == '~') {
		name := map[byte]string{'^': "boost", '~': "fuzziness"}[all[0].mark]
		if all[0].text == "" {
			all[0].text = "1"
		}
		n, err := strconv.ParseFloat(all[0].text, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("invalid %s value: %w", name, err)
		}
		if q[name] = n; name == "fuzziness" {
			q[name] = int(n)
		}
		all = all[1:]
	}
	n, err := p.simple(q, value, comparison, depth)
	return n, all, err
}

// simple is the query of a value.
func (p *parser) simple(q map[string]any, value piece, comparison string, depth int) (node, error) {
	number, err := strconv.ParseFloat(value.text, 64)
	isNumber := value.mark == '1' && err == nil
	switch {
	case comparison != "":
		return p.compared(q, value, comparison, depth)
	case value.mark == '"':
		q["match_phrase"] = value.text
	case len(value.text) > 1 && strings.HasPrefix(value.text, "/") && strings.HasSuffix(value.text, "/"):
		q["regexp"] = value.text[1 : len(value.text)-1]
	case strings.ContainsAny(value.text, "*?"):
		q["wildcard"] = value.text
	default:
		q["match"] = value.text
	}
	n, err := p.query(marshal(q), depth)
	if err != nil || !isNumber {
		return n, err
	}
	delete(q, "match")
	delete(q, "fuzziness")
	q["min"], q["max"], q["inclusive_min"], q["inclusive_max"] = number, number, true, true
	other, err := p.query(marshal(q), depth)
	return &anyOf{parts: []node{n, other}}, err
}

// compared is the query of a comparison.
func (p *parser) compared(q map[string]any, value piece, sign string, depth int) (node, error) {
	ends := map[byte][2]string{'>': {"min", "start"}, '<': {"max", "end"}}[sign[0]]
	number, err := strconv.ParseFloat(value.text, 64)
	switch {
	case ends[0] == "" || len(sign) > 1 && sign[1:] != "=":
		return nil, errSyntax
	case value.mark == '1' && err == nil:
		q[ends[0]], q["inclusive_"+ends[0]] = number, len(sign) == 2
	case value.mark == '"':
		q[ends[1]], q["inclusive_"+ends[1]] = value.text, len(sign) == 2
	default:
		return nil, errSyntax
	}
	return p.query(marshal(q), depth)
}

// marshal is v as JSON; v is made of our own maps, texts and finite numbers, which cannot fail.
func marshal(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
