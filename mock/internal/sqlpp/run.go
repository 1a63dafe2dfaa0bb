package sqlpp

import "strings"

// Run executes a statement.
func Run(statement string, o *Options) Result {
	s, err := parse(statement)
	if err != nil {
		return Result{Errors: []*Error{err}}
	}
	return s.run(o)
}

func (s *statement) run(o *Options) Result {
	r := &run{Options: *o, base: o.Store, limits: o.Limits}
	if r.limits == (Limits{}) {
		r.limits = DefaultLimits
	}
	if t := o.Txn; t != nil {
		if !t.mu.TryLock() {
			return Result{Errors: []*Error{inUse()}}
		}
		defer t.mu.Unlock()
		r.Store = txnStore{o.Store, t}
	}
	out := Result{Signature: s.signature()}
	switch {
	case o.NoWrites && s.query == nil:
		r.fail(Unsupported(s.verb+" of the analytics service", firstWords(s.text)))
	case o.ReadOnly && s.writes():
		r.fail(fail(CodeReadOnly, "The server or request is read-only and cannot accept this write statement."))
	case s.query != nil:
		out.Rows = r.encoded(r.query(s.query, nil))
	case s.dml != nil:
		r.change(s.dml, &out)
	case s.ddl != nil:
		r.define(s.ddl)
	case s.inner != nil:
		out.Rows = r.encoded([]any{r.explain(s.inner)})
	default:
		r.transact(s.txn, &out)
	}
	if r.err != nil {
		out.Errors = append(out.Errors, r.err)
		if s.dml == nil {
			out.Rows = nil
		}
	}
	return out
}

func (r *run) encoded(rows []any) []string {
	out := make([]string, 0, len(rows))
	for _, v := range rows {
		out = append(out, r.encode(v))
		if r.err != nil {
			return nil
		}
	}
	return out
}

// Check reads a statement without executing it.
func Check(statement string) *Error {
	_, err := parse(statement)
	return err
}

// Value evaluates an expression without a keyspace: the parameters of EXECUTE ... USING.
func Value(expression string, o *Options) (any, *Error) {
	toks, err := lex(expression)
	if err != nil {
		return nil, err
	}
	p := &parser{text: expression, toks: toks}
	e := p.expr()
	p.accept(";")
	if p.err == nil && p.peek().kind != tokEnd {
		p.wrong()
	}
	if p.err != nil {
		return nil, p.err
	}
	r := &run{Options: *o, limits: DefaultLimits}
	v := r.eval(e, &scope{begin: true})
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

// Prepared is a statement that begins with PREPARE or EXECUTE.
type Prepared struct {
	Execute   bool
	Name      string // empty when PREPARE names none
	Statement string // what PREPARE prepares
	Using     string // the expression behind USING
}

// Split reads PREPARE [FORCE] [name FROM | AS] statement, and EXECUTE name [USING expression]. It reports false for
// every other statement. It reads no further than the name, so that what is prepared may be anything.
func Split(statement string) (Prepared, bool) {
	word, at, ok := word(statement, 0)
	switch {
	case !ok:
	case word.is("PREPARE"):
		return splitPrepare(statement, at), true
	case word.is("EXECUTE"):
		name, at, ok := nameAt(statement, at)
		if !ok {
			return Prepared{}, false
		}
		p := Prepared{Execute: true, Name: name}
		using, after, ok := wordAt(statement, at, "USING")
		switch {
		case ok && using:
			p.Using = statement[after:]
		case strings.Trim(statement[at:], "; \t\r\n") != "":
			return Prepared{}, false
		}
		return p, true
	}
	return Prepared{}, false
}

func splitPrepare(statement string, at int) Prepared {
	if force, after, _ := wordAt(statement, at, "FORCE"); force {
		at = after
	}
	p := Prepared{Statement: strings.TrimSpace(statement[skipBlank(statement, at):])}
	name, after, ok := nameAt(statement, at)
	if !ok {
		return p
	}
	for _, w := range []string{"FROM", "AS"} {
		if is, end, _ := wordAt(statement, after, w); is && !reserved[strings.ToUpper(name)] {
			p.Name, p.Statement = name, strings.TrimSpace(statement[end:])
		}
	}
	return p
}

// word is the token at a place of a statement, and the place behind it.
func word(s string, at int) (token, int, bool) {
	if at = skipBlank(s, at); at >= len(s) {
		return token{}, at, false
	}
	t, ok := next(s, at)
	return t, t.to, ok
}

// wordAt reports whether a word is at a place of a statement, and the place behind it.
func wordAt(s string, at int, want string) (is bool, after int, ok bool) {
	t, after, ok := word(s, at)
	return ok && t.is(want), after, ok
}

// nameAt is the name at a place of a statement: an identifier or a text.
func nameAt(s string, at int) (string, int, bool) {
	t, after, ok := word(s, at)
	return t.text, after, ok && (t.kind == tokWord || t.kind == tokQuoted || t.kind == tokString)
}
