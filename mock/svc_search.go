package mock

import (
	"fmt"
	"net/http"
	"strings"
)

// search answers a request of the search service.
func (x *svcCall) search() {
	rq := x.rq
	_ = rq.parse() // a body that is no object has no members, which is what matters here
	rq.Index = searchIndex(rq.Path)
	x.scripted(func() Answer {
		switch {
		case rq.Index != "" && strings.HasSuffix(rq.Path, "/query"):
			return Answer{Errors: []ServiceError{{
				Message: fmt.Sprintf("rest_auth: preparePerms, err: index not found, indexName: %s", rq.Index),
			}}}
		case rq.Path == "/api/index" && rq.Method == http.MethodGet:
			return Answer{Body: []byte(`{"status":"ok","indexDefs":{"uuid":"0","indexDefs":{},"implVersion":"5.8.0"}}`)}
		}
		return Answer{Status: http.StatusNotFound, Errors: []ServiceError{{Message: "page not found"}}}
	})
}

// searchIndex is the index that a path names: of the cluster, or of a scope.
func searchIndex(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/api/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "index":
		return parts[1]
	case len(parts) >= 6 && parts[0] == "bucket" && parts[2] == "scope" && parts[4] == "index":
		return parts[1] + "." + parts[3] + "." + parts[5]
	}
	return ""
}
