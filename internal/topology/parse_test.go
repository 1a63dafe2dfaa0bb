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
	ext := func(nodes string) string { return `{"uuid":"u","nodes":[{}],"nodesExt":[` + nodes + `]}` }
	for _, tc := range []struct{ raw, field string }{
		{"", "document"},
		{"[]", "document"},
		{"{", "document"},
		{`{"rev":1}{}`, "document"},
		{"null", "nodes"},
		{"{}", "nodes"},
		{with(`"rev":-1`), "rev"},
		{with(`"revEpoch":-1`), "revEpoch"},
		{with(`"revEpoch":9223372036854775808`), "revEpoch"},
		{with(`"rev":"1"`), "rev"},
		{with(`"rev":1e30`), "rev"},
		{with(`"rev":18446744073709551616`), "rev"},
		{with(`"name":1`), "name"},
		{with(`"vBucketServerMap":[]`), "vBucketServerMap"},
		{`{"uuid":1}`, "uuid"},
		{`{"nodes":{}}`, "nodes"},
		{`{"nodesExt":{}}`, "nodesExt"},
		{ext(`{},7`), "nodesExt"},
		{ext(`{"services":{"kv":65536}}`), "port of kv"},
		{ext(`{"services":{"kv":"1"}}`), "port of kv"},
		{ext(`{"services":{"kv":1.5}}`), "port of kv"},
		{ext(`{"services":[]}`), "services"},
		{ext(`{"hostname":1}`), "hostname"},
		{ext(`{"hostname":"a/b"}`), "hostname"},
		{ext(`{"hostname":"` + strings.Repeat("h", 256) + `"}`), "length of a hostname"},
		{ext(strings.Repeat("{},", 8192) + `{}`), "number of elements in a list"},
		{with(`"bucketCapabilities":[` + strings.Repeat(`"",`, 8192) + `""]`), "number of elements in a list"},
		{`{"nodes":[{"hostname":"a:x","ports":{"direct":1}}]}`, "port in hostname"},
		{`{"nodes":[{"hostname":"a b:1","ports":{"direct":1}}]}`, "hostname"},
		{`{"nodes":[{"ports":{"direct":-1}}]}`, "port of kv"},
		{`{"vBucketServerMap":{"serverList":["a"]}}`, "serverList"},
		{`{"vBucketServerMap":{"serverList":["a:x"]}}`, "port in serverList"},
		{`{"vBucketServerMap":{"serverList":["a:65536"]}}`, "port in serverList"},
		{`{"vBucketServerMap":{"serverList":[1]}}`, "serverList"},
		{`{"vBucketServerMap":{"serverList":["a@b:1"]}}`, "serverList"},
		{vbucketMap(0, `{}`), "vBucketMap"},
		{vbucketMap(0, `1`), "vBucketMap"},
		{vbucketMap(0, `[0]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[0],null]`), "vBucketMap[1]"},
		{vbucketMap(0, `[[0],["0"]]`), "vBucketMap[1]"},
		{vbucketMap(0, `[[0.5]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[1e0]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[[[0]]]`), "vBucketMap[0]"},
		{vbucketMap(0, `[`+strings.Repeat("[],", 1<<16)+`[]]`), "number of vbuckets"},
		{with(`"uuid":"u"`), `member "uuid"`},
		{with(`"\u0075uid":"u"`), `member "uuid"`},
		{with(`"x":[{"y":{"z":1,"a":2,"z":1}}]`), `member "z"`},
		{with(`"x":{` + names(100) + `"n7":1}`), `member "n7"`},
		{with(`"x":{` + names(8192) + `"n":1}`), "number of members in an object"},
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

// names are n members of different names.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"n%d":%d,`, i, i)
	}
	return b.String()
}

func TestTheSameNameInDifferentObjectsIsNoMemberTwice(t *testing.T) {
	parse(t, fmt.Sprintf(small, `"x":[{"a":1,"b":{"a":1}},{"a":1}],"y":{`+names(8191)+`"n":"n1"},"":{"":[]}`))
}

// Which port of a data node must be right depends on whether TLS is used.
func TestThePortsThatAreUsedMustBeRight(t *testing.T) {
	for _, tc := range []struct {
		services  string
		cleartext bool // accepted without TLS
		tls       bool // and with it
	}{
		{`{"kv":1,"kvSSL":"2"}`, true, false},
		{`{"kv":70000,"kvSSL":2}`, false, true},
		{`{"kv":1,"kvSSL":2,"n1ql":"x","fts":-1,"cbas":1e3,"mgmt":{}}`, true, true},
	} {
		for _, tls := range []bool{false, true} {
			s, err := topology.Parse([]byte(`{"nodesExt":[{"services":`+tc.services+`}]}`), "h", topology.Options{TLS: tls})
			want := tc.cleartext
			if tls {
				want = tc.tls
			}
			require.Equal(t, want, err == nil, "%s %v", tc.services, err)
			if err == nil {
				require.Empty(t, s.Endpoints(topology.Query, "", false))
			}
		}
	}
}

