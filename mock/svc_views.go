package mock

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
	// Compile compiles the functions of one view; reduce is empty when there is none, or when it is one of those that the
	// mock has itself. It may be called from several goroutines at once.
	Compile(mapFunction, reduce string) (ViewFunctions, error)
}

// ViewFunctions are the functions of one view. They are used by one goroutine.
type ViewFunctions interface {
	// Map runs the map function on a document and its metadata, both JSON. It calls emit with keys and values in JSON. A
	// document on which it fails is left out of the view, unless the error is ErrViewLimit.
	Map(ctx context.Context, doc, meta []byte, emit func(key, value []byte)) error
	// Reduce runs the reduce function. keys and values are JSON arrays; keys, which is null for a rereduce, has pairs of a
	// key and a document's id.
	Reduce(ctx context.Context, keys, values []byte, rereduce bool) ([]byte, error)
}

// ErrViewLimit is in the error of a ViewFunctions' method that used up what it may: time, memory, depth. It ends the
// query.
var ErrViewLimit = errors.New("mock: a view's function exceeds its limits")

// Views gives the cluster an engine for views. Without one design documents can be stored, and queries of views fail.
func Views(e ViewEngine) Option { return func(s *settings) { s.views = e } }

// design is a design document of one bucket. It is replaced, never changed, but for its indexes.
type design struct {
	raw     []byte
	rev     int
	views   map[string]viewSource
	indexes map[string]*viewIndex // by view; replaced, never changed in place
}

func (d *design) json() json.RawMessage { return d.raw }

type viewSource struct {
	Map    string `json:"map"`
	Reduce string `json:"reduce"`
}

