package mock

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
func (x *svcCall) execute() Answer {
	rq := x.rq
	st := rq.Statement
	switch {
	case !queryWords.MatchString(st):
		return *syntaxError(st)
	case rq.flag("readonly") && dmlWords.MatchString(st):
		return *failure1(1000, "The server or request is read-only and cannot accept this write statement.")
	}
	if rq.Service == QueryService {
		if a, ok := x.indexStatement(); ok {
			return a
		}
	}
	if systemSpace.MatchString(st) || rq.Service == AnalyticsService && linkWords.MatchString(st) {
		return Answer{}
	}
	if m := keyspaceName.FindStringSubmatch(st); m != nil {
		return x.keyspace(plainName(m[1]))
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
func (x *svcCall) keyspace(name string) Answer {
	c := x.n.c
	name = x.fullName(name)
	if x.rq.Service == AnalyticsService {
		if dataset.MatchString(x.rq.Statement) {
			return x.dataset(name)
		}
		c.mu.Lock()
		source, known := c.services.datasets[name]
		c.mu.Unlock()
		if !known {
			return *failure1(24045, "Cannot find analytics collection %s", name)
		}
		name = source
	}
	where, failure := c.placeOf(name)
	if failure != nil {
		return *failure
	}
	if x.rq.Service == QueryService && !insertInto.MatchString(x.rq.Statement) && !c.indexed(name) {
		return *failure1(4000, "No index available on keyspace `default`:`%s` that matches your query. Use CREATE PRIMARY INDEX "+
			"ON `default`:`%s` to create a primary index, or check that your expected index is online.", name, name)
	}
	if a, ok := x.documentStatement(where); ok {
		return a
	}
	return *failure1(5000, "The mock has no script for this statement")
}

var (
	dataset      = regexp.MustCompile("(?is)^CREATE\\s+(?:DATASET|ANALYTICS\\s+COLLECTION)\\s+(IF\\s+NOT\\s+EXISTS\\s+)?" + identifier + "\\s+ON\\s")
	scopeContext = regexp.MustCompile("^(?:default:)?`?([^`.]+)`?\\.`?([^`.]+)`?$")
)

// fullName is a keyspace's name with what the request's query context adds to it.
func (x *svcCall) fullName(name string) string {
	m := scopeContext.FindStringSubmatch(x.rq.text("query_context"))
	if m == nil || strings.Contains(name, ".") {
		return name
	}
	return m[1] + "." + m[2] + "." + name
}

// dataset makes an analytics dataset of a keyspace.
func (x *svcCall) dataset(source string) Answer {
	c := x.n.c
	if failure := c.keyspaceMissing(source); failure != nil {
		return *failure1(24025, "Cannot find bucket %s", source)
	}
	m := dataset.FindStringSubmatch(x.rq.Statement)
	name := plainName(m[2])
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.services.datasets[name]; known && m[1] == "" {
		return *failure1(24040, "An analytics collection with name %s already exists", name)
	}
	if c.services.datasets == nil {
		c.services.datasets = map[string]string{}
	}
	c.services.datasets[name] = source
	return Answer{}
}

// constant is the value of an expression without a keyspace: JSON, a comparison of two numbers, or a parameter.
func (rq *ServiceRequest) constant(expr string) (string, bool) {
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
