package control

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// mockCluster is what routes without a function of their own call.
type mockCluster = mock.Cluster

// opcode reads the name of an opcode, or its number.
func opcode(field, s string) (memd.Opcode, error) {
	for i := range 256 {
		if op := memd.Opcode(i); op.Known() && strings.EqualFold(op.String(), s) {
			return op, nil
		}
	}
	if n, err := strconv.ParseUint(s, 0, 8); err == nil {
		return memd.Opcode(n), nil
	}
	return 0, invalid(field, "%q is not the name or the number of an opcode", s)
}

// status reads the name of a status, or its number.
func status(field, s string) (memd.Status, error) {
	for i := range 256 {
		if st := memd.Status(i); st.Known() && strings.EqualFold(st.String(), s) {
			return st, nil
		}
	}
	if n, err := strconv.ParseUint(s, 0, 16); err == nil {
		return memd.Status(n), nil
	}
	return 0, invalid(field, "%q is not the name or the number of a status", s)
}

// durabilityNames are the levels by number.
var durabilityNames = []string{"", "majority", "majority_and_persist_to_active", "persist_to_majority"}

var serviceNames = map[string]mock.Service{
	"": mock.KVService, "management": mock.ManagementService, "views": mock.ViewsService, "query": mock.QueryService,
	"search": mock.SearchService, "analytics": mock.AnalyticsService, "eventing": mock.EventingService,
}

// service reads the name of a service; empty means all.
func service(field, s string) (mock.Service, error) {
	if v, ok := serviceNames[s]; ok {
		return v, nil
	}
	return 0, invalid(field,
		"%q is not a service: there are query, search, analytics, views, eventing and management", s)
}

// serviceName is the name of a service.
func serviceName(s mock.Service) string {
	for name, v := range serviceNames {
		if v == s {
			return name
		}
	}
	return s.String()
}

// number reads a text of a number of 64 bits.
func number(field, s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, invalid(field, "%q is not a number of 64 bits", s)
	}
	return n, nil
}

// bytesOf reads bytes that are given as text or in base64.
func bytesOf(field, text, encoded string) ([]byte, error) {
	if encoded == "" {
		if text == "" {
			return nil, nil
		}
		return []byte(text), nil
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, invalid(field+"_base64", "%v", err)
	}
	return b, nil
}

// textOf gives bytes as text, or in base64 when they are not text.
func textOf(b []byte) (text, encoded string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// node is the number of a node in the path.
func (c *call) node() (int, error) {
	n, err := strconv.Atoi(c.r.PathValue("node"))
	if err != nil || n < 0 || n >= len(c.x.c.Nodes()) {
		return 0, notFound("node", "there is no node %s", c.r.PathValue("node"))
	}
	return n, nil
}

// nodes checks a list of numbers of nodes.
func (c *call) nodes(field string, list []int) error {
	count := len(c.x.c.Nodes())
	for i, n := range list {
		if n < 0 || n >= count {
			return invalid(fmt.Sprintf("%s[%d]", field, i), "there is no node %d", n)
		}
	}
	return nil
}

// bucket is the bucket in the path, which exists.
func (c *call) bucket() (string, error) {
	return c.x.known("bucket", c.r.PathValue("bucket"))
}

func (x *API) known(field, name string) (string, error) {
	if name == "" || x.c.ConfigJSON(name) == nil {
		return "", notFound(field, "there is no bucket %q", name)
	}
	return name, nil
}

// query fills in a structure from the parameters of the request: texts, numbers, booleans and lists of texts, by the
// names in the tags.
func (c *call) query(v any) error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("query", "%v", err)
	}
	s := reflect.ValueOf(v).Elem()
	known := map[string]reflect.Value{}
	if s.Kind() == reflect.Struct {
		for i := range s.NumField() {
			known[memberName(s.Type().Field(i))] = s.Field(i)
		}
	}
	for name, texts := range values {
		to, ok := known[name]
		if !ok {
			return invalid(name, "there is no such parameter")
		}
		if err := setParameter(to, texts); err != nil {
			return invalid(name, "%v", err)
		}
	}
	return nil
}

func setParameter(to reflect.Value, texts []string) error {
	text := texts[len(texts)-1]
	switch to.Kind() {
	case reflect.String:
		to.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		to.SetBool(b)
	case reflect.Slice:
		to.Set(reflect.ValueOf(strings.Split(strings.Join(texts, ","), ",")))
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || to.OverflowInt(n) {
			return fmt.Errorf("%q is not a number that fits", text)
		}
		to.SetInt(n)
	}
	return nil
}

// memberName is the name of a field in JSON.
func memberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
