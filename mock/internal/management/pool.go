package management

import (
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
)

// What nodes say about their machine. It is the same for all.
const (
	memorySize = int64(16 << 30)
	memoryFree = int64(8 << 30)
	diskSize   = int64(256 << 30)
	cpuCount   = 4
	diskPath   = "/opt/couchbase/var/lib/couchbase/data"
	system     = "x86_64-pc-linux-gnu"
)

func pathEscape(s string) string { return strings.ReplaceAll(url.PathEscape(s), "+", "%2B") }

func (x *call) getPools() {
	c := x.cluster()
	out := object{
		"isAdminCreds": x.caller.Admin, "isROAdminCreds": x.caller.Looks, "isEnterprise": true,
		"configProfile": "default", "allowedServices": allowedServices, "isDeveloperPreview": false,
		"packageVariant": "mock", "uuid": c.UUID,
		"pools": []any{fields{
			"name": "default", "uri": "/pools/default?uuid=" + c.UUID,
			"streamingUri": "/poolsStreaming/default?uuid=" + c.UUID,
		}},
		"settings": fields{
			"maxParallelIndexers": "/settings/maxParallelIndexers?uuid=" + c.UUID,
			"viewUpdateDaemon":    "/settings/viewUpdateDaemon?uuid=" + c.UUID,
		},
	}
	for name, value := range versions(c.Version) {
		out[name] = value
	}
	x.send(out)
}

// allowedServices are the services that a node can be given.
var allowedServices = []string{"kv", "n1ql", "index", "fts", "cbas", "eventing", "backup"}

func versions(v Version) object {
	return object{
		"implementationVersion": v.Text,
		"componentsVersion":     fields{"ns_server": v.Text, "couch_index_merger": v.Text},
	}
}

func (x *call) getVersions() { x.send(versions(x.cluster().Version)) }

func (x *call) getPool() { x.send(x.poolObject(x.cluster())) }

// poolObject is /pools/default.
func (x *call) poolObject(c *Cluster) object {
	nodes, names := []object{}, []fields{}
	for i := range c.Nodes {
		nodes = append(nodes, c.Nodes[i].object(x.s, c))
	}
	for i := range c.Buckets {
		if b := &c.Buckets[i]; x.caller.uses(b.Name) {
			names = append(names, fields{"bucketName": b.Name, "uuid": b.UUID})
		}
	}
	id, rev := "?uuid="+c.UUID, strconv.FormatInt(c.Rev, 10)
	out := object{
		"name": "default", "nodes": nodes, "bucketNames": names, "clusterName": c.Name, "balanced": c.Rebalanced,
		"buckets": fields{
			"uri": "/pools/default/buckets?v=" + rev + "&uuid=" + c.UUID, "terseBucketsBase": "/pools/default/b/",
			"terseStreamingBucketsBase": "/pools/default/bs/",
		},
		"remoteClusters": fields{
			"uri": "/pools/default/remoteClusters" + id, "validateURI": "/pools/default/remoteClusters?just_validate=1",
		},
		"alerts": []any{}, "alertsSilenceURL": "/controller/resetAlerts" + id + "&token=0",
		"controllers":     poolControllers(id),
		"rebalanceStatus": "none", "rebalanceProgressUri": "/pools/default/rebalanceProgress",
		"stopRebalanceUri": "/controller/stopRebalance" + id, "nodeStatusesUri": "/nodeStatuses",
		"nodeServicesUri": "/pools/default/nodeServices?v=" + rev, "maxBucketCount": 30, "maxCollectionCount": 1200,
		"maxScopeCount": 1200, "minReplicasCount": 0,
		"autoCompactionSettings": x.s.page("/settings/autoCompaction")["autoCompactionSettings"],
		"tasks":                  fields{"uri": "/pools/default/tasks?v=" + rev}, "counters": x.s.counts(),
		"indexStatusURI": "/indexStatus?v=" + rev, "trustedCAsURI": "/pools/default/trustedCAs?v=" + rev,
		"clusterEncryptionLevel": "control", "checkPermissionsURI": "/pools/default/checkPermissions?v=" + rev,
		"serverGroupsUri": "/pools/default/serverGroups?v=" + rev, "storageTotals": storageTotals(c, x.s),
	}
	x.s.addQuotas(out)
	return out
}

