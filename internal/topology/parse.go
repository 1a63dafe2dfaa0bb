package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Options are the limits of a map; 0 means 16 MiB and a depth of 64.
type Options struct {
	MaxBytes int
	MaxDepth int
}

// MaxVBuckets is the largest number of vbuckets that a 16-bit vbucket id allows.
const MaxVBuckets = 1 << 16

// ParseError names the field of a map that cannot be used, and the limit it breaks if it is one of size.
type ParseError struct {
	Field string
	Value int64
	Limit int64
	Err   error
}

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

func (e *ParseError) Unwrap() error { return e.Err }

// configJSON is what is read of a map.
type configJSON struct {
	Rev          int64               `json:"rev"`
	RevEpoch     int64               `json:"revEpoch"`
	Name         string              `json:"name"`
	UUID         string              `json:"uuid"`
	NodeLocator  string              `json:"nodeLocator"`
	ManifestUID  string              `json:"collectionsManifestUid"`
	Capabilities []string            `json:"bucketCapabilities"`
	ClusterCaps  map[string][]string `json:"clusterCapabilities"`
	ClusterUUID  string              `json:"clusterUUID"`
	ClusterName  string              `json:"clusterName"`
	Map          *mapJSON            `json:"vBucketServerMap"`
	Nodes        []nodeJSON          `json:"nodes"`
	NodesExt     []nodeExtJSON       `json:"nodesExt"`
}

type mapJSON struct {
	Replicas   int       `json:"numReplicas"`
	ServerList []string  `json:"serverList"`
	VBuckets   [][]int32 `json:"vBucketMap"`
	Forward    [][]int32 `json:"vBucketMapForward"`
}

type nodeJSON struct {
	Hostname string         `json:"hostname"`
	Ports    map[string]int `json:"ports"`
}

type nodeExtJSON struct {
	Hostname    string                   `json:"hostname"`
	Services    map[string]int           `json:"services"`
	UUID        string                   `json:"nodeUUID"`
	ServerGroup string                   `json:"serverGroup"`
	This        bool                     `json:"thisNode"`
	Alternate   map[string]alternateJSON `json:"alternateAddresses"`
}

type alternateJSON struct {
	Hostname string         `json:"hostname"`
	Ports    map[string]int `json:"ports"`
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
	if len(raw) > o.MaxBytes {
		return nil, &ParseError{Field: "size in bytes", Value: int64(len(raw)), Limit: int64(o.MaxBytes)}
	}
	if d := depth(raw); d > o.MaxDepth {
		return nil, &ParseError{Field: "depth", Value: int64(d), Limit: int64(o.MaxDepth)}
	}
	host := sourceHost
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	quoted, err := json.Marshal(host)
	if err != nil {
		return nil, &ParseError{Field: "source host", Err: err}
	}
	raw = bytes.ReplaceAll(raw, []byte("$HOST"), quoted[1:len(quoted)-1])
	var j configJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, &ParseError{Field: "document", Err: err}
	}
	return j.snapshot(sourceHost)
}

// depth is the deepest nesting of arrays and objects.
func depth(raw []byte) int {
	var deep, most int
	inString, escaped := false, false
	for _, c := range raw {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			deep++
			most = max(most, deep)
		case c == '}' || c == ']':
			deep--
		}
	}
	return most
}

