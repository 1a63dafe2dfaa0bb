package management

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Caller is who asks.
type Caller struct {
	Name   string
	Domain string // admin, local or external; empty for a request without credentials
	Rights
}

// Anonymous reports whether the request had no credentials.
func (c *Caller) Anonymous() bool { return c.Domain == "" }

// call is one request that may be served.
type call struct {
	s       *State
	w       http.ResponseWriter
	r       *http.Request
	self    int // number of the node that was asked
	caller  *Caller
	values  map[string]string // the placeholders of the route
	payload []byte            // the body
	form    url.Values        // of the body
}

// object is a JSON object.
type object = map[string]any

func (x *call) value(name string) string { return x.values[name] }

func (x *call) cluster() *Cluster { return x.s.host.Cluster(x.self) }

// version is the cluster's version, as the node that was asked tells it.
func (x *call) version() Version { return x.s.host.Version(x.self) }

// place is the collection that the path names; the default one for paths that name a bucket alone.
func (x *call) place() Place {
	p := Place{x.value("bucket"), x.value("scope"), x.value("collection")}
	if p.Scope == "" {
		p.Scope, p.Collection = "_default", "_default"
	}
	return p
}

// bucket is the bucket that the path names. The router has seen that it exists; when it is gone since, bucket answers
// and returns nil.
func (x *call) bucket() (*Cluster, *Bucket) {
	c := x.cluster()
	if b := c.bucket(x.value("bucket")); b != nil {
		return c, b
	}
	x.notFound()
	return c, nil
}

func (c *Cluster) bucket(name string) *Bucket {
	for i := range c.Buckets {
		if c.Buckets[i].Name == name {
			return &c.Buckets[i]
		}
	}
	return nil
}

// answer sends a body.
func (x *call) answer(status int, kind string, body []byte) {
	h := x.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache,no-store,must-revalidate")
	h.Set("Server", "Couchbase Server")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // the client may have left
}

const jsonKind = "application/json"

func (x *call) json(status int, v any) { x.answer(status, jsonKind, encode(v)) }

func (x *call) send(v any) { x.json(http.StatusOK, v) }

func (x *call) raw(body []byte) { x.answer(http.StatusOK, jsonKind, body) }

func (x *call) text(status int, body string) { x.answer(status, "text/plain", []byte(body)) }

// done is the empty answer of a success.
func (x *call) done() { x.answer(http.StatusOK, jsonKind, nil) }

const noResource = "Requested resource not found.\r\n"

func (x *call) notFound() { x.text(http.StatusNotFound, noResource) }

// wrong answers with errors, each under its field's name; "_" stands for the request.
func (x *call) wrong(errs fields) { x.json(http.StatusBadRequest, object{"errors": errs}) }

// fields are errors or other texts by name.
type fields = map[string]string

// refuse answers with a Host's error: the status and text of a Refusal under "_" of errors.
func (x *call) refuse(err error) {
	status := http.StatusBadRequest
	text := strings.TrimPrefix(err.Error(), "mock: ")
	if r := (*Refusal)(nil); errors.As(err, &r) {
		status, text = r.Status, r.Text
	}
	x.json(status, object{"errors": fields{"_": text}})
}

// finish is done, or the answer to an error.
func (x *call) finish(err error) {
	if err != nil {
		x.refuse(err)
		return
	}
	x.done()
}

// encode is v as JSON, with characters of HTML as they are. It is made of our own maps, strings and numbers, which
// cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// readForm reads the body, which is in memory already, as a form if it says that it is one. Values of the query are not
// among them. JSON that tools send under the name of a form stays readable by body.
func (x *call) readForm() {
	x.payload, _ = io.ReadAll(x.r.Body) // cannot fail, see services.Receive
	x.form = url.Values{}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		x.form, _ = url.ParseQuery(string(x.payload)) // what cannot be read is left out
	}
}

// given is a field of the form, and whether it is there.
func (x *call) given(name string) (string, bool) {
	vs, ok := x.form[name]
	if !ok || len(vs) == 0 {
		return "", false
	}
	return vs[0], true
}

// list splits a field of the form at its commas.
func (x *call) list(name string) []string {
	return strings.FieldsFunc(x.form.Get(name), func(r rune) bool { return r == ',' })
}

// justValidate reports whether the request wants to know whether it would be accepted.
func (x *call) justValidate() bool { return x.r.URL.Query().Get("just_validate") == "1" }

// body decodes the JSON of the request's body into v, or answers and reports false.
func (x *call) body(v any) bool {
	if err := json.Unmarshal(x.payload, v); err != nil {
		x.wrong(fields{"_": "Invalid Json"})
		return false
	}
	return true
}
