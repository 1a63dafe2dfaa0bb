package sqlpp

import (
	"strconv"
	"strings"
)

// node makes an expression of others, which must not be too deep.
func (p *parser) node(o op, name string, args ...*expr) *expr {
	e := &expr{op: o, name: name, args: args}
	for _, a := range args {
		if a != nil {
			e.depth = max(e.depth, a.depth)
		}
	}
	e.depth++
	if e.depth > maxTree {
		p.fail(fail(CodeSyntax, "The mock's limit of %d levels of an expression is exceeded", maxTree))
	}
	return e
}

// expr reads any expression.
func (p *parser) expr() *expr {
	if !p.enter() {
		return &expr{}
	}
	defer p.leave()
	return p.joined(opOr, "OR", func() *expr { return p.joined(opAnd, "AND", p.negation) })
}

// joined reads a chain of an operator that takes any number of operands.
func (p *parser) joined(o op, sign string, operand func() *expr) *expr {
	first := operand()
	if !p.sees(sign) {
		return first
	}
	args := []*expr{first}
	for p.accept(sign) {
		args = append(args, operand())
	}
	return p.node(o, "", args...)
}

func (p *parser) negation() *expr {
	if !p.sees("NOT") {
		return p.equality()
	}
	if !p.enter() {
		return &expr{}
	}
	defer p.leave()
	p.step()
	return p.node(opNot, "", p.negation())
}

func (p *parser) equality() *expr {
	e := p.relation()
	switch p.acceptOne("=", "==", "!=", "<>") {
	case "=", "==":
		return p.node(opCompare, "=", e, p.relation())
	case "!=", "<>":
		return p.node(opCompare, "!=", e, p.relation())
	}
	return e
}

func (p *parser) relation() *expr {
	e := p.predicate()
	if sign := p.acceptOne("<=", ">=", "<", ">"); sign != "" {
		return p.node(opCompare, sign, e, p.predicate())
	}
	return e
}

// predicate reads LIKE, BETWEEN, IN, WITHIN and IS.
func (p *parser) predicate() *expr {
	e := p.joined(opConcat, "||", p.sum)
	for p.err == nil {
		not := p.sees("NOT", "LIKE") || p.sees("NOT", "BETWEEN") || p.sees("NOT", "IN") || p.sees("NOT", "WITHIN")
		if not {
			p.step()
		}
		switch {
		case p.accept("LIKE"):
			e = p.node(opLike, "", e, p.joined(opConcat, "||", p.sum))
			if p.accept("ESCAPE") {
				p.unsupported("ESCAPE of LIKE")
			}
		case p.accept("BETWEEN"):
			low := p.joined(opConcat, "||", p.sum)
			p.expect("AND")
			e = p.node(opBetween, "", e, low, p.joined(opConcat, "||", p.sum))
		case p.accept("IN"):
			e = p.node(opIn, "", e, p.joined(opConcat, "||", p.sum))
		case p.accept("WITHIN"):
			e = p.node(opWithin, "", e, p.joined(opConcat, "||", p.sum))
		case p.accept("IS"):
			e = p.is(e)
		default:
			return e
		}
		if not {
			e = p.node(opNot, "", e)
		}
	}
	return e
}

func (p *parser) is(e *expr) *expr {
	not := p.accept("NOT")
	word := p.acceptOne("NULL", "MISSING", "VALUED", "KNOWN", "UNKNOWN")
	switch word {
	case "":
		if p.accept("DISTINCT") {
			p.unsupported("IS DISTINCT FROM")
		} else {
			p.wrong()
		}
	case "KNOWN":
		word = "VALUED"
	case "UNKNOWN":
		word, not = "VALUED", !not
	}
	e = p.node(opIs, word, e)
	if not {
		e = p.node(opNot, "", e)
	}
	return e
}

func (p *parser) sum() *expr {
	e := p.product()
	for {
		sign := p.acceptOne("+", "-")
		if sign == "" {
			return e
		}
		e = p.node(opArith, sign, e, p.product())
	}
}

func (p *parser) product() *expr {
	e := p.unary()
	for {
		sign := p.acceptOne("*", "/", "%")
		if sign == "" {
			return e
		}
		e = p.node(opArith, sign, e, p.unary())
	}
}

func (p *parser) unary() *expr {
	if !p.sees("-") && !p.sees("+") {
		return p.postfix()
	}
	if !p.enter() {
		return &expr{}
	}
	defer p.leave()
	if p.accept("+") {
		return p.unary()
	}
	p.step()
	e := p.unary()
	if e.op == opConst && isNumber(e.value) {
		switch v := e.value.(type) {
		case int64:
			return p.constant(-v)
		case float64:
			return p.constant(-v)
		}
	}
	return p.node(opNegate, "", e)
}

