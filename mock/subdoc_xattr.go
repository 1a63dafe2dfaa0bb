package mock

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
)

const (
	maxXattrName  = 15
	maxXattrBytes = 1 << 20 // of a document's attributes together
)

// xattr is one extended attribute. Its value is JSON.
type xattr struct {
	name  string
	value []byte
}

// xattrs are a document's extended attributes, in the order they were made. They are never changed in place.
type xattrs []xattr

func (x xattrs) get(name string) []byte {
	for i := range x {
		if x[i].name == name {
			return x[i].value
		}
	}
	return nil
}

// with are the attributes with one changed, or added at the end; a nil value takes it out.
func (x xattrs) with(name string, value []byte) xattrs {
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

// system are the attributes that outlive the document.
func (x xattrs) system() xattrs {
	var out xattrs
	for _, a := range x {
		if strings.HasPrefix(a.name, "_") {
			out = append(out, a)
		}
	}
	return out
}

func (x xattrs) size() int {
	n := 0
	for _, a := range x {
		n += 6 + len(a.name) + len(a.value)
	}
	return n
}

// section is the attributes as they stand before a value on the wire.
func (x xattrs) section(body []byte) []byte {
	var pairs memd.Xattrs
	for _, a := range x {
		pairs, _ = memd.AppendXattr(pairs, a.name, a.value) // neither a name nor JSON has a zero byte
	}
	return memd.JoinXattrs(pairs, body)
}

// parseXattrs splits a value that has a section of attributes.
func parseXattrs(value []byte) (x xattrs, body []byte, ok bool) {
	pairs, body, err := memd.SplitXattrs(value)
	if err != nil {
		return nil, nil, false
	}
	for name, v := range pairs.All() {
		if len(name) > maxXattrName || !json.Valid(v) || x.get(name) != nil {
			return nil, nil, false
		}
		x = append(x, xattr{name, bytes.Clone(v)})
	}
	return x, body, true
}

const binaryPrefix = "cb-content-base64-encoded:"

func encodeBinary(b []byte) []byte {
	return []byte(`"` + binaryPrefix + base64.StdEncoding.EncodeToString(b) + `"`)
}

func decodeBinary(text []byte) ([]byte, bool) {
	s, ok := strings.CutPrefix(strings.Trim(string(text), `"`), binaryPrefix)
	if !ok {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	return b, err == nil
}

func isVirtual(name string) bool {
	return name == "$document" || name == "$XTOC" || name == "$vbucket"
}

// virtual is the value of a virtual attribute of a document.
func (d *doc) virtual(name string, uuid uint64, now time.Time, deleted bool) []byte {
	var v any
	switch name {
	case "$XTOC":
		names := []string{}
		for _, a := range d.xattrs {
			names = append(names, a.name)
		}
		v = names
	case "$vbucket":
		v = map[string]any{"HLC": map[string]string{"now": strconv.FormatInt(now.Unix(), 10), "mode": "real"}}
	default:
		v = d.describe(uuid, deleted)
	}
	text, _ := json.Marshal(v) // texts and numbers cannot fail
	return text
}

// documentJSON is the virtual attribute $document.
type documentJSON struct {
	CAS          string   `json:"CAS"`
	UUID         string   `json:"vbucket_uuid"`
	Seqno        string   `json:"seqno"`
	RevID        string   `json:"revid"`
	Expiry       int64    `json:"exptime"`
	Flags        uint32   `json:"flags"`
	Bytes        int      `json:"value_bytes"`
	Datatype     []string `json:"datatype"`
	Deleted      bool     `json:"deleted"`
	LastModified string   `json:"last_modified"`
	CRC          string   `json:"value_crc32c"`
}

func (d *doc) describe(uuid uint64, deleted bool) documentJSON {
	var types []string
	for _, t := range []struct {
		bit  memd.Datatype
		name string
	}{{memd.DatatypeJSON, "json"}, {memd.DatatypeSnappy, "snappy"}, {memd.DatatypeXattr, "xattr"}} {
		if d.types()&t.bit != 0 {
			types = append(types, t.name)
		}
	}
	if types == nil {
		types = []string{"raw"}
	}
	return documentJSON{
		CAS: hex64(d.cas), UUID: hex64(uuid), Seqno: hex64(d.seqno), RevID: strconv.FormatUint(d.rev, 10),
		Expiry: d.expiry, Flags: d.flags, Bytes: len(d.value), Datatype: types, Deleted: deleted,
		LastModified: strconv.FormatInt(d.modified, 10), CRC: crcText(d.value),
	}
}

func hex64(n uint64) string { return fmt.Sprintf("0x%016x", n) }

func crcText(body []byte) string {
	return fmt.Sprintf("0x%08x", crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

const (
	macroCAS      = `"${Mutation.CAS}"`
	macroSeqno    = `"${Mutation.seqno}"`
	macroCRC      = `"${Mutation.value_crc32c}"`
	macroDocument = `"${$document`
)

// checkMacro refuses a value that is no macro.
func checkMacro(value []byte, f memd.Features) memd.Status {
	text := string(value)
	switch {
	case text == macroCAS, text == macroSeqno, text == macroCRC:
		return memd.StatusSuccess
	case !strings.HasPrefix(text, macroDocument), !f.Has(memd.FeatureSubdocDocumentMacro):
		return memd.StatusSubdocXattrUnknownMacro
	}
	empty := doc{}
	if empty.macroField(text, 0) == nil {
		return memd.StatusSubdocXattrUnknownVattrMacro
	}
	return memd.StatusSuccess
}

// macroField is what a macro of the document stands for, nil when there is no such one.
func (d *doc) macroField(macro string, uuid uint64) []byte {
	field, ok := strings.CutSuffix(strings.TrimPrefix(macro, macroDocument), `}"`)
	if !ok || field != "" && field[0] != '.' {
		return nil
	}
	whole := d.virtual("$document", uuid, time.Time{}, d.deleted)
	if field == "" {
		return whole
	}
	parts, st := parsePath(field[1:])
	if st != memd.StatusSuccess || len(parts) == 0 {
		return nil
	}
	text, st := readPath(whole, parts)
	if st != memd.StatusSuccess {
		return nil
	}
	return text
}

// mutation is what macros of a mutation stand for.
type mutation struct {
	cas, seqno, uuid uint64
	crc              string // of the body afterwards; "" when it is not known yet
	old              *doc
}

// expand is the text that a macro stands for.
func (m *mutation) expand(macro []byte) []byte {
	switch string(macro) {
	case macroCAS: // the bytes of the CAS, least significant first
		return fmt.Appendf(nil, `"0x%x"`, binary.LittleEndian.AppendUint64(nil, m.cas))
	case macroSeqno:
		return []byte(`"` + hex64(m.seqno) + `"`)
	case macroCRC:
		return []byte(`"` + m.crc + `"`)
	}
	return m.old.macroField(string(macro), m.uuid)
}
