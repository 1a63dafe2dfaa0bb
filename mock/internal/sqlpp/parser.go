package sqlpp

import (
	"slices"
	"strings"
)

// parser reads tokens. After a failure it stands at the end of the statement, so that every loop ends.
type parser struct {
	text    string
	toks    []token
	at      int
	err     *Error
	depth   int
	unnamed int // parameters that are written ?
}

// maxTree is how deep an expression may be. Chains without brackets count: a + b + c has three levels.
const maxTree = 300

func (p *parser) peek() token { return p.toks[p.at] }

func (p *parser) ahead(n int) token { return p.toks[min(p.at+n, len(p.toks)-1)] }

func (p *parser) step() token {
	t := p.toks[p.at]
	if p.at < len(p.toks)-1 {
		p.at++
	}
	return t
}

func (p *parser) fail(e *Error) {
	if p.err == nil {
		p.err = e
	}
	p.at = len(p.toks) - 1
}

// wrong is the failure for a token that cannot stand here. Where a server accepts the token, it says that the mock does
// not support it.
func (p *parser) wrong() {
	if what := p.beyond(); what != "" {
		p.unsupported(what)
		return
	}
	p.fail(syntax(p.text, p.peek()))
}

// beyond is the part of the server's language to which a token belongs that cannot stand here, empty for none.
func (p *parser) beyond() string {
	before := func(n int, words ...string) bool {
		return p.at >= n && slices.ContainsFunc(words, p.toks[p.at-n].is)
	}
	t, first := p.peek(), p.toks[0]
	switch {
	case t.is("EXCLUDE"), first.is("CREATE") && t.is("INCLUDE"):
		return strings.ToUpper(t.text)
	case t.is("SELECT") && before(2, "LATERAL", "CORRELATED"):
		return strings.ToUpper(p.toks[p.at-2].text)
	case t.is("FOR") && (before(1, "NEXTVAL", "PREVVAL") || before(1, "VALUE") && before(2, "NEXT", "PREV")):
		return "sequences"
	case t.is("LET"):
		return "LET in " + strings.ToUpper(first.text)
	case first.is("CREATE") && slices.ContainsFunc([]string{"DISTINCT", "ALL", "ASC", "DESC"}, t.is):
		return "this key of an index"
	case t.kind == tokSign && t.text == ":" && before(1, "default"):
		return "functions with a namespace"
	}
	return ""
}

// unsupported is the failure for a part of the language that the interpreter does not know.
func (p *parser) unsupported(what string) { p.fail(Unsupported(what, firstWords(p.text))) }

// firstWords is the beginning of a statement, for an example of a script.
func firstWords(s string) string {
	s = strings.ToValidUTF8(strings.TrimSpace(s), "")
	if line, _, cut := strings.Cut(s, "\n"); cut {
		s = line
	}
	for len(s) > 40 {
		i := strings.LastIndexByte(s[:40], ' ')
		if i <= 0 {
			return strings.ToValidUTF8(s[:40], "")
		}
		s = s[:i]
	}
	return s
}

// enter counts how deep the statement is, and reports whether it may be deeper.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		p.fail(fail(CodeSyntax, "The mock's limit of %d levels within each other is exceeded", maxDepth))
	}
	return p.err == nil
}

func (p *parser) leave() { p.depth-- }

func (t token) is(word string) bool {
	if t.kind == tokWord {
		return strings.EqualFold(t.text, word)
	}
	return t.kind == tokSign && t.text == word
}

// sees reports whether the next words are these.
func (p *parser) sees(words ...string) bool {
	for i, w := range words {
		if !p.ahead(i).is(w) {
			return false
		}
	}
	return true
}

// accept steps over words that are next, and reports whether they are.
func (p *parser) accept(words ...string) bool {
	if !p.sees(words...) {
		return false
	}
	for range words {
		p.step()
	}
	return true
}

// acceptOne steps over the next word if it is one of these, and returns it.
func (p *parser) acceptOne(words ...string) string {
	for _, w := range words {
		if p.accept(w) {
			return w
		}
	}
	return ""
}

// expect steps over words that must be next.
func (p *parser) expect(words ...string) {
	for _, w := range words {
		if !p.accept(w) {
			p.wrong()
			return
		}
	}
}

// reserved are the keywords that are no names unless they are quoted. The server reserves more of them.
var reserved = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields("ALL AND ANY AS ASC BEGIN BETWEEN BUILD BY CASE COMMIT CREATE DELETE DESC " +
		"DISTINCT DROP ELEMENT ELSE END EVERY EXCEPT EXECUTE EXISTS EXPLAIN FALSE FOR FROM GROUP HAVING IN INNER " +
		"INSERT INTERSECT INTO IS JOIN LEFT LET LETTING LIKE LIMIT MERGE MISSING NEST NOT NULL OFFSET ON OR ORDER " +
		"OUTER PREPARE RAW RETURNING RIGHT ROLLBACK SATISFIES SELECT SET SOME THEN TRUE UNION UNNEST UNSET UPDATE " +
		"UPSERT USE USING VALUED VALUES WHEN WHERE WITH WITHIN") {
		words[w] = true
	}
	return words
}()