func poolControllers(id string) object {
	uri := func(name string) fields { return fields{"uri": "/controller/" + name + id} }
	out := object{
		"addNode": uri("addNodeV2"),
		"setAutoCompaction": fields{
			"uri": "/controller/setAutoCompaction" + id, "validateURI": "/controller/setAutoCompaction?just_validate=1",
		},
		"clusterLogsCollection": fields{
			"startURI":  "/controller/startLogsCollection" + id,
			"cancelURI": "/controller/cancelLogsCollection" + id,
		},
		"replication": fields{
			"createURI":   "/controller/createReplication" + id,
			"validateURI": "/controller/createReplication?just_validate=1",
		},
	}
	for _, name := range []string{
		"rebalance", "failOver", "startGracefulFailover", "reAddNode", "reFailOver", "ejectNode", "setRecoveryType",
	} {
		out[name] = uri(name)
	}
	return out
}

func storageTotals(c *Cluster, s *State) object {
	nodes := int64(max(1, len(c.Nodes)))
	var used int64
	for i := range c.Buckets {
		used += c.Buckets[i].QuotaMB * mebibyte
	}
	quota := s.quota("memoryQuota") * mebibyte
	return object{
		"ram": object{
			"total": memorySize * nodes, "quotaTotal": quota * nodes, "quotaUsed": used * nodes,
			"used": (memorySize - memoryFree) * nodes, "usedByData": 0, "quotaUsedPerNode": used,
			"quotaTotalPerNode": quota,
		},
		"hdd": object{
			"total": diskSize * nodes, "quotaTotal": diskSize * nodes, "used": 0, "usedByData": 0,
			"free": diskSize * nodes,
		},
	}
}

// object is a node in the long form (menelaus_web_node.erl). Addresses of views are those without a bucket.
func (n *Node) object(s *State, c *Cluster) object {
	status := "healthy"
	if !n.Up {
		status = "unhealthy"
	}
	recovery := n.Recovery
	if recovery == "" {
		recovery = "none"
	}
	out := object{
		"clusterMembership": n.Membership, "recoveryType": recovery, "status": status, "otpNode": n.Name,
		"hostname": n.Hostname, "configuredHostname": n.Hostname, "nodeUUID": n.UUID,
		"clusterCompatibility": c.Version.Compat(), "version": n.Version, "os": system, "cpuCount": cpuCount,
		"ports": n.ports(), "services": n.Services, "nodeEncryption": false,
		"nodeEncryptionClientCertVerification": false, "addressFamily": "inet", "addressFamilyOnly": false,
		"externalListeners": []object{{"afamily": "inet", "nodeEncryption": false}}, "serverGroup": n.Group,
		"nodeHash":    int(crc32.ChecksumIEEE([]byte(n.UUID + status + string(n.Membership)))),
		"systemStats": systemStats(), "interestingStats": n.interestingStats(s, c), "uptime": s.uptime(),
		"memoryTotal": memorySize, "memoryFree": memoryFree, "mcdMemoryReserved": memorySize / mebibyte * 4 / 5,
		"mcdMemoryAllocated": memorySize / mebibyte * 4 / 5,
	}
	if n.Self {
		out["thisNode"] = true
	}
	for i, name := range []string{"couchApiBase", "couchApiBaseHTTPS"} {
		if n.Views[i] != "" {
			out[name] = fmt.Sprintf("http%s://%s/", []string{"", "s"}[i], n.Views[i])
		}
	}
	if n.External != nil {
		out["alternateAddresses"] = object{"external": n.External.object([]string{
			"kv", "mgmt", "mgmtSSL", "capi", "capiSSL",
		})}
	}
	return out
}

// object is the address in JSON, with those of the ports that are named.
func (e *External) object(names []string) object {
	out := object{"hostname": e.Hostname}
	ports := map[string]int{}
	for _, name := range names {
		if p, ok := e.Ports[name]; ok {
			ports[name] = p
		}
	}
	if len(ports) > 0 {
		out["ports"] = ports
	}
	return out
}

// ports are those that the long form of a node has, under its own names.
func (n *Node) ports() map[string]int {
	out := map[string]int{"distTCP": 21100, "distTLS": 21150}
	for name, key := range map[string]string{"direct": "kv", "httpsMgmt": "mgmtSSL", "httpsCAPI": "capiSSL"} {
		if p, ok := n.Ports[key]; ok {
			out[name] = p
		}
	}
	return out
}

