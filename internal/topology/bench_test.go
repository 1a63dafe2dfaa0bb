package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/topology"
)

// large is a map of about 300 KB: 100 nodes, 1,024 vbuckets, 3 replicas.
func large(pad string) []byte {
	var list, nodes, ext, rows []string
	for i := range 100 {
		host := fmt.Sprintf("node-%03d.example.com", i)
		list = append(list, fmt.Sprintf(`"%s:11210"`, host))
		nodes = append(nodes, fmt.Sprintf(`{"couchApiBase":"http://%s:8092/b%%2Bu","hostname":"%s:8091","ports":{"direct":11210}}`, host, host))
		ext = append(ext, fmt.Sprintf(`{"services":{"mgmt":8091,"mgmtSSL":18091,"kv":11210,"kvSSL":11207,"capi":8092,"capiSSL":18092,"n1ql":8093,"projector":9999},
			"hostname":"%s","nodeUUID":"%032x","serverGroup":"Group 1","alternateAddresses":{"external":{"hostname":"x-%s","ports":{"kv":1,"kvSSL":2}}}}`, host, i, host))
	}
	for vb := range 1024 {
		rows = append(rows, fmt.Sprintf("[%s%d,%s%d,%s%d,%s%d]", pad, vb%100, pad, (vb+1)%100, pad, (vb+2)%100, pad,
			(vb+3)%100))
	}
	return []byte(`{"rev":9,"revEpoch":1,"name":"b","uuid":"u","nodeLocator":"vbucket","vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":3,"serverList":[` +
		strings.Join(list, ",") + `],"vBucketMap":[` + strings.Join(rows, ",") + `]},"nodes":[` + strings.Join(nodes, ",") + `],"nodesExt":[` + strings.Join(ext, ",") + `]}`)
}

func TestRoutingAndScanningCostNoAllocation(t *testing.T) {
	raw := large("")
	s, err := topology.Parse(raw, "h", topology.Options{})
	require.NoError(t, err)
	key := []byte("airline_10")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if s.NodeIndex(s.VBucket(key), 1) < 0 {
			t.Error("no node")
		}
		if _, _, ok := topology.ScanVersion(raw); !ok {
			t.Error("no version")
		}
	}))
	require.Less(t, testing.AllocsPerRun(10, func() { _, _ = topology.Parse(raw, "h", topology.Options{}) }), 4000.0,
		"rows cost nothing")
}

func BenchmarkParse(b *testing.B) {
	captured := file(b, "bucket_config_with_node_uuids.json")
	for name, raw := range map[string][]byte{
		"captured": captured, "100nodes": large(""),
		"100nodesIndented": large("\n        "),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := topology.Parse(raw, "h", topology.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVBucket(b *testing.B) {
	s := load(b, "bucket_config_with_node_uuids.json")
	key := []byte("airline_10")
	b.ReportAllocs()
	for b.Loop() {
		s.NodeIndex(s.VBucket(key), 0)
	}
}

func BenchmarkScanVersion(b *testing.B) {
	raw := file(b, "bucket_config_with_node_uuids.json")
	b.ReportAllocs()
	for b.Loop() {
		topology.ScanVersion(raw)
	}
}
