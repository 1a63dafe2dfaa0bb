package scripted

import (
	"fmt"
	"net"
	"sync"

	"github.com/couchcore/couchcore/memd"
)

// TB is the part of testing.TB that the package needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Cluster is a set of scripted nodes that share documents and a cluster map. Set its fields before a client connects; a
// hook may be changed at any time with Node.SetHook.
type Cluster struct {
	// Nodes are in the order in which they were added.
	Nodes []*Node
	// Map gives the cluster map that GET_CLUSTER_CONFIG answers on a node. An empty bucket means a connection that has
	// selected none. Default: Spec{Bucket: bucket} of all nodes.
	Map func(n *Node, bucket string) []byte
	// Features are those that HELLO grants where the client asks for them. Default: AllFeatures.
	Features map[memd.Feature]bool
	// ErrorMap is the body of the answer to GET_ERROR_MAP. Default: a map of version 2 without entries.
	ErrorMap string
	// Mechanisms is the answer to SASL_LIST_MECHS. Every login is accepted unless a hook refuses it.
	Mechanisms string
	// Listen opens the listener of a node. Default: net.Listen("tcp", addr). A test of virtual time sets the Listen
	// method of a mock.Network.
	Listen func(addr string) (net.Listener, error)

	mu    sync.Mutex
	store map[string][]byte
}

// AllFeatures are the features that a node of version 7.6 grants.
func AllFeatures() map[memd.Feature]bool {
	all := map[memd.Feature]bool{}
	for _, f := range []memd.Feature{
		memd.FeatureXattr, memd.FeatureXError, memd.FeatureSelectBucket, memd.FeatureJSON, memd.FeatureMutationSeqno,
		memd.FeatureTracing, memd.FeatureUnorderedExecution, memd.FeatureAltRequest, memd.FeatureSyncReplication,
		memd.FeatureCollections, memd.FeaturePreserveTTL, memd.FeatureGetClusterConfigWithVersion,
		memd.FeatureDedupeNotMyVBucket, memd.FeatureSnappy, memd.FeatureSnappyEverywhere, memd.FeatureDuplex,
		memd.FeatureVAttr,
	} {
		all[f] = true
	}
	return all
}

// New is a cluster of count nodes on free ports of the loopback interface. They end with the test.
func New(t TB, count int) *Cluster {
	t.Helper()
	c := &Cluster{Features: AllFeatures()}
	for range count {
		c.Add(t, "127.0.0.1:0")
	}
	return c
}

// Add starts one more node. It ends with the test.
func (c *Cluster) Add(t TB, addr string) *Node {
	t.Helper()
	listen := c.Listen
	if listen == nil {
		listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	l, err := listen(addr)
	if err != nil {
		t.Fatalf("scripted: %v", err)
	}
	return c.AddListener(t, l)
}

// AddListener starts one more node on a listener of the test's own, such as a TLS listener. The node closes it.
func (c *Cluster) AddListener(t TB, l net.Listener) *Node {
	t.Helper()
	n := &Node{
		Cluster: c, Index: len(c.Nodes), listener: l, sessions: map[*Session]bool{},
		requests: map[memd.Opcode]int{},
	}
	c.Nodes = append(c.Nodes, n)
	n.running.Add(1)
	go n.serve()
	t.Cleanup(n.Close)
	return n
}

// Addrs are the nodes' addresses, as host:port.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.Addr())
	}
	return all
}

// Document is the value that a client stored under key.
func (c *Cluster) Document(key string) (value []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok = c.store[key]
	return value, ok
}

// SetDocument stores a value.
func (c *Cluster) SetDocument(key string, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		c.store = map[string][]byte{}
	}
	c.store[key] = append([]byte(nil), value...)
}

func (c *Cluster) clusterMap(n *Node, bucket string) []byte {
	if c.Map != nil {
		return c.Map(n, bucket)
	}
	return c.Render(Spec{Bucket: bucket})
}

func (c *Cluster) errorMap() string {
	if c.ErrorMap != "" {
		return c.ErrorMap
	}
	return `{"version":2,"revision":1,"errors":{}}`
}

func (c *Cluster) mechanisms() string {
	if c.Mechanisms != "" {
		return c.Mechanisms
	}
	return "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN OAUTHBEARER"
}

// hostPort splits the address of a listener.
func hostPort(l net.Listener) (host string, port int) {
	host, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return l.Addr().String(), 0
	}
	if _, err := fmt.Sscanf(text, "%d", &port); err != nil {
		return host, 0
	}
	return host, port
}
