package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Options are the limits of a map; 0 means 16 MiB and a depth of 128.
type Options struct {
	MaxBytes int
	MaxDepth int
	TLS      bool // which ports of the data service the client uses: these must be right
}

// Limits of what a map may contain.
const (
	MaxVBuckets = 1 << 16 // as many as a 16-bit vbucket id can name
	MaxReplicas = 3
	MaxNodes    = 8192 // also of the other lists, and of an object's members
)

// Size is the limit of a map's bytes.
func (o Options) Size() int {
	if o.MaxBytes <= 0 {
		return 16 << 20
	}
	return o.MaxBytes
}

// CheckSize says that a map of n bytes is too large.
func (o Options) CheckSize(n int) error {
	if n <= o.Size() {
		return nil
	}
	return &ParseError{Field: "size in bytes", Value: int64(n), Limit: int64(o.Size())}
}

// ParseError names the field of a map that cannot be used, and the limit it breaks if it is one of size.
type ParseError struct {
	Field string
	Value int64
	Limit int64
	Err   error
}

// Error is one line, without anything of the map but the offending number.
func (e *ParseError) Error() string {
	s := "cluster map: " + e.Field
	if e.Limit != 0 {
		s += fmt.Sprintf(" is %d, limit %d", e.Value, e.Limit)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause, which may be nil.
func (e *ParseError) Unwrap() error { return e.Err }

// document is what is read of a map. What routing needs must be right: the version, the bucket's name and id, the rows
// of vbuckets, the nodes and their hosts, the ports of the data service. All else is optional, and a value of another
// type than expected is as good as absent: servers of other versions, and substitutes of servers, write such maps.
type document struct {
	rev, epoch                        value
	name, uuid, locator               value
	manifest, caps, clusterCaps       value
	clusterUUID, clusterName, product value
	vbuckets, nodes, nodesExt         value
}

// readDocument finds the members. Their names match exactly.
func readDocument(v value) (d document) {
	for name, m := range v.members() {
		switch string(name) {
		case "rev":
			d.rev = m
		case "revEpoch":
			d.epoch = m
		case "name":
			d.name = m
		case "uuid":
			d.uuid = m
		case "nodeLocator":
			d.locator = m
		case "collectionsManifestUid":
			d.manifest = m
		case "bucketCapabilities":
			d.caps = m
		case "clusterCapabilities":
			d.clusterCaps = m
		case "clusterUUID":
			d.clusterUUID = m
		case "clusterName":
			d.clusterName = m
		case "prod":
			d.product = m
		case "vBucketServerMap":
			d.vbuckets = m
		case "nodes":
			d.nodes = m
		case "nodesExt":
			d.nodesExt = m
		}
	}
	return d
}

// Parse reads a map that came from the node at sourceHost, whose name stands in for $HOST and for absent host names.
// It copies what it keeps of raw. The error is a *ParseError.
func Parse(raw []byte, sourceHost string, o Options) (*Snapshot, error) {
	if o.MaxDepth <= 0 {
		o.MaxDepth = 128
	}
	sourceHost = unbracketed(sourceHost)
	host := sourceHost
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	quoted, err := json.Marshal(host)
	if err != nil {
		return nil, &ParseError{Field: "source host", Err: err}
	}
	quoted = quoted[1 : len(quoted)-1]
	size := len(raw)
	placeholder := []byte("$HOST")
	places := bytes.Count(raw, placeholder)
	size += places * max(0, len(quoted)-len(placeholder))
	if err := o.CheckSize(size); err != nil {
		return nil, err
	}
	if d := depth(raw); d > o.MaxDepth {
		return nil, &ParseError{Field: "depth", Value: int64(d), Limit: int64(o.MaxDepth)}
	}
	if places > 0 {
		raw = bytes.ReplaceAll(raw, placeholder, quoted)
	}
	if !json.Valid(raw) {
		var all json.RawMessage
		return nil, &ParseError{Field: "document", Err: json.Unmarshal(raw, &all)}
	}
	if err := check(raw); err != nil {
		return nil, err
	}
	top := part(raw[skipSpace(raw, 0):])
	if len(top) > 0 && !top.is('{') {
		return nil, top.mismatch("document")
	}
	d := readDocument(top)
	return d.snapshot(sourceHost, o.TLS)
}

func (d *document) snapshot(sourceHost string, tls bool) (*Snapshot, error) {
	s := &Snapshot{
		ClusterUUID: d.clusterUUID.textOr(""), ClusterName: d.clusterName.textOr(""), Product: d.product.textOr(""),
		ManifestUID: d.manifestUID(),
	}
	if err := d.identify(s); err != nil {
		return nil, err
	}
	if err := d.capabilities(s); err != nil {
		return nil, err
	}
	if err := d.readNodes(s, sourceHost, tls); err != nil {
		return nil, err
	}
	if len(s.Nodes) == 0 {
		return nil, &ParseError{Field: "nodes", Err: errors.New("has no entries")}
	}
	switch s.Locator {
	case LocatorVBucket:
		if err := readVBuckets(d.vbuckets, s); err != nil {
			return nil, err
		}
	case LocatorKetama:
		s.ring = newRing(s)
	case LocatorNone:
	}
	return s, nil
}

// identify reads what the map is of, and its version.
func (d *document) identify(s *Snapshot) (err error) {
	if s.Rev, err = d.rev.count("rev", math.MaxUint64); err != nil {
		return err
	}
	epoch, err := d.epoch.count("revEpoch", math.MaxInt64)
	if err != nil {
		return err
	}
	s.Epoch = int64(epoch)
	for _, m := range []struct {
		field string
		v     value
		to    *string
	}{{"name", d.name, &s.Bucket}, {"uuid", d.uuid, &s.UUID}} {
		text, ok := m.v.text()
		if !ok && len(m.v) > 0 {
			return m.v.mismatch(m.field)
		}
		*m.to = text
	}
	locator, named := d.locator.text()
	switch {
	case locator == "ketama":
		s.Locator = LocatorKetama
	// One that is not known is a bucket's, and its rows say where its keys are: others than these two never existed.
	case named && locator != "", len(d.vbuckets) > 0, s.UUID != "":
		s.Locator = LocatorVBucket
	}
	return nil
}

func (d *document) manifestUID() uint64 {
	text := d.manifest.textOr("")
	uid, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return uid
}

// capabilities reads those of the bucket and of the cluster's services. Elements that are no text are left out.
func (d *document) capabilities(s *Snapshot) error {
	all, err := d.caps.list()
	if err != nil {
		return err
	}
	s.hasCaps, s.caps = d.caps.is('['), make(map[string]bool, len(all))
	for _, c := range all {
		if name, ok := c.text(); ok {
			s.caps[name] = true
		}
	}
	if !d.clusterCaps.is('{') {
		return nil
	}
	s.clusterCaps = map[string][]string{}
	for service, list := range d.clusterCaps.members() {
		if all, err = list.list(); err != nil {
			return err
		}
		var names []string
		for _, c := range all {
			if name, ok := c.text(); ok {
				names = append(names, name)
			}
		}
		s.clusterCaps[string(service)] = names
	}
	return nil
}

// depth is the deepest nesting of arrays and objects.
func depth(raw []byte) int {
	_, most := nesting(raw)
	return most
}

// nesting walks over JSON and counts the commas on the first level, plus one, and the deepest level.
func nesting(raw []byte) (elements, deepest int) {
	deep, elements := 0, 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			deep++
			deepest = max(deepest, deep)
		case '}', ']':
			deep--
		case ',':
			if deep == 1 {
				elements++
			}
		}
	}
	return elements, deepest
}

// stringEnd gives the position of the quote that ends the string which begins at i, or the last position.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		end := bytes.IndexByte(b[i:], '"')
		if end < 0 {
			break
		}
		escape := bytes.IndexByte(b[i:i+end], '\\')
		if escape < 0 {
			return i + end
		}
		i += escape + 1
	}
	return len(b) - 1
}
