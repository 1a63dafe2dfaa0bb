package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// The few statements about documents that the query and the analytics service execute: SELECT of paths, everything or a
// count, from one keyspace, with comparisons joined by AND, and a limit; INSERT and UPSERT of one document.

const path = "[A-Za-z_`][\\w`.-]*|META\\(\\w*\\)\\.id"

var (
	selectFrom = regexp.MustCompile(`(?is)^SELECT\s+(RAW\s+)?(.+?)\s+FROM\s+` + keyspace + `(?:\s+AS\s+(\w+))?(?:\s+WHERE\s+(.+?))?(?:\s+LIMIT\s+(\d+|\$\w+))?$`)
	comparison = regexp.MustCompile(`(?is)^(` + path + `)\s*(=|==|!=|<>|<=|<|>=|>)\s*(.+)$`)
	selectItem = regexp.MustCompile(`(?is)^(\*|COUNT\(\*\)|` + path + `|\w+\.\*)(?:\s+AS\s+(\w+))?$`)
	conjoined  = regexp.MustCompile(`(?i)\s+AND\s+`)
	insertInto = regexp.MustCompile(`(?is)^(INSERT|UPSERT)\s+INTO\s+` + keyspace + `\s*\(\s*KEY\s*,\s*VALUE\s*\)\s*VALUES\s*\(\s*("[^"]*"|'[^']*'|\$\w+)\s*,\s*(.+?)\s*\)$`)
)

// documentStatement executes a statement about a keyspace's documents, and reports whether it is one that is known. The
// keyspace exists.
func (x *Call) documentStatement(where collectionPlace) (Answer, bool) {
	st := strings.TrimRight(x.rq.Statement, "; \n\t")
	if m := insertInto.FindStringSubmatch(st); m != nil && x.rq.Service == Query {
		return x.insert(where, strings.EqualFold(m[1], "INSERT"), m[3], m[4])
	}
	m := selectFrom.FindStringSubmatch(st)
	if m == nil {
		return Answer{}, false
	}
	s := selection{raw: m[1] != "", alias: cmp.Or(m[4], where.alias), limit: -1}
	if m[6] != "" {
		n, ok := x.rq.constant(m[6])
		limit, err := strconv.Atoi(n)
		if !ok || err != nil {
			return Answer{}, false
		}
		s.limit = limit
	}
	for _, text := range strings.Split(m[2], ",") {
		item := selectItem.FindStringSubmatch(strings.TrimSpace(text))
		if item == nil {
			return Answer{}, false
		}
		s.items = append(s.items, [2]string{item[1], item[2]})
	}
	if m[5] != "" && !s.where(x.rq, m[5]) {
		return Answer{}, false
	}
	return Answer{Rows: s.rows(x.s.documentsAt(where))}, true
}

// collectionPlace is a collection of a bucket.
type collectionPlace struct {
	bucket string
	cid    uint32
	alias  string // the name that the keyspace has in rows
}

// documentsAt are the documents of a collection that are JSON objects, by key.
func (s *State) documentsAt(p collectionPlace) []store.Document {
	ds := slices.DeleteFunc(s.host.Documents(p.bucket), func(d store.Document) bool { return d.Collection != p.cid })
	slices.SortFunc(ds, func(a, b store.Document) int { return cmp.Compare(a.Key, b.Key) })
	return ds
}

// selection is a SELECT that was understood.
type selection struct {
	raw   bool
	alias string
	items [][2]string // expression and name
	tests []func(doc map[string]json.RawMessage, key string) bool
	limit int // -1: all
}

// where adds the comparisons of a condition, and reports whether all were understood.
func (s *selection) where(rq *Request, condition string) bool {
	for _, part := range conjoined.Split(condition, -1) {
		m := comparison.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return false
		}
		text, ok := rq.constant(strings.TrimSpace(m[3]))
		if !ok {
			return false
		}
		var want any
		if json.Unmarshal([]byte(text), &want) != nil {
			return false
		}
		s.tests = append(s.tests, func(doc map[string]json.RawMessage, key string) bool {
			raw := s.value(m[1], doc, key)
			var have any
			if raw == nil || json.Unmarshal(raw, &have) != nil || rank(have) != rank(want) {
				return false
			}
			return holds(m[2], collate(have, want))
		})
	}
	return true
}

