package topology

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Service is what a node may offer.
type Service uint8

// Services.
const (
	KV Service = iota
	Management
	Views
	Query
	Search
	Analytics
	Eventing
	Index
	Backup
	numServices
)

var serviceNames = [numServices]string{
	KV: "kv", Management: "management", Views: "views", Query: "query", Search: "search", Analytics: "analytics",
	Eventing: "eventing", Index: "index", Backup: "backup",
}

// String is the service's name.
func (s Service) String() string {
	if s < numServices {
		return serviceNames[s]
	}
	return "service " + strconv.Itoa(int(s))
}

// DefaultNetwork is the name of the network whose addresses the nodes have themselves.
const DefaultNetwork = "default"

// ExternalNetwork is the network that servers have alternate addresses for.
const ExternalNetwork = "external"

// Node is one node of the cluster.
type Node struct {
	Host          string // without brackets
	UUID          string
	ServerGroup   string
	TelemetryPath string
	This          bool // the node that sent the map
	KV            bool // it holds data of the bucket, or of any in a map of the whole cluster

	ports      ports
	alternates []alternate // by network
}

// alternate is a node's address on another network. A map that gives no ports there means the node's own.
type alternate struct {
	network string
	host    string
	ports   ports
}

// Addr is the address of a node's service on a network, "" meaning DefaultNetwork; false when it has none there.
func (n *Node) Addr(svc Service, network string, tls bool) (string, bool) {
	host, port := n.endpoint(svc, network, tls)
	if host == "" || port == 0 {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), true
}

func (n *Node) endpoint(svc Service, network string, tls bool) (host string, port uint16) {
	if svc >= numServices {
		return "", 0
	}
	kind := btoi(tls)
	if network == "" || network == DefaultNetwork {
		return n.Host, n.ports[svc][kind]
	}
	i, ok := slices.BinarySearchFunc(n.alternates, network,
		func(a alternate, name string) int { return cmp.Compare(a.network, name) })
	if !ok {
		return "", 0
	}
	return n.alternates[i].host, n.alternates[i].ports[svc][kind]
}

// KVAddr is where node i answers key-value requests on a network; false when it holds no data of the bucket or cannot
// be reached there.
func (s *Snapshot) KVAddr(i int, network string, tls bool) (string, bool) {
	if i < 0 || i >= s.kvNodes {
		return "", false
	}
	return s.Nodes[i].Addr(KV, network, tls)
}

// Endpoint is a node's service.
type Endpoint struct {
	Node int // index in Nodes
	Addr string
}

// Endpoints are the addresses of a service on a network, of all nodes of the cluster that offer it there. Of the
// key-value service only the nodes that hold the bucket's data count.
func (s *Snapshot) Endpoints(svc Service, network string, tls bool) []Endpoint {
	nodes := s.Nodes
	if svc == KV {
		nodes = nodes[:s.kvNodes]
	}
	var es []Endpoint
	for i := range nodes {
		if addr, ok := nodes[i].Addr(svc, network, tls); ok {
			es = append(es, Endpoint{i, addr})
		}
	}
	return es
}

// Network tells, from the addresses that the client began with, which of the nodes' addresses it can reach: those of
// the network on which the first of these very addresses that a node has is listed. When no node has any, the client is
// probably outside, behind an address that the cluster does not know: then they are those of ExternalNetwork if there
// is one, as all SDKs choose (JVM and C++ clients, gocbcore), otherwise those of DefaultNetwork.
func (s *Snapshot) Network(seeds ...string) string {
	networks := s.Networks()
	for _, seed := range seeds {
		for _, name := range append([]string{DefaultNetwork}, networks...) {
			if s.lists(name, seed) {
				return name
			}
		}
	}
	if slices.Contains(networks, ExternalNetwork) {
		return ExternalNetwork
	}
	return DefaultNetwork
}

// lists reports whether a node has that address on a network, for data or for management.
func (s *Snapshot) lists(network, addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	for i := range s.Nodes {
		for _, svc := range []Service{KV, Management} {
			for _, tls := range []bool{false, true} {
				h, p := s.Nodes[i].endpoint(svc, network, tls)
				if p != 0 && strings.EqualFold(h, host) && strconv.Itoa(int(p)) == port {
					return true
				}
			}
		}
	}
	return false
}

// Networks are the names of the networks other than DefaultNetwork on which at least one node has an address, sorted.
func (s *Snapshot) Networks() []string {
	var names []string
	for i := range s.Nodes {
		for _, a := range s.Nodes[i].alternates {
			names = append(names, a.network)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
