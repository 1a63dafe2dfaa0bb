package sqlpp

import "strings"

// explain is a plan as the service shows it: plausible, not the way that the interpreter goes.
func (r *run) explain(s *statement) any {
	var ops []any
	switch {
	case s.query != nil:
		ops = r.explainQuery(s.query)
	case s.dml != nil:
		t := &term{source: s.dml.target, is: "keyspace"}
		if r.keyspaceTerm(t); r.err != nil {
			return nil
		}
		if s.dml.verb == "UPDATE" || s.dml.verb == "DELETE" {
			if s.dml.target.keys == nil {
				r.needIndex(t, s.dml.where)
			}
			ops = r.explainTerm(t, s.dml.where)
			ops = append(ops, filter(s.dml.where)...)
		}
		ops = append(ops, operator("Send"+s.dml.verb[:1]+strings.ToLower(s.dml.verb[1:]), "alias", t.alias,
			"keyspace", t.ks.Collection))
	case s.ddl != nil:
		name := ""
		for _, w := range strings.Fields(s.ddl.verb + " " + s.ddl.what) {
			name += w[:1] + strings.ToLower(w[1:])
		}
		ops = []any{operator(name)}
	default:
		r.fail(Unsupported("EXPLAIN of this statement", "EXPLAIN"))
	}
	return map[string]any{"plan": operator("Sequence", "~children", ops), "text": s.text}
}

// operator is one step of a plan; more are names and values of its members.
func operator(name string, more ...any) map[string]any {
	o := map[string]any{"#operator": name}
	for i := 0; i+1 < len(more); i += 2 {
		if key, ok := more[i].(string); ok {
			o[key] = more[i+1]
		}
	}
	return o
}

func filter(e *expr) []any {
	if e == nil {
		return nil
	}
	return []any{operator("Filter", "condition", text(e, ""))}
}

func (r *run) explainQuery(q *query) []any {
	var ops []any
	for i := range q.parts {
		p := &q.parts[i]
		if p.sub != nil {
			ops = append(ops, r.explainQuery(p.sub)...)
			continue
		}
		ops = append(ops, r.explainCore(p.core)...)
		if p.op != "" {
			ops = append(ops, operator(p.op[:1]+strings.ToLower(p.op[1:])))
		}
	}
	if len(q.order) > 0 {
		var keys []any
		for _, t := range q.order {
			key := map[string]any{"expr": text(t.expr, "")}
			if t.desc {
				key["desc"] = `"desc"`
			}
			keys = append(keys, key)
		}
		ops = append(ops, operator("Order", "sort_terms", keys))
	}
	if q.offset != nil {
		ops = append(ops, operator("Offset", "expr", text(q.offset, "")))
	}
	if q.limit != nil {
		ops = append(ops, operator("Limit", "expr", text(q.limit, "")))
	}
	return ops
}

func (r *run) explainCore(c *core) []any {
	terms := r.resolve(c, nil)
	if r.err != nil {
		return nil
	}
	var ops []any
	for _, t := range terms {
		ops = append(ops, r.explainTerm(t, c.where)...)
	}
	if len(terms) == 0 {
		ops = append(ops, operator("DummyScan"))
	}
	ops = append(ops, filter(c.where)...)
	if c.grouped {
		var keys, aggs []any
		for _, g := range c.group {
			keys = append(keys, text(g.expr, ""))
		}
		for _, a := range c.aggs {
			aggs = append(aggs, text(a, ""))
		}
		ops = append(ops, operator("InitialGroup", "aggregates", aggs, "group_keys", keys))
	}
	var names []any
	for _, it := range c.items {
		names = append(names, map[string]any{"expr": text(it.expr, "")})
	}
	ops = append(ops, operator("InitialProject", "result_terms", names))
	if c.distinct {
		ops = append(ops, operator("Distinct"))
	}
	return ops
}

// explainTerm is how a term of FROM is read.
func (r *run) explainTerm(t *term, condition *expr) []any {
	if t.is == "expression" {
		name := "ExpressionScan"
		if t.join == "UNNEST" {
			name = "Unnest"
		}
		return []any{operator(name, "alias", t.alias, "expr", text(t.over, ""))}
	}
	keyspace := []any{
		"keyspace", t.ks.Collection, "namespace", "default", "bucket", t.ks.Bucket, "scope", t.ks.Scope,
		"as", t.alias, "using", "gsi",
	}
	if t.is == "system" {
		return []any{operator("PrimaryScan", "index", "#primary", "namespace", "system", "keyspace", t.path.parts[0])}
	}
	fetch := operator("Fetch", keyspace...)
	if t.keys != nil {
		return []any{operator("KeyScan", "keys", text(t.keys, "")), fetch}
	}
	if t.join != "" {
		name := "NestedLoopJoin"
		if t.onKeys != nil {
			name = "Join"
		}
		return []any{operator(name, "alias", t.alias, "on_clause", text(t.on, ""))}
	}
	ix, ok := r.indexFor(t, condition)
	if !ok {
		ix = Index{Name: "#sequentialscan", Primary: true}
		keyspace[len(keyspace)-1] = "sequentialscan"
	}
	scan := operator("IndexScan3", append([]any{"index", ix.Name}, keyspace...)...)
	if ix.Primary {
		scan["#operator"] = "PrimaryScan3"
	}
	return []any{scan, fetch}
}
