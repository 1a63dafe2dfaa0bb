package control

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The console is a page at consolePath. Its buttons are requests to the API; what it shows comes as server-sent events:
//
//	state     when it has changed: the cluster, its connections and injections
//	requests  what nodes have answered since the last such event, and what clients have reported of their operations
//
// A node that answers only appends to a ring in memory, so a page that reads slowly loses the oldest events and is told
// how many. Without a page that is open nodes tell nothing.

const (
	consolePath  = "/console/"
	consoleTick  = 250 * time.Millisecond
	consoleKept  = 256 // events of each kind between two ticks
	consoleConns = 200 // connections that are listed
	consoleEvent = "event: %s\ndata: %s\n\n"

	consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

//go:embed console
var consoleFiles embed.FS

// consolePage serves the page, its script and its style.
func consolePage() http.Handler {
	files, err := fs.Sub(consoleFiles, "console")
	if err != nil {
		return http.NotFoundHandler() // the folder is embedded
	}
	h := http.StripPrefix(consolePath, http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", consolePolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// Operations are operations that a client has ended.
type Operations struct {
	Client string      `json:"client,omitempty" doc:"whose they are"`
	Items  []Operation `json:"items"`
}

// Operation is one of them. Every member may be absent.
type Operation struct {
	Client     string    `json:"client,omitempty"`
	At         string    `json:"at,omitempty" doc:"when it ended, RFC 3339"`
	Service    string    `json:"service,omitempty" doc:"kv, query and so on"`
	Operation  string    `json:"operation,omitempty" doc:"get, upsert and so on"`
	Bucket     string    `json:"bucket,omitempty"`
	Collection string    `json:"collection,omitempty" doc:"scope.collection"`
	Key        string    `json:"key,omitempty" doc:"of the document"`
	Error      string    `json:"error,omitempty" doc:"what the caller got; absent for a success"`
	Took       int64     `json:"took_us,omitempty" doc:"from beginning to end, all attempts and delays"`
	Attempts   []Attempt `json:"attempts,omitempty" doc:"in their order, those that hedges made among them"`
}

// Attempt is one send of an operation.
type Attempt struct {
	Node   string `json:"node,omitempty" doc:"host and port"`
	Status string `json:"status,omitempty" doc:"of an answer that was no success"`
	Error  string `json:"error,omitempty" doc:"what else was wrong with it"`
	Reason string `json:"reason,omitempty" doc:"why the client sent the operation again after it"`
	Took   int64  `json:"took_us,omitempty"`
}

// Told says who was told.
type Told struct {
	Consoles int `json:"consoles" doc:"that are open; with 0 a client need not report"`
}

// report tells the consoles of operations.
func report(c *call, in *Operations) (Told, error) {
	if len(in.Items) > MaxObjects {
		return Told{}, &Error{
			Status: http.StatusBadRequest, Code: "limit_reached", Field: "items", Limit: MaxObjects,
			Message: fmt.Sprintf("these are %d operations", len(in.Items)),
		}
	}
	c.x.mu.Lock()
	open := slices.Collect(maps.Keys(c.x.consoles))
	c.x.mu.Unlock()
	for i := range in.Items {
		in.Items[i].Client = cmp.Or(in.Items[i].Client, in.Client)
		for _, p := range open {
			p.reported(&in.Items[i])
		}
	}
	return Told{len(open)}, nil
}

// console is one page that is open: what it has not been told yet.
type console struct {
	mu         sync.Mutex // held for a few steps in memory only
	requests   ring[mock.Answered]
	operations ring[*Operation]
	loads      map[int]*load
}

// note takes what a node has answered. It runs on the goroutine of the node's connection.
func (p *console) note(a mock.Answered) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.add(a)
	l := p.loads[a.Node]
	if l == nil {
		l = new(load)
		p.loads[a.Node] = l
	}
	l.add(&a)
}

func (p *console) reported(o *Operation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.operations.add(o)
}

// consoleRequests is the event "requests".
type consoleRequests struct {
	Requests       []consoleRequest `json:"requests"`
	Lost           int              `json:"lost"` // requests that are not among them
	Operations     []*Operation     `json:"operations"`
	OperationsLost int              `json:"operations_lost"`
	Loads          []nodeLoad       `json:"loads"` // of all requests, the lost ones included
}

// consoleRequest is one request that a node has dealt with.
type consoleRequest struct {
	At         string `json:"at"`
	Node       int    `json:"node"`
	Connection uint64 `json:"connection"`
	Opcode     string `json:"opcode"`
	VBucket    int    `json:"vbucket"` // -1 for a request without a document
	Bucket     string `json:"bucket,omitempty"`
	Collection string `json:"collection,omitempty"`
	Key        string `json:"key,omitempty"`
	KeyBase64  string `json:"key_base64,omitempty"`
	Status     string `json:"status"`
	OK         bool   `json:"ok"`
	Silent     bool   `json:"silent,omitempty"`
	Closed     bool   `json:"closed,omitempty"`
	Fault      string `json:"fault,omitempty"`
	Took       int64  `json:"took_us"`
}

// take is what is new since the last call; nil for nothing.
func (p *console) take() *consoleRequests {
	p.mu.Lock()
	requests, lost := p.requests.take()
	operations, operationsLost := p.operations.take()
	loads := p.loads
	p.loads = map[int]*load{}
	p.mu.Unlock()
	if len(requests)+len(operations) == 0 {
		return nil
	}
	out := &consoleRequests{
		Requests: []consoleRequest{}, Lost: lost, Operations: operations, OperationsLost: operationsLost,
		Loads: []nodeLoad{},
	}
	for i := range requests {
		out.Requests = append(out.Requests, describeAnswered(&requests[i]))
	}
	for _, node := range slices.Sorted(maps.Keys(loads)) {
		out.Loads = append(out.Loads, loads[node].describe(node))
	}
	return out
}

func describeAnswered(a *mock.Answered) consoleRequest {
	out := consoleRequest{
		At: stamp(a.At), Node: a.Node, Connection: a.Conn, Opcode: a.Opcode.String(), VBucket: int(a.VBucket),
		Bucket: a.Bucket, Collection: a.Collection, Status: a.Status.String(), OK: a.Status == memd.StatusSuccess,
		Silent: a.Silent, Closed: a.Closed, Fault: a.Fault, Took: a.Took.Microseconds(),
	}
	out.Key, out.KeyBase64 = textOf([]byte(a.Document))
	if a.Collection == "" {
		out.VBucket = -1
	}
	return out
}

// consoleState is the event "state".
type consoleState struct {
	Cluster     Cluster      `json:"cluster"`
	Injections  []InForce    `json:"injections"`
	Connections []Connection `json:"connections"` // the oldest
	More        int          `json:"more"`        // connections that are not listed
}

// state is how everything is.
func (x *API) state() ([]byte, error) {
	c := &call{x: x}
	cluster, err := getCluster(c, nil)
	if err != nil {
		return nil, err
	}
	force, err := list(injections)(c, nil)
	if err != nil {
		return nil, err
	}
	conns, err := connections(c, nil)
	if err != nil {
		return nil, err
	}
	out := consoleState{Cluster: cluster, Injections: force.Items, Connections: conns.Items}
	if out.More = len(conns.Items) - consoleConns; out.More > 0 {
		out.Connections = conns.Items[:consoleConns]
	}
	out.More = max(0, out.More)
	return json.Marshal(out)
}

// open keeps a page, unless there are too many.
func (x *API) open(p *console) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.consoles) >= MaxConsoles {
		return false
	}
	x.consoles[p] = struct{}{}
	return true
}

