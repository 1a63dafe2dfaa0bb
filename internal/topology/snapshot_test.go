package topology_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/topology"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return raw
}

func parse(t testing.TB, raw string) *topology.Snapshot {
	t.Helper()
	s, err := topology.Parse([]byte(raw), "10.0.0.9", topology.Options{})
	require.NoError(t, err)
	return s
}

func load(t testing.TB, name string) *topology.Snapshot {
	t.Helper()
	return parse(t, string(file(t, name)))
}

// addr is a node's key-value address, or "-".
func addr(s *topology.Snapshot, node int, network string, tls bool) string {
	if a, ok := s.KVAddr(node, network, tls); ok {
		return a
	}
	return "-"
}

func addrs(s *topology.Snapshot, network string, tls bool) (all []string) {
	for i := range s.Nodes {
		all = append(all, addr(s, i, network, tls))
	}
	return all
}

// example is a map with three nodes, of which the third has no data service, and eight vbuckets.
const example = `{
 "rev": 421, "revEpoch": 3, "name": "orders", "uuid": "7b1d", "nodeLocator": "vbucket", "collectionsManifestUid": "1c",
 "bucketCapabilities": ["collections", "durableWrite"], "clusterCapabilities": {"n1ql": ["readFromReplica"]},
 "clusterUUID": "0d4f", "clusterName": "lab", "prod": "server",
 "vBucketServerMap": {"hashAlgorithm": "CRC", "numReplicas": 1, "serverList": ["$HOST:11210", "10.1.0.12:11210"],
  "vBucketMap": [[0,1],[0,1],[0,1],[0, 1],[1,0],[1,0],[1],[1,-1]], "vBucketMapForward": [[0,1]]},
 "nodes": [{"hostname": "$HOST:8091", "ports": {"direct": 11210}}, {"hostname": "10.1.0.12:8091", "ports": {"direct": 11210}}],
 "nodesExt": [
  {"services": {"mgmt": 8091, "mgmtSSL": 18091, "kv": 11210, "kvSSL": 11207, "n1ql": 8093, "n1qlSSL": 18093, "projector": 9999},
   "thisNode": true, "nodeUUID": "aa01", "serverGroup": "zone-a", "appTelemetryPath": "/_appTelemetry",
   "alternateAddresses": {"external": {"hostname": "203.0.113.7", "ports": {"kv": 31210, "mgmt": 30091}}}},
  {"hostname": "10.1.0.12", "nodeUUID": "aa02", "serverGroup": "zone-b", "services": {"mgmt": 8091, "kv": 11210, "kvSSL": 11207, "fts": 8094},
   "alternateAddresses": {"external": {"hostname": "203.0.113.8"}}},
  {"hostname": "10.1.0.13", "nodeUUID": "aa03", "serverGroup": "zone-b", "services": {"mgmt": 8091, "n1ql": 8093, "kv": 11210}}
 ]}`

func TestSnapshotHasWhatTheMapSays(t *testing.T) {
	s := parse(t, example)
	require.Equal(t, []any{
		"orders", "7b1d", int64(3), uint64(421), topology.LocatorVBucket, 1, "0d4f", "lab", "server",
		uint64(0x1c),
	},
		[]any{
			s.Bucket, s.UUID, s.Epoch, s.Rev, s.Locator, s.Replicas, s.ClusterUUID, s.ClusterName, s.Product,
			s.ManifestUID,
		})
	require.True(t, s.HasVBuckets())
	require.Equal(t, 8, s.NumVBuckets())
	require.Equal(t, []string{"10.0.0.9:11210", "10.1.0.12:11210", "-"}, addrs(s, "", false),
		"the third node is beyond the list of nodes")
	require.Equal(t, []string{"10.0.0.9:11207", "10.1.0.12:11207", "-"}, addrs(s, "default", true))
	require.True(t, s.Nodes[0].This && s.Nodes[0].KV && s.Nodes[1].KV)
	require.False(t, s.Nodes[1].This || s.Nodes[2].KV)
	require.Equal(t, []topology.Endpoint{{0, "10.0.0.9:8093"}, {2, "10.1.0.13:8093"}}, s.Endpoints(topology.Query,
		"default", false))
	require.Equal(t, []topology.Endpoint{{0, "10.0.0.9:18093"}}, s.Endpoints(topology.Query, "default", true))
	require.Equal(t, []topology.Endpoint{{1, "203.0.113.8:8094"}}, s.Endpoints(topology.Search, "external", false))
	require.Equal(t, []topology.Endpoint{{0, "10.0.0.9:11210"}, {1, "10.1.0.12:11210"}}, s.Endpoints(topology.KV, "",
		false))
	require.Empty(t, s.Endpoints(topology.Analytics, "", false))
	require.Empty(t, s.Endpoints(topology.Service(200), "", false))
	for svc := range topology.Backup + 1 {
		require.NotContains(t, svc.String(), " ")
	}
}