func (t token) isName() bool {
	return t.kind == tokQuoted || t.kind == tokWord && !reserved[strings.ToUpper(t.text)]
}

// name is an identifier that must be next.
func (p *parser) name() string {
	if !p.peek().isName() {
		p.wrong()
		return ""
	}
	return p.step().text
}

// alias is the name that may be next, with AS or without; "" without one.
func (p *parser) alias() string {
	if p.accept("AS") {
		return p.name()
	}
	if p.peek().isName() {
		return p.step().text
	}
	return ""
}

// keyspace is a path that names a keyspace: [namespace:]name[.name[.name]].
func (p *parser) keyspace() *path {
	k := &path{}
	first := p.name()
	if p.accept(":") {
		k.namespace, first = strings.ToLower(first), p.name()
	}
	k.parts = append(k.parts, first)
	for p.sees(".") && len(k.parts) < 4 {
		p.step()
		k.parts = append(k.parts, p.word())
	}
	return k
}

// word is a name behind a dot, where keywords are names too.
func (p *parser) word() string {
	if t := p.peek(); t.kind == tokWord || t.kind == tokQuoted {
		return p.step().text
	}
	p.wrong()
	return ""
}

// list reads at least one part, and more behind commas.
func (p *parser) list(part func()) {
	part()
	for p.accept(",") {
		part()
	}
}

// parse reads a whole statement.
func parse(text string) (*statement, *Error) {
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, toks: toks}
	s := p.statement()
	for p.accept(";") {
	}
	if p.err == nil && p.peek().kind != tokEnd {
		p.wrong()
	}
	if p.err != nil {
		return nil, p.err
	}
	s.text, s.params = text, p.unnamed
	return s, nil
}

// refused are statements that the interpreter does not know, by their first word.
var refused = []string{
	"ADVISE", "ALTER INDEX", "ALTER", "ANALYZE", "CALL", "DEFINE", "EXECUTE FUNCTION", "EXECUTE", "GRANT", "INFER",
	"EXPLAIN FUNCTION", "LOAD", "MERGE", "PREPARE", "REVOKE", "UPDATE STATISTICS", "USE", "USING AI",
	"WITH RECURSIVE",
}

func (p *parser) statement() *statement {
	s := &statement{verb: strings.ToUpper(p.peek().text)}
	if !p.enter() {
		return s
	}
	defer p.leave()
	for _, words := range refused {
		if p.sees(strings.Fields(words)...) {
			p.unsupported(words)
			return s
		}
	}
	switch {
	case p.sees("SELECT"), p.sees("FROM"), p.sees("WITH"), p.sees("("):
		s.verb, s.query = "SELECT", p.query()
	case p.sees("INSERT"), p.sees("UPSERT"):
		s.dml = p.insert()
	case p.sees("UPDATE"):
		s.dml = p.update()
	case p.sees("DELETE"):
		s.dml = p.remove()
	case p.accept("EXPLAIN"):
		s.inner = p.statement()
	case p.sees("CREATE"), p.sees("DROP"), p.sees("BUILD"), p.sees("FLUSH"), p.sees("TRUNCATE", "COLLECTION"):
		s.ddl = p.definition()
	default:
		s.txn = p.transaction()
	}
	return s
}

// transaction reads BEGIN, COMMIT, ROLLBACK, SAVEPOINT and SET TRANSACTION.
func (p *parser) transaction() *txn {
	t := &txn{}
	switch {
	case p.accept("BEGIN"), p.accept("START"):
		t.verb = "BEGIN"
	case p.accept("COMMIT"):
		t.verb = "COMMIT"
	case p.accept("ROLLBACK"):
		t.verb = "ROLLBACK"
	case p.accept("SAVEPOINT"):
		t.verb, t.savepoint = "SAVEPOINT", p.name()
		return t
	case p.sees("SET", "TRANSACTION"):
		p.step()
		t.verb = "SET"
	default:
		p.wrong()
		return t
	}
	p.acceptOne("WORK", "TRAN", "TRANSACTION")
	if t.verb == "ROLLBACK" && p.accept("TO") {
		p.accept("SAVEPOINT")
		t.savepoint = p.name()
	}
	if p.accept("ISOLATION") {
		p.expect("LEVEL", "READ", "COMMITTED")
	}
	return t
}

// verbs are the words that a statement can begin with.
var verbs = strings.Fields("SELECT FROM WITH ( INSERT UPSERT UPDATE DELETE EXPLAIN CREATE DROP BUILD FLUSH BEGIN " +
	"START COMMIT ROLLBACK SAVEPOINT SET ADVISE ALTER ANALYZE CALL DEFINE EXECUTE GRANT INFER LOAD MERGE PREPARE " +
	"REVOKE TRUNCATE USE USING")

// IsStatement reports whether a text begins as a statement does.
func IsStatement(text string) bool {
	at := skipBlank(text, 0)
	if at >= len(text) {
		return false
	}
	t, ok := next(text, at)
	return ok && slices.ContainsFunc(verbs, t.is)
}
