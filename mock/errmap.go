package mock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// errorMap is what GET_ERROR_MAP answers, ready to send. It never changes once it is made.
type errorMap struct{ v1, v2 []byte }

const errorMapRevision = 1

// errorRows are the codes of version 2 of the map with their attributes (spec 13). The names are memd's.
var errorRows = []struct {
	code  memd.Status
	attrs string
	text  string
}{
	{0x00, "success", "The operation succeeded"},
	{0x01, "item-only", "No such key"},
	{0x02, "item-only", "The key exists, or has another CAS"},
	{0x03, "item-only invalid-input", "The value is too large"},
	{0x04, "internal invalid-input", "The request is malformed"},
	{0x05, "internal item-only", "The item was not stored"},
	{0x06, "item-only invalid-input", "The stored value is not a number"},
	{0x07, "fetch-config invalid-input", "The vbucket is on another node"},
	{0x08, "conn-state-invalidated", "The connection has no bucket"},
	{0x09, "item-locked item-only retry-now", "The item is locked"},
	{0x0a, "conn-state-invalidated", "No stream of that name"},
	{0x0b, "conn-state-invalidated", "The opaque belongs to no stream"},
	{0x0c, "temp retry-later rate-limit", "The request would be throttled"},
	{0x0d, "fetch-config retry-now", "The node has the bucket's configuration only"},
	{0x0e, "item-only", "The item is not locked"},
	{0x0f, "item-only invalid-input", "The CAS is not a valid one"},
	{0x1f, "conn-state-invalidated auth", "The credentials have expired"},
	{0x20, "conn-state-invalidated auth", "The credentials are wrong"},
	{0x21, "special-handling", "The login needs another step"},
	{0x22, "invalid-input", "A number is out of range"},
	{0x23, "dcp special-handling", "The stream must be rolled back"},
	{0x24, "support", "The account has no right to do this"},
	{0x25, "conn-state-invalidated", "The node is being set up"},
	{0x26, "special-handling", "An encryption key is missing"},
	{0x27, "special-handling", "A checksum does not match"},
	{0x28, "item-only system-constraint no-retry", "The expiry is too far away"},
	{0x29, "item-only system-constraint no-retry", "The lock time is too long"},
	{0x30, "temp retry-later rate-limit", "Too many bytes received"},
	{0x31, "temp retry-later rate-limit", "Too many bytes sent"},
	{0x32, "conn-state-invalidated rate-limit", "Too many connections"},
	{0x33, "temp retry-later rate-limit", "Too many commands"},
	{0x35, "item-only system-constraint no-retry", "The bucket is full"},
	{0x36, "item-only system-constraint no-retry", "Too little of the bucket is in memory"},
	{0x37, "item-only system-constraint no-retry", "The bucket's data is too large"},
	{0x38, "item-only system-constraint no-retry", "The disk is almost full"},
	{0x50, "temp retry-later", "The bucket is paused"},
	{0x51, "item-only retry-now", "The operation was cancelled without effect"},
	{0x80, "support", "A frame info is unknown"},
	{0x81, "support", "The command is unknown"},
	{0x82, "temp retry-later", "The node is out of memory"},
	{0x83, "support", "The command is not supported here"},
	{0x84, "internal conn-state-invalidated", "The node is in an unexpected state"},
	{0x85, "temp retry-now", "The node is busy"},
	{0x86, "temp retry-now", "The operation failed for now"},
	{0x87, "invalid-input", "The extended attributes are malformed"},
	{0x88, "invalid-input", "No such collection"},
	{0x89, "retry-later", "There is no manifest of collections yet"},
	{0x8a, "invalid-input", "The manifest cannot be applied"},
	{0x8c, "invalid-input", "No such scope"},
	{0x8d, "invalid-input", "The stream id is invalid"},
	{0xa0, "invalid-input", "The durability level is unknown"},
	{0xa1, "item-only invalid-input", "The durability level cannot be reached"},
	{0xa2, "item-only retry-later", "A durable write of the item is under way"},
	{0xa3, "item-only", "The durable write may have been lost"},
	{0xa4, "item-only retry-later", "A durable write of the item is being repeated"},
	{0xa5, "success", "The scan was cancelled"},
	{0xa6, "success", "The scan has more to give"},
	{0xa7, "success", "The scan is complete"},
	{0xa8, "item-only", "The vbucket has another history"},
	{0xc0, "subdoc item-only", "The path is not in the document"},
	{0xc1, "subdoc item-only", "The path goes through the wrong type"},
	{0xc2, "subdoc invalid-input", "The path is malformed"},
	{0xc3, "subdoc invalid-input", "The path is too long"},
	{0xc4, "subdoc invalid-input", "The document is nested too deep"},
	{0xc5, "subdoc invalid-input", "The value cannot be put there"},
	{0xc6, "subdoc item-only", "The document is not JSON"},
	{0xc7, "subdoc item-only", "The number does not fit"},
	{0xc8, "subdoc item-only", "The delta is not valid"},
	{0xc9, "subdoc item-only", "The path exists"},
	{0xca, "subdoc invalid-input item-only", "The value would be nested too deep"},
	{0xcb, "subdoc invalid-input", "The operations cannot be combined"},
	{0xcc, "subdoc special-handling", "Some of the paths failed"},
	{0xcd, "item-deleted success subdoc", "The operation succeeded on a deleted document"},
	{0xce, "subdoc invalid-input", "The flags of the attribute cannot be combined"},
	{0xcf, "subdoc invalid-input", "The attribute keys cannot be combined"},
	{0xd0, "subdoc invalid-input", "The macro is unknown"},
	{0xd1, "subdoc invalid-input", "The virtual attribute is unknown"},
	{0xd2, "subdoc invalid-input", "The virtual attribute cannot be changed"},
	{0xd3, "item-deleted subdoc special-handling", "Some of the paths failed on a deleted document"},
	{0xd4, "subdoc invalid-input", "Attributes must come first"},
	{0xd5, "subdoc invalid-input", "The macro of the virtual attribute is unknown"},
	{0xd6, "subdoc item-only", "The document is not deleted"},
	{0xd7, "subdoc item-only", "A deleted document cannot have a value"},
	{0xd8, "subdoc item-only", "The field is not a binary value"},
}

