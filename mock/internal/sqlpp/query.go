package sqlpp

import (
	"cmp"
	"slices"
)

// output is one row of a SELECT. scope is what ORDER BY may ask.
type output struct {
	value any
	scope *scope
	keys  []any
}

// query executes a SELECT with its set operations, order and limits, and returns the rows' values.
func (r *run) query(q *query, s *scope) []any {
	for _, l := range q.with {
		s = s.with(l.name, r.eval(l.expr, s))
	}
	offset, limit := r.count(q.offset, s, 0), r.count(q.limit, s, -1)
	stop := -1
	if len(q.order) == 0 && len(q.parts) == 1 && limit >= 0 {
		stop = offset + min(limit, r.limits.Rows)
	}
	outs := r.part(q, 0, s, stop)
	for i := 1; i < len(q.parts) && r.err == nil; i++ {
		outs = r.combine(&q.parts[i], outs, r.part(q, i, s, -1))
	}
	if len(q.order) > 0 {
		r.sort(q, outs)
	}
	outs = outs[min(offset, len(outs)):]
	if limit >= 0 {
		outs = outs[:min(limit, len(outs))]
	}
	rows := make([]any, len(outs))
	for i, o := range outs {
		rows[i] = o.value
	}
	return rows
}

// count is the number that LIMIT or OFFSET asks for; otherwise is for a clause that is not there.
func (r *run) count(e *expr, s *scope, otherwise int) int {
	if e == nil {
		return otherwise
	}
	n, ok := integer(r.eval(e, &scope{up: s, begin: true}))
	if !ok && r.err == nil {
		r.fail(fail(CodeEvaluation, "Invalid LIMIT or OFFSET: it must be a number without a fraction"))
	}
	return int(min(max(n, 0), 1<<40))
}

// part executes one SELECT of a query. stop is after how many rows it may end, -1 for all.
func (r *run) part(q *query, i int, s *scope, stop int) []output {
	p := &q.parts[i]
	if p.core != nil {
		outs := r.core(p.core, s, stop)
		if len(q.order) > 0 && len(q.parts) == 1 {
			for _, t := range q.order {
				if p.core.grouped {
					p.core.checkGrouped(r, t.expr, true)
				}
			}
			for j := range outs {
				r.orderKeys(q, &outs[j])
			}
		}
		return outs
	}
	outs := []output{}
	for _, v := range r.query(p.sub, s) {
		outs = append(outs, output{value: v})
	}
	return outs
}

// orderKeys finds the values that a row is ordered by: of the names of its own members first, then of what the
// SELECT has seen.
func (r *run) orderKeys(q *query, o *output) {
	s := o.scope
	if s == nil {
		s = &scope{begin: true, sole: "#row"}
		s = s.with("#row", o.value)
	} else if row, ok := o.value.(map[string]any); ok {
		for _, it := range q.parts[0].core.items {
			if v, has := row[it.as]; it.as != "" && has {
				s = s.with(it.as, v)
			}
		}
	} else if c := q.parts[0].core; c.raw && c.items[0].as != "" {
		s = s.with(c.items[0].as, o.value)
	}
	for _, t := range q.order {
		o.keys = append(o.keys, r.eval(t.expr, s))
	}
}

func (r *run) sort(q *query, outs []output) {
	if len(q.parts) > 1 || q.parts[0].core == nil {
		for i := range outs {
			outs[i].scope = nil
			r.orderKeys(q, &outs[i])
		}
	}
	if r.err != nil {
		return
	}
	slices.SortStableFunc(outs, func(a, b output) int {
		for i, t := range q.order {
			if c := r.orderOf(&t, a.keys[i], b.keys[i]); c != 0 {
				return c
			}
		}
		return 0
	})
}

// orderOf is the order of two keys under one term of ORDER BY.
func (r *run) orderOf(t *orderTerm, a, b any) int {
	if t.nulls != "" && unknown(a) != unknown(b) {
		if unknown(a) == (t.nulls == "FIRST") {
			return -1
		}
		return 1
	}
	c := r.compare(a, b)
	if t.desc {
		return -c
	}
	return c
}

// combine is UNION, INTERSECT or EXCEPT of rows. Without ALL every row is there once.
func (r *run) combine(p *setPart, a, b []output) []output {
	if p.op == "UNION" {
		a = append(a, b...)
		r.fits(len(a))
		if p.all {
			return a
		}
		return r.distinct(a)
	}
	in := map[string]int{}
	for _, o := range b {
		in[r.encode(o.value)]++
	}
	var out []output
	for _, o := range a {
		key := r.encode(o.value)
		has := in[key] > 0
		if has && p.all {
			in[key]--
		}
		if has == (p.op == "INTERSECT") {
			out = append(out, o)
		}
	}
	if p.all {
		return out
	}
	return r.distinct(out)
}

// distinct keeps the first of equal rows.
func (r *run) distinct(outs []output) []output {
	seen := map[string]bool{}
	return slices.DeleteFunc(outs, func(o output) bool {
		key := r.encode(o.value)
		before := seen[key]
		seen[key] = true
		return before
	})
}

