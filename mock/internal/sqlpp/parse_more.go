package sqlpp

import "strings"

// caseOf reads CASE [operand] WHEN ... THEN ... [ELSE ...] END.
func (p *parser) caseOf() *expr {
	p.step()
	args := []*expr{nil}
	if !p.sees("WHEN") {
		args[0] = p.expr()
	}
	p.expectAhead("WHEN")
	for p.accept("WHEN") {
		args = append(args, p.expr())
		p.expect("THEN")
		args = append(args, p.expr())
	}
	if p.accept("ELSE") {
		args = append(args, p.expr())
	} else {
		args = append(args, nil)
	}
	p.expect("END")
	return p.node(opCase, "", args...)
}

// expectAhead fails unless a word is next, which it leaves there.
func (p *parser) expectAhead(word string) {
	if !p.sees(word) {
		p.wrong()
	}
}

// bindings reads "x IN a, y WITHIN b".
func (p *parser) bindings() []binding {
	var out []binding
	p.list(func() {
		b := binding{name: p.name()}
		if p.accept(":") {
			b.index, b.name = b.name, p.name()
		}
		b.within = p.accept("WITHIN")
		if !b.within {
			p.expect("IN")
		}
		b.in = p.expr()
		out = append(out, b)
	})
	return out
}

// quantified reads ANY, SOME, EVERY, and ANY AND EVERY ... SATISFIES ... END.
func (p *parser) quantified() *expr {
	name := strings.ToUpper(p.step().text)
	if name == "SOME" {
		name = "ANY"
	}
	if name == "ANY" && p.accept("AND", "EVERY") {
		name = "ANY AND EVERY"
	}
	binds := p.bindings()
	p.expect("SATISFIES")
	e := p.node(opQuantified, name, p.withBinds(binds, p.expr())...)
	e.binds, e.when, e.args = binds, e.args[0], nil
	p.expect("END")
	return e
}

// withBinds are the arguments of a node so that the depth of its bindings counts.
func (p *parser) withBinds(binds []binding, args ...*expr) []*expr {
	for _, b := range binds {
		args = append(args, b.in)
	}
	return args
}

// collected reads ARRAY x FOR ..., FIRST x FOR ... and OBJECT n : x FOR ... WHEN ... END; nil for a name that only
// looks like it.
func (p *parser) collected() *expr {
	if !beginsOperand(p.ahead(1)) {
		return nil
	}
	kind := strings.ToUpper(p.step().text)
	args := []*expr{p.expr()}
	if kind == "OBJECT" {
		p.expect(":")
		args = append(args, p.expr())
	}
	p.expect("FOR")
	binds := p.bindings()
	var when *expr
	if p.accept("WHEN") {
		when = p.expr()
	}
	p.expect("END")
	n := len(args)
	if when != nil {
		args = append(args, when)
	}
	e := p.node(opCollect, kind, p.withBinds(binds, args...)...)
	e.args, e.binds, e.when = args[:n:n], binds, when
	return e
}

func startsOperand(t token) bool {
	for _, w := range []string{"CASE", "TRUE", "FALSE", "NULL", "MISSING", "NOT", "EXISTS", "ANY", "EVERY", "SOME"} {
		if t.is(w) {
			return true
		}
	}
	return false
}

// aggregates are the functions of groups that the interpreter knows.
var aggregates = map[string]bool{
	"COUNT": true, "COUNTN": true, "SUM": true, "AVG": true, "MEAN": true, "MIN": true, "MAX": true, "ARRAY_AGG": true,
	"MEDIAN": true, "STDDEV": true, "STDDEV_POP": true, "STDDEV_SAMP": true, "VARIANCE": true, "VAR_POP": true,
	"VAR_SAMP": true, "VARIANCE_POP": true, "VARIANCE_SAMP": true,
}

// otherAggregates are those that it does not know.
var otherAggregates = map[string]bool{
	"ROW_NUMBER": true, "RANK": true, "DENSE_RANK": true, "PERCENT_RANK": true, "CUME_DIST": true, "LAG": true,
	"LEAD": true, "NTILE": true, "FIRST_VALUE": true, "LAST_VALUE": true, "NTH_VALUE": true, "RATIO_TO_REPORT": true,
}

func isAggregate(e *expr) bool { return e.op == opCall && aggregates[e.name] }

// checkCall refuses functions that do not exist, that the interpreter does not know, and wrong numbers of arguments.
func (p *parser) checkCall(e *expr) {
	star := len(e.args) == 1 && e.args[0].op == opStar
	switch f, known := functions[e.name]; {
	case p.err != nil:
	case star && e.name != "COUNT", e.distinct && !aggregates[e.name]:
		p.fail(fail(CodeSyntax, "Arguments of function %s are invalid", strings.ToLower(e.name)))
	case aggregates[e.name]:
		if len(e.args) != 1 {
			p.wrongArguments(e, 1, 1)
		}
	case e.name == "META":
		if len(e.args) > 1 {
			p.wrongArguments(e, 0, 1)
		}
	case otherAggregates[e.name], strings.HasPrefix(e.name, "SEARCH"), e.name == "CURL", e.name == "ADVISOR":
		p.unsupported("the function " + e.name)
	case !known:
		p.unsupported("a function of the name " + e.name)
	case len(e.args) < f.least || len(e.args) > f.most:
		p.wrongArguments(e, f.least, f.most)
	}
}

func (p *parser) wrongArguments(e *expr, least, most int) {
	p.fail(fail(CodeSyntax, "Number of arguments to function %s must be between %d and %d.", strings.ToLower(e.name),
		least, most))
}
