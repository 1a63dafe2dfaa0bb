package sqlpp

import "math"

// define executes a statement about indexes, scopes and collections.
func (r *run) define(d *ddl) {
	if r.Txn != nil {
		r.fail(fail(CodeTxnStatement, "%s %s statement is not supported within the transaction", d.verb, d.what))
		return
	}
	if d.what == "SCOPE" || d.what == "COLLECTION" {
		r.defineKeyspace(d)
		return
	}
	ks, err := r.find(d.path)
	if err != nil {
		r.fail(err)
		return
	}
	switch d.verb {
	case "CREATE":
		r.createIndex(d, ks)
	case "DROP":
		if !r.Store.DropIndex(ks, d.name) && !d.lenient {
			r.noIndex(d.name)
		}
	default:
		for _, e := range d.names {
			r.buildIndex(e, ks)
		}
	}
}

func (r *run) noIndex(name string) {
	r.fail(fail(CodeNoIndexNamed, "Index Not Found - cause: GSI index %s not found.", name))
}

// buildIndex builds the indexes that an expression names: a name, a text, or an array of texts.
func (r *run) buildIndex(e *expr, ks Keyspace) {
	if e.op == opIdent {
		if !r.Store.BuildIndex(ks, e.name) {
			r.noIndex(e.name)
		}
		return
	}
	v := r.eval(e, &scope{begin: true})
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, x := range list {
		name, ok := x.(string)
		if r.err != nil {
			return
		}
		if !ok || !r.Store.BuildIndex(ks, name) {
			r.noIndex(r.encode(x))
		}
	}
}

func (r *run) createIndex(d *ddl, ks Keyspace) {
	ix := Index{Name: d.name, Keyspace: ks, Primary: d.what == "PRIMARY INDEX"}
	if ix.Name == "" && ix.Primary {
		ix.Name = "#primary"
	}
	alias := d.path.parts[len(d.path.parts)-1]
	for _, k := range d.keys {
		key := text(k.expr, alias)
		if k.desc {
			key += " DESC"
		}
		ix.Keys = append(ix.Keys, key)
	}
	if d.where != nil {
		ix.Condition = text(d.where, alias)
	}
	with := r.eval(d.with, &scope{begin: true})
	ix.Deferred = truth(field(with, "defer_build"))
	if r.err == nil && !r.Store.CreateIndex(ix) && !d.lenient {
		r.fail(fail(CodeIndexExists, "The index %s already exists.", ix.Name))
	}
}

func (r *run) defineKeyspace(d *ddl) {
	parts := d.path.parts
	want := 2
	if d.what == "COLLECTION" {
		want = 3
		if parts = r.parts(d.path); len(parts) == 1 && d.verb == "FLUSH" {
			parts = []string{parts[0], "_default", "_default"}
		}
	} else if len(parts) == 1 && len(r.Context) == 2 {
		parts = []string{r.Context[0], parts[0]}
	}
	if len(parts) != want {
		r.fail(fail(CodeSemantics, "%s %s needs a path of %d names", d.verb, d.what, want))
		return
	}
	ttl, _ := integer(field(r.eval(d.with, &scope{begin: true}), "maxTTL"))
	if r.err != nil {
		return
	}
	ttl = min(max(ttl, -1), math.MaxInt32)
	if err := r.Store.Define(d.verb, d.what, parts, int32(ttl), d.lenient); err != nil {
		r.fail(err)
	}
}
