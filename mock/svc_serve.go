package mock

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/couchcore/couchcore/mock/internal/trigger"
)

// clusterServices is what a cluster knows about its HTTP services.
type clusterServices struct {
	scripts trigger.List[script]

	// Guarded by the cluster's mutex.
	log           []ServiceRequest
	prepared      map[string]*prepared
	indexes       []queryIndex
	searchIndexes map[string]json.RawMessage    // definitions by name
	datasets      map[string]string             // of analytics: the keyspaces behind their names
	guarded       map[string]bool               // buckets, by uuid, that may not be flushed over HTTP
	accounts      map[string]account            // of users that were made or changed over HTTP
	designs       map[string]map[string]*design // by the bucket's uuid and the name
}

// svcCall is one request to a service, on the goroutine of its connection.
type svcCall struct {
	n    *Node
	w    http.ResponseWriter
	r    *http.Request
	rq   *ServiceRequest
	user *user
	kept bool // in the log

	prepared string // the name, as JSON, of a statement that was prepared to be executed at once
}

// httpServer is one of the node's services, for its plain and its TLS port. The goroutines of its connections are the
// server's; ConnState makes the cluster wait for them.
func (n *Node) httpServer(s Service) *http.Server {
	h := &http.Server{
		ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	handle := n.handler(s)
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.serveService(s, handle, w, r) })
	h.ConnState = func(nc net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			n.c.wg.Add(1) // the goroutine that accepts is counted too, so Close is still waiting
			n.c.mu.Lock()
			down := !n.up
			n.c.mu.Unlock()
			if down { // accepted after the server has closed all that it knew
				nc.Close()
			}
		case http.StateClosed, http.StateHijacked:
			n.c.wg.Done()
		default:
		}
	}
	return h
}

// handler is what answers a service's requests that no script answers.
func (n *Node) handler(s Service) func(*svcCall) {
	switch s {
	case QueryService, AnalyticsService:
		return (*svcCall).query
	case SearchService:
		return (*svcCall).search
	case ViewsService:
		return (*svcCall).views
	default:
		mux := n.managementMux()
		return func(x *svcCall) { x.manage(mux) }
	}
}

func (n *Node) serveService(s Service, handle func(*svcCall), w http.ResponseWriter, r *http.Request) {
	rq, status := n.receive(s, r)
	if rq == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	x := &svcCall{n: n, w: w, r: r, rq: rq}
	x.login()
	if isPing(rq) {
		x.reply(nil, &Answer{Body: []byte(`{"status":"OK"}`)})
		return
	}
	if x.user == nil {
		x.unauthorised()
		return
	}
	handle(x)
}

// isPing reports whether a request is one of those that answer anyone: the services' own, management not included.
func isPing(rq *ServiceRequest) bool {
	switch rq.Service {
	case QueryService, AnalyticsService:
		return rq.Path == "/admin/ping"
	case SearchService:
		return rq.Path == "/api/ping"
	case ViewsService:
		return rq.Path == "/"
	default:
		return false
	}
}

// login finds out who is asking: by basic or bearer authentication or by a client's certificate. An administrator may
// act for another user.
func (x *svcCall) login() {
	c := x.n.c
	name, password, basic := x.r.BasicAuth()
	token, bearer := strings.CutPrefix(x.r.Header.Get("Authorization"), "Bearer ")
	c.mu.Lock()
	defer c.mu.Unlock()
	var u *user
	switch {
	case basic:
		if u = c.users[name]; u != nil && subtle.ConstantTimeCompare([]byte(u.password), []byte(password)) != 1 {
			u = nil
		}
	case bearer:
		u = c.users[c.set.tokens[token]]
	default:
		u = c.certified(x.r.TLS)
	}
	header := x.r.Header.Get("Cb-On-Behalf-Of")
	other, domain, readable := impersonated(header)
	if u == nil || header != "" && !readable {
		return
	}
	x.rq.Login = u.name
	if header != "" {
		if !u.admin {
			return
		}
		if u = c.users[other]; u == nil || u.external != (domain == "external") || !u.external && domain != "local" {
			return
		}
	}
	mine := *u // may change while the request goes on
	x.user, x.rq.User = &mine, u.name
}

// impersonated is the user that a header names: base64 of name, colon and domain. Servers refuse the credentials of a request
// with any other form.
func impersonated(header string) (name, domain string, ok bool) {
	b, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(b), ":")
}

// unauthorised is each service's own way to say that the credentials are wrong, or that they may not act for another.
func (x *svcCall) unauthorised() {
	status := http.StatusUnauthorized
	if x.rq.Login != "" {
		status = http.StatusForbidden
	}
	x.w.Header().Set("WWW-Authenticate", `Basic realm="mock"`)
	a := &Answer{Status: status}
	switch x.rq.Service {
	case QueryService:
		a.Errors = []ServiceError{{Code: 13014, Message: "User does not have credentials to run queries."}}
	case AnalyticsService:
		a.Errors = []ServiceError{{Code: 20000, Message: "Unauthorized user."}}
	case ViewsService:
		a.Errors = []ServiceError{{Message: "unauthorized", Reason: "password required"}}
	default:
		a.Body = []byte{}
	}
	x.reply(nil, a)
}

// scripted answers the request by a script, if there is one for it. other is what the answer is without a script.
func (x *svcCall) scripted(other func() Answer) {
	x.keep()
	s, a := x.n.c.scriptFor(x.rq)
	if a == nil {
		made := other()
		x.reply(nil, &made)
		return
	}
	if a.Default {
		made := other()
		a.overlay(&made)
		a = &made
	}
	x.reply(s, a)
}

// overlay lays what a says about the delivery over another answer.
func (a *Answer) overlay(on *Answer) {
	if a.Status != 0 {
		on.Status = a.Status
	}
	if on.Header == nil {
		on.Header = http.Header{}
	}
	for k, vs := range a.Header {
		on.Header[k] = vs
	}
	for k, v := range a.Members {
		if on.Members == nil {
			on.Members = map[string]string{}
		}
		on.Members[k] = v
	}
	on.Mutated += a.Mutated
	on.Warnings, on.Early, on.Hold = append(on.Warnings, a.Warnings...), a.Early, a.Hold
	on.Delay, on.RowDelay, on.Chunk, on.Trickle = a.Delay, a.RowDelay, a.Chunk, a.Trickle
	on.CutRows, on.CutBytes, on.StallRows, on.StallBytes = a.CutRows, a.CutBytes, a.StallRows, a.StallBytes
	on.Never, on.Close, on.Deadline = a.Never, a.Close, a.Deadline
}

func jsonInto(b []byte, v any) error {
	if len(b) == 0 {
		return errNotObject
	}
	return json.Unmarshal(b, v)
}
