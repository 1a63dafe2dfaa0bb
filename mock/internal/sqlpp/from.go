package sqlpp

import (
	"slices"
	"strings"
)

// row is one value of a term of FROM.
type row struct {
	value any
	doc   *Document
}

// term is a term of FROM that is known: a keyspace, rows of a system keyspace, or an expression.
type term struct {
	*source
	over   *expr // an expression
	ks     Keyspace
	name   string // the full name of the keyspace
	system []map[string]any
	is     string // keyspace, system or expression
}

// resolve finds out what the terms of FROM are, and refuses those that no index serves.
func (r *run) resolve(c *core, s *scope) []*term {
	var out []*term
	seen := map[string]bool{}
	for _, f := range c.from {
		if seen[f.alias] {
			r.fail(fail(CodeDuplicateAlias, "Duplicate FROM alias %s.", f.alias))
			return nil
		}
		t := &term{source: f, over: f.expr, is: "expression"}
		switch {
		case f.path == nil:
		case f.pathRef != nil && (s.find(f.path.parts[0]) != nil || len(f.path.parts) > 1 && seen[f.path.parts[0]]):
			t.over = f.pathRef
		case f.path.namespace == "system":
			t.is = "system"
			r.systemTerm(t)
		default:
			t.is = "keyspace"
			r.keyspaceTerm(t)
			if f.keys == nil && f.onKeys == nil && r.err == nil {
				condition := c.where
				if f.join != "" {
					condition = f.on
				}
				r.needIndex(t, condition)
			}
		}
		seen[f.alias] = true
		if r.err != nil {
			return nil
		}
		out = append(out, t)
	}
	return out
}

func (r *run) systemTerm(t *term) {
	name := strings.ToLower(t.path.parts[len(t.path.parts)-1])
	rows, ok := r.Store.System(name)
	if !ok || len(t.path.parts) > 1 {
		r.fail(fail(CodeNoSystem, "Keyspace not found system:%s", strings.Join(t.path.parts, ".")))
	}
	t.system = rows
}

// keyspaceTerm finds a keyspace by its path and the query context.
func (r *run) keyspaceTerm(t *term) {
	ks, err := r.find(t.path)
	if err != nil {
		r.fail(err)
		return
	}
	t.ks, t.name = ks, ks.String()
}

// find is the keyspace of a path.
func (r *run) find(p *path) (Keyspace, *Error) {
	if p.namespace != "" && p.namespace != "default" {
		return Keyspace{}, fail(CodeNoNamespace, "Namespace not found in CB datastore: %s", p.namespace)
	}
	return r.Store.Keyspace(r.parts(p))
}

// parts are the names of a path, with the query context before a single one.
func (r *run) parts(p *path) []string {
	if p.namespace == "" && len(p.parts) == 1 && len(r.Context) == 2 {
		return append(slices.Clone(r.Context), p.parts[0])
	}
	return p.parts
}

// String is the full name of a keyspace; a bucket's default collection has the bucket's name.
func (k Keyspace) String() string {
	if k.Scope == "_default" && k.Collection == "_default" {
		return "default:" + k.Bucket
	}
	return "default:" + k.Bucket + "." + k.Scope + "." + k.Collection
}

// quoted is the full name in back quotes.
func (k Keyspace) quoted() string {
	if k.Scope == "_default" && k.Collection == "_default" {
		return "`default`:`" + k.Bucket + "`"
	}
	return "`default`:`" + k.Bucket + "`.`" + k.Scope + "`.`" + k.Collection + "`"
}

// needIndex refuses a keyspace without an index that serves the condition, unless it is scanned then.
func (r *run) needIndex(t *term, condition *expr) {
	if r.Scans != nil && r.Scans(t.ks) {
		return
	}
	if _, ok := r.indexFor(t, condition); !ok {
		r.fail(fail(CodeNoIndex, "No index available on keyspace %[1]s that matches your query. Use CREATE PRIMARY "+
			"INDEX ON %[1]s to create a primary index, or check that your expected index is online.", t.ks.quoted()))
	}
}

