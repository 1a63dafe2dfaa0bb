package mock_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// versionFacts are what a real server of a version grants and says, written down apart from the mock's tables.
type versionFacts struct {
	name, full string
	hello      string // features, of all but 05 and 1f
	errors     [3]int // version, revision and number of codes of the newest error map
	fields     string // of a bucket's configuration, beyond those that all versions have
	capable    string // capabilities of buckets, beyond those that all versions have
	services   string
}

const (
	hello66 = "03 04 06 07 08 0a 0b 0c 0d 0e 0f 10 11"
	hello76 = hello66 + " 12 13 14 15"
	since76 = " 17 18 19 1b 1c 1d 1e 20"
	capable = "collections subdoc.DocumentMacroSupport subdoc.ReplaceBodyWithXattr"
	newer   = capable + " dcp.IgnorePurgedTombstones mobileSystemCollection preserveExpiry querySystemCollection " +
		"rangeScan subdoc.ReplicaRead subdoc.ReviveDocument"
	query  = "n1ql.enhancedPreparedStatements"
	query6 = "n1ql.costBasedOptimizer n1ql.enhancedPreparedStatements n1ql.indexAdvisor n1ql.inlineFunctions " +
		"n1ql.javaScriptFunctions n1ql.readFromReplica search.scopedSearchIndex search.vectorSearch"
)

var versions = []versionFacts{
	{"6.6", "6.6.5", hello66 + " 15 17", [3]int{1, 2, 57}, "", "", query},
	{"7.0", "7.0.5", hello66 + " 12 14 15 16 17 18 19", [3]int{1, 4, 61}, "revEpoch", capable, query},
	{
		"7.1", "7.1.6", hello66 + " 12 14 15 16 17 18 19",
		[3]int{2, 1, 66},
		"bucketType revEpoch storageBackend",
		capable + " subdoc.ReviveDocument", query,
	},
	{
		"7.2", "7.2.9", hello66 + " 12 14 15 16 17 18 19",
		[3]int{2, 1, 66},
		"bucketType revEpoch storageBackend",
		capable + " dcp.IgnorePurgedTombstones subdoc.ReviveDocument", query,
	},
	{
		"7.6.0", "7.6.0", hello76 + " 16" + since76,
		[3]int{2, 4, 79},
		"bucketType numVBuckets revEpoch storageBackend",
		newer, query6,
	},
	{
		"7.6", "7.6.8", hello76 + " 16" + since76 + " 21",
		[3]int{2, 5, 80},
		"bucketType clusterName clusterUUID numVBuckets revEpoch serverGroup storageBackend", newer, query6,
	},
	{
		"8.0", "8.0.1", hello76 + since76 + " 21 22 23 24",
		[3]int{2, 6, 83},
		"bucketType clusterName clusterUUID nodeUUID numVBuckets prod prodName revEpoch serverGroup storageBackend",
		newer + " subdoc.AccessDeleted subdoc.BinaryXattr", query6,
	},
}

// granted is what HELLO grants of all features but for two that exclude others.
func granted(r *raw) string {
	r.t.Helper()
	var all []memd.Feature
	for f := memd.Feature(0x30); f > 0; f-- {
		if f != memd.FeatureTCPDelay && f != memd.FeatureClustermapChangeBrief {
			all = append(all, f)
		}
	}
	p := r.call(helloPacket(all...))
	require.Equal(r.t, memd.StatusSuccess, p.Status)
	var out []string
	for v := p.Value; len(v) > 0; v = v[2:] {
		out = append(out, fmt.Sprintf("%02x", v[1]))
	}
	return strings.Join(out, " ")
}