func (j *configJSON) snapshot(sourceHost string) (*Snapshot, error) {
	s := &Snapshot{
		Bucket: j.Name, UUID: j.UUID, Epoch: j.RevEpoch, Rev: j.Rev, ClusterUUID: j.ClusterUUID,
		ClusterName: j.ClusterName, caps: map[string]bool{},
	}
	if j.Rev < 0 || j.RevEpoch < 0 {
		return nil, &ParseError{Field: "rev or revEpoch", Err: fmt.Errorf("%d and %d must not be negative", j.Rev, j.RevEpoch)}
	}
	if j.ManifestUID != "" {
		uid, err := strconv.ParseUint(j.ManifestUID, 16, 64)
		if err != nil {
			return nil, &ParseError{Field: "collectionsManifestUid", Err: err}
		}
		s.ManifestUID = uid
	}
	for _, c := range j.Capabilities {
		s.caps[c] = true
	}
	s.hasCaps = j.Capabilities != nil
	switch j.NodeLocator {
	case "vbucket":
		s.Locator = LocatorVBucket
	case "ketama":
		s.Locator = LocatorKetama
	case "":
		if j.Map != nil {
			s.Locator = LocatorVBucket
		}
	default:
		return nil, &ParseError{Field: "nodeLocator", Err: fmt.Errorf("%.32q is not known", j.NodeLocator)}
	}
	if err := j.nodes(s, sourceHost); err != nil {
		return nil, err
	}
	if len(s.Nodes) == 0 {
		return nil, &ParseError{Field: "nodes", Err: fmt.Errorf("there are none")}
	}
	if s.Locator == LocatorVBucket && j.Map != nil {
		if err := j.Map.into(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// nodes lists the nodes in the map's order. For a bucket only the first len(nodes) of nodesExt hold its data; positions
// are kept, because the vbucket map counts by them.
func (j *configJSON) nodes(s *Snapshot, sourceHost string) error {
	bound := len(j.Nodes)
	if s.Locator == LocatorNone {
		bound = len(j.NodesExt)
	}
	if len(j.NodesExt) == 0 {
		return j.oldNodes(s, sourceHost)
	}
	for i, e := range j.NodesExt {
		n := Node{Host: e.Hostname, UUID: e.UUID, ServerGroup: e.ServerGroup, This: e.This, ports: e.Services}
		if n.Host == "" {
			n.Host = sourceHost
		}
		n.Host = bare(n.Host)
		if err := checkPorts(e.Services); err != nil {
			return err
		}
		n.KV = i < bound && (e.Services["kv"] != 0 || e.Services["kvSSL"] != 0)
		for name, a := range e.Alternate {
			if err := checkPorts(a.Ports); err != nil {
				return err
			}
			if n.alternate == nil {
				n.alternate = map[string]Alternate{}
			}
			n.alternate[name] = Alternate{Host: bare(a.Hostname), ports: a.Ports}
		}
		s.Nodes = append(s.Nodes, n)
		if i < bound {
			s.kvNodes++
		}
	}
	return nil
}

// oldNodes reads a map without nodesExt, as servers before 3.0 and CouchbaseMock's ancestors sent it.
func (j *configJSON) oldNodes(s *Snapshot, sourceHost string) error {
	if j.Map != nil && len(j.Map.ServerList) > 0 {
		for _, addr := range j.Map.ServerList {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return &ParseError{Field: "serverList", Err: err}
			}
			n, err := strconv.Atoi(port)
			if err != nil || n < 1 || n > 65535 {
				return &ParseError{Field: "port in serverList", Value: int64(n), Limit: 65535}
			}
			s.Nodes = append(s.Nodes, Node{Host: host, KV: true, ports: map[string]int{"kv": n}})
		}
		s.kvNodes = len(s.Nodes)
		return nil
	}
	for _, n := range j.Nodes {
		if err := checkPorts(n.Ports); err != nil {
			return err
		}
		host, _, err := net.SplitHostPort(n.Hostname)
		if err != nil {
			host = n.Hostname
		}
		if host == "" {
			host = sourceHost
		}
		s.Nodes = append(s.Nodes, Node{Host: bare(host), KV: n.Ports["direct"] != 0, ports: map[string]int{"kv": n.Ports["direct"]}})
	}
	s.kvNodes = len(s.Nodes)
	return nil
}

// bare takes the brackets off an IPv6 address.
func bare(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

func checkPorts(ports map[string]int) error {
	for name, p := range ports {
		if p < 0 || p > 65535 {
			return &ParseError{Field: "port of " + name[:min(len(name), 32)], Value: int64(p), Limit: 65535}
		}
	}
	return nil
}

// into checks the vbucket map and stores it in one block. Rows may be short, and nodes absent.
func (m *mapJSON) into(s *Snapshot) error {
	if len(m.VBuckets) > MaxVBuckets {
		return &ParseError{Field: "number of vbuckets", Value: int64(len(m.VBuckets)), Limit: MaxVBuckets}
	}
	if m.Replicas < 0 || m.Replicas > 3 {
		return &ParseError{Field: "numReplicas", Value: int64(m.Replicas), Limit: 3}
	}
	s.Replicas = m.Replicas
	width := m.Replicas + 1
	s.width = width
	s.vbuckets = make([]int16, len(m.VBuckets)*width)
	for vb, row := range m.VBuckets {
		for k := range width {
			n := int32(-1)
			if k < len(row) {
				n = row[k]
			}
			if n < -1 || int(n) >= s.kvNodes {
				return &ParseError{Field: fmt.Sprintf("node of vbucket %d", vb), Value: int64(n), Limit: int64(s.kvNodes - 1)}
			}
			s.vbuckets[vb*width+k] = int16(n)
		}
	}
	return nil
}

// ScanVersion finds rev and revEpoch among the first members of a map's top-level object, within its first 256 bytes
// and without an allocation. ok is false when there is no rev there: then the map has to be parsed. A missing revEpoch
// is 0, but only when the scan got past rev without meeting the limit.
func ScanVersion(raw []byte) (epoch, rev int64, ok bool) {
	b := raw[:min(len(raw), 256)]
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return 0, 0, false
	}
	i++
	for members := 0; members < 4; members++ {
		if i = skipSpace(b, i); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
		if i >= len(b) || b[i] != '"' {
			break
		}
		end := bytes.IndexByte(b[i+1:], '"')
		if end < 0 {
			break
		}
		key := b[i+1 : i+1+end]
		i = skipSpace(b, i+end+2)
		if i >= len(b) || b[i] != ':' {
			break
		}
		i = skipSpace(b, i+1)
		isRev, isEpoch := string(key) == "rev", string(key) == "revEpoch"
		if !isRev && !isEpoch {
			break
		}
		n, next, good := number(b, i)
		if !good {
			return 0, 0, false
		}
		i = next
		if isRev {
			rev, ok = n, true
		} else {
			epoch = n
		}
	}
	return epoch, rev, ok
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// number reads digits that something else follows, so that a number cut by the limit is none.
func number(b []byte, i int) (n int64, next int, ok bool) {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i-start < 18 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	return n, i, i > start && i < len(b) && (b[i] == ',' || b[i] == '}' || b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t')
}
