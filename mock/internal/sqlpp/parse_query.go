package sqlpp

import (
	"strconv"
	"strings"
)

// query reads SELECT with everything that may stand around it.
func (p *parser) query() *query {
	q := &query{}
	if !p.enter() {
		return q
	}
	defer p.leave()
	if p.accept("WITH") {
		p.list(func() {
			name := p.name()
			p.expect("AS")
			if !p.sees("(") {
				p.wrong()
			}
			q.with = append(q.with, let{name, p.brackets()})
		})
	}
	q.parts = append(q.parts, p.setPart("", false))
	for {
		word := p.acceptOne("UNION", "INTERSECT", "EXCEPT")
		if word == "" {
			break
		}
		q.parts = append(q.parts, p.setPart(word, p.accept("ALL")))
	}
	if p.accept("ORDER", "BY") {
		p.list(func() { q.order = append(q.order, p.orderTerm()) })
	}
	for range 2 {
		if q.limit == nil && p.accept("LIMIT") {
			q.limit = p.expr()
		}
		if q.offset == nil && p.accept("OFFSET") {
			q.offset = p.expr()
		}
	}
	return q
}

func (p *parser) setPart(op string, all bool) setPart {
	s := setPart{op: op, all: all}
	if p.accept("(") {
		s.sub = p.query()
		p.expect(")")
		return s
	}
	s.core = p.core()
	return s
}

func (p *parser) orderTerm() orderTerm {
	t := orderTerm{expr: p.expr()}
	t.desc = p.acceptOne("ASC", "DESC") == "DESC"
	if p.accept("NULLS") {
		if t.nulls = p.acceptOne("FIRST", "LAST"); t.nulls == "" {
			p.wrong()
		}
	}
	return t
}

// core reads one SELECT, also one that begins with FROM.
func (p *parser) core() *core {
	c := &core{}
	first := p.sees("FROM")
	if first {
		p.fromClauses(c)
	}
	p.expect("SELECT")
	p.projection(c)
	if !first {
		p.fromClauses(c)
	}
	c.find()
	return c
}

// projection reads what is selected.
func (p *parser) projection(c *core) {
	c.distinct = p.accept("DISTINCT")
	if !c.distinct {
		p.accept("ALL")
	}
	c.raw = p.acceptOne("RAW", "ELEMENT") != "" || p.sees("VALUE") && beginsOperand(p.ahead(1)) && p.accept("VALUE")
	if c.raw {
		it := item{expr: p.expr()}
		it.as = p.alias()
		c.items = []item{it}
		return
	}
	unnamed := 0
	p.list(func() {
		it := item{}
		if p.sees("*") {
			p.step()
			it.expr = p.node(opStar, "")
			c.items = append(c.items, it)
			return
		}
		it.expr = p.expr()
		if it.expr.op != opStarField {
			it.as = p.alias()
			it.name = it.as
			if it.name == "" {
				it.name = lastName(it.expr)
			}
			if it.name == "" {
				unnamed++
				it.name = "$" + strconv.Itoa(unnamed)
			}
		}
		c.items = append(c.items, it)
	})
}

// beginsOperand reports whether an operand may begin with a token.
func beginsOperand(t token) bool {
	switch t.kind {
	case tokEnd:
		return false
	case tokSign:
		return t.is("(") || t.is("[") || t.is("{")
	case tokWord:
		return !reserved[strings.ToUpper(t.text)] || startsOperand(t)
	default:
		return true
	}
}

// fromClauses reads FROM, LET, WHERE, GROUP BY, LETTING and HAVING.
func (p *parser) fromClauses(c *core) {
	if p.accept("FROM") {
		c.from = p.sources()
	}
	if p.accept("LET") {
		c.lets = p.lets()
	}
	if p.accept("WHERE") {
		c.where = p.expr()
	}
	if p.accept("GROUP", "BY") {
		c.grouped = true
		p.list(func() {
			g := let{expr: p.expr()}
			if p.accept("AS") {
				g.name = p.name()
			}
			c.group = append(c.group, g)
		})
		if p.sees("GROUP", "AS") {
			p.unsupported("GROUP AS")
		}
	}
	if p.accept("LETTING") {
		c.letting = p.lets()
	}
	if p.accept("HAVING") {
		c.having, c.grouped = p.expr(), true
	}
}

func (p *parser) lets() []let {
	var out []let
	p.list(func() {
		l := let{name: p.name()}
		p.expect("=")
		l.expr = p.expr()
		out = append(out, l)
	})
	return out
}

