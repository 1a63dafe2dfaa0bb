package mock

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

// ServeControl speaks CouchbaseMock's control protocol on a connection: it sends the number of node 0's management port
// and a zero byte, and then answers one command per line. It returns when the connection or the cluster ends, with the
// connection closed: nil for an end at a line's end, otherwise why. Commands come as {"command":..., "payload":{...}}.
func (c *Cluster) ServeControl(nc net.Conn) error {
	done := make(chan struct{})
	defer close(done)
	if !c.spawn(func() {
		select {
		case <-c.done:
		case <-done:
		}
		nc.Close()
	}) {
		nc.Close()
		return net.ErrClosed
	}
	if _, err := fmt.Fprintf(nc, "%d\x00", portOf(c.Node(0).ManagementAddr())); err != nil {
		return err
	}
	lines := bufio.NewScanner(nc)
	lines.Buffer(make([]byte, 0, 4096), maxControlLine)
	for lines.Scan() {
		if _, err := nc.Write(append(c.controlLine(lines.Bytes()), '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// controlLine answers one line.
func (c *Cluster) controlLine(line []byte) []byte {
	var rq struct {
		Command *string         `json:"command"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(line, &rq) != nil || rq.Command == nil {
		return []byte(`{ "status" : "fail", "error" : "Failed to parse input" }`)
	}
	return c.Control(*rq.Command, rq.Payload)
}

// withControl puts the control commands before a handler of the management service.
func (n *Node) withControl(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, controlPath)
		switch {
		case !ok:
			next.ServeHTTP(w, r)
		case foreign(r):
			http.Error(w, "Control commands are for programs and for this host's own pages.", http.StatusForbidden)
		default:
			n.controlHTTP(w, r, name)
		}
	})
}

// foreign reports whether a browser sends the request for a page from elsewhere.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host != r.Host) || r.Header.Get("Sec-Fetch-Site") == "cross-site"
}

func (n *Node) controlHTTP(w http.ResponseWriter, r *http.Request, name string) {
	if commandName(name) == "HELP" || controlCommands[commandName(name)] == nil {
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
		out = controlFailed(args{}, err)
	} else {
		out = n.c.control(name, a)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out) // as above
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
			return nil, fmt.Errorf("body is no object")
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
