package services

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The eventing service manages functions and never runs one. Names, codes and statuses of errors, and the rules of the
// states, are those of couchbase/eventing: service_manager of 7.6, service_manager2 and application of 8.0.

// eventing is what the eventing service of the cluster has.
type eventing struct {
	mu        sync.Mutex // guards what follows, the functions too; the host is asked under it
	functions map[functionPlace]*function
}

// save keeps the functions, in no transition; load brings them back.
func (e *eventing) save() map[functionPlace]*function {
	e.mu.Lock()
	defer e.mu.Unlock()
	return settled(e.functions)
}

func (e *eventing) load(saved map[functionPlace]*function) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.functions = settled(saved)
}

func settled(functions map[functionPlace]*function) map[functionPlace]*function {
	out := map[functionPlace]*function{}
	for at, f := range functions {
		out[at] = f.clone()
		out[at].moving = false
	}
	return out
}

// eventingCode is one of the service's errors.
type eventingCode struct {
	name         string
	code, status int
}

var (
	appNotDeployed      = eventingCode{"ERR_APP_NOT_DEPLOYED", 12, http.StatusNotAcceptable}
	appNotFound         = eventingCode{"ERR_APP_NOT_FOUND_TS", 13, http.StatusNotFound}
	marshalFailed       = eventingCode{"ERR_MARSHAL_RESP", 14, http.StatusInternalServerError}
	unmarshalFailed     = eventingCode{"ERR_UNMARSHAL_PLD", 16, http.StatusBadRequest}
	sourceIsMetadata    = eventingCode{"ERR_SRC_MB_SAME", 17, http.StatusUnprocessableEntity}
	appDeployed         = eventingCode{"ERR_APP_ALREADY_DEPLOYED", 20, http.StatusUnprocessableEntity}
	appNotBootstrapped  = eventingCode{"ERR_APP_NOT_BOOTSTRAPPED", 21, http.StatusLocked}
	appNotUndeployed    = eventingCode{"ERR_APP_NOT_UNDEPLOYED", 22, http.StatusUnprocessableEntity}
	handlerCompilation  = eventingCode{"ERR_HANDLER_COMPILATION", 27, http.StatusUnprocessableEntity}
	appNameMismatch     = eventingCode{"ERR_APPNAME_MISMATCH", 29, http.StatusUnprocessableEntity}
	invalidConfig       = eventingCode{"ERR_INVALID_CONFIG", 38, http.StatusBadRequest}
	appCodeSize         = eventingCode{"ERR_APPCODE_SIZE", 39, http.StatusBadRequest}
	bucketMissing       = eventingCode{"ERR_BUCKET_MISSING", 41, http.StatusBadRequest}
	bucketAccess        = eventingCode{"ERR_BUCKET_ACCESS", 49, http.StatusBadRequest}
	collectionMissing   = eventingCode{"ERR_COLLECTION_MISSING", 57, http.StatusBadRequest}
	collectionMissing80 = eventingCode{"ERR_COLLECTION_MISSING", 56, http.StatusBadRequest}
	eventingForbidden   = eventingCode{"ERR_FORBIDDEN", 60, http.StatusForbidden}
	unauthenticated     = eventingCode{"ERR_UNAUTHENTICATED", 61, http.StatusUnauthorized}
	methodNotAllowed    = eventingCode{"ERR_METHOD_NOT_ALLOWED", 62, http.StatusMethodNotAllowed}
	invalidRequest      = eventingCode{"ERR_INVALID_REQUEST", 63, http.StatusBadRequest}
	appPaused           = eventingCode{"ERR_APP_PAUSED", 64, http.StatusUnprocessableEntity}
)

// eventingFailure is why a request is refused.
type eventingFailure struct {
	eventingCode
	description any
}

func (c eventingCode) because(format string, args ...any) *eventingFailure {
	return &eventingFailure{c, fmt.Sprintf(format, args...)}
}

// done is the answer of a change.
type done struct {
	Code int `json:"code"`
	Info any `json:"info,omitempty"`
}

func doneWith(format string, args ...any) done { return done{Info: fmt.Sprintf(format, args...)} }

// eventingCall is a request to the eventing service, under its mutex.
type eventingCall struct {
	*Call
	*eventing
	given    givenFunction // of a request that stores one
	at       functionPlace
	now      time.Time
	newRules bool // the node has the states of 8.0
}

type eventingHandler = func(*eventingCall) (any, *eventingFailure)

