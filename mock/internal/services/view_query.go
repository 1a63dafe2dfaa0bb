package services

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// stale says how old an index a query of a view may see.
type stale uint8

const (
	staleAfter stale = iota // as it is, and then it is updated
	staleOK                 // as it is
	staleFalse              // up to date
)

var staleNames = map[string]stale{"update_after": staleAfter, "ok": staleOK, "false": staleFalse}

// bound is a key given in a request.
type bound struct {
	set   bool
	value any
	docID string
}

// viewQuery is what a request asks of a view.
type viewQuery struct {
	stale                          stale
	skip, limit                    int // limit -1: all
	descending, inclusive, reduce  bool
	groupLevel                     int // -1: by the whole key
	start, end                     bound
	keys                           []any
	keysSet, debug, stopAtFirstErr bool
}

// viewQuery reads the parameters of a request. They are in the query, those of a body that is JSON too.
func (x *Call) viewQuery(source viewSource) (*viewQuery, error) {
	p := viewParams{rq: x.rq}
	q := &viewQuery{limit: -1, inclusive: true, reduce: source.Reduce != ""}
	if s := p.text("stale"); s != "" {
		var ok bool
		if q.stale, ok = staleNames[s]; !ok {
			p.fail("stale", s)
		}
	}
	q.skip, q.limit = p.count("skip", 0), p.count("limit", -1)
	q.descending, q.inclusive = p.flag("descending", false), p.flag("inclusive_end", true)
	q.debug, q.stopAtFirstErr = p.flag("debug", false), p.text("on_error") != "continue"
	wantsReduce, asked := p.flag("reduce", q.reduce), p.text("reduce") != ""
	group := p.flag("group", false)
	q.groupLevel = p.count("group_level", 0)
	if group {
		q.groupLevel = -1
	}
	q.start, q.end = p.bound("startkey", "start_key"), p.bound("endkey", "end_key")
	q.start.docID = cmp.Or(p.text("startkey_docid"), p.text("start_key_doc_id"))
	q.end.docID = cmp.Or(p.text("endkey_docid"), p.text("end_key_doc_id"))
	if k := p.bound("key", "key"); k.set {
		q.start.set, q.start.value = true, k.value
		q.end.set, q.end.value = true, k.value
	}
	if raw := p.json("keys"); raw != nil {
		q.keysSet = true
		if json.Unmarshal(raw, &q.keys) != nil {
			p.fail("keys", string(raw))
		}
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case asked && wantsReduce && source.Reduce == "":
		//nolint:staticcheck // the server's own text
		return nil, errors.New("Invalid URL parameter `reduce` for map view.")
	case (group || q.groupLevel != 0) && (source.Reduce == "" || !wantsReduce):
		//nolint:staticcheck // as above
		return nil, errors.New("Invalid URL parameter `group` or `group_level` for non-reduce view.")
	case q.keysSet && wantsReduce && !group:
		//nolint:staticcheck // as above
		return nil, errors.New("Multi-key fetchs for reduce view must include `group=true`")
	}
	q.reduce = wantsReduce
	if q.start.set && q.end.set {
		c := collate(q.start.value, q.end.value)
		if q.descending {
			c = -c
		}
		if c > 0 {
			//nolint:staticcheck // as above
			return nil, errors.New("No rows can match your key range, reverse your start_key and end_key or set " +
				"descending=true")
		}
	}
	return q, nil
}

// viewParams reads parameters, and keeps the first thing that is wrong.
type viewParams struct {
	rq  *Request
	err error
}

func (p *viewParams) fail(name, value string) {
	if p.err == nil {
		p.err = fmt.Errorf("Invalid value for %s: %s", name, quote(value)) //nolint:staticcheck // the server's own text
	}
}

// json is a parameter that is JSON: in the query it is text, in a body it is not quoted once more.
func (p *viewParams) json(name string) []byte {
	if p.rq.Query.Has(name) {
		return []byte(p.rq.Query.Get(name))
	}
	return p.rq.members[name]
}

// text is a parameter that is a word.
func (p *viewParams) text(name string) string {
	b := p.json(name)
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s
	}
	return string(b)
}

func (p *viewParams) count(name string, absent int) int {
	s := p.text(name)
	if s == "" {
		return absent
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		p.fail(name, s)
	}
	return n
}

func (p *viewParams) flag(name string, absent bool) bool {
	switch s := p.text(name); s {
	case "":
		return absent
	case "true":
		return true
	case "false":
		return false
	default:
		p.fail(name, s)
		return false
	}
}

func (p *viewParams) bound(names ...string) bound {
	for _, name := range names {
		raw := p.json(name)
		if raw == nil {
			continue
		}
		var b bound
		b.set = true
		if json.Unmarshal(raw, &b.value) != nil {
			p.fail(name, string(raw))
		}
		return b
	}
	return bound{}
}

// answer is what the view's index has for the query.
func (q *viewQuery) answer(rn *viewRun) Answer {
	all := rn.rows()
	rows := q.choose(all)
	a := Answer{Members: map[string]string{}}
	if q.debug {
		a.Members["debug_info"] = `{"local":{"main_group":{"stats":{}}}}`
	}
	if !q.reduce {
		a.Members["total_rows"] = strconv.Itoa(len(all))
		for _, r := range page(rows, q.skip, q.limit) {
			a.Rows = append(a.Rows, fmt.Sprintf(`{"id":%s,"key":%s,"value":%s}`, quote(r.id), r.key, r.value))
		}
		return a
	}
	a.Members["total_rows"] = ""
	for _, g := range page(groups(rows, q.groupLevel), q.skip, q.limit) {
		value, err := rn.reduce(g.rows)
		if err != nil {
			a.Errors = append(a.Errors, Error{Message: "Reducer: " + err.Error()})
			if q.stopAtFirstErr || errors.Is(err, ErrViewLimit) {
				break
			}
			continue
		}
		a.Rows = append(a.Rows, fmt.Sprintf(`{"key":%s,"value":%s}`, g.key, value))
	}
	return a
}

func page[T any](all []T, skip, limit int) []T {
	all = all[min(skip, len(all)):]
	if limit >= 0 && limit < len(all) {
		all = all[:limit]
	}
	return all
}

// choose are the rows in the query's range, in its order.
func (q *viewQuery) choose(all []viewRow) []viewRow {
	rows := slices.Clone(all)
	if q.descending {
		slices.Reverse(rows)
	}
	if q.keysSet {
		var out []viewRow
		for _, key := range q.keys {
			for i := range rows {
				if collate(rows[i].sort, key) == 0 {
					out = append(out, rows[i])
				}
			}
		}
		return out
	}
	return slices.DeleteFunc(rows, func(r viewRow) bool { return !q.contains(&r) })
}

func (q *viewQuery) contains(r *viewRow) bool {
	side := 1
	if q.descending {
		side = -1
	}
	if q.start.set {
		c := side * collate(r.sort, q.start.value)
		if c == 0 && q.start.docID != "" {
			c = side * cmp.Compare(r.id, q.start.docID)
		}
		if c < 0 {
			return false
		}
	}
	if !q.end.set {
		return true
	}
	c := side * collate(r.sort, q.end.value)
	if c == 0 && q.end.docID != "" {
		c = side * cmp.Compare(r.id, q.end.docID)
	}
	return c < 0 || c == 0 && q.inclusive
}