// core executes one SELECT.
func (r *run) core(c *core, s *scope, stop int) []output {
	base := &scope{up: s, begin: true}
	if len(c.from) == 1 {
		base.sole = c.from[0].alias
	}
	terms := r.resolve(c, s)
	if r.err != nil {
		return nil
	}
	var outs []output
	var grouped []*scope
	r.join(terms, base, func(row *scope) bool {
		for _, l := range c.lets {
			row = row.with(l.name, r.eval(l.expr, row))
		}
		if c.where != nil && !truth(r.eval(c.where, row)) {
			return r.err == nil
		}
		if c.grouped {
			grouped = append(grouped, row)
			return r.fits(len(grouped))
		}
		outs = append(outs, output{value: r.project(c, row), scope: row})
		return r.fits(len(outs)) && (c.distinct || stop < 0 || len(outs) < stop)
	})
	if c.grouped && r.err == nil {
		outs = r.groups(c, base, grouped)
	}
	if c.distinct {
		outs = r.distinct(outs)
	}
	return outs
}

// project makes a row of what is selected.
func (r *run) project(c *core, s *scope) any {
	if c.raw {
		if v := r.eval(c.items[0].expr, s); !isMissing(v) {
			return v
		}
		return nil
	}
	row := map[string]any{}
	for _, it := range c.items {
		switch it.expr.op {
		case opStar:
			for _, f := range c.from {
				if at := s.find(f.alias); at != nil && !isMissing(at.value) {
					row[f.alias] = at.value
				}
			}
		case opStarField:
			o, _ := r.eval(it.expr.args[0], s).(map[string]any)
			r.spend(len(o))
			for name, v := range o {
				row[name] = v
			}
		default:
			if v := r.eval(it.expr, s); !isMissing(v) {
				row[it.name] = v
			}
		}
	}
	return row
}

// group is the rows that have equal keys.
type group struct {
	rows []*scope
	keys []any
}

// groups puts rows into groups and makes a row of each.
func (r *run) groups(c *core, base *scope, rows []*scope) []output {
	var order []*group
	if len(c.group) == 0 {
		order = []*group{{rows: rows}}
	}
	known := map[string]*group{}
	for _, row := range rows {
		if len(c.group) == 0 || !r.spend(1) {
			break
		}
		keys := make([]any, len(c.group))
		for i, g := range c.group {
			keys[i] = r.eval(g.expr, row)
		}
		name := r.groupName(keys)
		g := known[name]
		if g == nil {
			g = &group{keys: keys}
			known[name] = g
			order = append(order, g)
		}
		g.rows = append(g.rows, row)
	}
	for _, it := range c.items {
		c.checkGrouped(r, it.expr, false)
	}
	if c.having != nil {
		c.checkGrouped(r, c.having, false)
	}
	var outs []output
	for _, g := range order {
		s := base
		if len(g.rows) > 0 {
			s = g.rows[0]
		}
		for i, k := range c.group {
			s = s.with(k.name, g.keys[i])
		}
		s = &scope{up: s, aggs: map[*expr]any{}}
		for _, a := range c.aggs {
			s.aggs[a] = r.aggregate(a, g.rows)
		}
		for _, l := range c.letting {
			s = s.with(l.name, r.eval(l.expr, s))
		}
		if c.having == nil || truth(r.eval(c.having, s)) {
			outs = append(outs, output{value: r.project(c, s), scope: s})
		}
	}
	return outs
}

// groupName tells groups apart, MISSING from NULL too.
func (r *run) groupName(keys []any) string {
	name := ""
	for _, k := range keys {
		if isMissing(k) {
			name += "-,"
			continue
		}
		name += r.encode(k) + ","
	}
	return name
}

// checkGrouped fails for an expression of a grouped SELECT that does not only depend on its groups. ORDER BY may use
// the names of what is selected as well.
func (c *core) checkGrouped(r *run, e *expr, named bool) {
	sole := ""
	if len(c.from) == 1 {
		sole = c.from[0].alias
	}
	keys := map[string]bool{}
	for _, g := range c.group {
		keys[text(g.expr, sole)] = true
		if g.name != "" {
			keys[quoteName(g.name)] = true
		}
	}
	for _, l := range c.letting {
		keys[quoteName(l.name)] = true
	}
	for _, it := range c.items {
		if named && it.as != "" {
			keys[quoteName(it.as)] = true
		}
	}
	var walk func(e *expr, bound []string)
	walk = func(e *expr, bound []string) {
		if r.err != nil || keys[text(e, sole)] || isAggregate(e) || e.op == opSubquery {
			return
		}
		if e.op == opStar || e.op == opIdent && !slices.Contains(bound, e.name) ||
			e.op == opCall && e.name == "META" {
			r.fail(fail(CodeNotGrouped, "Expression %s must depend only on group keys or aggregates.", text(e, "")))
			return
		}
		for _, b := range e.binds {
			bound = append(bound, b.name, cmp.Or(b.index, b.name))
		}
		for _, a := range e.children() {
			if a != nil {
				walk(a, bound)
			}
		}
	}
	if len(c.from) > 0 {
		walk(e, nil)
	}
}