// PutDesignDocument stores a design document, {"views":{"name":{"map":"function ...","reduce":"_count"}}}, under a name
// without "_design/". It fails for a bucket that does not exist, and for a document or function with a wrong syntax.
func (c *Cluster) PutDesignDocument(bucketName, name, doc string) error {
	var parsed struct {
		Views map[string]viewSource `json:"views"`
	}
	if err := json.Unmarshal([]byte(doc), &parsed); err != nil {
		return fmt.Errorf("mock: design document %s: %w", name, err)
	}
	if e := c.set.views; e != nil {
		for _, view := range slices.Sorted(maps.Keys(parsed.Views)) {
			v := parsed.Views[view]
			if _, err := e.Compile(v.Map, v.custom()); err != nil {
				return fmt.Errorf("mock: design document %s: view %s: %w", name, view, err)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[bucketName]
	if b == nil {
		return fmt.Errorf("mock: no bucket %q", bucketName)
	}
	d := &design{raw: []byte(doc), rev: 1, views: parsed.Views, indexes: map[string]*viewIndex{}}
	if old := c.services.designs[b.uuid][name]; old != nil {
		d.rev = old.rev + 1
	}
	if c.services.designs == nil {
		c.services.designs = map[string]map[string]*design{}
	}
	if c.services.designs[b.uuid] == nil {
		c.services.designs[b.uuid] = map[string]*design{}
	}
	c.services.designs[b.uuid][name] = d
	return nil
}

// DropDesignDocument removes a design document, and reports whether there was one.
func (c *Cluster) DropDesignDocument(bucketName, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[bucketName]
	if b == nil || c.services.designs[b.uuid][name] == nil {
		return false
	}
	delete(c.services.designs[b.uuid], name)
	return true
}

// custom is the reduce function that an engine has to run.
func (v viewSource) custom() string {
	if nativeReducers[v.Reduce] != nil {
		return ""
	}
	return v.Reduce
}

// views answers a request of the views service.
func (x *svcCall) views() {
	rq := x.rq
	badBody := rq.parse() != nil
	parts := strings.Split(strings.TrimPrefix(rq.Path, "/"), "/")
	if len(parts) < 3 || parts[1] != "_design" {
		x.scripted(func() Answer { return *viewFailure(http.StatusNotFound, "not_found", "missing") })
		return
	}
	b, failure := x.viewBucket(parts[0])
	if failure != nil {
		x.reply(nil, failure)
		return
	}
	if len(parts) >= 5 {
		rq.Index = parts[0] + "/" + parts[2] + "/" + parts[4]
	}
	x.scripted(func() Answer {
		switch {
		case len(parts) == 5 && parts[3] == "_view" && badBody:
			return *viewFailure(http.StatusBadRequest, "bad_request", "invalid_json")
		case len(parts) == 5 && parts[3] == "_view" && (rq.Method == http.MethodGet || rq.Method == http.MethodPost):
			return x.view(b, parts[2], parts[4])
		case len(parts) == 3:
			return x.design(b, parts[2])
		}
		return *viewFailure(http.StatusNotFound, "not_found", "missing")
	})
}

func viewFailure(status int, what, reason string) *Answer {
	return &Answer{Status: status, Errors: []ServiceError{{Message: what, Reason: reason}}}
}

// viewBucket is the bucket that a path names, if the user may use it and the node has a share of it.
func (x *svcCall) viewBucket(name string) (*bucket, *Answer) {
	c := x.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[name]
	switch {
	case !x.user.may(name):
		return nil, viewFailure(http.StatusUnauthorized, "unauthorized", "You are not authorized to access this bucket.")
	case b == nil:
		return nil, viewFailure(http.StatusNotFound, "not_found", "no_db_file")
	}
	for _, row := range b.rows {
		if row[0] == x.n.index {
			return b, nil
		}
	}
	for _, row := range b.rows {
		if row[0] >= 0 && c.nodes[row[0]].runs[ViewsService] {
			return nil, &Answer{
				Status: http.StatusFound, Body: []byte{},
				Header: http.Header{"Location": {"http://" + c.nodes[row[0]].addrs[ViewsService][0] + x.r.URL.RequestURI()}},
			}
		}
	}
	return nil, viewFailure(http.StatusNotFound, "not_found", "no_active_vbuckets")
}

// design reads or changes a design document.
func (x *svcCall) design(b *bucket, name string) Answer {
	c := x.n.c
	id := quote("_design/" + name)
	switch x.rq.Method {
	case http.MethodPut:
		if err := c.PutDesignDocument(b.name, name, string(x.rq.Body)); err != nil {
			return *viewFailure(http.StatusBadRequest, "invalid_design_document", strings.TrimPrefix(err.Error(), "mock: "))
		}
		return Answer{Status: http.StatusCreated, Body: []byte(`{"ok":true,"id":` + id + "}")}
	case http.MethodDelete:
		if !c.DropDesignDocument(b.name, name) {
			return *viewFailure(http.StatusNotFound, "not_found", "missing")
		}
		return Answer{Body: []byte(`{"ok":true,"id":` + id + "}")}
	case http.MethodGet:
		d := c.designOf(b, name)
		if d == nil {
			return *viewFailure(http.StatusNotFound, "not_found", "missing")
		}
		meta := fmt.Sprintf(`{"id":%s,"rev":"%d-mock"}`, id, d.rev)
		return Answer{Body: d.raw, Header: http.Header{"X-Couchbase-Meta": {meta}}}
	}
	return *viewFailure(http.StatusMethodNotAllowed, "method_not_allowed", "Only GET, PUT, DELETE allowed")
}

func (c *Cluster) designOf(b *bucket, name string) *design {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.services.designs[b.uuid][name]
}

// view queries a view.
func (x *svcCall) view(b *bucket, name, view string) Answer {
	d := x.n.c.designOf(b, name)
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
	rn := &viewRun{c: x.n.c, ctx: x.r.Context(), b: b, d: d, view: view, source: source}
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
			a.Errors = append(a.Errors, ServiceError{Message: err.Error()})
		}
	}
	return a
}