func TestB71NodeIdentitiesAreReadFromCapturedMaps(t *testing.T) {
	uuids := []string{
		"2ef565f7abff0a3f827cb2ab31dfcdc4", "9a5e59ac41a1cc006c4850805e43cfe0",
		"badcf695fc523f63bf55cc56d3a1c787",
	}
	for name, telemetry := range map[string]string{
		"bucket_config_with_node_uuids.json": "", "bucket_config_with_app_telemetry.json": "/_appTelemetry",
	} {
		s := load(t, name)
		require.Len(t, s.Nodes, 3)
		for i, n := range s.Nodes {
			require.Equal(t, []string{uuids[i], "Group 1", telemetry}, []string{n.UUID, n.ServerGroup, n.TelemetryPath},
				name)
		}
	}
}

func TestEveryCapturedMapIsUsable(t *testing.T) {
	names, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, names, 5)
	for _, name := range names {
		s := load(t, filepath.Base(name))
		require.Equal(t, 1024, s.NumVBuckets(), name)
		for vb := range s.NumVBuckets() {
			require.NotEqual(t, "-", addr(s, s.NodeIndex(uint16(vb), 0), "default", false))
		}
		epoch, rev, ok := topology.ScanVersion(file(t, filepath.Base(name)))
		require.True(t, ok, name)
		require.Equal(t, []uint64{uint64(s.Epoch), s.Rev}, []uint64{uint64(epoch), rev}, name)
	}
	s := load(t, "bucket_config_with_rev_epoch.json")
	require.Equal(t, "travel-sample", s.Bucket)
	require.Equal(t, "10.0.0.9:11210", addr(s, 0, "", false), "$HOST is the node that was asked")
	require.Equal(t, -1, s.NodeIndex(5, 1))
}

func TestTheSourceHostReplacesMissingOnes(t *testing.T) {
	raw := []byte(`{"nodeLocator":"vbucket","nodes":[{}],"nodesExt":[{"services":{"kv":1}},{"hostname":"$HOST","services":{"kv":1,"mgmt":2}}]}`)
	for host, want := range map[string]string{"h": "h", "::1": "[::1]", "[::1]": "[::1]", `we"ird`: `we"ird`} {
		s, err := topology.Parse(raw, host, topology.Options{})
		require.NoError(t, err, host)
		require.Equal(t, want+":1", addr(s, 0, "", false))
		require.Equal(t, []topology.Endpoint{{1, want + ":2"}}, s.Endpoints(topology.Management, "", false))
	}
}

func TestMapsWithoutNodesExt(t *testing.T) {
	s := parse(t, `{"nodeLocator":"vbucket","uuid":"u","nodes":[{"hostname":"a:8091","couchApiBase":"http://a:8092/b%2Bu","ports":{"direct":1}},
		{"hostname":"b:8091","ports":{"direct":2}}],"vBucketServerMap":{"numReplicas":0,"serverList":["b:2","[::1]:3"],"vBucketMap":[[0],[1]]}}`)
	require.Equal(t, []string{"b:2", "[::1]:3"}, addrs(s, "", false))
	require.Equal(t, []string{"-", "-"}, addrs(s, "", true))
	require.Equal(t, []topology.Endpoint{{0, "b:8091"}, {1, "[::1]:8091"}}, s.Endpoints(topology.Management, "", false))
	require.Equal(t, []topology.Endpoint{{0, "b:8092"}}, s.Endpoints(topology.Views, "", false))
	s = parse(t, `{"nodeLocator":"ketama","nodes":[{"hostname":"a:8091","ports":{}},{"hostname":":8091","ports":{"direct":2}}]}`)
	require.Equal(t, []string{"10.0.0.9:2", "-"}, addrs(s, "", false))
}

