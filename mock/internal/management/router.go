package management

import (
	"net/http"
	"net/url"
	"strings"
)

// route is a row of the table of paths. A placeholder "{name}" of the path stands for one segment, and "{name...}" at
// its end for all that follow. need is a permission in which the placeholders are replaced.
type route struct {
	method, path string
	need         string
	do           func(*call)
}

// branch is a place in the tree of paths.
type branch struct {
	words map[string]*branch
	any   *branch // what a placeholder stands for
	name  string  // of that placeholder
	tail  string  // name of the placeholder for all that follows
	last  map[string]*route
}

// newRouter makes the tree of the table.
func newRouter(table []route) *branch {
	root := &branch{}
	for i := range table {
		at := root
		for _, word := range segments(table[i].path) {
			at = at.under(word)
		}
		if at.last == nil {
			at.last = map[string]*route{}
		}
		at.last[table[i].method] = &table[i]
	}
	return root
}

func (b *branch) under(word string) *branch {
	name, placeholder := strings.CutPrefix(word, "{")
	if name = strings.TrimSuffix(name, "}"); !placeholder {
		if b.words == nil {
			b.words = map[string]*branch{}
		}
		if b.words[word] == nil {
			b.words[word] = &branch{}
		}
		return b.words[word]
	}
	if b.any == nil {
		b.any, b.name = &branch{}, strings.TrimSuffix(name, "...")
	}
	if strings.HasSuffix(name, "...") {
		b.any.tail = b.name
	}
	return b.any
}

// segments are the parts of a path between slashes. Empty ones do not count, so that a slash at the end changes
// nothing.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// find looks a path up: the deepest fit, words before placeholders. values has what the placeholders stand for.
func (b *branch) find(method string, path []string, values map[string]string) *route {
	if len(path) == 0 {
		return b.last[method]
	}
	if next := b.words[path[0]]; next != nil {
		if r := next.find(method, path[1:], values); r != nil {
			return r
		}
	}
	if b.any == nil {
		return nil
	}
	values[b.name] = path[0]
	if b.any.tail != "" {
		values[b.name] = strings.Join(path, "/")
		return b.any.last[method]
	}
	return b.any.find(method, path[1:], values)
}

// split is the path of a URL in segments that are unescaped after the split, so that a bucket's name may have any
// character.
func split(u *url.URL) []string {
	parts := segments(u.EscapedPath())
	for i, p := range parts {
		if s, err := url.PathUnescape(p); err == nil {
			parts[i] = s
		}
	}
	return parts
}

// Open reports whether a path is answered without credentials.
func (s *State) Open(r *http.Request) bool {
	row := s.routes.find(asked(r), split(r.URL), map[string]string{})
	return row != nil && row.need == everybody
}

// asked is the method of a request as the table has it: a HEAD is a GET without an answer's body.
func asked(r *http.Request) string {
	if r.Method == http.MethodHead {
		return http.MethodGet
	}
	return r.Method
}

// Serve answers a request to node self.
func (s *State) Serve(w http.ResponseWriter, r *http.Request, self int, caller *Caller) {
	x := &call{s: s, w: w, r: r, self: self, caller: caller, values: map[string]string{}}
	row := s.routes.find(asked(r), split(r.URL), x.values)
	if row == nil || !x.version().known(row) {
		x.unknownPath()
		return
	}
	permission := row.need
	for name, value := range x.values {
		permission = strings.ReplaceAll(permission, "{"+name+"}", value)
	}
	if !caller.may(permission) {
		x.json(http.StatusForbidden, object{
			"message":     "Forbidden. User needs the following permissions",
			"permissions": []string{permission},
		})
		return
	}
	if x.found() {
		x.readForm()
		row.do(x)
	}
}

// unknownPath answers what is in no row. The texts differ by method, as those of ns_server do.
func (x *call) unknownPath() {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		x.notFound()
	case http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch:
		x.text(http.StatusNotFound, "Object Not Found")
	default:
		x.text(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// found reports whether the bucket that the path names exists and the uuids of the query are those of the cluster and
// the bucket. It answers otherwise.
func (x *call) found() bool {
	query := x.r.URL.Query()
	name, names := x.values["bucket"]
	if !names && query.Get("uuid") == "" {
		return true
	}
	c := x.cluster()
	if id := query.Get("uuid"); id != "" && id != c.UUID {
		x.text(http.StatusNotFound, "Cluster uuid does not match the requested.\r\n")
		return false
	}
	if !names {
		return true
	}
	b := c.bucket(name)
	if b == nil {
		x.notFound()
		return false
	}
	if id := query.Get("bucket_uuid"); id != "" && id != b.UUID {
		x.text(http.StatusNotFound, "Bucket uuid does not match the requested.\r\n")
		return false
	}
	return true
}
