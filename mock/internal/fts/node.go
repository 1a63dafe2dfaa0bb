package fts

import (
	"math"
	"slices"
)

// node is a query that has been read. prepare comes first, once, with all documents; then the norm of the whole query
// is made of its weight.
type node interface {
	prepare(all []*doc)
	weight() float64
	setNorm(norm float64)
	match(d *doc) *match // nil for a document that does not match
}

// match is how a document matches: its score, and where.
type match struct {
	score float64
	found []found
}

type found struct {
	field, term string
	place
}

func (m *match) add(o *match) {
	m.score += o.score
	m.found = append(m.found, o.found...)
}

// normed sets the norm of a query of several terms.
func normed(n node) {
	if w := n.weight(); w > 0 {
		n.setNorm(1 / math.Sqrt(w))
	}
}

type nothing struct{}

func (nothing) prepare([]*doc)    {}
func (nothing) weight() float64   { return 0 }
func (nothing) setNorm(float64)   {}
func (nothing) match(*doc) *match { return nil }

// constant is a query that finds documents by a test, with the same score for all of them.
type constant struct {
	boost, norm float64
	test        func(*doc) bool
}

func (n *constant) prepare([]*doc)       {}
func (n *constant) weight() float64      { return n.boost * n.boost }
func (n *constant) setNorm(norm float64) { n.norm = norm }

func (n *constant) match(d *doc) *match {
	if !n.test(d) {
		return nil
	}
	if n.norm == 0 {
		return &match{score: n.boost}
	}
	return &match{score: n.boost * n.norm}
}

// termNode finds one term, or the terms that it accepts.
type termNode struct {
	field, term string
	accepts     func(string) bool // nil for one term
	boost       float64

	idf, factor float64
}

func (n *termNode) prepare(all []*doc) {
	with := 0
	if n.accepts == nil {
		for _, d := range all {
			if n.has(d) {
				with++
			}
		}
	}
	n.idf, n.factor = idf(len(all), with), 1
	if n.accepts != nil {
		n.idf = 1
	}
}

func (n *termNode) has(d *doc) (has bool) {
	d.named(n.field, func(_ string, f *field) { has = has || f.terms[n.term] != nil })
	return has
}

func (n *termNode) weight() float64      { return n.boost * n.idf * n.boost * n.idf }
func (n *termNode) setNorm(norm float64) { n.factor = n.idf * norm }

func (n *termNode) match(d *doc) *match {
	m := &match{}
	count, length := 0, 0
	d.named(n.field, func(name string, f *field) {
		length += f.length
		each := func(term string) {
			count += len(f.terms[term])
			for _, at := range f.terms[term] {
				m.found = append(m.found, found{name, term, at})
			}
		}
		if n.accepts == nil {
			each(n.term)
			return
		}
		for term := range f.terms {
			if n.accepts(term) {
				each(term)
			}
		}
	})
	if count == 0 {
		return nil
	}
	m.score = math.Sqrt(float64(count)) / math.Sqrt(float64(length)) * n.idf * n.boost * n.factor
	return m
}

// phraseNode finds terms that follow each other.
type phraseNode struct {
	field string
	boost float64
	terms []map[string]bool // alternatives by their place in the phrase; nil where anything may stand

	parts allOf
}

func (n *phraseNode) add(at int, term string) {
	for len(n.terms) <= at {
		n.terms = append(n.terms, nil)
	}
	if n.terms[at] == nil {
		n.terms[at] = map[string]bool{}
	}
	n.terms[at][term] = true
}

func (n *phraseNode) prepare(all []*doc) {
	n.parts = allOf{}
	for _, set := range n.terms {
		if set == nil {
			continue
		}
		t := &termNode{field: n.field, boost: n.boost}
		for term := range set {
			t.term = term
		}
		if len(set) > 1 {
			t.accepts = func(term string) bool { return set[term] }
		}
		n.parts.parts = append(n.parts.parts, t)
	}
	n.parts.prepare(all)
}

func (n *phraseNode) weight() float64      { return n.parts.weight() }
func (n *phraseNode) setNorm(norm float64) { n.parts.setNorm(norm) }

func (n *phraseNode) match(d *doc) *match {
	m := n.parts.match(d)
	if m == nil {
		return nil
	}
	var kept []found
	d.named(n.field, func(name string, f *field) {
		for first := range n.terms[0] {
			for _, at := range f.terms[first] {
				kept = append(kept, n.follow(name, first, f, at)...)
			}
		}
	})
	if kept == nil {
		return nil
	}
	m.found = kept
	return m
}

