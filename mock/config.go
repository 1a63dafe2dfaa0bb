package mock

import (
	"encoding/json"
	"net"
	"strconv"
)

// version orders configurations: by epoch, then by revision.
type version struct{ epoch, rev int64 }

func (v version) newer(than version) bool {
	return v.epoch > than.epoch || v.epoch == than.epoch && v.rev > than.rev
}

// configJSON is the terse configuration of a bucket, or of the cluster when the bucket's fields are absent (spec 02,
// section 4). Real clients fail in different ways when parts are missing, so all of it is always there.
type configJSON struct {
	Rev      int64 `json:"rev"`
	RevEpoch int64 `json:"revEpoch,omitempty"`
	*bucketJSON
	ClusterCapabilitiesVer []int               `json:"clusterCapabilitiesVer"`
	ClusterCapabilities    map[string][]string `json:"clusterCapabilities"`
	ClusterUUID            string              `json:"clusterUUID,omitempty"`
	ClusterName            *string             `json:"clusterName,omitempty"`
	Prod                   string              `json:"prod,omitempty"`
	ProdName               string              `json:"prodName,omitempty"`
	NodesExt               []nodeExtJSON       `json:"nodesExt"`
}

type bucketJSON struct {
	Name                  string            `json:"name"`
	UUID                  string            `json:"uuid"`
	NodeLocator           string            `json:"nodeLocator"`
	BucketType            string            `json:"bucketType,omitempty"`
	StorageBackend        string            `json:"storageBackend,omitempty"`
	NumVBuckets           int               `json:"numVBuckets,omitempty"`
	URI                   string            `json:"uri"`
	StreamingURI          string            `json:"streamingUri"`
	DDocs                 map[string]string `json:"ddocs"`
	CollectionsManifestID string            `json:"collectionsManifestUid"`
	CapabilitiesVer       string            `json:"bucketCapabilitiesVer"`
	Capabilities          []string          `json:"bucketCapabilities"`
	Map                   *vbucketMapJSON   `json:"vBucketServerMap,omitempty"`
	Nodes                 []nodeJSON        `json:"nodes"`
}

type vbucketMapJSON struct {
	HashAlgorithm string   `json:"hashAlgorithm"`
	NumReplicas   int      `json:"numReplicas"`
	ServerList    []string `json:"serverList"`
	Map           [][]int  `json:"vBucketMap"`
	Forward       [][]int  `json:"vBucketMapForward,omitempty"`
}

type nodeJSON struct {
	CouchAPIBase string         `json:"couchApiBase"`
	Hostname     string         `json:"hostname"`
	Ports        map[string]int `json:"ports"`
}

type nodeExtJSON struct {
	Services    map[string]int `json:"services"`
	ThisNode    bool           `json:"thisNode,omitempty"`
	Hostname    string         `json:"hostname"`
	NodeUUID    string         `json:"nodeUUID,omitempty"`
	ServerGroup string         `json:"serverGroup,omitempty"`

	AppTelemetryPath string `json:"appTelemetryPath,omitempty"`

	Alternate map[string]externalJSON `json:"alternateAddresses,omitempty"` // by network
}

type externalJSON struct {
	Hostname string         `json:"hostname"`
	Ports    map[string]int `json:"ports,omitempty"`
}

func portOf(addr string) int {
	_, p, _ := net.SplitHostPort(addr) // our own addresses
	n, _ := strconv.Atoi(p)
	return n
}

// config is the configuration as node self hands it out, of b or, when that is nil, of the cluster. The caller holds
// the mutex.
func (c *Cluster) config(b *bucket, self *Node) []byte {
	if b != nil {
		if b.cachedAt != c.version {
			b.cached, b.cachedAt = map[int][]byte{}, c.version
		}
		if j := b.cached[self.index]; j != nil {
			return j
		}
	}
	j := configJSON{
		Rev: c.version.rev, ClusterCapabilitiesVer: []int{1, 0}, ClusterCapabilities: c.serviceCapabilities(),
	}
	for place := range placeCount {
		for _, n := range c.nodes {
			if n.place() == place {
				j.NodesExt = append(j.NodesExt, n.ext(self))
			}
		}
	}
	if b != nil {
		j.bucketJSON = c.bucketConfig(b)
	}
	self.profile.trim(&j, c)
	out, _ := json.Marshal(j) // strings and numbers cannot fail
	if b != nil {
		b.cached[self.index] = out
	}
	return out
}

// placeCount is how many kinds of nodes the list of nodes has, one behind the other.
const placeCount = 3

// place is where the node is listed: first those of the bucket's own list, in its order.
func (n *Node) place() int {
	switch {
	case n.member == memberActive && n.runs[KVService]:
		return 0
	case n.member == memberActive:
		return 1
	case n.member == memberAdded:
		return 2
	}
	return placeCount
}