// postfix reads what stands behind an operand: .field, .[field], [element], [slice], and .* at the end.
func (p *parser) postfix() *expr {
	e := p.primary()
	for p.err == nil {
		switch {
		case p.sees(".", "*"):
			p.step()
			p.step()
			return p.node(opStarField, "", e)
		case p.accept(".", "["):
			e = p.node(opDynField, "", e, p.expr())
			p.expect("]")
		case p.accept("."):
			e = p.node(opField, p.word(), e)
		case p.accept("["):
			e = p.subscript(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) subscript(e *expr) *expr {
	if p.accept(":") {
		e = p.node(opSlice, "", e, p.constant(int64(0)), p.expr())
		p.expect("]")
		return e
	}
	first := p.expr()
	if !p.accept(":") {
		p.expect("]")
		return p.node(opElement, "", e, first)
	}
	if p.accept("]") {
		return p.node(opSlice, "", e, first)
	}
	e = p.node(opSlice, "", e, first, p.expr())
	p.expect("]")
	return e
}

func (p *parser) constant(v any) *expr {
	e := p.node(opConst, "")
	e.value = v
	return e
}

// primary reads an operand.
func (p *parser) primary() *expr {
	t := p.peek()
	switch t.kind {
	case tokString:
		p.step()
		return p.constant(t.text)
	case tokNumber:
		p.step()
		return p.constant(parseNumber(t.text))
	case tokParam:
		return p.parameter()
	case tokQuoted:
		return p.identifier()
	case tokWord:
		return p.wordOperand(t)
	case tokSign:
		switch t.text {
		case "(":
			return p.brackets()
		case "[":
			return p.array()
		case "{":
			return p.object()
		}
	case tokEnd:
	}
	p.wrong()
	return &expr{}
}

func (p *parser) parameter() *expr {
	name := p.step().text
	if name == "" {
		p.unnamed++
		name = strconv.Itoa(p.unnamed)
	}
	return p.node(opParam, name)
}

func (p *parser) identifier() *expr {
	e := p.node(opIdent, "")
	e.name = p.name()
	return e
}

// wordOperand reads an operand that begins with a word: a constant, CASE, a function, a name.
func (p *parser) wordOperand(t token) *expr {
	switch strings.ToUpper(t.text) {
	case "TRUE", "FALSE":
		p.step()
		return p.constant(strings.EqualFold(t.text, "TRUE"))
	case "NULL":
		p.step()
		return p.constant(nil)
	case "MISSING":
		p.step()
		return p.constant(missing)
	case "CASE":
		return p.caseOf()
	case "EXISTS":
		p.step()
		return p.node(opExists, "", p.postfix())
	case "ANY", "SOME", "EVERY":
		return p.quantified()
	case "ARRAY", "FIRST", "OBJECT":
		if e := p.collected(); e != nil {
			return e
		}
	}
	if p.ahead(1).is("(") {
		return p.call()
	}
	return p.identifier()
}

// call reads a function with its arguments.
func (p *parser) call() *expr {
	e := p.node(opCall, strings.ToUpper(p.step().text))
	p.expect("(")
	if e.distinct = p.accept("DISTINCT"); !e.distinct {
		p.accept("ALL")
	}
	var args []*expr
	switch {
	case p.sees("*"):
		p.step()
		args = append(args, p.node(opStar, ""))
	case !p.sees(")"):
		p.list(func() { args = append(args, p.expr()) })
	}
	p.expect(")")
	if p.sees("OVER") || p.sees("FILTER") {
		p.unsupported("window functions and FILTER")
	}
	whole := p.node(opCall, e.name, args...)
	whole.distinct = e.distinct
	p.checkCall(whole)
	return whole
}

func (p *parser) brackets() *expr {
	if p.sees("(", "SELECT") || p.sees("(", "FROM") || p.sees("(", "WITH") {
		p.step()
		e := p.node(opSubquery, "")
		e.query = p.query()
		p.expect(")")
		return e
	}
	p.step()
	e := p.expr()
	p.expect(")")
	return e
}

func (p *parser) array() *expr {
	p.step()
	var args []*expr
	if !p.sees("]") {
		p.list(func() { args = append(args, p.expr()) })
	}
	p.expect("]")
	return p.node(opArray, "", args...)
}

func (p *parser) object() *expr {
	p.step()
	var args []*expr
	if !p.sees("}") {
		p.list(func() {
			name := p.expr()
			if p.accept(":") {
				args = append(args, name, p.expr())
				return
			}
			args = append(args, p.constant(lastName(name)), name) // {a.b} stands for {"b": a.b}
		})
	}
	p.expect("}")
	return p.node(opObject, "", args...)
}

// lastName is the name that an expression gives to its value, "" for none.
func lastName(e *expr) string {
	if e.op == opIdent || e.op == opField {
		return e.name
	}
	return ""
}
