package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// errorMap is what GET_ERROR_MAP answers, ready to send. It never changes once it is made.
type errorMap struct{ v1, v2 []byte }

// errorRow is a code of the error map: its attributes in version 2, and its name where a server has another than memd.
type errorRow struct {
	code        memd.Status
	attrs, text string
	name        string
}

// errorRows are the codes of the error map, in the releases that have them. Texts are our own.
var errorRows = []row[errorRow]{
	{errorRow{0x00, "success", "The operation succeeded", ""}, always, 0},
	{errorRow{0x01, "item-only", "No such key", ""}, always, 0},
	{errorRow{0x02, "item-only", "The key exists, or has another CAS", ""}, always, 0},
	{errorRow{0x03, "item-only invalid-input", "The value is too large", ""}, always, 0},
	{errorRow{0x04, "internal invalid-input", "The request is malformed", ""}, always, 0},
	{errorRow{0x05, "internal item-only", "The item was not stored", ""}, always, 0},
	{errorRow{0x06, "item-only invalid-input", "The stored value is not a number", ""}, always, 0},
	{errorRow{0x07, "fetch-config invalid-input", "The vbucket is on another node", ""}, always, 0},
	{errorRow{0x08, "conn-state-invalidated", "The connection has no bucket", ""}, always, 0},
	{errorRow{0x09, "item-locked item-only retry-now", "The item is locked", ""}, always, 0},
	{errorRow{0x0a, "conn-state-invalidated", "No stream of that name", "STREAM_NOT_FOUND"}, v70, 0},
	{errorRow{0x0b, "conn-state-invalidated", "The opaque belongs to no stream", ""}, v70, 0},
	{errorRow{0x0c, "temp retry-later rate-limit", "The request would be throttled", ""}, v76, 0},
	{errorRow{0x0d, "fetch-config retry-now", "The node has the bucket's configuration only", ""}, v76, 0},
	{errorRow{0x0e, "item-only", "The item is not locked", ""}, v76, 0},
	{errorRow{0x0f, "item-only", "The CAS is not a valid one", ""}, v80, 0},
	{errorRow{0x1f, "conn-state-invalidated auth", "The credentials have expired", ""}, always, 0},
	{errorRow{0x20, "conn-state-invalidated auth", "The credentials are wrong", ""}, always, 0},
	{errorRow{0x21, "special-handling", "The login needs another step", ""}, always, 0},
	{errorRow{0x22, "invalid-input", "A number is out of range", ""}, always, 0},
	{errorRow{0x23, "dcp special-handling", "The stream must be rolled back", ""}, always, 0},
	{errorRow{0x24, "support", "The account has no right to do this", ""}, always, 0},
	{errorRow{0x25, "conn-state-invalidated", "The node is being set up", ""}, always, 0},
	{errorRow{0x26, "special-handling", "An encryption key is missing", ""}, v80, 0},
	{errorRow{0x27, "special-handling", "A checksum does not match", ""}, v80, 0},
	{errorRow{0x28, "item-only system-constraint no-retry", "The expiry is too far away", ""}, unreleased, 0},
	{errorRow{0x29, "item-only system-constraint no-retry", "The lock time is too long", ""}, unreleased, 0},
	{errorRow{0x30, "temp retry-later rate-limit", "Too many bytes received", ""}, v71, 0},
	{errorRow{0x31, "temp retry-later rate-limit", "Too many bytes sent", ""}, v71, 0},
	{errorRow{0x32, "conn-state-invalidated rate-limit", "Too many connections", ""}, v71, 0},
	{errorRow{0x33, "temp retry-later rate-limit", "Too many commands", ""}, v71, 0},
	{errorRow{0x34, "item-only rate-limit", "The scope is full", ""}, v71, 0},
	{errorRow{0x35, "item-only system-constraint no-retry", "The bucket is full", ""}, v76, 0},
	{errorRow{0x36, "item-only system-constraint no-retry", "Too little of the bucket is in memory", ""}, v76, 0},
	{errorRow{0x37, "item-only system-constraint no-retry", "The bucket's data is too large", ""}, v76, 0},
	{errorRow{0x38, "item-only system-constraint no-retry", "The disk is almost full", ""}, v76, 0},
	{errorRow{0x50, "support", "The bucket is paused", ""}, v76, 0},
	{errorRow{0x51, "item-only retry-now", "The operation was cancelled without effect", ""}, v76, 0},
	{errorRow{0x80, "support", "A frame info is unknown", ""}, always, 0},
	{errorRow{0x81, "support", "The command is unknown", ""}, always, 0},
	{errorRow{0x82, "temp retry-later", "The node is out of memory", ""}, always, 0},
	{errorRow{0x83, "support", "The command is not supported here", ""}, always, 0},
	{errorRow{0x84, "internal conn-state-invalidated", "The node is in an unexpected state", ""}, always, 0},
	{errorRow{0x85, "temp retry-now", "The node is busy", ""}, always, 0},
	{errorRow{0x86, "temp retry-now", "The operation failed for now", ""}, always, 0},
	{errorRow{0x87, "invalid-input", "The extended attributes are malformed", ""}, always, 0},
	{errorRow{0x88, "invalid-input", "No such collection", ""}, always, 0},
	{errorRow{0x89, "retry-later", "There is no manifest of collections yet", ""}, always, 0},
	{errorRow{0x8a, "invalid-input", "The manifest cannot be applied", ""}, always, 0},
	{
		errorRow{0x8b, "retry-later", "The manifest is newer than this one", "COLLECTIONS_MANIFEST_IS_AHEAD"},
		always, v70,
	},
	{errorRow{0x8c, "invalid-input", "No such scope", ""}, always, 0},
	{errorRow{0x8d, "invalid-input", "The stream id is invalid", "DCP stream-ID invalid"}, always, 0},
	{errorRow{0xa0, "invalid-input", "The durability level is unknown", "DurabilityInvalidLevel"}, always, 0},
	{
		errorRow{0xa1, "item-only retry-later", "The durability level cannot be reached", "DurabilityImpossible"},
		always, v70,
	},
	{
		errorRow{0xa1, "item-only invalid-input", "The durability level cannot be reached", "DurabilityImpossible"},
		v70, 0,
	},
	{
		errorRow{0xa2, "item-only retry-later", "A durable write of the item is under way", "SyncWriteInProgress"},
		always, 0,
	},
	{errorRow{0xa3, "item-only", "The durable write may have been lost", "SyncWriteAmbiguous"}, always, 0},
	{
		errorRow{0xa4, "item-only retry-later", "A durable write is being repeated", "SyncWriteReCommitInProgress"},
		always, 0,
	},
	{errorRow{0xa5, "success", "The scan was cancelled", "RangeScanCancelled"}, v76, 0},
	{errorRow{0xa6, "success", "The scan has more to give", "RangeScanMore"}, v76, 0},
	{errorRow{0xa7, "success", "The scan is complete", "RangeScanComplete"}, v76, 0},
	{errorRow{0xa8, "invalid-input", "The vbucket has another history", "VbUuidNotEqual"}, v76, 0},
	{errorRow{0xc0, "subdoc item-only", "The path is not in the document", ""}, always, 0},
	{errorRow{0xc1, "subdoc item-only", "The path goes through the wrong type", ""}, always, 0},
	{errorRow{0xc2, "subdoc invalid-input", "The path is malformed", ""}, always, 0},
	{errorRow{0xc3, "subdoc invalid-input", "The path is too long", ""}, always, 0},
	{errorRow{0xc4, "subdoc invalid-input", "The document is nested too deep", "SUBDOC_PATH_E2DEEP"}, always, 0},
	{errorRow{0xc5, "subdoc invalid-input", "The value cannot be put there", ""}, always, 0},
	{errorRow{0xc6, "subdoc item-only", "The document is not JSON", ""}, always, 0},
	{errorRow{0xc7, "subdoc item-only", "The number does not fit", ""}, always, 0},
	{errorRow{0xc8, "subdoc item-only", "The delta is not valid", ""}, always, 0},
	{errorRow{0xc9, "subdoc item-only", "The path exists", ""}, always, 0},
	{errorRow{0xca, "subdoc invalid-input item-only", "The value would be nested too deep", ""}, always, 0},
	{errorRow{0xcb, "subdoc invalid-input", "The operations cannot be combined", ""}, always, 0},
	{errorRow{0xcc, "subdoc special-handling", "Some of the paths failed", ""}, always, 0},
	{errorRow{0xcd, "item-deleted success subdoc", "The operation succeeded on a deleted document", ""}, always, 0},
	{errorRow{0xce, "subdoc invalid-input", "The flags of the attribute cannot be combined", ""}, always, 0},
	{errorRow{0xcf, "subdoc invalid-input", "The attribute keys cannot be combined", ""}, always, 0},
	{errorRow{0xd0, "subdoc invalid-input", "The macro is unknown", ""}, always, 0},
	{errorRow{0xd1, "subdoc invalid-input", "The virtual attribute is unknown", ""}, always, 0},
	{errorRow{0xd2, "subdoc invalid-input", "The virtual attribute cannot be changed", ""}, always, 0},
	{
		errorRow{0xd3, "item-deleted subdoc special-handling", "Some of the paths failed on a deleted document", ""},
		always, 0,
	},
	{errorRow{0xd4, "subdoc invalid-input", "Attributes must come first", ""}, always, 0},
	{errorRow{0xd5, "subdoc invalid-input", "The macro of the virtual attribute is unknown", ""}, v70, 0},
	{errorRow{0xd6, "subdoc item-only", "The document is not deleted", ""}, v70, 0},
	{errorRow{0xd7, "subdoc item-only", "A deleted document cannot have a value", ""}, v70, 0},
	{errorRow{0xd8, "subdoc item-only", "The field is not a binary value", ""}, v762, 0},
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

// errorMapRevisions are the revisions of the map: of version 1 until 7.1, then of version 2.
var errorMapRevisions = []row[int]{
	{2, always, v70}, {4, v70, v71}, {1, v71, v76}, {4, v76, v762}, {5, v762, v80}, {6, v80, 0},
}

// revisionsOfV1 is how much higher the revision of a version 1 is that was made of a version 2.
const revisionsOfV1 = 4

// defaultErrorMap is the error map of a release.
func defaultErrorMap(r release) *errorMap {
	m := errorMapJSON{Version: 2, Errors: map[string]errorEntryJSON{}}
	for _, row := range errorMapRevisions {
		if row.holds(r) {
			m.Revision = row.what
		}
	}
	for _, row := range errorRows {
		if row.holds(r) {
			m.Errors[fmt.Sprintf("%x", uint16(row.what.code))] = errorEntryJSON{
				Name: cmp.Or(row.what.name, row.what.code.String()), Desc: row.what.text,
				Attrs: strings.Fields(row.what.attrs),
			}
		}
	}
	if r < v71 {
		m.Version = 1
		v1, _ := json.Marshal(m) // strings and numbers cannot fail
		return &errorMap{v1, v1}
	}
	v2, _ := json.Marshal(m)
	return newErrorMap(v2)
}

// newErrorMap makes both versions from the text of version 2. A text that is no error map, or one of version 1, is
// served as it is.
func newErrorMap(text []byte) *errorMap {
	var m errorMapJSON
	if json.Unmarshal(text, &m) != nil || m.Errors == nil || m.Version == 1 {
		return &errorMap{text, text}
	}
	m.Version = 1
	m.Revision += revisionsOfV1
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
// for the map once, when they begin; a client keeps the map with the highest revision, and a server's is below 10.
func (c *Cluster) SetErrorMap(text []byte) {
	m := newErrorMap(append([]byte(nil), text...))
	c.mu.Lock()
	for _, p := range c.profiles {
		p.errors = m
	}
	c.mu.Unlock()
}

// ErrorMap is the error map that node 0 hands out, in the newest version that it has.
func (c *Cluster) ErrorMap() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes[0].profile.errors.v2)
}

// AddErrorCode puts one more code into the error maps: its name, its attributes and, unless nil, the JSON of its retry
// object. The maps' revisions grow by one.
func (c *Cluster) AddErrorCode(code memd.Status, name string, attrs []string, retry []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[*profile]*errorMap{}
	for _, p := range c.profiles {
		m, err := p.errors.with(code, errorEntryJSON{Name: name, Desc: name, Attrs: attrs, Retry: retry})
		if err != nil {
			return err
		}
		next[p] = m
	}
	for p, m := range next {
		p.errors = m
	}
	return nil
}

// with is the map with one more code, under the next revision.
func (m *errorMap) with(code memd.Status, e errorEntryJSON) (*errorMap, error) {
	var next errorMapJSON
	if err := json.Unmarshal(m.v2, &next); err != nil {
		return nil, fmt.Errorf("mock: the error map in force is not one: %w", err)
	}
	if next.Errors == nil {
		next.Errors = map[string]errorEntryJSON{}
	}
	next.Revision++
	next.Errors[fmt.Sprintf("%x", uint16(code))] = e
	v2, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("mock: retry object: %w", err)
	}
	return newErrorMap(v2), nil
}
