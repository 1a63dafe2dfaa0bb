package sqlpp

import "strings"

// insert reads INSERT and UPSERT.
func (p *parser) insert() *dml {
	d := &dml{verb: strings.ToUpper(p.step().text)}
	p.expect("INTO")
	d.target = p.target()
	if !p.accept("(") {
		p.expect("VALUES")
		p.values(d)
	} else {
		keys := p.keyClause()
		switch {
		case p.accept("VALUES"):
			for _, e := range keys {
				if e != nil {
					p.wrong() // (KEY expression) belongs to SELECT
				}
			}
			p.values(d)
		default:
			if keys[0] == nil {
				p.wrong()
			}
			d.values, d.selected = [][3]*expr{keys}, p.query()
		}
	}
	p.returning(d)
	return d
}

// keyClause reads "KEY [expression], VALUE [expression], OPTIONS [expression])" behind its bracket.
func (p *parser) keyClause() [3]*expr {
	var out [3]*expr
	p.accept("PRIMARY")
	p.expect("KEY")
	part := func(i int) {
		if !p.sees(",") && !p.sees(")") {
			out[i] = p.expr()
		}
	}
	part(0)
	if p.accept(",") {
		if p.accept("VALUE") {
			part(1)
		}
		p.accept(",")
		if p.accept("OPTIONS") {
			part(2)
		}
	}
	p.expect(")")
	return out
}

func (p *parser) values(d *dml) {
	p.list(func() {
		p.accept("VALUES")
		p.expect("(")
		v := [3]*expr{0: p.expr()}
		p.expect(",")
		v[1] = p.expr()
		if p.accept(",") {
			v[2] = p.expr()
		}
		p.expect(")")
		d.values = append(d.values, v)
	})
}

// target reads the keyspace that a statement changes.
func (p *parser) target() *source {
	s := &source{path: p.keyspace()}
	if s.alias = p.alias(); s.alias == "" {
		s.alias = s.path.parts[len(s.path.parts)-1]
	}
	p.use(s)
	return s
}

func (p *parser) update() *dml {
	p.step()
	d := &dml{verb: "UPDATE", target: p.target()}
	if !p.sees("SET") && !p.sees("UNSET") {
		p.wrong()
	}
	for p.sees("SET") || p.sees("UNSET") {
		unset := p.acceptOne("SET", "UNSET") == "UNSET"
		p.list(func() { d.set = append(d.set, p.assign(unset)) })
	}
	p.tail(d)
	return d
}

func (p *parser) remove() *dml {
	p.step()
	p.expect("FROM")
	d := &dml{verb: "DELETE", target: p.target()}
	p.tail(d)
	return d
}

// tail reads WHERE, LIMIT, OFFSET and RETURNING.
func (p *parser) tail(d *dml) {
	if p.accept("WHERE") {
		d.where = p.expr()
	}
	if p.accept("LIMIT") {
		d.limit = p.expr()
	}
	if p.accept("OFFSET") {
		d.offset = p.expr()
	}
	p.returning(d)
}

func (p *parser) returning(d *dml) {
	if p.accept("RETURNING") {
		d.returning = &core{from: []*source{d.target}}
		p.projection(d.returning)
	}
}

// assign reads one part of SET or UNSET.
func (p *parser) assign(unset bool) assign {
	a := assign{unset: unset, path: p.postfix()}
	for e := a.path; e.op != opIdent && e.op != opCall; e = e.args[0] {
		if e.op != opField && e.op != opElement && e.op != opDynField {
			p.wrong()
			return a
		}
	}
	if !unset {
		p.expect("=")
		a.value = p.expr()
	}
	if p.accept("FOR") {
		a.binds = p.bindings()
		if p.accept("WHEN") {
			a.when = p.expr()
		}
		p.expect("END")
	}
	return a
}

// definition reads CREATE, DROP, BUILD and FLUSH.
func (p *parser) definition() *ddl {
	d := &ddl{verb: strings.ToUpper(p.step().text)}
	if d.verb == "TRUNCATE" {
		d.verb = "FLUSH" // two words for one thing
	}
	primary := d.verb != "FLUSH" && d.verb != "BUILD" && p.accept("PRIMARY")
	d.what = p.acceptOne("INDEX", "SCOPE", "COLLECTION")
	switch {
	case d.what == "INDEX" && d.verb == "BUILD":
		p.buildIndex(d)
	case d.what == "INDEX" && d.verb == "CREATE":
		if primary {
			d.what = "PRIMARY INDEX"
		}
		p.createIndex(d)
	case d.what == "INDEX" && d.verb == "DROP":
		if primary {
			d.what = "PRIMARY INDEX"
		}
		p.dropIndex(d)
	case d.what == "" && d.verb != "BUILD":
		p.unsupported(d.verb + " " + strings.ToUpper(p.peek().text))
	case primary, d.verb == "BUILD", d.what == "", d.verb == "FLUSH" && d.what != "COLLECTION":
		p.wrong()
	default:
		p.exists(d)
		d.path = p.keyspace()
		p.exists(d)
		if p.accept("WITH") {
			d.with = p.expr()
		}
	}
	return d
}

// exists reads IF EXISTS and IF NOT EXISTS.
func (p *parser) exists(d *ddl) {
	if p.accept("IF", "NOT", "EXISTS") || p.accept("IF", "EXISTS") {
		d.lenient = true
	}
}

func (p *parser) createIndex(d *ddl) {
	p.exists(d)
	if !p.sees("ON") {
		d.name = p.name()
	}
	p.exists(d)
	p.expect("ON")
	d.path = p.keyspace()
	if d.what == "INDEX" {
		p.expect("(")
		p.list(func() {
			p.acceptOne("DISTINCT", "ALL")
			k := indexKey{expr: p.expr()}
			for k.expr != nil {
				word := p.acceptOne("ASC", "DESC", "INCLUDE")
				if word == "" {
					break
				}
				k.desc = k.desc || word == "DESC"
				if word == "INCLUDE" {
					p.expect("MISSING")
				}
			}
			d.keys = append(d.keys, k)
		})
		p.expect(")")
	}
	if p.accept("PARTITION") {
		p.expect("BY", "HASH", "(")
		p.list(func() { p.expr() })
		p.expect(")")
	}
	if p.accept("WHERE") {
		d.where = p.expr()
	}
	p.using()
	if p.accept("WITH") {
		d.with = p.expr()
	}
}

func (p *parser) using() {
	if p.accept("USING") && p.acceptOne("GSI", "VIEW") == "" {
		p.unsupported("USING " + p.peek().text)
	}
}

// dropIndex reads DROP [PRIMARY] INDEX in its old form, keyspace.name, and in its new one, name ON keyspace.
func (p *parser) dropIndex(d *ddl) {
	p.exists(d)
	switch {
	case d.what == "PRIMARY INDEX" && p.accept("ON"):
		d.name = "#primary"
		d.path = p.keyspace()
	case p.ahead(1).is("."), p.ahead(1).is(":"):
		d.path = p.keyspace()
		n := len(d.path.parts) - 1
		if n == 0 {
			p.wrong()
			return
		}
		d.name, d.path.parts = d.path.parts[n], d.path.parts[:n]
	default:
		d.name = p.name()
		p.exists(d)
		p.expect("ON")
		d.path = p.keyspace()
	}
	p.exists(d)
	p.using()
}

func (p *parser) buildIndex(d *ddl) {
	p.expect("ON")
	d.path = p.keyspace()
	p.expect("(")
	p.list(func() { d.names = append(d.names, p.expr()) })
	p.expect(")")
	p.using()
}
