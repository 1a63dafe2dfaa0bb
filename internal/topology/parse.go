package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Options are the limits of a map; 0 means 16 MiB and a depth of 64.
type Options struct {
	MaxBytes int
	MaxDepth int
}

// Limits of what a map may contain.
const (
	MaxVBuckets = 1 << 16 // as many as a 16-bit vbucket id can name
	MaxReplicas = 3
	MaxNodes    = 8192 // also of the other lists
	maxHostName = 255
)

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

// configJSON is what is read of a map.
type configJSON struct {
	Rev          int64               `json:"rev"`
	RevEpoch     int64               `json:"revEpoch"`
	Name         string              `json:"name"`
	UUID         string              `json:"uuid"`
	NodeLocator  string              `json:"nodeLocator"`
	ManifestUID  string              `json:"collectionsManifestUid"`
	Capabilities list[string]        `json:"bucketCapabilities"`
	ClusterCaps  map[string][]string `json:"clusterCapabilities"`
	ClusterUUID  string              `json:"clusterUUID"`
	ClusterName  string              `json:"clusterName"`
	Product      string              `json:"prod"`
	Map          *mapJSON            `json:"vBucketServerMap"`
	Nodes        list[nodeJSON]      `json:"nodes"`
	NodesExt     list[nodeExtJSON]   `json:"nodesExt"`
}

type mapJSON struct {
	Replicas   int          `json:"numReplicas"`
	ServerList list[string] `json:"serverList"`
	VBuckets   vbucketRows  `json:"vBucketMap"`
	Forward    vbucketRows  `json:"vBucketMapForward"` // during a rebalance: where vbuckets go
}

// list is an array of at most MaxNodes elements, so that a few bytes of the map cannot ask for much memory.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	if bytes.Count(b, []byte{','}) >= MaxNodes {
		if n := elements(b); n > MaxNodes {
			return &ParseError{Field: "number of elements in a list", Value: int64(n), Limit: MaxNodes}
		}
	}
	return json.Unmarshal(b, (*[]T)(l))
}

// Parse reads a map that came from the node at sourceHost, whose name stands in for $HOST and for absent host names.
// It copies what it keeps of raw. The error is a *ParseError.
func Parse(raw []byte, sourceHost string, o Options) (*Snapshot, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 20
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = 64
	}
	sourceHost = bare(sourceHost)
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
	if size > o.MaxBytes {
		return nil, &ParseError{Field: "size in bytes", Value: int64(size), Limit: int64(o.MaxBytes)}
	}
	if d := depth(raw); d > o.MaxDepth {
		return nil, &ParseError{Field: "depth", Value: int64(d), Limit: int64(o.MaxDepth)}
	}
	if places > 0 {
		raw = bytes.ReplaceAll(raw, placeholder, quoted)
	}
	var j configJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, asParseError(err)
	}
	return j.snapshot(sourceHost)
}

// asParseError names the field that the decoder stopped at.
func asParseError(err error) error {
	var pe *ParseError
	var te *json.UnmarshalTypeError
	switch {
	case errors.As(err, &pe):
		return pe
	case errors.As(err, &te) && te.Field != "":
		return &ParseError{Field: te.Field, Err: errors.New("a JSON " + te.Value + " does not fit there")}
	}
	return &ParseError{Field: "document", Err: err}
}

func (j *configJSON) snapshot(sourceHost string) (*Snapshot, error) {
	s := &Snapshot{
		Bucket: j.Name, UUID: j.UUID, Epoch: j.RevEpoch, Rev: j.Rev, ClusterUUID: j.ClusterUUID,
		ClusterName: j.ClusterName, Product: j.Product, hasCaps: j.Capabilities != nil, clusterCaps: j.ClusterCaps,
		caps: make(map[string]bool, len(j.Capabilities)),
	}
	if j.Rev < 0 || j.RevEpoch < 0 {
		return nil, &ParseError{Field: "rev or revEpoch", Err: fmt.Errorf("%d and %d must not be negative", j.Rev, j.RevEpoch)}
	}
	if j.ManifestUID != "" {
		uid, err := strconv.ParseUint(j.ManifestUID, 16, 64)
		if err != nil {
			return nil, &ParseError{Field: "collectionsManifestUid", Err: errors.New("is no hexadecimal number of 64 bits")}
		}
		s.ManifestUID = uid
	}
	for _, c := range j.Capabilities {
		s.caps[c] = true
	}
	switch j.NodeLocator {
	case "vbucket":
		s.Locator = LocatorVBucket
	case "ketama":
		s.Locator = LocatorKetama
	case "":
		if j.Map != nil || j.UUID != "" {
			s.Locator = LocatorVBucket
		}
	default:
		return nil, &ParseError{Field: "nodeLocator", Err: fmt.Errorf("%.32q is not known", j.NodeLocator)}
	}
	if err := j.nodes(s, sourceHost); err != nil {
		return nil, err
	}
	if len(s.Nodes) == 0 {
		return nil, &ParseError{Field: "nodes", Err: errors.New("there are none")}
	}
	switch {
	case s.Locator == LocatorVBucket && j.Map != nil:
		if err := j.Map.into(s); err != nil {
			return nil, err
		}
	case s.Locator == LocatorKetama:
		s.ring = newRing(s)
	}
	return s, nil
}

// depth is the deepest nesting of arrays and objects.
func depth(raw []byte) int {
	_, most := nesting(raw)
	return most
}

// elements is the number of elements of an array of valid JSON; at least 1.
func elements(raw []byte) int {
	n, _ := nesting(raw)
	return n
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