// follow are the places of a phrase that begins at one.
func (n *phraseNode) follow(name, first string, f *field, begin place) []found {
	out := []found{{name, first, begin}}
	for i, set := range n.terms {
		if i == 0 || set == nil {
			continue
		}
		before := len(out)
		for term := range set {
			for _, at := range f.terms[term] {
				if at.Pos == begin.Pos+i && slices.Equal(at.Array, begin.Array) {
					out = append(out, found{name, term, at})
				}
			}
		}
		if len(out) == before {
			return nil
		}
	}
	return out
}

// allOf finds what all of its parts find.
type allOf struct{ parts []node }

func (n *allOf) prepare(all []*doc) {
	for _, p := range n.parts {
		p.prepare(all)
	}
	if len(n.parts) > 1 {
		normed(n)
	}
}

func (n *allOf) weight() (sum float64) {
	for _, p := range n.parts {
		sum += p.weight()
	}
	return sum
}

func (n *allOf) setNorm(norm float64) {
	for _, p := range n.parts {
		p.setNorm(norm)
	}
}

func (n *allOf) match(d *doc) *match {
	out := &match{}
	for _, p := range n.parts {
		m := p.match(d)
		if m == nil {
			return nil
		}
		out.add(m)
	}
	return out
}

// anyOf finds what at least some of its parts find: one, if it does not say how many.
type anyOf struct {
	parts []node
	least int
}

func (n *anyOf) prepare(all []*doc)   { (&allOf{n.parts}).prepare(all) }
func (n *anyOf) weight() float64      { return (&allOf{n.parts}).weight() }
func (n *anyOf) setNorm(norm float64) { (&allOf{n.parts}).setNorm(norm) }

func (n *anyOf) match(d *doc) *match {
	out := &match{}
	count := 0
	for _, p := range n.parts {
		if m := p.match(d); m != nil {
			out.add(m)
			count++
		}
	}
	if count < max(n.least, 1) {
		return nil
	}
	out.score *= float64(count) / float64(len(n.parts))
	return out
}

// boolNode finds what must be there and must not be. What should be there must be only without the others.
type boolNode struct{ must, should, not, filter node }

func (n *boolNode) scored() *allOf {
	out := &allOf{}
	for _, p := range []node{n.must, n.should} {
		if p != nil {
			out.parts = append(out.parts, p)
		}
	}
	return out
}

func (n *boolNode) prepare(all []*doc) {
	n.scored().prepare(all)
	for _, p := range []node{n.not, n.filter} {
		if p != nil {
			p.prepare(all)
		}
	}
}

func (n *boolNode) weight() float64      { return n.scored().weight() }
func (n *boolNode) setNorm(norm float64) { n.scored().setNorm(norm) }

func (n *boolNode) match(d *doc) *match {
	if n.not != nil && n.not.match(d) != nil || n.filter != nil && n.filter.match(d) == nil {
		return nil
	}
	out := &match{}
	if n.must != nil {
		m := n.must.match(d)
		if m == nil {
			return nil
		}
		out.add(m)
	}
	if n.should != nil {
		m := n.should.match(d)
		any, _ := n.should.(*anyOf)
		switch {
		case m != nil:
			out.add(m)
		case n.must == nil && n.filter == nil, any == nil, any.least > 0:
			return nil
		}
	}
	return out
}

// boosted lets the parts of a query count more or less.
func boosted(parts []node, boost float64) {
	if boost == 1 {
		return
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *constant:
			p.boost *= boost
		case *termNode:
			p.boost *= boost
		case *phraseNode:
			p.boost *= boost
		case *allOf:
			boosted(p.parts, boost)
		case *anyOf:
			boosted(p.parts, boost)
		case *boolNode:
			boosted(p.scored().parts, boost)
		}
	}
}

// near reports whether two words differ in at most n letters that are added, removed or changed.
func near(a, b []rune, n int) bool {
	if len(a)-len(b) > n || len(b)-len(a) > n {
		return false
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range a {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j, q := range b {
			next := min(row[j]+1, row[j+1]+1)
			if r == q {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
			least = min(least, next)
		}
		if least > n {
			return false
		}
	}
	return row[len(b)] <= n
}

// idf is the weight of a term that some of all documents have.
func idf(all, with int) float64 { return 1 + math.Log(float64(all)/float64(with+1)) }