func TestHosts(t *testing.T) {
	for _, good := range []string{
		"a", "A-1.b_c.example.com", "localhost", "10.0.0.1", "::1", "[::1]", "2001:db8::1", "fe80::1%eth0.1",
		"xn--bcher-kva.example", "a.",
	} {
		require.NoError(t, topology.CheckHost(good), good)
	}
	for _, bad := range []string{
		"", "a/b", "127.0.0.3/evil/path?x=", "a?b", "a#b", "u@h", "a:1", "a b", "a\nb", "a\x00", "[a]", "[::1", "::1]",
		"a%41", "fe80::1%e/x",
		"h\xc3\xa9", "127.0.0.1:8091", "a,b", "*", strings.Repeat("a", 256),
	} {
		require.Error(t, topology.CheckHost(bad), bad)
	}
	for host, want := range map[string]string{
		"a:8091": "a", "[::1]:8091": "::1", "10.0.0.1:1": "10.0.0.1",
		"::1": "::1", "[::2]": "::2",
	} {
		require.Equal(t, want, parse(t, `{"nodesExt":[{"hostname":"`+host+`","services":{"kv":1}}]}`).Nodes[0].Host)
	}
	for _, host := range []string{"a:x", "a:", "a:123456", "a:1:2", "[::1]:x"} {
		_, err := topology.Parse([]byte(`{"nodesExt":[{"hostname":"`+host+`","services":{"kv":1}}]}`), "h", topology.Options{})
		require.ErrorContains(t, err, "hostname", host)
	}
}

// Rows count by the list of servers, whatever the order of nodesExt is.
func TestTheOrderOfTheListOfServers(t *testing.T) {
	const ext = `{"hostname":"A","services":{"kv":1,"kvSSL":9}},{"hostname":"b","services":{"kv":2}},{"services":{"kv":2}}`
	for list, want := range map[string][]int{
		`"a:1","b:2","$HOST:2"`:       {0, 1, 2, -1},
		`"$HOST:2","a:1","b:2"`:       {2, 0, 1, -1},
		`"x:1","b:2","a:1","$HOST:2"`: {-1, 1, 0, 2},
		`"b:2","a:1",7,"$HOST:2"`:     {1, 0, -1, 2},
		`"b:7","a:7","$HOST:7"`:       {1, 0, 2, -1}, // the hosts alone agree
		`"b:2","a:1","c:2"`:           {0, 1, 2, -1}, // one is unknown: the order counts
		`"b:2","a:1","b:2","c:1"`:     {0, 1, 2, -1},
		``:                            {0, 1, 2, -1},
	} {
		s := parse(t, `{"uuid":"u","nodes":[{},{},{}],"nodesExt":[`+ext+`],"vBucketServerMap":{"numReplicas":0,"serverList":[`+list+
			`],"vBucketMap":[[0],[1],[2],[3]],"vBucketMapForward":[[0],[1],[2],[3]]}}`)
		for vb, node := range want {
			require.Equal(t, node, s.NodeIndex(uint16(vb), 0), "%s vbucket %d", list, vb)
			require.Equal(t, node, s.ForwardIndex(uint16(vb)), "%s vbucket %d", list, vb)
		}
	}
}

func TestReplicasFollowFromTheRowsWhereNoNumberSays(t *testing.T) {
	for numReplicas, want := range map[string]int{`"x":0`: 2, `"numReplicas":"1"`: 2, `"numReplicas":-1`: 2, `"numReplicas":1`: 1, `"numReplicas":9`: 3} {
		s := parse(t, `{"uuid":"u","nodes":[{}],"nodesExt":[{"services":{"kv":1}}],"vBucketServerMap":{`+numReplicas+`,"vBucketMap":[[0],[0,0,0]]}}`)
		require.Equal(t, want, s.Replicas, numReplicas)
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
	for vb, want := range [][]int{
		{0, 1, -1, -1},
		{1, -1, -1, -1},
		{-1, -1, -1, -1},
		{0, 1, 1, -1},
		{-1, 0, 1, -1},
		{-1, -1, -1, -1},
		{-1, -1, -1, -1},
	} {
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
	f.Add([]byte(vbucketMap(3, "["+strings.Repeat("[0,1,2,-1],", 1023)+"[2,1,0,-1]]")), "huge")
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
		if epoch, rev, ok := topology.ScanVersion(raw); ok && strings.Count(lower, "rev") == 1+strings.Count(lower,
			"revepoch") &&
			strings.Count(lower, "revepoch") <= 1 && !strings.ContainsFunc(lower, func(r rune) bool {
			return r > 126 ||
				r == '\\' || r == '$'
		}) {
			require.Equal(t, s.Epoch, epoch)
			require.Equal(t, s.Rev, rev)
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
	}
	require.Equal(t, s.Rev == 0, s.Newer(s))
	require.True(t, s.Newer(nil))
	require.NoError(t, s.Conflict(s))
}
