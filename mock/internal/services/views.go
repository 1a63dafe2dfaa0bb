package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// ViewEngine compiles the functions of views. Package mock/viewjs has one for JavaScript.
type ViewEngine interface {
	// Compile compiles the functions of one view; reduce is empty for a view without one, and for one of those that
	// the mock has itself. It may be called from several goroutines at once.
	Compile(mapFunction, reduce string) (ViewFunctions, error)
}

// ViewFunctions are the functions of one view. They are used by one goroutine.
type ViewFunctions interface {
	// Map runs the map function on a document and its metadata, both JSON. It calls emit with keys and values in JSON.
	// A document on which it fails is left out of the view, unless the error is ErrViewLimit.
	Map(ctx context.Context, doc, meta []byte, emit func(key, value []byte)) error
	// Reduce runs the reduce function. keys and values are JSON arrays; keys, which is null for a rereduce, has pairs
	// of a key and a document's id.
	Reduce(ctx context.Context, keys, values []byte, rereduce bool) ([]byte, error)
}

// ErrViewLimit is in the error of a ViewFunctions' method that used up what it may: time, memory, depth. It ends the
// query.
var ErrViewLimit = errors.New("mock: a view's function exceeds its limits")

// design is a design document of one bucket. It is replaced, never changed, but for its indexes.
type design struct {
	raw     []byte
	rev     int
	views   map[string]viewSource
	indexes map[string]*viewIndex // by view; replaced, never changed in place
}

type viewSource struct {
	Map    string `json:"map"`
	Reduce string `json:"reduce"`
}