func systemStats() object {
	return object{
		"cpu_utilization_rate": 1.5, "cpu_stolen_rate": 0, "swap_total": 0, "swap_used": 0, "mem_total": memorySize,
		"mem_free": memoryFree, "mem_limit": memorySize, "cpu_cores_available": cpuCount, "allocstall": 0,
	}
}

func (n *Node) interestingStats(s *State, c *Cluster) object {
	items, size := 0, 0
	for i := range c.Buckets {
		d, b := c.usage(s, c.Buckets[i].Name)
		items, size = items+d, size+b
	}
	return object{
		"cmd_get": 0, "couch_docs_actual_disk_size": size, "couch_docs_data_size": size,
		"couch_spatial_data_size": 0, "couch_spatial_disk_size": 0, "couch_views_actual_disk_size": 0,
		"couch_views_data_size": 0, "curr_items": items, "curr_items_tot": items, "ep_bg_fetched": 0, "get_hits": 0,
		"index_data_size": 0, "index_disk_size": 0, "mem_used": size, "ops": 0, "vb_active_num_non_resident": 0,
		"vb_replica_curr_items": 0,
	}
}

// node is the node of a name: self, ns_1@host, or host and port.
func (c *Cluster) node(name string) *Node {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Name == name || n.Hostname == name || name == "self" && n.Self {
			return n
		}
	}
	return nil
}

// getNode is a node with its disks and quotas.
func (x *call) getNode() {
	c := x.cluster()
	n := c.node(x.value("node"))
	if n == nil {
		x.json(404, "Node is unknown to this cluster.")
		return
	}
	out := n.object(x.s, c)
	out["availableStorage"] = object{"hdd": []object{{"path": "/", "sizeKBytes": diskSize >> 10, "usagePercent": 1}}}
	out["storageTotals"] = storageTotals(&Cluster{Buckets: c.Buckets}, x.s)
	out["storage"] = object{"ssd": []any{}, "hdd": []object{{
		"path": diskPath, "index_path": diskPath, "cbas_dirs": []string{diskPath}, "eventing_path": diskPath,
		"java_home": "", "quotaMb": "none", "state": "ok",
	}}}
	x.s.addQuotas(out)
	x.send(out)
}

// getNodeStatuses are the health of all nodes by host and port.
func (x *call) getNodeStatuses() {
	c, out := x.cluster(), object{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		one := object{"otpNode": n.Name, "dataless": n.Ports["kv"] == 0, "replication": 1.0, "status": "unhealthy"}
		if n.Up {
			one["status"], one["gracefulFailoverPossible"] = "healthy", c.dataNodes() > 1
		}
		out[n.Hostname] = one
	}
	x.send(out)
}

// listBucketNodes are the nodes of a bucket, with where their statistics are.
func (x *call) listBucketNodes() {
	c, b := x.bucket()
	if b == nil {
		return
	}
	servers := []object{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Membership == Active {
			uri := "/pools/default/buckets/" + pathEscape(b.Name) + "/nodes/" + pathEscape(n.Hostname)
			servers = append(servers, object{
				"hostname": n.Hostname, "uri": uri, "stats": fields{"uri": uri + "/stats"},
			})
		}
	}
	x.send(object{"servers": servers})
}

func (x *call) getBucketNode() {
	c, b := x.bucket()
	if b == nil {
		return
	}
	n := c.node(x.value("node"))
	if n == nil {
		x.notFound()
		return
	}
	base := "/pools/default/buckets/" + pathEscape(b.Name)
	x.send(object{
		"hostname": n.Hostname, "bucket": fields{"uri": base},
		"stats": fields{"uri": base + "/nodes/" + pathEscape(n.Hostname) + "/stats"},
	})
}

// getClusterInfo is the short form of the pool.
func (x *call) getClusterInfo() {
	c := x.cluster()
	orchestrator := ""
	for i := range c.Nodes {
		if c.Nodes[i].Up && c.Nodes[i].Membership == Active {
			orchestrator = c.Nodes[i].Name
			break
		}
	}
	x.send(object{
		"clusterUUID": c.UUID, "orchestrator": orchestrator, "isBalanced": c.Rebalanced,
		"clusterCompatVersion": fmt.Sprintf("%d.%d", c.Version.Major, c.Version.Minor),
	})
}