func (x *API) leave(p *console) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.consoles, p)
}

// events serves the stream of one page until it, the cluster or the API ends.
func (x *API) events(w http.ResponseWriter, r *http.Request) {
	p := &console{loads: map[int]*load{}}
	if !x.open(p) {
		e := tooMany("console", MaxConsoles)
		answer(w, http.StatusServiceUnavailable, errorBody{e})
		return
	}
	defer x.leave(p)
	defer x.c.WatchAnswers(p.note)()
	rc := http.NewResponseController(w)
	over := make(chan struct{})
	stop := context.AfterFunc(r.Context(), func() { // for a write that waits for a page which does not read
		defer close(over)
		_ = rc.SetWriteDeadline(time.Now()) // what has no deadlines does not wait either
	})
	defer func() {
		if !stop() {
			<-over
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(consoleTick)
	defer tick.Stop()
	var last []byte
	for {
		if !x.tell(w, p, &last) || rc.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-x.c.Done():
			return
		}
	}
}

// tell writes what is new, and reports whether the page takes it. last is the state that the page knows.
func (x *API) tell(w http.ResponseWriter, p *console, last *[]byte) bool {
	state, err := x.state()
	if err != nil {
		return false
	}
	if !bytes.Equal(state, *last) {
		*last = state
		if _, err := fmt.Fprintf(w, consoleEvent, "state", state); err != nil {
			return false
		}
	}
	news := p.take()
	if news == nil {
		return true
	}
	text, err := json.Marshal(news)
	if err != nil {
		return false
	}
	_, err = fmt.Fprintf(w, consoleEvent, "requests", text)
	return err == nil
}