// PutDesign stores a design document, {"views":{"name":{"map":"function ...","reduce":"_count"}}}, under a name without
// "_design/". It fails for a bucket that does not exist, and for a document or function with a wrong syntax.
func (s *State) PutDesign(bucket, name, doc string) error {
	var parsed struct {
		Views map[string]viewSource `json:"views"`
	}
	if err := json.Unmarshal([]byte(doc), &parsed); err != nil {
		return fmt.Errorf("mock: design document %s: %w", name, err)
	}
	if s.engine != nil {
		for _, view := range slices.Sorted(maps.Keys(parsed.Views)) {
			v := parsed.Views[view]
			if _, err := s.engine.Compile(v.Map, v.custom()); err != nil {
				return fmt.Errorf("mock: design document %s: view %s: %w", name, view, err)
			}
		}
	}
	uuid := s.host.BucketUUID(bucket)
	if uuid == "" {
		return fmt.Errorf("mock: no bucket %q", bucket)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &design{raw: []byte(doc), rev: 1, views: parsed.Views, indexes: map[string]*viewIndex{}}
	if old := s.designs[uuid][name]; old != nil {
		d.rev = old.rev + 1
	}
	if s.designs[uuid] == nil {
		s.designs[uuid] = map[string]*design{}
	}
	s.designs[uuid][name] = d
	return nil
}

// DropDesign removes a design document, and reports whether there was one.
func (s *State) DropDesign(bucket, name string) bool {
	uuid := s.host.BucketUUID(bucket)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.designs[uuid][name] == nil {
		return false
	}
	delete(s.designs[uuid], name)
	return true
}

// Design is a design document as management lists it.
type Design struct {
	Name string
	Rev  int
	JSON []byte
}

// Designs are the design documents of a bucket, by name.
func (s *State) Designs(bucket string) []Design {
	uuid := s.host.BucketUUID(bucket)
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Design
	for _, name := range slices.Sorted(maps.Keys(s.designs[uuid])) {
		d := s.designs[uuid][name]
		out = append(out, Design{name, d.rev, d.raw})
	}
	return out
}

func (s *State) designOf(bucket, name string) *design {
	uuid := s.host.BucketUUID(bucket)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.designs[uuid][name]
}

// custom is the reduce function that an engine has to run.
func (v viewSource) custom() string {
	if nativeReducers[v.Reduce] != nil {
		return ""
	}
	return v.Reduce
}

// views answers a request of the views service.
func (x *Call) views() {
	rq := x.rq
	badBody := rq.parse() != nil
	parts := strings.Split(strings.TrimPrefix(rq.Path, "/"), "/")
	if len(parts) < 3 || parts[1] != "_design" {
		x.scripted(func() Answer { return *viewFailure(http.StatusNotFound, "not_found", "missing") })
		return
	}
	bucket, uuid, withUUID := strings.Cut(parts[0], "+") // as couchApiBase of the maps has it
	failure := x.viewBucket(bucket)
	if failure == nil && withUUID && uuid != x.s.host.BucketUUID(bucket) {
		failure = viewFailure(http.StatusNotFound, "not_found", "uuids_dont_match")
	}
	if failure != nil {
		x.reply(nil, failure)
		return
	}
	if len(parts) >= 5 {
		rq.Index = bucket + "/" + parts[2] + "/" + parts[4]
	}
	x.scripted(func() Answer {
		switch {
		case len(parts) == 5 && parts[3] == "_view" && badBody:
			return *viewFailure(http.StatusBadRequest, "bad_request", "invalid_json")
		case len(parts) == 5 && parts[3] == "_view" && (rq.Method == http.MethodGet || rq.Method == http.MethodPost):
			return x.view(bucket, parts[2], parts[4])
		case len(parts) == 3:
			return x.design(bucket, parts[2])
		}
		return *viewFailure(http.StatusNotFound, "not_found", "missing")
	})
}

func viewFailure(status int, what, reason string) *Answer {
	return &Answer{Status: status, Errors: []Error{{Message: what, Reason: reason}}}
}

// viewBucket is why a bucket cannot be used here; nil when the user may use it and the node has some of its vbuckets.
func (x *Call) viewBucket(name string) *Answer {
	switch {
	case !x.may(name):
		return viewFailure(http.StatusUnauthorized, "unauthorized", "You are not authorized to access this bucket.")
	case x.s.host.BucketUUID(name) == "":
		return viewFailure(http.StatusNotFound, "not_found", "no_db_file")
	}
	switch here, elsewhere := x.s.host.ViewsOf(name, x.rq.Node); {
	case here:
		return nil
	case elsewhere != "":
		return &Answer{
			Status: http.StatusFound, Body: []byte{}, Header: http.Header{"Location": {"http://" + elsewhere +
				x.r.URL.RequestURI()}},
		}
	}
	return viewFailure(http.StatusNotFound, "not_found", "no_active_vbuckets")
}

// design reads or changes a design document.
func (x *Call) design(bucket, name string) Answer {
	s := x.s
	id := quote("_design/" + name)
	switch x.rq.Method {
	case http.MethodPut:
		if err := s.PutDesign(bucket, name, string(x.rq.Body)); err != nil {
			return *viewFailure(http.StatusBadRequest, "invalid_design_document", strings.TrimPrefix(err.Error(),
				"mock: "))
		}
		return Answer{Status: http.StatusCreated, Body: []byte(`{"ok":true,"id":` + id + "}")}
	case http.MethodDelete:
		if !s.DropDesign(bucket, name) {
			return *viewFailure(http.StatusNotFound, "not_found", "missing")
		}
		return Answer{Body: []byte(`{"ok":true,"id":` + id + "}")}
	case http.MethodGet:
		d := s.designOf(bucket, name)
		if d == nil {
			return *viewFailure(http.StatusNotFound, "not_found", "missing")
		}
		meta := fmt.Sprintf(`{"id":%s,"rev":"%d-mock"}`, id, d.rev)
		return Answer{Body: d.raw, Header: http.Header{"X-Couchbase-Meta": {meta}}}
	}
	return *viewFailure(http.StatusMethodNotAllowed, "method_not_allowed", "Only GET, PUT, DELETE allowed")
}

// view queries a view.
func (x *Call) view(bucket, name, view string) Answer {
	d := x.s.designOf(bucket, name)
	if d == nil {
		return *viewFailure(http.StatusNotFound, "not_found", "missing")
	}
	source, ok := d.views[view]
	if !ok || source.Map == "" {
		return *viewFailure(http.StatusNotFound, "not_found", "missing_named_view")
	}
	q, err := x.viewQuery(source)
	if err != nil {
		return *viewFailure(http.StatusBadRequest, "query_parse_error", err.Error())
	}
	rn := &viewRun{s: x.s, ctx: x.r.Context(), bucket: bucket, d: d, view: view, source: source}
	if err := rn.open(); err != nil {
		return *viewFailure(http.StatusBadRequest, "no_engine", err.Error())
	}
	defer rn.close()
	if q.stale == staleFalse {
		if err := rn.update(); err != nil {
			return *viewFailure(http.StatusInternalServerError, "error", err.Error())
		}
	}
	a := q.answer(rn)
	if q.stale == staleAfter {
		if err := rn.update(); err != nil {
			a.Errors = append(a.Errors, Error{Message: err.Error()})
		}
	}
	return a
}
