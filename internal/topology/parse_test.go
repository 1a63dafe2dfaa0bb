package topology_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/topology"
)

// small is a map with %s in the place of further members.
const small = `{"uuid":"u","nodeLocator":"vbucket","nodes":[{},{}],"nodesExt":[{"hostname":"a","services":{"kv":1}},{"hostname":"b","services":{"kv":2}}],%s}`

func vbucketMap(replicas int, rows string) string {
	return fmt.Sprintf(small, fmt.Sprintf(`"vBucketServerMap":{"numReplicas":%d,"serverList":["a:1","b:2","c:3"],"vBucketMap":%s}`, replicas, rows))
}

func TestMalformedMapsNameTheField(t *testing.T) {
	with := func(member string) string { return fmt.Sprintf(small, member) }
	for _, tc := range []struct{ raw, field string }{
		{"", "document"},
		{"[]", "document"},
		{"{", "document"},
		{`{"rev":1}{}`, "document"},
		{"null", "nodes"},
		{"{}", "nodes"},
		{with(`"rev":-1`), "rev or revEpoch"},
		{with(`"revEpoch":-1`), "rev or revEpoch"},
		{with(`"rev":"1"`), "rev"},
		{with(`"rev":1e30`), "rev"},
		{with(`"rev":99999999999999999999`), "rev"},
		{with(`"collectionsManifestUid":"x"`), "collectionsManifestUid"},
		{with(`"collectionsManifestUid":"11112222333344445"`), "collectionsManifestUid"},
		{with(`"nodeLocator":"other"`), "nodeLocator"},
		{with(`"nodesExt":[{"services":{"kv":65536}}]`), "port of kv"},
		{with(`"nodesExt":[{"services":{"n1qlSSL":-1}}]`), "port of query"},
		{with(`"nodesExt":[{"services":{},"alternateAddresses":{"x":{"ports":{"kv":70000}}}}]`), "port of kv"},
		{with(`"nodesExt":[{"services":{"kv":"1"}}]`), "nodesExt.services.kv"},
		{with(`"nodesExt":{}`), "nodesExt"},
		{with(`"nodesExt":[{"hostname":"` + strings.Repeat("h", 256) + `"}]`), "length of a hostname"},
		{with(`"nodesExt":[{"alternateAddresses":{"x":{"hostname":"` + strings.Repeat("h", 256) + `"}}}]`), "length of a hostname"},
		{with(`"nodesExt":[` + strings.Repeat("{},", 8192) + `{}]`), "number of elements in a list"},
		{with(`"bucketCapabilities":[` + strings.Repeat(`"",`, 8192) + `""]`), "number of elements in a list"},
		{`{"nodes":[{"hostname":"a:x","ports":{"direct":1}}]}`, "hostname"},
		{`{"nodes":[{"ports":{"direct":-1}}]}`, "port of kv"},
		{`{"nodes":[{"couchApiBase":"http://h:99999/","ports":{"direct":1}}]}`, "port of views"},
		{`{"vBucketServerMap":{"serverList":["a"]}}`, "serverList"},
		{`{"vBucketServerMap":{"serverList":["a:x"]}}`, "serverList"},
		{`{"vBucketServerMap":{"serverList":["a:65536"]}}`, "port of kv"},
		{vbucketMap(4, `[]`), "numReplicas"},
		{vbucketMap(-1, `[]`), "numReplicas"},
		{vbucketMap(0, `{}`), "vBucketMap"},
		{vbucketMap(0, `1`), "vBucketMap"},
		{vbucketMap(0, `[0]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[0],null]`), "vBucketMap[1]"},
		{vbucketMap(0, `[[0],["0"]]`), "vBucketMap[1]"},
		{vbucketMap(0, `[[0.5]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[1e0]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[[0]]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[-2]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[99999999999999999999]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[8193]]`), "vBucketMap[0]"},
		{vbucketMap(1, `[[0,3]]`), "node of vbucket 0"},
		{vbucketMap(0, `[[0],[0],[3]]`), "node of vbucket 2"},
		{vbucketMap(0, `[`+strings.Repeat("[],", 1<<16)+`[]]`), "number of vbuckets"},
	} {
		name := tc.raw[:min(len(tc.raw), 200)]
		_, err := topology.Parse([]byte(tc.raw), "h", topology.Options{})
		var pe *topology.ParseError
		require.ErrorAs(t, err, &pe, name)
		require.Equal(t, tc.field, pe.Field, name)
		require.Contains(t, err.Error(), tc.field)
		if pe.Err != nil {
			require.ErrorIs(t, err, pe.Err)
		}
	}
}