// trim gives a configuration the fields that a node of that release states. The caller holds the mutex.
func (p *profile) trim(j *configJSON, c *Cluster) {
	if p.has[factRevEpoch] {
		j.RevEpoch = c.version.epoch
	}
	if p.has[factClusterLabels] {
		j.ClusterUUID, j.ClusterName = c.uuid, &c.name
	}
	if p.has[factProduct] {
		j.Prod, j.ProdName = "server", "Couchbase Server"
	}
	if j.bucketJSON == nil {
		return
	}
	if !p.has[factBucketKind] {
		j.BucketType, j.StorageBackend = "", ""
	}
	if !p.has[factNumVBuckets] {
		j.NumVBuckets = 0
	}
}

// ext is the node as self lists it.
func (n *Node) ext(self *Node) nodeExtJSON {
	s := map[string]int{}
	for i := range n.addrs {
		clear, secure := Service(i).PortKeys()
		if n.runs[i] {
			s[clear] = portOf(n.addrs[i][0])
		}
		if n.addrs[i][1] != "" {
			s[secure] = portOf(n.addrs[i][1])
		}
	}
	j := nodeExtJSON{Services: s, ThisNode: n == self, Hostname: n.host}
	if self.profile.has[factNodeUUID] {
		j.NodeUUID = n.uuid
	}
	if self.profile.has[factServerGroup] {
		j.ServerGroup = n.group
	}
	if n.c.telemetryOn() {
		j.AppTelemetryPath = telemetryPath
	}
	if n.external != nil {
		j.Alternate = map[string]externalJSON{"external": {n.external.Hostname, n.external.Ports}}
	}
	return j
}

// servicePorts are the ports of the node's services, by the configuration's names.
func (n *Node) servicePorts() map[string]int { return n.ext(n).Services }

// bucketConfig is the part of the configuration that only buckets have.
func (c *Cluster) bucketConfig(b *bucket) *bucketJSON {
	place := make([]int, len(c.nodes)) // where a node stands in the lists
	j := &bucketJSON{
		Name: b.name, UUID: b.uuid, NodeLocator: "vbucket", BucketType: "membase", StorageBackend: b.settings.Backend,
		NumVBuckets:           len(b.rows),
		URI:                   "/pools/default/buckets/" + b.name + "?bucket_uuid=" + b.uuid,
		StreamingURI:          "/pools/default/bucketsStreaming/" + b.name + "?bucket_uuid=" + b.uuid,
		DDocs:                 map[string]string{"uri": "/pools/default/buckets/" + b.name + "/ddocs"},
		CollectionsManifestID: strconv.FormatUint(b.manifest.UID, 16),
		Capabilities:          b.capabilities(c.compat()),
		Nodes:                 []nodeJSON{},
		Map:                   &vbucketMapJSON{HashAlgorithm: "CRC", NumReplicas: b.replicas, ServerList: []string{}},
	}
	if b.ephemeral {
		j.BucketType = "ephemeral"
	}
	for i, n := range c.nodes {
		place[i] = -1
		if n.member != memberActive || !n.runs[KVService] {
			continue
		}
		place[i] = len(j.Nodes)
		j.Map.ServerList = append(j.Map.ServerList, n.kv)
		j.Nodes = append(j.Nodes, nodeJSON{
			CouchAPIBase: n.couchAPIBase(b.name + "%2B" + b.uuid), Hostname: n.mgmt,
			Ports: map[string]int{"direct": portOf(n.kv)},
		})
	}
	j.Map.Map = placed(b.rows, place)
	if b.forward != nil {
		j.Map.Forward = placed(b.forward, place)
	}
	if b.memcached() {
		j.memcachedConfig()
	}
	return j
}

// placed turns rows of node numbers into rows of places.
func placed(rows [][]int, place []int) [][]int {
	out := make([][]int, len(rows))
	for i, row := range rows {
		out[i] = make([]int, len(row))
		for j, n := range row {
			out[i][j] = -1
			if n >= 0 {
				out[i][j] = place[n]
			}
		}
	}
	return out
}

// ConfigJSON returns the bucket's configuration as node 0 hands it out, or the cluster's for an empty name; nil for a
// bucket that does not exist.
func (c *Cluster) ConfigJSON(bucket string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[bucket]
	if b == nil && bucket != "" {
		return nil
	}
	return append([]byte(nil), c.config(b, c.nodes[0])...)
}

// currentConfig is the configuration of the request's bucket, for an answer on its connection.
func (rq *request) currentConfig() []byte {
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	rq.k.pushed = rq.k.c.version
	return rq.k.c.config(rq.b, rq.k.n)
}
