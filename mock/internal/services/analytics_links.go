package services

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Links of the analytics service to other clusters and to files elsewhere. They are kept and read back without their
// secrets; nothing is connected.

// linkSecrets are the fields of a link that are never read back.
var linkSecrets = []string{
	"password", "secretAccessKey", "sessionToken", "accountKey", "sharedAccessSignature", "clientKey", "clientSecret",
	"clientCertificatePassword", "managedIdentityId",
}

// linkNeeds are the fields that a link of a type must have.
var linkNeeds = map[string][]string{
	"couchbase": {"hostname"}, "s3": {"accessKeyId", "secretAccessKey", "region"}, "azureblob": {}, "gcs": {},
}

const linksPath = "/analytics/link"

// linkFailure is the answer to a request about links that fails.
func linkFailure(code int, message string) Answer {
	return Answer{Status: http.StatusBadRequest, Body: toJSON(map[string]any{
		"status": "errors", "errors": []map[string]any{{"code": code, "msg": message}},
	})}
}

// linkPlace is the dataverse and the name that a request about links is about, from its path or else from its fields.
func (x *Call) linkPlace() (dataverse, name string) {
	parts := strings.Split(strings.TrimPrefix(x.r.URL.EscapedPath(), linksPath), "/")[1:]
	for i := range parts {
		if text, err := url.PathUnescape(parts[i]); err == nil {
			parts[i] = text
		}
	}
	dataverse, name = x.rq.text("dataverse"), x.rq.text("name")
	if len(parts) > 0 && parts[0] != "" {
		dataverse = parts[0]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	return dataverse, name
}

// links answers a request about links.
func (x *Call) links() Answer {
	_ = x.rq.parse() // a body that cannot be read has no fields, which is what is missed then
	dataverse, name := x.linkPlace()
	s, key := x.s, dataverse+"."+name
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.analytics
	switch {
	case dataverse != "" && !a.dataverses[dataverse]:
		return linkFailure(24034, "Cannot find analytics scope with name "+dataverse)
	case x.rq.Method == http.MethodGet:
		return Answer{Body: toJSON(a.linkList(dataverse, name, x.rq.text("type")))}
	case dataverse == "" || name == "":
		return linkFailure(21001, "A link needs a dataverse and a name")
	}
	_, known := a.links[key]
	switch x.rq.Method {
	case http.MethodDelete:
		if !known {
			return linkFailure(24006, "Link "+name+" does not exist")
		}
		delete(a.links, key)
		return Answer{Body: []byte{}}
	case http.MethodPost, http.MethodPut:
		if known && x.rq.Method == http.MethodPost {
			return linkFailure(24055, "Link "+name+" already exists")
		}
		if !known && x.rq.Method == http.MethodPut {
			return linkFailure(24006, "Link "+name+" does not exist")
		}
		return a.putLink(x.rq, dataverse, name)
	}
	return Answer{Status: http.StatusMethodNotAllowed, Body: []byte{}}
}

// putLink keeps a link. The caller holds the mutex.
func (a *analytics) putLink(rq *Request, dataverse, name string) Answer {
	needs, ok := linkNeeds[rq.text("type")]
	if !ok {
		return linkFailure(24069, "Unknown link type "+rq.text("type"))
	}
	for _, field := range needs {
		if rq.text(field) == "" {
			return linkFailure(21010, "Parameter(s) "+field+" must be specified")
		}
	}
	link := map[string]string{}
	for field := range rq.members {
		if !slices.Contains(linkSecrets, field) {
			link[field] = rq.text(field)
		}
	}
	link["dataverse"], link["scope"], link["name"] = dataverse, dataverse, name
	if link["type"] == "couchbase" {
		link["activeHostname"] = link["hostname"]
	}
	a.links[dataverse+"."+name] = link
	return Answer{Body: []byte{}}
}

// linkList are the links of a dataverse, a name and a type, each of which may be empty. The caller holds the mutex.
func (a *analytics) linkList(dataverse, name, kind string) []map[string]string {
	out := []map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(a.links)) {
		l := a.links[key]
		if (dataverse == "" || l["dataverse"] == dataverse) && (name == "" || l["name"] == name) &&
			(kind == "" || l["type"] == kind) {
			out = append(out, l)
		}
	}
	return out
}