func TestSizeAndDepthAreLimited(t *testing.T) {
	raw := fmt.Sprintf(small, `"x":[[["]]]]","\"["]]]`)
	for _, tc := range []struct {
		o  topology.Options
		ok bool
	}{
		{topology.Options{MaxBytes: len(raw)}, true},
		{topology.Options{MaxBytes: len(raw) - 1}, false},
		{topology.Options{MaxDepth: 4}, true},
		{topology.Options{MaxDepth: 3}, false},
	} {
		_, err := topology.Parse([]byte(raw), "h", tc.o)
		require.Equal(t, tc.ok, err == nil, "%+v: %v", tc.o, err)
		if !tc.ok {
			require.ErrorContains(t, err, "limit")
		}
	}
	_, err := topology.Parse([]byte(strings.Repeat("[", 1<<20)), "h", topology.Options{})
	require.ErrorContains(t, err, "depth")
	// What takes the place of $HOST counts as well.
	raw = fmt.Sprintf(small, `"x":"`+strings.Repeat("$HOST", 1000)+`"`)
	_, err = topology.Parse([]byte(raw), strings.Repeat("h", 100), topology.Options{MaxBytes: 100_000})
	require.ErrorContains(t, err, "size")
}

// A megabyte of the smallest elements must not become a hundred of memory.
func TestMemoryIsBoundedByTheSizeOfTheMap(t *testing.T) {
	const n = 1 << 20
	for _, member := range []string{
		`"nodesExt":[` + strings.Repeat("{},", n/3) + `{}]`, `"bucketCapabilities":[` + strings.Repeat(`"",`, n/3) + `""]`,
		`"vBucketServerMap":{"vBucketMap":[` + strings.Repeat("[],", n/3) + `[]]}`,
		`"vBucketServerMap":{"vBucketMap":[[` + strings.Repeat("0,", n/2) + `0]]}`,
	} {
		raw := []byte(fmt.Sprintf(small, member))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = topology.Parse(raw, "h", topology.Options{})
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*n), member[:20])
	}
}

func TestUnevenRowsAreAnswered(t *testing.T) {
	s := parse(t, vbucketMap(2, ` [ [ 0 , 1 , -1 ] , [1], [], [0,1,1,1,1,1,1],[2,0,1] , [-1,-1,-1] ] `))
	for vb, want := range [][]int{{0, 1, -1, -1}, {1, -1, -1, -1}, {-1, -1, -1, -1}, {0, 1, 1, -1}, {-1, 0, 1, -1}, {-1, -1, -1, -1}, {-1, -1, -1, -1}} {
		for replica, node := range want {
			require.Equal(t, node, s.NodeIndex(uint16(vb), replica), "vbucket %d replica %d", vb, replica)
		}
		require.Equal(t, -1, s.NodeIndex(uint16(vb), -1))
		require.Equal(t, -1, s.NodeIndex(uint16(vb), 1<<30))
	}
	require.Equal(t, -1, s.NodeIndex(65535, 0))
	for _, i := range []int{-1, 2, 1 << 30, -1 << 30} {
		_, ok := s.KVAddr(i, "", false)
		require.False(t, ok)
	}
}

func TestD13AnyNumberOfVBucketsWorks(t *testing.T) {
	for _, n := range []int{1, 13, 1024, 65535, 65536} {
		s := parse(t, vbucketMap(0, "["+strings.Repeat("[0],", n-1)+"[1]]"))
		require.Equal(t, n, s.NumVBuckets())
		require.Equal(t, 1, s.NodeIndex(uint16(n-1), 0))
		require.Equal(t, topology.Hash([]byte("foo"), n), s.VBucket([]byte("foo")))
		require.Less(t, int(s.VBucket([]byte("hello"))), n)
	}
}

func TestB73ReplicaSelectsTheColumn(t *testing.T) {
	s := load(t, "bucket_config_with_node_uuids.json")
	require.Equal(t, 1, s.Replicas)
	counts := map[[2]int]int{}
	for vb := range s.NumVBuckets() {
		counts[[2]int{s.NodeIndex(uint16(vb), 0), s.NodeIndex(uint16(vb), 1)}]++
	}
	for pair := range counts {
		require.NotEqual(t, pair[0], pair[1])
	}
	require.Len(t, counts, 6, "three nodes, each the replica of the two others")
	require.Equal(t, 0, s.NodeIndex(0, 0))
	require.Equal(t, 1, s.NodeIndex(0, 1))
	require.Equal(t, -1, s.NodeIndex(0, 2))
}