// extraFields are the fields of a bucket's configuration that not all versions have.
func extraFields(t *testing.T, config []byte) string {
	t.Helper()
	var j struct {
		Ext []map[string]any `json:"nodesExt"`
	}
	var top map[string]any
	require.NoError(t, json.Unmarshal(config, &top))
	require.NoError(t, json.Unmarshal(config, &j))
	var out []string
	for _, name := range strings.Fields("revEpoch bucketType storageBackend numVBuckets serverGroup clusterUUID " +
		"clusterName nodeUUID prod prodName") {
		if top[name] != nil || j.Ext[0][name] != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// capabilities are those of a bucket that not all versions have, and those of the services.
func capabilities(t *testing.T, config []byte) (bucket, services string) {
	t.Helper()
	var j struct {
		Bucket   []string            `json:"bucketCapabilities"`
		Services map[string][]string `json:"clusterCapabilities"`
	}
	require.NoError(t, json.Unmarshal(config, &j))
	var names, of []string
	for _, name := range j.Bucket {
		switch name {
		case "durableWrite", "tombstonedUserXAttrs", "couchapi", "dcp", "cbhello", "touch", "cccp",
			"xdcrCheckpointing", "nodesExt", "xattr":
		default:
			names = append(names, name)
		}
	}
	require.Len(t, j.Bucket, len(names)+10)
	for service, list := range j.Services {
		for _, name := range list {
			of = append(of, service+"."+name)
		}
	}
	slices.Sort(names)
	slices.Sort(of)
	return strings.Join(names, " "), strings.Join(of, " ")
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestAVersionIsConsistent(t *testing.T) {
	for _, want := range versions {
		t.Run(want.name, func(t *testing.T) {
			c := mock.Start(t, mock.Version(want.name), mock.Bucket("default", 8))
			require.Equal(t, want.full, c.Node(0).Version())
			r := login(t, c)
			require.Equal(t, want.hello, granted(r))
			require.Equal(t, want.full+"-0000", string(r.call(memd.Packet{Opcode: memd.OpVersion}).Value))

			var errors struct {
				Version, Revision int
				Errors            map[string]any
			}
			p := r.call(memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte{0, 2}})
			require.NoError(t, json.Unmarshal(p.Value, &errors))
			require.Equal(t, want.errors, [3]int{errors.Version, errors.Revision, len(errors.Errors)})

			config := r.call(memd.Packet{Opcode: memd.OpGetClusterConfig}).Value
			require.Equal(t, want.fields, extraFields(t, config))
			bucket, services := capabilities(t, config)
			require.Equal(t, sorted(want.capable), bucket)
			require.Equal(t, want.services, services)
			saysVersion(t, c, want.full)
		})
	}
}

// saysVersion checks that the management service says the same as key-value.
func saysVersion(t *testing.T, c *mock.Cluster, full string) {
	t.Helper()
	m := newManager(t, c)
	var pools struct {
		Version string `json:"implementationVersion"`
	}
	var pool struct {
		Nodes []struct {
			Version string
			Compat  int `json:"clusterCompatibility"`
		}
	}
	var info struct {
		Compat string `json:"clusterCompatVersion"`
	}
	for path, into := range map[string]any{
		"/pools": &pools, "/pools/default": &pool, "/pools/default/terseClusterInfo": &info,
	} {
		code, body := m.do("GET", path, nil)
		require.Equal(t, 200, code, path)
		require.NoError(t, json.Unmarshal(body, into), path)
	}
	require.Equal(t, full+"-0000-enterprise", pools.Version)
	require.Equal(t, pools.Version, pool.Nodes[0].Version)
	var major, minor, patch int
	_, err := fmt.Sscanf(full, "%d.%d.%d", &major, &minor, &patch)
	require.NoError(t, err)
	require.Equal(t, major<<16|minor, pool.Nodes[0].Compat)
	require.Equal(t, fmt.Sprintf("%d.%d", major, minor), info.Compat)
}

func TestTheDefaultVersionIsTheNewest(t *testing.T) {
	require.Equal(t, "8.0.1", mock.Start(t).Node(0).Version())
}

func TestVersionsThatAreNotKnown(t *testing.T) {
	for _, version := range []string{"", "7", "7.x", "6.5", "7.5", "9.0", "7.6.99", "7.6.2.1", "-7.6"} {
		_, err := mock.New(mock.Virtual(), mock.Version(version))
		require.ErrorContains(t, err, fmt.Sprintf("%q", version))
		_, err = mock.New(mock.Virtual(), mock.NodeVersion(0, version))
		require.Error(t, err)
	}
}

// TestNodesOfSeveralVersions is a cluster in the middle of an upgrade: each node is of its version, and the cluster can
// do what the oldest member can, until that has left.
func TestNodesOfSeveralVersions(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.NodeVersion(1, "7.2"), mock.NodeVersion(2, "7.6.0"),
		mock.Bucket("default", 8))
	require.Equal(t, versions[6].hello, granted(loginAt(t, c, 0)))
	require.Equal(t, versions[3].hello, granted(loginAt(t, c, 1)))
	check := func(node int, fields, capable versionFacts) {
		t.Helper()
		config := loginAt(t, c, node).call(memd.Packet{Opcode: memd.OpGetClusterConfig}).Value
		require.Equal(t, fields.fields, extraFields(t, config))
		bucket, services := capabilities(t, config)
		require.Equal(t, sorted(capable.capable), bucket)
		require.Equal(t, capable.services, services)
	}
	check(0, versions[6], versions[3])
	check(1, versions[3], versions[3])
	require.Equal(t, 2, c.AddNode())
	require.Equal(t, "7.6.0", c.Node(2).Version())
	require.NoError(t, c.RemoveNode(1))
	check(0, versions[6], versions[5])
	require.NoError(t, c.RemoveNode(2))
	check(0, versions[6], versions[6])
}
