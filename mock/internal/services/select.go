package services

import (
	"encoding/json"
	"regexp"
	"strings"
)

var (
	constantSelect = regexp.MustCompile(`(?is)^\s*SELECT\s+(RAW\s+)?(.+?)(?:\s+AS\s+([A-Za-z_]\w*))?\s*;?\s*$`)
	equation       = regexp.MustCompile(`^(-?\d+)\s*=\s*(-?\d+)$`)
	linkWords      = regexp.MustCompile(`(?is)^(DIS)?CONNECT\s+LINK\b`)
	systemSpace    = regexp.MustCompile(`(?i)\bFROM\s+` + "`?" + `system\b`)
	keyspaceName   = regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE|ON)\s+([\w` + "`" + `:.-]+)`)
)

// execute is what becomes of a statement that no script knows: constants are selected, system keyspaces are empty, and
// other keyspaces cannot be found.
func (x *Call) execute() Answer {
	rq := x.rq
	st := rq.Statement
	switch {
	case !queryWords.MatchString(st):
		return *syntaxError(st)
	case rq.flag("readonly") && dmlWords.MatchString(st):
		return *failure1(1000, "The server or request is read-only and cannot accept this write statement.")
	}
	if rq.Service == Query {
		if a, ok := x.indexStatement(); ok {
			return a
		}
	}
	if systemSpace.MatchString(st) || rq.Service == Analytics && linkWords.MatchString(st) {
		return Answer{}
	}
	if m := keyspaceName.FindStringSubmatch(st); m != nil {
		return x.keyspace(unquotedName(m[1]))
	}
	m := constantSelect.FindStringSubmatch(st)
	if m == nil {
		return *syntaxError(st)
	}
	switch m[2] {
	case "MOCKROW":
		return Answer{Rows: []string{`{"row":"value"}`}}
	case "EMPTYROW":
		return Answer{}
	}
	value, ok := rq.constant(strings.TrimSpace(m[2]))
	if !ok {
		return *syntaxError(st)
	}
	if m[1] != "" {
		return Answer{Rows: []string{value}}
	}
	name := m[3]
	if name == "" {
		name = "$1"
	}
	return Answer{Rows: []string{"{" + quote(name) + ":" + value + "}"}}
}

// keyspace executes a statement about a keyspace, as far as it is understood.
func (x *Call) keyspace(name string) Answer {
	s := x.s
	name = x.fullName(name)
	if x.rq.Service == Analytics {
		if dataset.MatchString(x.rq.Statement) {
			return x.dataset(name)
		}
		s.mu.Lock()
		source, known := s.datasets[name]
		s.mu.Unlock()
		if !known {
			return *failure1(24045, "Cannot find analytics collection %s", name)
		}
		name = source
	}
	where, failure := s.placeOf(name)
	if failure != nil {
		return *failure
	}
	if x.rq.Service == Query && !insertInto.MatchString(x.rq.Statement) && !s.indexed(name) {
		return *failure1(4000, "No index available on keyspace `default`:`%s` that matches your query. Use CREATE "+
			"PRIMARY INDEX "+
			"ON `default`:`%s` to create a primary index, or check that your expected index is online.", name, name)
	}
	if a, ok := x.documentStatement(where); ok {
		return a
	}
	return *failure1(5000, "The mock has no script for this statement")
}

var (
	dataset = regexp.MustCompile("(?is)^CREATE\\s+(?:DATASET|" +
		"ANALYTICS\\s+COLLECTION)\\s+(IF\\s+NOT\\s+EXISTS\\s+)?" + identifier + "\\s+ON\\s")
	scopeContext = regexp.MustCompile("^(?:default:)?`?([^`.]+)`?\\.`?([^`.]+)`?$")
)

// fullName is a keyspace's name with what the request's query context adds to it.
func (x *Call) fullName(name string) string {
	m := scopeContext.FindStringSubmatch(x.rq.text("query_context"))
	if m == nil || strings.Contains(name, ".") {
		return name
	}
	return m[1] + "." + m[2] + "." + name
}

// dataset makes an analytics dataset of a keyspace.
func (x *Call) dataset(source string) Answer {
	s := x.s
	if failure := s.keyspaceMissing(source); failure != nil {
		return *failure1(24025, "Cannot find bucket %s", source)
	}
	m := dataset.FindStringSubmatch(x.rq.Statement)
	name := unquotedName(m[2])
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.datasets[name]; known && m[1] == "" {
		return *failure1(24040, "An analytics collection with name %s already exists", name)
	}
	s.datasets[name] = source
	return Answer{}
}

// constant is the value of an expression without a keyspace: JSON, a comparison of two numbers, or a parameter.
func (rq *Request) constant(expr string) (string, bool) {
	if m := equation.FindStringSubmatch(expr); m != nil {
		if m[1] == m[2] {
			return "true", true
		}
		return "false", true
	}
	if name, ok := strings.CutPrefix(expr, "$"); ok {
		if v := rq.members[expr]; v != nil {
			return string(v), true
		}
		var args []json.RawMessage
		var i int
		if jsonInto([]byte(name), &i) == nil && jsonInto(rq.members["args"], &args) == nil && i > 0 && i <= len(args) {
			return string(args[i-1]), true
		}
		return "", false
	}
	if len(expr) > 1 && expr[0] == '\'' && expr[len(expr)-1] == '\'' {
		return quote(expr[1 : len(expr)-1]), true
	}
	return expr, json.Valid([]byte(expr))
}
