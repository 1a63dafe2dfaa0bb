package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// maxXattrBytes is the limit of a document's attributes together.
const maxXattrBytes = 1 << 20

// xattr is one extended attribute. Its value is JSON.
type xattr struct {
	name  string
	value []byte
}

// Xattrs are a document's extended attributes, in the order of their names once a path has changed one. They are never
// changed in place.
type Xattrs []xattr

// kept are the attributes as a document has them.
func (x Xattrs) kept() *Xattrs {
	if len(x) == 0 {
		return nil
	}
	return &x
}

// Without are the attributes but for one.
func (x Xattrs) Without(name string) Xattrs { return x.with(name, nil) }

// Value is the value of an attribute, nil without one.
func (x Xattrs) Value(name string) []byte {
	for i := range x {
		if x[i].name == name {
			return x[i].value
		}
	}
	return nil
}

// with are the attributes with one changed, or added at the end; a nil value takes it out.
func (x Xattrs) with(name string, value []byte) Xattrs {
	out := slices.Clone(x)
	i := slices.IndexFunc(out, func(a xattr) bool { return a.name == name })
	switch {
	case value == nil && i >= 0:
		return slices.Delete(out, i, i+1)
	case value == nil:
		return out
	case i >= 0:
		out[i].value = value
		return out
	}
	return append(out, xattr{name, value})
}

// rewritten are the attributes as a server leaves them that has changed one: it reads them all as one JSON object and
// writes that again, with members in the order of their names and without spaces. Numbers stay as they are written.
func (x Xattrs) rewritten() Xattrs {
	out := slices.Clone(x)
	for i := range out {
		out[i].value = rewritten(out[i].value)
	}
	slices.SortFunc(out, func(a, b xattr) int { return strings.Compare(a.name, b.name) })
	return out
}

func rewritten(value []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	_ = d.Decode(&v) // attributes are JSON
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what was JSON is JSON again
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// system are the attributes that outlive the document.
func (x Xattrs) system() Xattrs {
	var out Xattrs
	for _, a := range x {
		if strings.HasPrefix(a.name, "_") {
			out = append(out, a)
		}
	}
	return out
}

func (x Xattrs) size() int {
	n := 0
	for _, a := range x {
		n += 6 + len(a.name) + len(a.value)
	}
	return n
}

// Section is the attributes as they stand before a value on the wire.
func (x Xattrs) Section(body []byte) []byte {
	var pairs memd.Xattrs
	for _, a := range x {
		pairs, _ = memd.AppendXattr(pairs, a.name, a.value) // neither a name nor JSON has a zero byte
	}
	return memd.JoinXattrs(pairs, body)
}

// ParseXattrs splits a value that has a section of attributes.
func ParseXattrs(value []byte) (x Xattrs, body []byte, ok bool) {
	pairs, body, err := memd.SplitXattrs(value)
	if err != nil {
		return nil, nil, false
	}
	for name, v := range pairs.All() {
		if len(name) > subdoc.MaxXattrName || !json.Valid(v) || x.Value(name) != nil {
			return nil, nil, false
		}
		x = append(x, xattr{name, bytes.Clone(v)})
	}
	return x, body, true
}

// virtual is the value of a virtual attribute of a document, nil when no attribute has that name.
func (d *doc) virtual(name string, uuid uint64, now time.Time, deleted bool) []byte {
	var v any
	switch name {
	case "$XTOC":
		names := []string{}
		for _, a := range d.xattrs() {
			names = append(names, a.name)
		}
		v = names
	case "$vbucket":
		v = map[string]any{"HLC": map[string]string{"now": strconv.FormatInt(now.Unix(), 10), "mode": "real"}}
	case "$document":
		v = d.describe(uuid, now, deleted)
	default:
		return nil
	}
	text, _ := json.Marshal(v) // texts and numbers cannot fail
	return text
}

// documentJSON is the virtual attribute $document, whose members are in the order of their names.
type documentJSON struct {
	CAS          string   `json:"CAS"`
	Datatype     []string `json:"datatype"`
	Deleted      bool     `json:"deleted"`
	Expiry       int64    `json:"exptime"`
	Flags        uint32   `json:"flags"`
	LastModified string   `json:"last_modified"`
	RevID        string   `json:"revid"`
	Seqno        string   `json:"seqno"`
	Bytes        int      `json:"value_bytes"`
	CRC          string   `json:"value_crc32c"`
	UUID         string   `json:"vbucket_uuid"`
}

func (d *doc) describe(uuid uint64, now time.Time, deleted bool) documentJSON {
	var types []string
	for _, t := range []struct {
		bit  memd.Datatype
		name string
	}{{memd.DatatypeSnappy, "snappy"}, {memd.DatatypeJSON, "json"}, {memd.DatatypeXattr, "xattr"}} {
		if d.types()&t.bit != 0 {
			types = append(types, t.name)
		}
	}
	if types == nil {
		types = []string{"raw"}
	}
	modified := int64(d.modified)
	if d.isLocked(now) {
		modified = 0 // a server takes it from the CAS, as nanoseconds with a sign
	}
	return documentJSON{
		CAS: hex64(d.readCAS(now)), UUID: hex64(uuid), Seqno: hex64(d.seqno), RevID: strconv.FormatUint(d.rev, 10),
		Expiry: int64(d.expiry), Flags: d.flags, Bytes: len(d.value), Datatype: types, Deleted: deleted,
		LastModified: strconv.FormatInt(modified, 10), CRC: crcText(d.value),
	}
}

func hex64(n uint64) string { return fmt.Sprintf("0x%016x", n) }

func crcText(body []byte) string {
	return fmt.Sprintf("0x%08x", crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// macroFields are the members of $document that macros stand for.
var macroFields = []string{
	"CAS", "datatype", "deleted", "exptime", "flags", "last_modified", "revid", "seqno", "value_bytes", "vbucket_uuid",
}

// macroField is what a macro of the document stands for, nil when there is no such one.
func (d *doc) macroField(macro string, uuid uint64, now time.Time) []byte {
	field := strings.TrimSuffix(strings.TrimPrefix(macro, subdoc.MacroDocument), subdoc.MacroEnd)
	whole := d.virtual("$document", uuid, now, d.deleted)
	if field == "" {
		return whole
	}
	name, ok := strings.CutPrefix(field, ".")
	if !ok || !slices.Contains(macroFields, name) {
		return nil
	}
	return subdoc.Member(whole, name)
}

// mutation is what macros of a mutation stand for.
type mutation struct {
	cas, seqno, uuid uint64
	crc              string // of the body afterwards; "" when it is not known yet
	old              *doc
	now              time.Time
}

// expand is the text that a macro stands for, nil for a field of $document that there is not.
func (m *mutation) expand(macro []byte) []byte {
	switch string(macro) {
	case subdoc.MacroCAS: // the bytes of the CAS, least significant first
		return fmt.Appendf(nil, `"0x%x"`, binary.LittleEndian.AppendUint64(nil, m.cas))
	case subdoc.MacroSeqno:
		return []byte(`"` + hex64(m.seqno) + `"`)
	case subdoc.MacroCRC:
		return []byte(`"` + m.crc + `"`)
	}
	return m.old.macroField(string(macro), m.uuid, m.now)
}
