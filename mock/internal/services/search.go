package services

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/couchcore/couchcore/mock/internal/fts"
)

// search answers a request of the search service: definitions of indexes are kept, and a query that no script answers
// is executed.
func (x *Call) search() {
	rq := x.rq
	_ = rq.parse() // a body that is no object has no members, which is what matters here
	var what string
	rq.Index, what = searchIndex(rq.Path)
	scoped := strings.HasPrefix(rq.Path, "/api/bucket/")
	x.scripted(func() Answer {
		switch {
		case rq.Path == statsPath || rq.Path == "/api/nsstats" || strings.HasPrefix(rq.Path, statsPath+"/index/"):
			return x.searchStats(strings.TrimPrefix(rq.Path, statsPath+"/index/"))
		case scoped && !x.s.host.Capable("search", "scopedSearchIndex"), rq.Index == "" && what == "?":
			return Answer{
				Status: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}},
				Body: []byte("404 page not found\n"),
			}
		case what == "":
			return x.searchDefinition()
		}
		return x.searchUse(what)
	})
}

// searchIndex is the index that a path names, of the cluster or of a scope, and what is to be done with it; "?" stands
// for a path of another kind. Without a name the index ends in a dot, or is empty.
func searchIndex(path string) (index, what string) {
	parts := strings.Split(strings.TrimPrefix(path, "/api/"), "/")
	prefix := ""
	if len(parts) >= 5 && parts[0] == "bucket" && parts[2] == "scope" {
		prefix = parts[1] + "." + parts[3] + "."
		parts = parts[4:]
	}
	if parts[0] != "index" {
		return "", "?"
	}
	if len(parts) > 1 {
		index = parts[1]
	}
	if len(parts) > 2 {
		what = strings.Join(parts[2:], "/")
	}
	return prefix + index, what
}

func searchFailure(format string, args ...any) Answer {
	return Answer{Errors: []Error{{Message: fmt.Sprintf(format, args...)}}}
}

func noSearchIndex(name string) Answer {
	return searchFailure("rest_auth: preparePerms, err: index not found, indexName: %s", name)
}

// searchDefinition reads or changes the definitions of indexes.
func (x *Call) searchDefinition() Answer {
	s, name, cluster := x.s, x.rq.Index, x.s.host.UUID()
	if one := name != "" && !strings.HasSuffix(name, "."); one && x.rq.Method == http.MethodPut {
		return x.putSearchDefinition()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.searchIndexes
	if name == "" || strings.HasSuffix(name, ".") {
		defs := map[string]json.RawMessage{}
		for n, def := range all {
			if short, ok := strings.CutPrefix(n, name); ok {
				defs[short] = named(def, short)
			}
		}
		return Answer{Body: toJSON(map[string]any{"status": "ok", "indexDefs": map[string]any{
			"uuid": cluster, "indexDefs": defs, "implVersion": "5.8.0",
		}})}
	}
	switch x.rq.Method {
	case http.MethodGet:
		if all[name] == nil {
			return noSearchIndex(name)
		}
		return Answer{Body: toJSON(map[string]any{
			"status": "ok", "indexDef": named(all[name], askedName(x.rq.Path)), "planPIndexes": []any{},
		})}
	case http.MethodDelete:
		if all[name] == nil {
			return noSearchIndex(name)
		}
		delete(all, name)
		return Answer{Body: []byte(`{"status":"ok"}`)}
	}
	return Answer{Status: http.StatusMethodNotAllowed, Errors: []Error{{Message: "method not allowed"}}}
}

// putSearchDefinition stores the definition of the body. It is read before the mutex is taken.
func (x *Call) putSearchDefinition() Answer {
	s, name, asked := x.s, x.rq.Index, askedName(x.rq.Path)
	def := map[string]json.RawMessage{}
	err := jsonInto(x.rq.Body, &def)
	if err == nil && def == nil {
		err = errNotObject // null
	}
	if err != nil {
		return searchFailure("rest_create_index: could not unmarshal json, indexName: %s, err: %v", name, err)
	}
	_, invalid := fts.ParseIndex(x.rq.Body)
	uuid := freshUUID()[:16]
	def["uuid"], def["name"] = json.RawMessage(quote(uuid)), json.RawMessage(quote(name))
	stored, replaces := toJSON(def), x.rq.text("uuid") != ""
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.searchIndexes[name] != nil && !replaces:
		return searchFailure("rest_create_index: error creating index: %s, err: manager_api: cannot create index "+
			"because an index with the same name already exists: %s", name, name)
	case asked != name && !indexName.MatchString(asked):
		return searchFailure("rest_create_index: error creating index: %s, err: manager_api: CreateIndex, "+
			"indexName is invalid: %q", name, asked)
	case invalid != nil:
		return searchFailure("rest_create_index: error creating index: %s, err: manager_api: CreateIndex, "+
			"Validate failed, err: %v", name, invalid)
	}
	s.searchIndexes[name] = stored
	return Answer{Body: toJSON(map[string]string{"status": "ok", "name": name, "uuid": uuid})}
}

// indexName is what an index of a scope may be called there.
var indexName = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z_-]*$`)

// askedName is the name of an index as a path has it: without bucket and scope below a scope.
func askedName(path string) string {
	_, tail, _ := strings.Cut(path, "/index/")
	name, _, _ := strings.Cut(tail, "/")
	return name
}

// named is a definition under the name by which it was asked for: indexes of a scope have their short name in their
// scope, and the whole one elsewhere.
func named(def json.RawMessage, name string) json.RawMessage {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(def, &members) // our own
	members["name"] = json.RawMessage(quote(name))
	return toJSON(members)
}

// searchUse is everything below an index's path.
func (x *Call) searchUse(what string) Answer {
	s, name := x.s, x.rq.Index
	s.mu.Lock()
	known := s.searchIndexes[name] != nil
	s.mu.Unlock()
	switch {
	case !known && what == "query":
		return searchFailure("rest_index: Query, indexName: %s, err: index not found", name)
	case !known:
		return noSearchIndex(name)
	case what == "query":
		return x.searchQuery(name)
	case what == "count":
		return Answer{Body: toJSON(map[string]any{"status": "ok", "count": s.searchCount(name)})}
	case what == "analyzeDoc":
		return Answer{Body: []byte(`{"status":"ok","analyzed":[]}`)}
	case strings.Contains(what, "Control/"):
		return Answer{Body: []byte(`{"status":"ok"}`)}
	}
	return Answer{Status: http.StatusNotFound, Errors: []Error{{Message: "page not found"}}}
}