// sources reads the terms of FROM with their joins.
func (p *parser) sources() []*source {
	out := []*source{p.source()}
	for p.err == nil {
		if p.accept(",") {
			s := p.source()
			s.join = "JOIN"
			out = append(out, s)
			continue
		}
		mark := p.at
		outer := p.accept("LEFT")
		if outer {
			p.accept("OUTER")
		} else {
			p.accept("INNER")
		}
		word := p.acceptOne("JOIN", "UNNEST", "FLATTEN")
		switch {
		case p.sees("NEST"):
			p.unsupported("NEST")
		case p.sees("RIGHT"):
			p.unsupported("RIGHT JOIN")
		case word == "" && p.at != mark:
			p.wrong()
		case word == "":
			return out
		}
		if s := p.joined2(word); s != nil {
			s.outer = outer
			out = append(out, s)
		}
	}
	return out
}

// joined2 reads the term behind JOIN or UNNEST.
func (p *parser) joined2(word string) *source {
	if p.err != nil {
		return nil
	}
	if word != "JOIN" {
		s := &source{join: "UNNEST", expr: p.expr()}
		if s.alias = p.alias(); s.alias == "" {
			s.alias = lastName(s.expr)
		}
		if s.alias == "" {
			p.fail(fail(4010, "FROM term must have a name or alias"))
		}
		return s
	}
	s := p.source()
	s.join = "JOIN"
	switch {
	case p.accept("ON", "KEYS"), p.accept("ON", "PRIMARY", "KEYS"), p.accept("ON", "PRIMARY", "KEY"):
		s.onKeys = p.expr()
	case p.sees("ON", "KEY"):
		p.unsupported("JOIN ON KEY ... FOR")
	case p.accept("ON"):
		s.on = p.expr()
	default:
		p.wrong()
	}
	return s
}

// source reads one term of FROM: a keyspace, an expression, or a subquery.
func (p *parser) source() *source {
	s := &source{}
	t := p.peek()
	switch {
	case t.kind == tokSign || t.kind == tokParam || t.kind == tokString || t.isName() && p.ahead(1).is("("):
		s.expr = p.postfix()
	default:
		mark := p.at
		s.path = p.keyspace()
		if p.sees("[") || len(s.path.parts) > 3 {
			p.at = mark
			s.path, s.expr = nil, p.postfix()
		} else if s.path.namespace == "" {
			s.pathRef = p.node(opIdent, s.path.parts[0])
			for _, name := range s.path.parts[1:] {
				s.pathRef = p.node(opField, name, s.pathRef)
			}
		}
	}
	if s.alias = p.alias(); s.alias == "" {
		if s.path != nil {
			s.alias = s.path.parts[len(s.path.parts)-1]
		} else {
			s.alias = lastName(s.expr)
		}
	}
	if s.alias == "" {
		p.fail(fail(4010, "FROM expression term must have a name or alias"))
	}
	p.use(s)
	return s
}

// use reads USE KEYS, and the hints about indexes and joins, which change nothing.
func (p *parser) use(s *source) {
	for p.accept("USE") {
		p.accept("PRIMARY")
		switch {
		case p.accept("KEYS"):
			s.keys = p.expr()
		case p.accept("INDEX"):
			p.expect("(")
			for !p.sees(")") && p.peek().kind != tokEnd {
				p.step()
			}
			p.expect(")")
		case p.accept("HASH"), p.accept("NL"):
			if p.accept("(") {
				p.step()
				p.expect(")")
			}
		default:
			p.wrong()
		}
	}
}

// find collects the aggregates of a SELECT, which make it grouped.
func (c *core) find() {
	for _, it := range c.items {
		c.aggs = collectAggregates(c.aggs, it.expr)
	}
	c.aggs = collectAggregates(c.aggs, c.having)
	for _, l := range c.letting {
		c.aggs = collectAggregates(c.aggs, l.expr)
	}
	c.grouped = c.grouped || len(c.aggs) > 0
}

// collectAggregates appends the aggregates in an expression, those of its subqueries not among them.
func collectAggregates(out []*expr, e *expr) []*expr {
	if e == nil {
		return out
	}
	if isAggregate(e) {
		return append(out, e)
	}
	for _, a := range e.children() {
		out = collectAggregates(out, a)
	}
	return out
}

// children are the expressions within one.
func (e *expr) children() []*expr {
	out := append([]*expr{}, e.args...)
	for _, b := range e.binds {
		out = append(out, b.in)
	}
	if e.when != nil {
		out = append(out, e.when)
	}
	return out
}
