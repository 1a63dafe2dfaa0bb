package fts

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	maxDepth     = 100
	maxClauses   = 1024
	maxPattern   = 4096
	maxFuzziness = 2
)

// parser reads the queries of a request for one index.
type parser struct {
	ix      *Index
	clauses int
}

// members of a query that are read by more than one kind.
type members struct {
	Field     *string         `json:"field"`
	Boost     *float64        `json:"boost"`
	Analyzer  string          `json:"analyzer"`
	Operator  json.RawMessage `json:"operator"`
	Prefix    int             `json:"prefix_length"`
	Fuzziness json.RawMessage `json:"fuzziness"`

	Match     string            `json:"match"`
	Phrase    string            `json:"match_phrase"`
	Term      string            `json:"term"`
	Terms     json.RawMessage   `json:"terms"`
	Query     string            `json:"query"`
	PrefixOf  string            `json:"prefix"`
	Regexp    string            `json:"regexp"`
	Wildcard  string            `json:"wildcard"`
	IDs       []string          `json:"ids"`
	Bool      bool              `json:"bool"`
	Must      json.RawMessage   `json:"must"`
	Should    json.RawMessage   `json:"should"`
	MustNot   json.RawMessage   `json:"must_not"`
	Filter    json.RawMessage   `json:"filter"`
	Conjuncts []json.RawMessage `json:"conjuncts"`
	Disjuncts []json.RawMessage `json:"disjuncts"`

	Min      any    `json:"min"`
	Max      any    `json:"max"`
	InMin    *bool  `json:"inclusive_min"`
	InMax    *bool  `json:"inclusive_max"`
	Start    string `json:"start"`
	End      string `json:"end"`
	InStart  *bool  `json:"inclusive_start"`
	InEnd    *bool  `json:"inclusive_end"`
	Parser   string `json:"datetime_parser"`
	Location any    `json:"location"`
	Distance string `json:"distance"`
	TopLeft  any    `json:"top_left"`
	Bottom   any    `json:"bottom_right"`
	Polygon  []any  `json:"polygon_points"`
}

// kind is a member that tells a query apart, and how that query is read.
type kind struct {
	member string
	parse  func(*parser, *members, int) (node, error)
}

// kinds are the kinds of queries in the order in which the service looks for them.
func kinds() []kind {
	return []kind{
		{"match", (*parser).matchQuery},
		{"match_phrase", (*parser).matchPhrase},
		{"terms", (*parser).phrase},
		{"term", (*parser).term},
		{"must", (*parser).boolean},
		{"should", (*parser).boolean},
		{"must_not", (*parser).boolean},
		{"filter", (*parser).boolean},
		{"conjuncts", (*parser).conjunction},
		{"disjuncts", (*parser).disjunction},
		{"query", (*parser).queryString},
		{"min", (*parser).between},
		{"max", (*parser).between},
		{"start", (*parser).dates},
		{"end", (*parser).dates},
		{"prefix", (*parser).pattern},
		{"regexp", (*parser).pattern},
		{"wildcard", (*parser).pattern},
		{"match_all", (*parser).matchAll},
		{"match_none", func(*parser, *members, int) (node, error) { return none, nil }},
		{"ids", (*parser).ids},
		{"bool", (*parser).flag},
		{"top_left", (*parser).box},
		{"distance", (*parser).distance},
		{"polygon_points", (*parser).polygon},
		{"geometry", unsupported("queries of shapes (geometry)")},
		{"cidr", unsupported("queries of addresses (cidr)")},
		{"custom_filter", unsupported("custom_filter")},
		{"custom_score", unsupported("custom_score")},
	}
}

func (p *parser) matchAll(m *members, _ int) (node, error) {
	return &constant{boost: m.boost(), test: every}, nil
}

func (p *parser) ids(m *members, _ int) (node, error) {
	return &constant{boost: m.boost(), test: func(d *doc) bool { return slices.Contains(m.IDs, d.id) }}, nil
}

func (p *parser) flag(m *members, _ int) (node, error) {
	return p.values(m, func(f *field) bool { return slices.Contains(f.flags, m.Bool) }), nil
}

func unsupported(what string) func(*parser, *members, int) (node, error) {
	return func(*parser, *members, int) (node, error) { return nil, &Unsupported{what} }
}

func every(*doc) bool { return true }

// none is the query that finds nothing.
var none node = nothing{}

// query reads one query object. An empty one finds nothing.
func (p *parser) query(raw json.RawMessage, depth int) (node, error) {
	if p.clauses++; depth > maxDepth || p.clauses > maxClauses {
		return nil, fmt.Errorf("more than %d clauses, or more than %d within each other", maxClauses, maxDepth)
	}
	var has map[string]json.RawMessage
	var m members
	if len(raw) == 0 {
		return none, nil
	}
	if err := errors.Join(json.Unmarshal(raw, &has), json.Unmarshal(raw, &m)); err != nil {
		return nil, err
	}
	if len(has) == 0 {
		return none, nil
	}
	for _, k := range kinds() {
		if _, ok := has[k.member]; ok {
			return k.parse(p, &m, depth+1)
		}
	}
	return nil, errors.New("unknown query type")
}

