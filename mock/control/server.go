package control

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// Limits of the API.
const (
	MaxBody        = 1 << 20   // of a request
	MaxFixtureBody = 256 << 20 // of a request that loads fixtures
	MaxObjects     = 1000      // injections, scripts and expectations, each
	MaxSnapshots   = 100
	MaxWait        = 10 * time.Minute // of a request that waits
	MaxConsoles    = 16               // pages of the console that are open
)

// openAPI describes the routes. A test writes it from the table.
//
//go:embed openapi.json
var openAPI []byte

// Options are what an API may have beside its cluster.
type Options struct {
	Fixtures fs.FS // files that /v1/fixtures/files may load; nil for none
	Console  bool  // there is a page at /console/ that shows the cluster at work
}

// API is the control of one cluster, as an HTTP handler. It may be used by several goroutines at once.
type API struct {
	c    *mock.Cluster
	opts Options
	mux  *http.ServeMux

	mu         sync.Mutex
	nextID     int
	injections map[string]*inForce
	scripts    map[string]*inForce
	expected   map[string]*inForce
	snapshots  map[string]*mock.Snapshot
	holds      map[string]func()
	consoles   map[*console]struct{} // that are open
}

// New makes the API of a cluster.
func New(c *mock.Cluster, opts Options) *API {
	x := &API{
		c: c, opts: opts, mux: http.NewServeMux(), injections: map[string]*inForce{}, scripts: map[string]*inForce{},
		expected: map[string]*inForce{}, snapshots: map[string]*mock.Snapshot{}, holds: map[string]func(){},
		consoles: map[*console]struct{}{},
	}
	for _, rt := range routes() {
		x.mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { x.serve(rt, w, r) })
	}
	if opts.Console {
		x.mux.Handle("GET "+consolePath, consolePage())
		x.mux.HandleFunc("GET "+consolePath+"events", x.events)
	}
	return x
}

// ServeHTTP implements http.Handler. It refuses requests that a browser makes for a page from elsewhere, and those that
// come by a name that is not this host's.
func (x *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if foreign(r) {
		answer(w, http.StatusForbidden, errorBody{&Error{
			Code: "forbidden", Message: "the control API is for programs on this host, and for its own pages",
		}})
		return
	}
	if _, pattern := x.mux.Handler(r); pattern == "" {
		x.unknown(w, r)
		return
	}
	x.mux.ServeHTTP(w, r)
}

// unknown answers what the table has no row for.
func (x *API) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := x.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		answer(w, http.StatusMethodNotAllowed, errorBody{&Error{
			Code: "method_not_allowed", Field: r.Method, Message: "this path takes " + strings.Join(allowed, ", "),
		}})
		return
	}
	answer(w, http.StatusNotFound, errorBody{notFound("path", "there is no %s; GET /openapi.json lists all paths",
		r.URL.Path)})
}

// foreign reports whether a browser sends the request for a page from elsewhere, or a name was made to point here.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	if origin != "" && (err != nil || u.Host != r.Host) || r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(r.Host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// serve answers one request by a row of the table.
func (x *API) serve(rt route, w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, rt.limit)
	out, err := rt.serve(&call{x, r})
	if err != nil {
		e := asError(err)
		answer(w, e.Status, errorBody{e})
		return
	}
	if text, ok := out.(document); ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the client may have left
		return
	}
	answer(w, http.StatusOK, out)
}

// document is an answer that is JSON already.
type document []byte

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"failed","message":"the answer is not JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may have left
}

// call is one request.
type call struct {
	x *API
	r *http.Request
}

// read decodes the body into v, which keeps its zero value without one.
func (c *call) read(v any) error {
	dec := json.NewDecoder(c.r.Body)
	dec.DisallowUnknownFields()
	dec.UseNumber()
	err := dec.Decode(v)
	if err == nil {
		if _, err = dec.Token(); err == nil {
			return invalid("body", "there is more behind the JSON value")
		}
	}
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &large):
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large", Field: "body", Limit: large.Limit,
			Message: fmt.Sprintf("the body has more than %d bytes", large.Limit),
		}
	}
	return jsonError(err)
}

// Server serves an API on an address of its own.
type Server struct {
	http *http.Server
	done chan struct{}
	url  string
}

// Listen serves the API of a cluster on a loopback address, "127.0.0.1:0" for any free port, until Close.
func Listen(c *mock.Cluster, addr string, opts Options) (*Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("control: address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("control: address %q, want one of the loopback interface", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		done: make(chan struct{}), url: "http://" + l.Addr().String(),
		http: &http.Server{
			Handler: New(c, opts), ReadHeaderTimeout: 30 * time.Second,
			ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
	}
	s.http.RegisterOnShutdown(cancel)
	go func() { // until Close
		defer close(s.done)
		_ = s.http.Serve(l) // always fails in the end
	}()
	return s, nil
}

// URL is the address of the API, without a slash at its end.
func (s *Server) URL() string { return s.url }

// Close ends the server and waits until its requests have ended; those that wait are told that they are over. After ten
// seconds it breaks their connections.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}
