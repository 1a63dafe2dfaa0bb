package mock

import (
	"net/http"
	"strings"
)

// ViewEngine runs the functions of views. Package mock/viewjs has one for JavaScript.
type ViewEngine interface{}

// views answers a request of the views service.
func (x *svcCall) views() {
	rq := x.rq
	_ = rq.parse() // as in search
	rq.Index = viewPath(rq.Path)
	x.scripted(func() Answer {
		return Answer{Status: http.StatusNotFound, Errors: []ServiceError{{Message: "not_found", Reason: "missing"}}}
	})
}

// viewPath is bucket, design document and view of a path.
func viewPath(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) < 5 || parts[1] != "_design" || parts[3] != "_view" {
		return ""
	}
	return parts[0] + "/" + parts[2] + "/" + parts[4]
}