func TestB65KeysHaveTheirVBuckets(t *testing.T) {
	for _, tc := range []struct {
		key  string
		n    int
		want uint16
	}{
		{"\x00", 1024, 0x202},
		{"\x00", 64, 0x02},
		{"\x00", 48, 0x12},
		{"\x00", 13, 0x0c},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", 1024, 0xaa},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", 64, 0x2a},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", 48, 0x0a},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", 13, 0x08},
		{"hello", 1024, 0x210},
		{"hello", 64, 0x10},
		{"hello", 48, 0x10},
		{"hello", 13, 0x08},
		{"foo", 1024, 115},
		{"bar", 1024, 767},
		{"Hello", 1024, 977},
		{"user::1", 1024, 997},
		{"airline_10", 1024, 361},
		{"counter", 1024, 290},
		{"", 1024, 0},
		{"foo", 64, 51},
		{"bar", 64, 63},
		{"foo", 1, 0},
		{"foo", 0, 0},
		{"foo", -1, 0},
	} {
		require.Equal(t, tc.want, topology.Hash([]byte(tc.key), tc.n), "%q of %d", tc.key, tc.n)
	}
}

// F6: no map panics, breaks a limit, or leaves a question without an answer.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example), "10.0.0.9")
	f.Add([]byte(vbucketMap(1, "[[0,1],[1,-1],[]]")), "::1")
	f.Add([]byte(`{"nodeLocator":"ketama","nodes":[{"hostname":"a:8091","ports":{"direct":1}}]}`), "h")
	f.Add([]byte(`{"rev":1,"nodesExt":[{"services":{"kv":1},"alternateAddresses":{"external":{"hostname":"x"}}}]}`), "$HOST")
	f.Add([]byte(`{"vBucketServerMap":{"serverList":["a:1"],"vBucketMap":[[0]]},"nodes":[{"hostname":"$HOST:8091","couchApiBase":"http://h:1/"}]}`), "h")
	names, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, name := range names {
		raw, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(raw, "node-1")
	}
	f.Fuzz(func(t *testing.T, raw []byte, host string) {
		_, _, _ = topology.ScanVersion(raw)
		s, err := topology.Parse(raw, host, topology.Options{MaxBytes: 1 << 20})
		if err != nil {
			var pe *topology.ParseError
			require.ErrorAs(t, err, &pe)
			require.NotEmpty(t, pe.Field)
			require.NotEmpty(t, err.Error())
			return
		}
		// Without tricks with the spelling of keys, the scan agrees with the decoder.
		lower := strings.ToLower(string(raw))
		if epoch, rev, ok := topology.ScanVersion(raw); ok && strings.Count(lower, "rev") == 1+strings.Count(lower, "revepoch") &&
			strings.Count(lower, "revepoch") <= 1 && !strings.ContainsFunc(lower, func(r rune) bool { return r > 126 || r == '\\' || r == '$' }) {
			require.Equal(t, []int64{s.Epoch, s.Rev}, []int64{epoch, rev})
		}
		total(t, s)
	})
}

// total asks a map everything.
func total(t *testing.T, s *topology.Snapshot) {
	require.NotEmpty(t, s.Nodes)
	networks := append(s.Networks(), "", "default", "other")
	for vb := 0; vb <= s.NumVBuckets(); vb += 1 + s.NumVBuckets()/64 {
		for replica := -1; replica <= topology.MaxReplicas+1; replica++ {
			i := s.NodeIndex(uint16(vb), replica)
			require.True(t, i >= -1 && i < len(s.Nodes) && (i < 0 || s.Nodes[i].KV))
			require.True(t, i < 0 || replica <= s.Replicas)
			for _, n := range networks {
				s.KVAddr(i, n, vb%2 == 0)
			}
		}
	}
	for _, key := range []string{"", "k", "\xff"} {
		require.Less(t, int(s.VBucket([]byte(key))), max(1, s.NumVBuckets()))
		i := s.KetamaIndex([]byte(key))
		require.True(t, i >= -1 && i < len(s.Nodes))
	}
	for _, n := range networks {
		for svc := range topology.Backup + 2 {
			for _, e := range s.Endpoints(svc, n, true) {
				s.Network(e.Addr)
			}
		}
		_, _, removed := topology.Diff(s, s, n, false)
		require.Empty(t, removed)
	}
	require.Equal(t, s.Rev == 0, s.Newer(s))
	require.True(t, s.Newer(nil))
	require.NoError(t, s.Conflict(s))
}