// eventingRoutes are the paths, by what is behind the name of a function, or by the path, and the method.
var eventingRoutes = map[string]map[string]eventingHandler{
	"":           {"GET": (*eventingCall).get, "POST": (*eventingCall).put, "DELETE": (*eventingCall).drop},
	"settings":   {"GET": (*eventingCall).getSettings, "POST": (*eventingCall).putSettings},
	"config":     {"GET": (*eventingCall).getBindings, "POST": (*eventingCall).putBindings},
	"deploy":     {"POST": (*eventingCall).deploy},
	"undeploy":   {"POST": (*eventingCall).undeploy},
	"pause":      {"POST": (*eventingCall).pause},
	"resume":     {"POST": (*eventingCall).resume},
	"/functions": {"GET": (*eventingCall).list},
	"/status":    {"GET": (*eventingCall).statuses},
	"/status/":   {"GET": (*eventingCall).status},
	"/config":    {"GET": (*eventingCall).getConfig},
}

// eventingPath takes a path apart: the key of its routes, and the name of a function.
func eventingPath(path string) (route, name string, ok bool) {
	path, ok = strings.CutPrefix(strings.TrimSuffix(path, "/"), "/api/v1")
	if name, one := strings.CutPrefix(path, "/status/"); one {
		return "/status/", name, ok
	}
	name, one := strings.CutPrefix(path, "/functions/")
	if !one {
		return path, "", ok && strings.HasPrefix(path, "/") && eventingRoutes[path] != nil
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 && eventingRoutes[name[i+1:]] != nil && name[i+1:] != "" {
		return name[i+1:], name[:i], ok
	}
	return "", name, ok
}

// eventing answers a request to the eventing service.
func (x *Call) eventing() { x.scripted(x.eventingAnswer) }

func (x *Call) eventingAnswer() Answer {
	route, name, ok := eventingPath(x.rq.Path)
	if !ok {
		return Answer{Status: http.StatusNotFound, Body: []byte("404 page not found\n")}
	}
	e := &x.s.eventing
	c := &eventingCall{Call: x, eventing: e, newRules: x.s.host.FunctionStates(x.rq.Node)}
	if route == "" && x.rq.Method == http.MethodPost {
		c.given = x.readGiven() // code may take seconds to compile, in which the service answers others
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.now = time.Now()
	c.sweep()
	handler := eventingRoutes[route][x.rq.Method]
	query := x.rq.Query
	c.at = functionPlace{anyScope, name}
	switch {
	case handler == nil:
		return methodNotAllowed.because("the path does not have the method %s", x.rq.Method).answer()
	case query.Has("bucket") != query.Has("scope"):
		return invalidRequest.because("bucket and scope come together").answer()
	case query.Has("bucket"):
		c.at.scope = functionScope{query.Get("bucket"), query.Get("scope")}
	}
	result, failure := handler(c)
	if failure != nil {
		return failure.answer()
	}
	return eventingJSON(http.StatusOK, 0, result)
}

func (f *eventingFailure) answer() Answer {
	return eventingJSON(f.eventingCode.status, f.code, struct {
		Name        string `json:"name"`
		Code        int    `json:"code"`
		Description any    `json:"description"`
	}{f.name, f.code, f.description})
}

func eventingJSON(status, code int, v any) Answer {
	b, _ := json.MarshalIndent(v, "", " ") // made of our own types, and of what was read as JSON
	return Answer{Status: status, Header: http.Header{"Status": {strconv.Itoa(code)}}, Body: b}
}

// sweep does what a server does when keyspaces are gone: a function whose scope is gone is deleted, and one without its
// source or metadata is undeployed.
func (c *eventingCall) sweep() {
	for at, f := range c.functions {
		switch {
		case at.scope != anyScope && !c.s.host.HasScope(at.scope.Bucket, at.scope.Scope):
			delete(c.functions, at)
		case f.target() != undeployed && c.keyspaces(f) != nil:
			next := f.clone()
			next.Settings["deployment_status"], next.Settings["processing_status"] = false, false
			c.moveTo(f, next.Settings)
		}
	}
}

// existing is the function that the request names, for a user who may manage it.
func (c *eventingCall) existing() (*function, *eventingFailure) {
	f := c.functions[c.at]
	switch {
	case f == nil:
		return nil, appNotFound.because("Function: %s not found", c.at)
	case !c.mayManage(c.at.scope):
		return nil, eventingForbidden.because("the user may not manage the functions of %s", c.at.scope)
	}
	return f, nil
}

// mayManage reports whether the user may manage the functions of a scope. Those of the cluster are for administrators.
func (c *eventingCall) mayManage(s functionScope) bool { return c.may(s.Bucket) }

// invalid is the refusal of a definition.
func (c *eventingCall) invalid(format string, args ...any) *eventingFailure {
	if c.newRules {
		return invalidRequest.because(format, args...)
	}
	return invalidConfig.because(format, args...)
}

// getConfig are the settings of the service, which mean nothing to the mock. C++ SDKs ping this path.
func (c *eventingCall) getConfig() (any, *eventingFailure) {
	return map[string]int{"ram_quota": 256}, nil
}