func TestMapsOfTheWholeClusterHaveNoBound(t *testing.T) {
	s := parse(t, `{"rev":7,"nodesExt":[{"services":{"n1ql":8093}},{"hostname":"b","services":{"kvSSL":2}},{"hostname":"c","services":{"kv":3}}]}`)
	require.Equal(t, topology.LocatorNone, s.Locator)
	require.Equal(t, []string{"-", "c:3", "-"}, addrs(s, "", false))
	require.Equal(t, []string{"b:2", "-", "-"}, addrs(s, "", true))
	require.Zero(t, s.NumVBuckets())
	require.Equal(t, -1, s.NodeIndex(0, 0))
	require.Equal(t, -1, s.KetamaIndex([]byte("k")))
}

// The nodes with the data service come first, because the vbucket map counts by them alone.
func TestIndexesCountNodesWithTheDataServiceOnly(t *testing.T) {
	s := parse(t, `{"nodeLocator":"vbucket","nodes":[{},{},{}],"nodesExt":[{"hostname":"q","services":{"n1ql":1}},{"hostname":"a","services":{"kv":1}},
		{"hostname":"b","services":{"kv":1}}],"vBucketServerMap":{"numReplicas":0,"serverList":["a:1","b:1"],"vBucketMap":[[0],[1]]}}`)
	require.Equal(t, "a:1", addr(s, s.NodeIndex(0, 0), "", false))
	require.Equal(t, "b:1", addr(s, s.NodeIndex(1, 0), "", false))
	require.Equal(t, []topology.Endpoint{{2, "q:1"}}, s.Endpoints(topology.Query, "", false))
}

func TestB72CapabilitiesAreSupportedUnsupportedOrUnknown(t *testing.T) {
	s := parse(t, example)
	require.Equal(t, topology.Supported, s.Capability("collections"))
	require.Equal(t, topology.Unsupported, s.Capability("rangeScan"))
	require.True(t, s.Supports("durableWrite"))
	require.False(t, s.Supports("rangeScan"))
	require.Equal(t, topology.Supported, s.ClusterCapability("n1ql", "readFromReplica"))
	require.Equal(t, topology.Unsupported, s.ClusterCapability("n1ql", "x"))
	require.Equal(t, topology.Unsupported, s.ClusterCapability("search", "vectorSearch"))
	global := parse(t, `{"rev":1,"nodesExt":[{"services":{"kv":1}}]}`)
	require.Equal(t, topology.Unknown, global.Capability("collections"))
	require.Equal(t, topology.Unknown, global.ClusterCapability("n1ql", "x"))
	require.False(t, global.Supports("collections"))
	none := parse(t, `{"rev":1,"uuid":"u","bucketCapabilities":[],"nodesExt":[{"services":{"kv":1}}]}`)
	require.Equal(t, topology.Unsupported, none.Capability("collections"))
}

func TestB70Networks(t *testing.T) {
	with := load(t, "bucket_config_with_external_addresses.json")
	require.Equal(t, []string{"external"}, with.Networks())
	for addr, want := range map[string]string{
		"172.17.0.2:11210": "default", "172.17.0.3:8091": "default", "172.17.0.4:11207": "default",
		"192.168.132.234:32775": "external",
		"192.168.132.234:32790": "external", "192.168.132.234:1": "external", "192.0.2.1:11210": "external",
		"": "external", "172.17.0.2": "external",
	} {
		require.Equal(t, want, with.Network(addr), addr)
	}
	require.Equal(t, []string{"192.168.132.234:32775", "192.168.132.234:32799", "192.168.132.234:32823"},
		addrs(with, "external", false))
	require.Equal(t, []string{"192.168.132.234:32776", "192.168.132.234:32800", "192.168.132.234:32824"},
		addrs(with, "external", true))
	require.Equal(t, "-", addr(parse(t, example), 0, "external", true), "a list of ports is all there is")
	require.Equal(t, []string{"172.17.0.2:11210", "172.17.0.3:11210", "172.17.0.4:11210"}, addrs(with, "", false))
	require.Equal(t, []string{"-", "-", "-"}, addrs(with, "no such network", false))

	s := parse(t, `{"nodesExt":[{"hostname":"Node-1","services":{"kv":1},"alternateAddresses":{"b":{"hostname":"x"},"a":{"hostname":"x"},"":{"hostname":"y"}}}]}`)
	require.Equal(t, "default", s.Network("node-1:1"))
	require.Equal(t, "a", s.Network("x:1"), "of several the first by name")
	require.Equal(t, "default", s.Network("y:1"), "a network without a name cannot be chosen")
}

