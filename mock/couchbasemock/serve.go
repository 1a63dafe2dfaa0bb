package couchbasemock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

const (
	controlPath    = "/mock/"
	maxControlLine = 1 << 20
)

// Serve speaks CouchbaseMock's control protocol on a connection: it sends the number of node 0's management port and a
// zero byte, and then answers one command per line. It returns when the connection or the cluster ends, with the
// connection closed: nil for an end at a line's end, otherwise why. Commands come as {"command":..., "payload":{...}}.
func (x *Control) Serve(nc net.Conn) error {
	served, ended := make(chan struct{}), make(chan struct{})
	go func() { // until Serve returns, which waits for it
		defer close(ended)
		select {
		case <-x.c.Done():
		case <-served:
		}
		_ = nc.Close() // whatever it says, the connection is done with
	}()
	defer func() { <-ended }()
	defer close(served)
	select {
	case <-x.c.Done():
		return net.ErrClosed
	default:
	}
	if _, err := fmt.Fprintf(nc, "%d\x00", portOf(x.c.Node(0).ManagementAddr())); err != nil {
		return err
	}
	lines := bufio.NewScanner(nc)
	lines.Buffer(make([]byte, 0, 4096), maxControlLine)
	for lines.Scan() {
		if _, err := nc.Write(append(x.line(lines.Bytes()), '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// line answers one line.
func (x *Control) line(line []byte) []byte {
	var rq struct {
		Command *string         `json:"command"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(line, &rq) != nil || rq.Command == nil {
		return []byte(`{ "status" : "fail", "error" : "Failed to parse input" }`)
	}
	return x.Run(*rq.Command, rq.Payload)
}

// ServeHTTP answers a command whose name stands behind /mock/ in the path.
func (x *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if foreign(r) {
		http.Error(w, "Control commands are for programs and for this host's own pages.", http.StatusForbidden)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, controlPath)
	if commandName(name) == "HELP" || commands[commandName(name)] == nil {
		b, _ := json.MarshalIndent(helpText(), "", "  ") // texts
		w.Header().Set("Content-Type", "text/plain")
		if commandName(name) != "HELP" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(b) // the client may have left
		return
	}
	a, err := httpArgs(r)
	var out []byte
	if err != nil {
		out = failed(args{}, err)
	} else {
		out = x.run(name, a)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out) // as above
}

// foreign reports whether a browser sends the request for a page from elsewhere.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host != r.Host) || r.Header.Get("Sec-Fetch-Site") == "cross-site"
}

// httpArgs reads a payload from the query, from a form or from JSON.
func httpArgs(r *http.Request) (args, error) {
	a := args{}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxControlLine))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		if len(body) > 0 && json.Unmarshal(body, &a) != nil {
			return nil, fmt.Errorf("body is not an object")
		}
		return a, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	for _, vs := range []url.Values{form, r.URL.Query()} {
		for k := range vs {
			a[k] = lenient(vs.Get(k))
		}
	}
	return a, nil
}

// lenient is a value as JSON if it is that, and a text otherwise.
func lenient(s string) any {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	return v
}