func (m *members) boost() float64 {
	if m.Boost == nil {
		return 1
	}
	return *m.Boost
}

// field is the field that a query is about.
func (p *parser) field(m *members) string {
	if m.Field == nil || *m.Field == "" {
		return p.ix.mapping.Field
	}
	return *m.Field
}

// fuzziness is how many letters may differ.
func (m *members) fuzziness(term string) (int, error) {
	if len(m.Fuzziness) == 0 || string(m.Fuzziness) == "null" {
		return 0, nil
	}
	if string(m.Fuzziness) == `"auto"` {
		switch n := len([]rune(term)); {
		case n > 5:
			return 2, nil
		case n > 2:
			return 1, nil
		}
		return 0, nil
	}
	n := 0
	if err := json.Unmarshal(m.Fuzziness, &n); err != nil || n < 0 || n > maxFuzziness {
		return 0, fmt.Errorf("fuzziness exceeds max (%d)", maxFuzziness)
	}
	return n, nil
}

func (p *parser) term(m *members, _ int) (node, error) { return p.oneTerm(m, m.Term) }

func (p *parser) oneTerm(m *members, term string) (node, error) {
	n, err := m.fuzziness(term)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return &termNode{field: p.field(m), term: term, boost: m.boost()}, nil
	}
	want := []rune(term)
	head := string(want[:min(max(m.Prefix, 0), len(want))])
	return &termNode{field: p.field(m), boost: m.boost(), accepts: func(t string) bool {
		return strings.HasPrefix(t, head) && near(want, []rune(t), n)
	}}, nil
}

// analyzed are the terms of a text as the query's field has them.
func (p *parser) analyzed(m *members, text string) ([]token, error) {
	name := m.Analyzer
	if name == "" {
		_, name = p.ix.mapping.fieldNamed(p.field(m))
	}
	a, err := p.ix.mapping.analyzer(name)
	if err != nil {
		return nil, err
	}
	tokens := a.run(text)
	if p.clauses += len(tokens); p.clauses > maxClauses {
		return nil, fmt.Errorf("more than %d clauses", maxClauses)
	}
	return tokens, nil
}

func (p *parser) matchQuery(m *members, _ int) (node, error) {
	tokens, err := p.analyzed(m, m.Match)
	if err != nil {
		return nil, err
	}
	var parts []node
	for _, t := range tokens {
		n, err := p.oneTerm(m, t.term)
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
	}
	switch operator := string(m.Operator); {
	case len(parts) == 0:
		return none, nil
	case len(parts) == 1:
		return parts[0], nil
	case operator == `"and"` || operator == "1":
		return &allOf{parts: parts}, nil
	case operator == "" || operator == "null" || operator == `"or"` || operator == "0":
		return &anyOf{parts: parts}, nil
	}
	return nil, fmt.Errorf("unhandled operator %s", m.Operator)
}

func (p *parser) matchPhrase(m *members, _ int) (node, error) {
	tokens, err := p.analyzed(m, m.Phrase)
	if err != nil || len(tokens) == 0 {
		return none, err
	}
	n := &phraseNode{field: p.field(m), boost: m.boost()}
	for _, t := range tokens {
		n.add(t.pos-tokens[0].pos, t.term)
	}
	return n, nil
}

// phrase reads terms that follow each other, each of them one or a list of alternatives.
func (p *parser) phrase(m *members, _ int) (node, error) {
	var each []json.RawMessage
	if err := json.Unmarshal(m.Terms, &each); err != nil || len(each) == 0 {
		return nil, errors.Join(err, errors.New("phrase query must contain at least one term"))
	}
	n := &phraseNode{field: p.field(m), boost: m.boost()}
	for i, raw := range each {
		var one string
		var more []string
		if json.Unmarshal(raw, &one) == nil {
			more = []string{one}
		} else if err := json.Unmarshal(raw, &more); err != nil {
			return nil, err
		}
		for _, t := range more {
			n.add(i, t)
		}
	}
	return n, nil
}