// indexFor is the index that a server would use: one whose first key is in the condition, or a primary one.
func (r *run) indexFor(t *term, condition *expr) (Index, bool) {
	texts := map[string]bool{}
	conjuncts := map[string]bool{}
	if condition != nil {
		parts := []*expr{condition}
		if condition.op == opAnd {
			parts = condition.args
		}
		for _, p := range parts {
			conjuncts[text(p, t.alias)] = true
			allTexts(texts, p, t.alias)
		}
	}
	var best Index
	found := false
	for _, ix := range r.Store.Indexes() {
		if ix.Keyspace != t.ks || ix.Deferred || !r.spend(1) {
			continue
		}
		if ix.Primary {
			if !found {
				best, found = ix, true
			}
			continue
		}
		first := strings.TrimSuffix(ix.Keys[0], " DESC")
		if texts[first] && (ix.Condition == "" || conjuncts[ix.Condition]) {
			return ix, true
		}
	}
	return best, found
}

// allTexts collects the texts of all expressions within one.
func allTexts(out map[string]bool, e *expr, sole string) {
	out[text(e, sole)] = true
	for _, a := range e.children() {
		if a != nil {
			allTexts(out, a, sole)
		}
	}
}

// join yields every combination of the terms' rows.
func (r *run) join(terms []*term, s *scope, yield func(*scope) bool) bool {
	if len(terms) == 0 {
		return yield(s)
	}
	t := terms[0]
	matched := false
	goOn := r.rows(t, s, func(v row) bool {
		inner := &scope{up: s, name: t.alias, value: v.value, doc: v.doc, ks: t.name}
		if t.on != nil && !truth(r.eval(t.on, inner)) {
			return r.err == nil
		}
		matched = true
		return r.join(terms[1:], inner, yield) && r.err == nil
	})
	if goOn && !matched && t.outer && r.err == nil {
		return r.join(terms[1:], s.with(t.alias, missing), yield)
	}
	return goOn && r.err == nil
}

// rows yields the rows of one term.
func (r *run) rows(t *term, s *scope, yield func(row) bool) bool {
	keys := t.keys
	if t.onKeys != nil {
		keys = t.onKeys
	}
	switch {
	case t.is == "system":
		for _, v := range t.system {
			if !r.spend(1) || !yield(row{value: v}) {
				return false
			}
		}
		return true
	case t.is == "expression":
		return r.elements(r.eval(t.over, s), t.join == "UNNEST", yield)
	case keys != nil:
		return r.keyed(t.ks, r.eval(keys, s), yield)
	}
	if s.begin && s.up.frame() == nil {
		return r.scan(t.ks, yield)
	}
	if r.read[t.ks] == nil { // it may be read many times
		if r.read == nil {
			r.read = map[Keyspace][]row{}
		}
		rows := []row{}
		r.scan(t.ks, func(v row) bool { rows = append(rows, v); return true })
		r.read[t.ks] = rows
	}
	for _, v := range r.read[t.ks] {
		if !r.spend(1) || !yield(v) {
			return false
		}
	}
	return true
}

// elements yields the elements of an array, or a single value unless it is unnested.
func (r *run) elements(v any, unnest bool, yield func(row) bool) bool {
	a, ok := v.([]any)
	if !ok && !unnest && !unknown(v) {
		a = []any{v}
	}
	for _, x := range a {
		if !r.spend(1) || !yield(row{value: x}) {
			return false
		}
	}
	return true
}

// scan yields the documents of a keyspace, in the order of their keys.
func (r *run) scan(ks Keyspace, yield func(row) bool) bool {
	for _, d := range r.Store.Documents(ks) {
		if !r.spend(1+len(d.Value)/64) || !yield(r.document(&d)) {
			return false
		}
	}
	return true
}

// keyed yields the documents that have one of the keys, in the order of the keys.
func (r *run) keyed(ks Keyspace, keys any, yield func(row) bool) bool {
	list, ok := keys.([]any)
	if !ok {
		list = []any{keys}
	}
	seen := map[string]bool{}
	for _, k := range list {
		key, isText := k.(string)
		if !isText || seen[key] || !r.spend(1) {
			continue
		}
		seen[key] = true
		d, has := r.Store.Document(ks, key)
		if has && !yield(r.document(&d)) {
			return false
		}
	}
	return true
}

// document is a document as a row. What is no JSON is a text that says so, as the server has it.
func (r *run) document(d *Document) row {
	v, ok := Decode(d.Value)
	if !ok {
		v = "<binary (" + r.encode(int64(len(d.Value))) + " b)>"
	}
	return row{value: v, doc: d}
}
