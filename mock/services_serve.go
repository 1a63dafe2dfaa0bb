package mock

import (
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/couchcore/couchcore/mock/internal/services"
)

// httpServer is one of the node's services, for its plain and its TLS port. The goroutines of its connections are the
// server's; ConnState makes the cluster wait for them.
func (n *Node) httpServer(s Service) *http.Server {
	h := &http.Server{
		ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.serveService(s, w, r) })
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

// serveService answers one request to a service.
func (n *Node) serveService(s Service, w http.ResponseWriter, r *http.Request) {
	rq, status := services.Receive(n.index, s, r)
	if rq == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	u := n.c.login(r, rq)
	x := n.c.services.Call(w, r, rq, func(bucket string) bool { return u.may(bucket) })
	switch {
	case rq.Elsewhere() != "":
		x.Redirect()
	case rq.IsPing():
		x.Pong()
	case u == nil && !(s == ManagementService && n.c.openPath(r)):
		x.Refuse()
	case s == ManagementService:
		x.Manage(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == telemetryPath {
				n.serveTelemetry(w, r, u)
				return
			}
			n.c.management.Serve(w, r, n.index, n.c.caller(u))
		}))
	default:
		x.Serve()
	}
}

// login finds out who is asking: by basic or bearer authentication or by a client's certificate. An administrator may
// act for another user. It returns nil for wrong credentials, and the account otherwise as it is now.
func (c *Cluster) login(r *http.Request, rq *ServiceRequest) *user {
	name, password, basic := r.BasicAuth()
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
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
		if u = c.certified(r.TLS); u == nil && r.Header.Get("Authorization") == "" {
			u = c.users[""]
		}
	}
	header := r.Header.Get("Cb-On-Behalf-Of")
	other, domain, readable := impersonated(header)
	if u == nil || header != "" && !readable {
		return nil
	}
	rq.Login = u.name
	if header != "" {
		if !u.admin {
			return nil
		}
		if u = c.users[other]; u == nil || u.external != (domain == "external") || !u.external && domain != "local" {
			return nil
		}
	}
	mine := *u // may change while the request goes on
	rq.User = u.name
	return &mine
}

// impersonated is the user that a header names: base64 of name, colon and domain. Servers refuse the credentials of a
// request with any other form.
func impersonated(header string) (name, domain string, ok bool) {
	b, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(b), ":")
}