func (p *parser) list(raws []json.RawMessage, depth int) (out []node, err error) {
	for _, raw := range raws {
		n, err := p.query(raw, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func (p *parser) conjunction(m *members, depth int) (node, error) {
	parts, err := p.list(m.Conjuncts, depth)
	if err != nil || len(parts) == 0 {
		return none, err
	}
	boosted(parts, m.boost())
	return &allOf{parts: parts}, nil
}

func (p *parser) disjunction(m *members, depth int) (node, error) {
	parts, err := p.list(m.Disjuncts, depth)
	if err != nil || len(parts) == 0 {
		return none, err
	}
	least, _ := m.Min.(float64)
	if int(least) > len(parts) {
		return nil, fmt.Errorf("disjunction query has fewer than the minimum number of clauses to satisfy")
	}
	boosted(parts, m.boost())
	return &anyOf{parts: parts, least: int(least)}, nil
}

func (p *parser) boolean(m *members, depth int) (node, error) {
	out := &boolNode{}
	for _, part := range []struct {
		raw json.RawMessage
		to  *node
	}{{m.Must, &out.must}, {m.Should, &out.should}, {m.MustNot, &out.not}, {m.Filter, &out.filter}} {
		if len(part.raw) == 0 || string(part.raw) == "null" {
			continue
		}
		n, err := p.query(part.raw, depth)
		if err != nil {
			return nil, err
		}
		*part.to = n
	}
	if out.must == none { // without clauses
		out.must = nil
	}
	if out.must == nil && out.should == nil && out.not == nil && out.filter == nil {
		return nil, errors.New("boolean query must contain at least one must or should or not must clause")
	}
	return out, nil
}

// values makes a query of a test of a field's values.
func (p *parser) values(m *members, test func(*field) bool) node {
	name := p.field(m)
	return &constant{boost: m.boost(), test: func(d *doc) (ok bool) {
		d.named(name, func(_ string, f *field) { ok = ok || test(f) })
		return ok
	}}
}

// inRange reports whether a comparison with both ends of a range says that it is within. An end that has no value is
// open.
func inRange(low, high int, hasLow, hasHigh bool, inLow, inHigh *bool) bool {
	return (!hasLow || low > 0 || low == 0 && (inLow == nil || *inLow)) &&
		(!hasHigh || high < 0 || high == 0 && inHigh != nil && *inHigh)
}

func (p *parser) between(m *members, _ int) (node, error) {
	low, hasLow := m.Min.(float64)
	high, hasHigh := m.Max.(float64)
	if hasLow || hasHigh {
		return p.values(m, func(f *field) bool {
			return slices.ContainsFunc(f.numbers, func(n float64) bool {
				return inRange(compare(n, low), compare(n, high), hasLow, hasHigh, m.InMin, m.InMax)
			})
		}), nil
	}
	from, hasFrom := m.Min.(string)
	to, hasTo := m.Max.(string)
	if !hasFrom && !hasTo {
		return nil, errors.New("numeric range query must specify min or max")
	}
	return &termNode{field: p.field(m), boost: m.boost(), accepts: func(t string) bool {
		return inRange(strings.Compare(t, from), strings.Compare(t, to), hasFrom, hasTo, m.InMin, m.InMax)
	}}, nil
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (p *parser) dates(m *members, _ int) (node, error) {
	var start, end time.Time
	var err, err2 error
	if m.Start != "" {
		start, err = p.ix.mapping.parseDate(m.Start, m.Parser)
	}
	if m.End != "" {
		end, err2 = p.ix.mapping.parseDate(m.End, m.Parser)
	}
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("unable to parse date of a range: %w", err)
	}
	if start.IsZero() && end.IsZero() {
		return nil, errors.New("date range query must specify at least one of start/end")
	}
	return p.values(m, func(f *field) bool {
		return slices.ContainsFunc(f.dates, func(t time.Time) bool {
			return inRange(t.Compare(start), t.Compare(end), !start.IsZero(), !end.IsZero(), m.InStart, m.InEnd)
		})
	}), nil
}

// pattern is a query of the terms that have a form.
func (p *parser) pattern(m *members, _ int) (node, error) {
	out := &termNode{field: p.field(m), boost: m.boost()}
	expression := m.Regexp
	switch {
	case m.PrefixOf != "":
		out.accepts = func(t string) bool { return strings.HasPrefix(t, m.PrefixOf) }
		return out, nil
	case m.Wildcard != "":
		expression = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(m.Wildcard))
	}
	if len(expression) > maxPattern {
		return nil, fmt.Errorf("expression has more than %d bytes", maxPattern)
	}
	re, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nil, err
	}
	out.accepts = re.MatchString
	return out, nil
}

func (p *parser) points(m *members, test func(point) bool) node {
	return p.values(m, func(f *field) bool { return slices.ContainsFunc(f.points, test) })
}

func (p *parser) box(m *members, _ int) (node, error) {
	a, okA := pointOf(m.TopLeft)
	b, okB := pointOf(m.Bottom)
	if !okA || !okB {
		return nil, errNoPoint
	}
	return p.points(m, func(at point) bool { return at.within(a, b) }), nil
}

func (p *parser) distance(m *members, _ int) (node, error) {
	center, ok := pointOf(m.Location)
	if !ok {
		return nil, errNoPoint
	}
	far, err := meters(m.Distance)
	if err != nil {
		return nil, err
	}
	return p.points(m, func(at point) bool { return distance(center, at) <= far }), nil
}

func (p *parser) polygon(m *members, _ int) (node, error) {
	var corners []point
	for _, v := range m.Polygon {
		at, ok := pointOf(v)
		if !ok {
			return nil, errNoPoint
		}
		corners = append(corners, at)
	}
	if len(corners) < 3 || len(corners) > maxClauses {
		return nil, fmt.Errorf("a polygon has 3 to %d points", maxClauses)
	}
	return p.points(m, func(at point) bool { return at.inside(corners) }), nil
}
