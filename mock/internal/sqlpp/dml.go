package sqlpp

import (
	"fmt"
	"maps"
)

// change executes INSERT, UPSERT, UPDATE and DELETE.
func (r *run) change(d *dml, out *Result) {
	t := &term{source: d.target, is: "keyspace"}
	if d.target.path.namespace == "system" {
		r.fail(Unsupported("changes of system keyspaces", d.verb))
		return
	}
	if r.keyspaceTerm(t); r.err != nil {
		return
	}
	m := &mutator{run: r, d: d, t: t, out: out}
	switch d.verb {
	case "INSERT", "UPSERT":
		m.insert()
	default:
		if d.target.keys == nil {
			r.needIndex(t, d.where)
		}
		m.each()
	}
}

// mutator executes one statement that changes documents. Errors of single documents do not end it.
type mutator struct {
	*run
	d   *dml
	t   *term
	out *Result
}

// failed notes that a document could not be changed.
func (m *mutator) failed(key string, e *Error) {
	verb := m.d.verb
	reason := fmt.Sprintf(`{"caller":"couchbase","code":%d,"key":%s,"message":%s}`, e.Code, quote(reasonKeys[e.Code]),
		quote(e.Message))
	m.out.Errors = append(m.out.Errors, &Error{
		Code: CodeDML, Reason: reason,
		Message: "DML Error, possible causes include concurrent modification. Failed to perform " + verb +
			" on key " + key,
	})
}

// reasonKeys are the names that the server gives to the reasons.
var reasonKeys = map[int]string{
	CodeDuplicateKey: "dml.statement.duplicatekey", CodeKeyNotFound: "datastore.couchbase.keynotfound",
	CodeCASMismatch: "datastore.couchbase.CAS_mismatch", CodeExecution: "dml.statement",
}

// insert stores the documents of VALUES or of a SELECT.
func (m *mutator) insert() {
	base := &scope{begin: true}
	if m.d.selected == nil {
		for _, v := range m.d.values {
			m.insertOne(m.eval(v[0], base), m.eval(v[1], base), m.eval(v[2], base))
			if m.err != nil {
				return
			}
		}
		return
	}
	v := m.d.values[0]
	for _, row := range m.query(m.d.selected, nil) {
		s := &scope{begin: true, sole: "#row"}
		s = s.with("#row", row)
		value := row
		if v[1] != nil {
			value = m.eval(v[1], s)
		}
		m.insertOne(m.eval(v[0], s), value, m.eval(v[2], s))
		if m.err != nil {
			return
		}
	}
}

func (m *mutator) insertOne(key, value, options any) {
	name, ok := key.(string)
	switch {
	case m.err != nil:
		return
	case !ok && !isMissing(key):
		m.run.fail(fail(CodeInsertKeyType, "Cannot %s non-string key %s of type %s.", m.d.verb, m.encode(key),
			kindNames[kindOf(key)]))
		return
	case !ok || name == "":
		m.run.fail(fail(5050, "No %s key for %s", m.d.verb, m.encode(value)))
		return
	case isMissing(value):
		m.run.fail(fail(5060, "No %s value for %s", m.d.verb, quote(name)))
		return
	}
	w := Write{Kind: Insert, Key: name, Value: []byte(m.encode(value)), PreserveExpiry: m.PreserveExpiry}
	if m.d.verb == "UPSERT" {
		w.Kind = Upsert
	}
	if e, ok := integer(field(options, "expiration")); ok {
		w.Expiry = uint32(min(max(e, 0), 1<<32-1))
	}
	if m.write(w) {
		m.returned(name, value)
	}
}

// write changes one document, and reports whether it is done.
func (m *mutator) write(w Write) bool {
	if m.err != nil {
		return false
	}
	if _, err := m.Store.Write(m.t.ks, w); err != nil {
		m.failed(w.Key, err)
		return false
	}
	m.out.Mutated++
	return true
}

// returned adds the row of RETURNING for a document.
func (m *mutator) returned(key string, value any) {
	if m.d.returning == nil || m.err != nil {
		return
	}
	doc, has := m.Store.Document(m.t.ks, key)
	if !has {
		doc = Document{Key: key, Value: []byte(m.encode(value))}
	}
	m.row(value, &doc)
}

// row adds a row of RETURNING.
func (m *mutator) row(value any, doc *Document) {
	s := m.scope(value, doc)
	m.out.Rows = append(m.out.Rows, m.encode(m.project(m.d.returning, s)))
}

// scope is what expressions about one document see.
func (m *mutator) scope(value any, doc *Document) *scope {
	s := &scope{begin: true, sole: m.t.alias}
	return &scope{up: s, name: m.t.alias, value: value, doc: doc, ks: m.t.name}
}

