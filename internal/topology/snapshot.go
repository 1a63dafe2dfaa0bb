package topology

import (
	"hash/crc32"
	"net"
	"slices"
	"strconv"
)

// Locator says how keys find their node.
type Locator uint8

// Locators. A map of the whole cluster has none.
const (
	LocatorNone Locator = iota
	LocatorVBucket
	LocatorKetama
)

// Tri is what is known of a capability.
type Tri uint8

// What is known of a capability.
const (
	Unknown Tri = iota
	Supported
	Unsupported
)

// Snapshot is one cluster map. It does not change after Parse, so it may be read from anywhere. Its functions are
// total: every input has an answer.
type Snapshot struct {
	Bucket, UUID             string
	Epoch, Rev               int64
	Locator                  Locator
	Replicas                 int
	Nodes                    []Node // in the map's order; those that hold the bucket's data come first
	ClusterUUID, ClusterName string
	ManifestUID              uint64

	kvNodes  int
	width    int     // of a row: active and replicas
	vbuckets []int16 // rows, one after another; -1 is no node
	caps     map[string]bool
	hasCaps  bool
}

// Node is one node of the cluster.
type Node struct {
	Host        string
	UUID        string
	ServerGroup string
	This        bool // the node that sent the map
	KV          bool // it holds data of the bucket, or of any in a map of the whole cluster

	ports     map[string]int
	alternate map[string]Alternate
}

// Alternate is a node's address on another network. Without ports of its own the node's ports hold there too.
type Alternate struct {
	Host  string
	ports map[string]int
}

// Service is what a node may offer.
type Service string

// Services, by the names of the map.
const (
	KV         Service = "kv"
	Management Service = "mgmt"
	Query      Service = "n1ql"
	Search     Service = "fts"
	Analytics  Service = "cbas"
	Views      Service = "capi"
)

// Addr is the address of a node's service on a network; false when it has none there.
func (n *Node) Addr(svc Service, network string, tls bool) (string, bool) {
	name := string(svc)
	if tls {
		name += "SSL"
	}
	host, ports := n.Host, n.ports
	if network != "" && network != "default" {
		a, ok := n.alternate[network]
		if !ok || a.Host == "" {
			return "", false
		}
		host = a.Host
		if a.ports != nil {
			ports = a.ports
		}
	}
	if ports[name] == 0 || host == "" {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(ports[name])), true
}

// KVAddr is where node i answers key-value requests; false when it holds no data of the bucket or cannot be reached on
// that network.
func (s *Snapshot) KVAddr(i int, network string, tls bool) (string, bool) {
	if i < 0 || i >= s.kvNodes || !s.Nodes[i].KV {
		return "", false
	}
	return s.Nodes[i].Addr(KV, network, tls)
}

// Endpoint is a node's service.
type Endpoint struct {
	Node int
	Addr string
}

// Endpoints are the addresses of a service.
func (s *Snapshot) Endpoints(svc Service, network string, tls bool) []Endpoint {
	var es []Endpoint
	for i := range s.Nodes {
		if addr, ok := s.Nodes[i].Addr(svc, network, tls); ok {
			es = append(es, Endpoint{i, addr})
		}
	}
	return es
}

// NumVBuckets is the number of vbuckets; 0 when the bucket's map is still empty, or for other kinds of bucket.
func (s *Snapshot) NumVBuckets() int {
	if s.width == 0 {
		return 0
	}
	return len(s.vbuckets) / s.width
}

// Hash is the vbucket of a key among n: the CRC32 of the logical key, without a collection prefix. 0 when n is not
// positive.
func Hash(key []byte, n int) uint16 {
	if n <= 0 {
		return 0
	}
	return uint16(crc32.ChecksumIEEE(key) >> 16 & 0x7fff % uint32(n))
}

// VBucket is the vbucket of a key, 0 when there are none.
func (s *Snapshot) VBucket(key []byte) uint16 { return Hash(key, s.NumVBuckets()) }

// NodeIndex is the node that holds a vbucket's active copy (replica 0) or one of its replicas, -1 when there is none.
func (s *Snapshot) NodeIndex(vb uint16, replica int) int {
	if replica < 0 || replica >= s.width || int(vb) >= s.NumVBuckets() {
		return -1
	}
	return int(s.vbuckets[int(vb)*s.width+replica])
}

// Newer reports whether s replaces the other map: by epoch, then by revision; another bucket of the same name and maps
// without a revision always do.
func (s *Snapshot) Newer(than *Snapshot) bool {
	switch {
	case than == nil:
		return true
	case s.Epoch != than.Epoch:
		return s.Epoch > than.Epoch
	case s.Rev == 0:
		return true
	}
	return s.Rev > than.Rev
}

// Capability says whether the bucket has a capability; Unknown when the map does not list any.
func (s *Snapshot) Capability(name string) Tri {
	switch {
	case s.caps[name]:
		return Supported
	case s.hasCaps:
		return Unsupported
	}
	return Unknown
}

// Network tells, from the address that gave the first map, which of the nodes' addresses the client can reach: those of
// the network on which that address is listed, otherwise "default".
func (s *Snapshot) Network(bootstrapAddr string) string {
	matches := func(network string) bool {
		return slices.ContainsFunc(s.Nodes, func(n Node) bool {
			for _, svc := range []Service{KV, Management} {
				for _, tls := range []bool{false, true} {
					if a, ok := n.Addr(svc, network, tls); ok && a == bootstrapAddr {
						return true
					}
				}
			}
			return false
		})
	}
	if matches("default") {
		return "default"
	}
	var names []string
	for _, n := range s.Nodes {
		for name := range n.alternate {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if matches(name) {
			return name
		}
	}
	return "default"
}