func holds(operator string, order int) bool {
	switch operator {
	case "=", "==":
		return order == 0
	case "!=", "<>":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

// value is what a path leads to, nil when that is nothing.
func (s *selection) value(path string, doc map[string]json.RawMessage, key string) json.RawMessage {
	if strings.HasPrefix(strings.ToUpper(path), "META(") {
		return json.RawMessage(quote(key))
	}
	parts := strings.Split(strings.ReplaceAll(path, "`", ""), ".")
	if len(parts) > 1 && parts[0] == s.alias {
		parts = parts[1:]
	}
	for i, part := range parts {
		v := doc[part]
		if i == len(parts)-1 || v == nil {
			return v
		}
		doc = nil
		_ = json.Unmarshal(v, &doc) // another type has no members
	}
	return nil
}

// rows are the rows of the selection.
func (s *selection) rows(docs []store.Document) []string {
	rows := []string{}
	n := 0
	for i := range docs {
		doc := map[string]json.RawMessage{}
		if json.Unmarshal(docs[i].Value, &doc) != nil {
			continue
		}
		if slices.ContainsFunc(s.tests,
			func(test func(map[string]json.RawMessage, string) bool) bool { return !test(doc, docs[i].Key) }) {
			continue
		}
		n++
		if s.limit >= 0 && len(rows) >= s.limit {
			continue
		}
		rows = append(rows, s.row(doc, &docs[i]))
	}
	if strings.EqualFold(s.items[0][0], "COUNT(*)") {
		count := strconv.Itoa(n)
		if !s.raw {
			count = "{" + quote(cmp.Or(s.items[0][1], "$1")) + ":" + count + "}"
		}
		return []string{count}
	}
	return rows
}

func (s *selection) row(doc map[string]json.RawMessage, d *store.Document) string {
	out := map[string]json.RawMessage{}
	for _, item := range s.items {
		switch expr := item[0]; {
		case expr == "*":
			out[s.alias] = d.Value
		case strings.HasSuffix(expr, ".*"):
			for k, v := range doc {
				out[k] = v
			}
		default:
			v := s.value(expr, doc, d.Key)
			if s.raw {
				return cmp.Or(string(v), "null")
			}
			name := cmp.Or(item[1], strings.Trim(expr[strings.LastIndexByte(expr, '.')+1:], "`"))
			if v != nil {
				out[name] = v
			}
		}
	}
	return string(toJSON(out))
}

// insert stores one document.
func (x *Call) insert(where collectionPlace, only bool, key, value string) (Answer, bool) {
	if key[0] == '"' || key[0] == '\'' {
		key = quote(key[1 : len(key)-1])
	}
	key, _ = x.rq.constant(key)
	var id string
	value, ok := x.rq.constant(value)
	if !ok || json.Unmarshal([]byte(key), &id) != nil || id == "" {
		return Answer{}, false
	}
	st := x.s.host.Store(where.bucket, where.cid, id, []byte(value), only)
	if st == memd.StatusSuccess {
		return Answer{Mutated: 1}, true
	}
	reason := fmt.Sprintf(`{"caller":"couchbase:1971","code":17012,"key":"dml.statement.duplicatekey","message":%s}`,
		quote("Duplicate Key: "+id))
	if st != memd.StatusKeyExists {
		reason = fmt.Sprintf(`{"caller":"couchbase:1971","code":5000,"key":"dml.statement","message":%s}`, quote(st.String()))
	}
	return Answer{Errors: []Error{{Code: 12009, Message: "DML Error, possible causes include concurrent " +
		"modification. Failed to perform INSERT on key " + id, Reason: reason}}}, true
}