// each executes UPDATE and DELETE: first it finds the documents, then it changes them.
func (m *mutator) each() {
	base := &scope{begin: true, sole: m.t.alias}
	skip, limit := m.count(m.d.offset, nil, 0), m.count(m.d.limit, nil, -1)
	var rows []row
	m.rows(m.t, base, func(v row) bool {
		if m.d.where != nil && !truth(m.eval(m.d.where, m.scope(v.value, v.doc))) {
			return m.err == nil
		}
		if skip > 0 {
			skip--
			return true
		}
		if limit >= 0 && len(rows) >= limit {
			return false
		}
		rows = append(rows, v)
		return m.fits(len(rows))
	})
	for _, v := range rows {
		if m.err != nil {
			return
		}
		if m.d.verb == "DELETE" {
			if m.write(Write{Kind: Delete, Key: v.doc.Key, CAS: v.doc.CAS}) && m.d.returning != nil {
				m.row(v.value, v.doc)
			}
			continue
		}
		m.update(v)
	}
}

// update changes one document by SET and UNSET.
func (m *mutator) update(v row) {
	w := Write{Kind: Replace, Key: v.doc.Key, CAS: v.doc.CAS, PreserveExpiry: m.PreserveExpiry}
	s := m.scope(v.value, v.doc)
	value := v.value
	for _, a := range m.d.set {
		if a.path.op == opField && a.path.args[0].op == opCall {
			n, ok := integer(m.eval(a.value, s))
			if ok && a.path.args[0].name == "META" && a.path.name == "expiration" {
				w.Expiry, w.PreserveExpiry = uint32(min(max(n, 0), 1<<32-1)), false
				continue
			}
			m.run.fail(Unsupported("SET of metadata other than the expiration", "UPDATE"))
			return
		}
		if a.path.op == opCall {
			m.run.fail(fail(CodeSemantics, "SET needs a path"))
			return
		}
		apply := func(inner *scope) bool {
			x := missing
			if !a.unset {
				x = m.eval(a.value, inner)
			}
			value = m.set(value, m.steps(a.path, inner), x)
			return m.err == nil
		}
		if a.binds == nil {
			apply(s)
			continue
		}
		m.assignEach(a, s, v.value, &value)
	}
	w.Value = []byte(m.encode(value))
	if m.write(w) {
		m.returned(v.doc.Key, value)
	}
}

// assignEach executes "SET x.name = value FOR x IN array WHEN condition END": the elements of the array are changed.
func (m *mutator) assignEach(a assign, s *scope, _ any, value *any) {
	if len(a.binds) != 1 || a.binds[0].within {
		m.run.fail(Unsupported("SET ... FOR with more than one binding, or with WITHIN", "UPDATE"))
		return
	}
	root := a.path
	for root.op != opIdent {
		root = root.args[0]
	}
	b := a.binds[0]
	if root.name != b.name {
		m.run.fail(Unsupported("SET ... FOR of a path that does not begin with the binding", "UPDATE"))
		return
	}
	at := &scope{begin: true, sole: m.t.alias}
	at = &scope{up: at, name: m.t.alias, value: *value, doc: s.doc}
	array, ok := m.eval(b.in, at).([]any)
	if !ok || !m.allocate(16*len(array)) {
		return
	}
	next := make([]any, len(array))
	for i, x := range array {
		next[i] = x
		inner := s.with(b.name, x)
		if b.index != "" {
			inner = inner.with(b.index, int64(i))
		}
		if a.when != nil && !truth(m.eval(a.when, inner)) {
			continue
		}
		to := missing
		if !a.unset {
			to = m.eval(a.value, inner)
		}
		if steps := m.steps(a.path, inner); len(steps) > 1 {
			next[i] = m.set(x, steps[1:], to) // the first step is the binding
		} else if !isMissing(to) {
			next[i] = to
		}
	}
	*value = m.set(*value, m.steps(b.in, s), next)
}

// steps are the names and positions of a path, without the alias of the keyspace.
func (m *mutator) steps(e *expr, s *scope) []any {
	var out []any
	for ; e.op == opField || e.op == opElement || e.op == opDynField; e = e.args[0] {
		switch e.op {
		case opField:
			out = append(out, e.name)
		default:
			out = append(out, m.eval(e.args[1], s))
		}
	}
	if e.op == opIdent && (e.name != m.t.alias || len(out) == 0) {
		out = append(out, e.name)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// set is a copy of a value in which a path leads to x, or to nothing when that is MISSING. A path through anything but
// objects and arrays that are there changes nothing (nav_field.go: MISSING and NULL have no fields to set).
func (m *mutator) set(v any, steps []any, x any) any {
	if len(steps) == 0 {
		return x
	}
	switch step := steps[0].(type) {
	case string:
		o, ok := v.(map[string]any)
		if !ok || !m.allocate(32*len(o)) {
			return v
		}
		old := field(o, step)
		next := m.set(old, steps[1:], x)
		if isMissing(old) && isMissing(next) {
			return v
		}
		o = maps.Clone(o)
		if isMissing(next) {
			delete(o, step)
		} else {
			o[step] = next
		}
		return o
	default:
		a, ok := v.([]any)
		i, whole := integer(step)
		if !ok || !whole || i < 0 || i >= int64(len(a)) || !m.allocate(16*len(a)) {
			return v
		}
		a = append([]any{}, a...)
		if a[i] = m.set(a[i], steps[1:], x); isMissing(a[i]) {
			a[i] = nil
		}
		return a
	}
}