func TestD11AlternateAddressWithoutPortsMeansTheNodesOwnPorts(t *testing.T) {
	s := load(t, "bucket_config_with_external_addresses_without_ports.json")
	require.Equal(t, "external", s.Network("192.168.132.234:11210"))
	require.Equal(t, []string{"192.168.132.234:11210", "192.168.132.234:11210", "192.168.132.234:11210"},
		addrs(s, "external", false))
	require.Equal(t, "192.168.132.234:11207", addr(s, 1, "external", true))
	require.Len(t, s.Endpoints(topology.Management, "external", false), 3)
}

func TestD12EmptyMapIsABucketThatCannotBeRoutedYet(t *testing.T) {
	for _, m := range []string{`"vBucketServerMap":{"numReplicas":1,"serverList":[],"vBucketMap":[]},`, `"vBucketServerMap":{},`, `"vBucketServerMap":{"vBucketMap":null},`, ``} {
		s := parse(t, `{"rev":1,"uuid":"u","nodeLocator":"vbucket",`+m+`"nodes":[{}],"nodesExt":[{"services":{"kv":1}}]}`)
		require.False(t, s.HasVBuckets())
		require.Zero(t, s.VBucket([]byte("k")))
		require.Equal(t, -1, s.NodeIndex(0, 0))
		require.Equal(t, "10.0.0.9:1", addr(s, 0, "", false))
	}
}

func TestD14NodesOutsideANetworkKeepTheirPlace(t *testing.T) {
	s := parse(t, `{"nodeLocator":"vbucket","nodes":[{},{},{}],"nodesExt":[
		{"hostname":"a","services":{"kv":1},"alternateAddresses":{"external":{"hostname":"x"}}},{"hostname":"b","services":{"kv":1}},
		{"hostname":"c","services":{"kv":1},"alternateAddresses":{"external":{"hostname":"z"}}}],
		"vBucketServerMap":{"numReplicas":1,"vBucketMap":[[0,1],[1,2],[2,0]]}}`)
	want := []string{"x:1", "-", "z:1"}
	for vb := range 3 {
		require.Equal(t, vb, s.NodeIndex(uint16(vb), 0))
		require.Equal(t, want[vb], addr(s, s.NodeIndex(uint16(vb), 0), "external", false))
	}
}

func TestT16TheNumberOfVBucketsIsForLife(t *testing.T) {
	bucket := func(uuid, rows string) *topology.Snapshot {
		return parse(t, `{"uuid":"`+uuid+`","nodes":[{}],"nodesExt":[{"services":{"kv":1}}],"vBucketServerMap":{"vBucketMap":[`+rows+`]}}`)
	}
	two := bucket("u", "[0],[0]")
	require.NoError(t, two.Conflict(nil))
	require.NoError(t, bucket("u", "[0],[-1]").Conflict(two))
	require.NoError(t, bucket("u", "").Conflict(two))
	require.NoError(t, two.Conflict(bucket("u", "")))
	require.NoError(t, bucket("other", "[0]").Conflict(two))
	require.ErrorContains(t, bucket("u", "[0]").Conflict(two), "from 2 to 1")
}

// The forward map has the same nodes as the map, and one of another length is ignored.
func TestForwardMap(t *testing.T) {
	s := parse(t, example) // of one row, where there are eight vbuckets
	require.Equal(t, -1, s.ForwardIndex(0))
	s = parse(t, strings.Replace(example, `"vBucketMapForward": [[0,1]]`, `"vBucketMapForward": [[1,0],[1,0],[-1,0],[0],[0],[],[0,1],[0,1]]`, 1))
	want := []int{1, 1, -1, 0, 0, -1, 0, 0}
	for vb, node := range want {
		require.Equal(t, node, s.ForwardIndex(uint16(vb)), vb)
	}
	require.Equal(t, -1, s.ForwardIndex(8))
	require.Equal(t, -1, s.ForwardIndex(65535))
	// One of another form is ignored, and an index past the nodes is a place without one.
	for text, want := range map[string]int{`[[7],[],[],[],[],[],[],[]]`: -1, `[[1],[0],"",[],[],[],[],[]]`: -1, `{}`: -1, `[[1],[7],[],[],[],[],[],[]]`: 1} {
		s = parse(t, strings.Replace(example, `"vBucketMapForward": [[0,1]]`, `"vBucketMapForward": `+text, 1))
		require.Equal(t, want, s.ForwardIndex(0), text)
	}
}
