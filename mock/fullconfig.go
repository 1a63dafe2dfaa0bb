package mock

import (
	"encoding/json"
)

// The full configurations, as the management service gives them to clients that bootstrap over HTTP and to tools: more
// about each node, and no nodesExt. Left out: statistics, quotas and settings that no client reads.

// fullNode is a node in the long form. The caller holds the mutex.
func (n *Node) full(self *Node, nj nodeJSON) map[string]any {
	status := "healthy"
	if !n.up {
		status = "unhealthy"
	}
	return map[string]any{
		"couchApiBase": nj.CouchAPIBase, "hostname": nj.Hostname, "ports": nj.Ports, "nodeUUID": n.uuid,
		"status": status, "clusterMembership": "active", "thisNode": n == self, "version": serverVersion,
		"os": "x86_64-pc-linux-gnu", "services": n.serviceNames(), "serverGroup": n.group,
		"otpNode": "ns_1@" + n.host, "addressFamily": "inet", "replication": 1, "clusterCompatibility": 458758,
	}
}

// fullBucket is a bucket in the long form. The caller holds the mutex.
func (c *Cluster) fullBucket(b *bucket, self *Node) map[string]any {
	j := c.bucketConfig(b)
	nodes, i := []any{}, 0
	for _, n := range c.nodes {
		if n.member == memberActive && n.runs[KVService] {
			nodes = append(nodes, n.full(self, j.Nodes[i]))
			i++
		}
	}
	return map[string]any{
		"name": j.Name, "uuid": j.UUID, "bucketType": j.BucketType, "storageBackend": j.StorageBackend,
		"nodeLocator": j.NodeLocator, "numVBuckets": j.NumVBuckets, "uri": j.URI, "streamingUri": j.StreamingURI,
		"ddocs": j.DDocs, "bucketCapabilitiesVer": j.CapabilitiesVer, "bucketCapabilities": j.Capabilities,
		"collectionsManifestUid": j.CollectionsManifestID, "vBucketServerMap": j.Map, "nodes": nodes,
		"replicaNumber": b.replicas, "authType": "sasl", "saslPassword": "", "replicaIndex": false,
		"quota": map[string]int{"ram": 100 << 20, "rawRAM": 100 << 20}, "basicStats": map[string]int{"itemCount": 0},
		"rev": c.version.rev, "revEpoch": c.version.epoch,
	}
}

// full answers with what f makes under the mutex.
func (x *httpCall) full(f func(c *Cluster) any) {
	c := x.n.c
	c.mu.Lock()
	out, _ := json.Marshal(f(c)) // maps of strings and numbers cannot fail
	c.mu.Unlock()
	x.send(out)
}

func (x *httpCall) verboseBucket() {
	x.full(func(c *Cluster) any {
		b := c.buckets[x.r.PathValue("bucket")]
		if b == nil {
			return map[string]any{}
		}
		return c.fullBucket(b, x.n)
	})
}

// verboseBuckets lists the buckets that the user may see.
func (x *httpCall) verboseBuckets() {
	x.full(func(c *Cluster) any {
		all := []any{}
		for name, b := range c.buckets {
			if x.user.may(name) {
				all = append(all, c.fullBucket(b, x.n))
			}
		}
		return all
	})
}

func (x *httpCall) pool() {
	x.full(func(c *Cluster) any {
		nodes := []any{}
		for _, n := range c.nodes {
			if n.member == memberActive {
				nodes = append(nodes, n.full(x.n, nodeJSON{
					CouchAPIBase: n.couchAPIBase(""), Hostname: n.mgmt, Ports: map[string]int{"direct": portOf(n.kv)},
				}))
			}
		}
		return map[string]any{
			"name": "default", "clusterName": c.name, "nodes": nodes, "balanced": true, "rebalanceStatus": "none",
			"buckets": map[string]string{
				"uri":              "/pools/default/buckets",
				"terseBucketsBase": "/pools/default/b/",
			},
			"nodeServicesUri": "/pools/default/nodeServices", "serverGroupsUri": "/pools/default/serverGroups",
		}
	})
}