// onlyV2 are the attributes that version 1 of the map does not have.
var onlyV2 = map[string]bool{"rate-limit": true, "system-constraint": true, "no-retry": true}

type errorMapJSON struct {
	Version  int                       `json:"version"`
	Revision int                       `json:"revision"`
	Errors   map[string]errorEntryJSON `json:"errors"`
}

type errorEntryJSON struct {
	Name  string          `json:"name"`
	Desc  string          `json:"desc"`
	Attrs []string        `json:"attrs"`
	Retry json.RawMessage `json:"retry,omitempty"`
}

func defaultErrorMap() *errorMap {
	m := errorMapJSON{Version: 2, Revision: errorMapRevision, Errors: map[string]errorEntryJSON{}}
	for _, r := range errorRows {
		m.Errors[fmt.Sprintf("%x", uint16(r.code))] = errorEntryJSON{
			Name: r.code.String(), Desc: r.text, Attrs: strings.Fields(r.attrs),
		}
	}
	v2, _ := json.Marshal(m) // strings and numbers cannot fail
	return newErrorMap(v2)
}

// newErrorMap makes both versions from the text of version 2. A text that is no error map is served as it is.
func newErrorMap(text []byte) *errorMap {
	var m errorMapJSON
	if json.Unmarshal(text, &m) != nil || m.Errors == nil {
		return &errorMap{text, text}
	}
	m.Version = 1
	for code, e := range m.Errors {
		attrs := []string{}
		for _, a := range e.Attrs {
			if !onlyV2[a] {
				attrs = append(attrs, a)
			}
		}
		e.Attrs = attrs
		m.Errors[code] = e
	}
	v1, _ := json.Marshal(m)
	return &errorMap{v1, text}
}

// SetErrorMap replaces the error map that nodes hand out: version 2 as given, version 1 without the attributes that it
// does not have. A text that is no error map is handed out unchanged, to show how a client takes it. Connections ask
// for the map once, when they begin.
func (c *Cluster) SetErrorMap(text []byte) {
	m := newErrorMap(append([]byte(nil), text...))
	c.mu.Lock()
	c.errorMap = m
	c.mu.Unlock()
}

// ErrorMap is the error map that nodes hand out, in version 2.
func (c *Cluster) ErrorMap() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.errorMap.v2)
}

// AddErrorCode puts one more code into the error map: its name, its attributes and, unless nil, the JSON of its retry
// object. The map's revision grows by one.
func (c *Cluster) AddErrorCode(code memd.Status, name string, attrs []string, retry []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m errorMapJSON
	if err := json.Unmarshal(c.errorMap.v2, &m); err != nil {
		return fmt.Errorf("mock: the error map in force is not one: %w", err)
	}
	if m.Errors == nil {
		m.Errors = map[string]errorEntryJSON{}
	}
	m.Revision++
	m.Errors[fmt.Sprintf("%x", uint16(code))] = errorEntryJSON{Name: name, Desc: name, Attrs: attrs, Retry: retry}
	v2, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("mock: retry object: %w", err)
	}
	c.errorMap = newErrorMap(v2)
	return nil
}
