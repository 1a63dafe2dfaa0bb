package field_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// failOnce gives every failure to the caller.
var failOnce = retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })

// mapsThrough is a cluster of count nodes whose maps of a bucket go through change.
func mapsThrough(t testing.TB, count int, spec scripted.Spec, change func(s *scripted.Cluster,
	raw string) string,
) *scripted.Cluster {
	t.Helper()
	s := scripted.New(t, count)
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		spec := spec
		spec.Bucket = bucket
		return []byte(change(s, string(s.Render(spec))))
	}
	return s
}

func memberChanged(from, to string) func(*scripted.Cluster, string) string {
	return func(_ *scripted.Cluster, raw string) string { return strings.Replace(raw, from, to, 1) }
}

// Members that routing does without may have any form: the map is used without them.
func TestOddOptionalMembersDoNotRefuseAMap_D136(t *testing.T) {
	service := func(more string) scripted.Spec {
		return scripted.Spec{Services: func(n *scripted.Node) string { return fmt.Sprintf(`{"kv":%d,%s}`, n.Port(), more) }}
	}
	extra := func(member string) scripted.Spec { return scripted.Spec{Extra: "," + member} }
	node := func(member string) func(*scripted.Cluster, string) string {
		return memberChanged(`"nodesExt":[{`, `"nodesExt":[{`+member+`,`)
	}
	for name, c := range map[string]struct {
		spec   scripted.Spec
		change func(*scripted.Cluster, string) string
	}{
		"unused port as text":                  {spec: service(`"n1ql":"8093"`)},
		"unused port out of range":             {spec: service(`"fts":70000,"cbas":-1`)},
		"unused port of the other kind":        {spec: service(`"kvSSL":"11207"`)},
		"port as an object":                    {spec: service(`"mgmt":{}`)},
		"unknown locator":                      {change: memberChanged(`"nodeLocator":"vbucket"`, `"nodeLocator":"quantum"`)},
		"locator as a number":                  {change: memberChanged(`"nodeLocator":"vbucket"`, `"nodeLocator":7`)},
		"object among the capabilities":        {spec: scripted.Spec{Caps: `"xattr",{"a":1},7,null`}},
		"capabilities as an object":            {change: memberChanged(`"bucketCapabilities":[`, `"bucketCapabilities":{},"x":[`)},
		"cluster capabilities as an array":     {spec: extra(`"clusterCapabilities":["n1ql"]`)},
		"cluster capability as an object":      {spec: extra(`"clusterCapabilities":{"n1ql":{},"search":[{}]}`)},
		"manifest as a number":                 {spec: extra(`"collectionsManifestUid":28`)},
		"manifest with 0x":                     {spec: extra(`"collectionsManifestUid":"0x1c"`)},
		"manifest without sense":               {spec: extra(`"collectionsManifestUid":"new"`)},
		"names as numbers":                     {spec: extra(`"prod":1,"clusterNameX":2`)},
		"thisNode as text":                     {change: node(`"thisNode":"true"`)},
		"group as a number":                    {change: node(`"serverGroup":1,"nodeUUID":2,"appTelemetryPath":3`)},
		"alternate addresses as an array":      {change: node(`"alternateAddresses":[]`)},
		"alternate address as text":            {change: node(`"alternateAddresses":{"external":"x"}`)},
		"alternate port as text":               {change: node(`"alternateAddresses":{"external":{"hostname":"x","ports":{"kv":"1"}}}`)},
		"alternate address that is not a host": {change: node(`"alternateAddresses":{"external":{"hostname":"x/y"}}`)},
		"more replicas than there can be":      {change: memberChanged(`"numReplicas":0`, `"numReplicas":4`)},
		"number of replicas as text":           {change: memberChanged(`"numReplicas":0`, `"numReplicas":"0"`)},
		"forward map of another form":          {change: memberChanged(`"hashAlgorithm"`, `"vBucketMapForward":{},"hashAlgorithm"`)},
		"unknown member, deep":                 {spec: extra(`"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70))},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(_ *scripted.Cluster, raw string) string { return raw }
			}
			b := ready(t, mapsThrough(t, 1, c.spec, c.change))
			require.NoError(t, upsert(t, b))
		})
	}
}

// What routing needs must be right: a map without it is refused, and the member is named.
func TestWhatRoutingNeedsIsStrict_D136(t *testing.T) {
	for member, c := range map[string]struct {
		spec   scripted.Spec
		change func(*scripted.Cluster, string) string
	}{
		"port of kv": {spec: scripted.Spec{Services: func(*scripted.Node) string { return `{"kv":"11210"}` }}},
		"rev":        {change: memberChanged(`"rev":1`, `"rev":"1"`)},
		"revEpoch":   {change: memberChanged(`"revEpoch":1`, `"revEpoch":-1`)},
		"vBucketMap": {change: memberChanged(`"vBucketMap":[[0],`, `"vBucketMap":[0,`)},
		"nodesExt":   {change: memberChanged(`"nodesExt":[`, `"nodesExt":[5,`)},
		"uuid":       {change: memberChanged(`"uuid":"aaaa"`, `"uuid":1`)},
	} {
		t.Run(member, func(t *testing.T) {
			if c.change == nil {
				c.change = func(_ *scripted.Cluster, raw string) string { return raw }
			}
			b := open(t, mapsThrough(t, 1, c.spec, c.change)).Bucket("default")
			require.ErrorContains(t, b.WaitReady(within(t, 500*time.Millisecond)), member)
		})
	}
}

// A vbucket whose row, or one whose replica's index, points past the list of nodes has no such copy; the others are not
// concerned.
func TestARowPastTheNodesIsLostAlone_D136(t *testing.T) {
	for _, index := range []int{2, 99, 9000, int(min(int64(1)<<40, math.MaxInt)), -7} {
		b := ready(t, mapsThrough(t, 2, scripted.Spec{Replicas: 1, VBuckets: 4, Row: func(vb int) []int {
			switch vb {
			case 0:
				return []int{index, 1}
			case 1:
				return []int{1, index}
			}
			return []int{0, 1}
		}}, func(_ *scripted.Cluster, raw string) string { return raw }))
		lost := 0
		for _, key := range keysOf(t, b, 4) {
			vb, nodes, ok := b.Locate(key)
			require.True(t, ok)
			_, err := kv.Do(within(t, 2*time.Second), b, kv.Upsert{
				Key: key, Value: []byte("v"),
				Common: kv.Common{Retry: failOnce},
			})
			switch vb {
			case 0:
				lost++
				require.Error(t, err)
				require.Equal(t, []string{"", nodes[1]}, nodes)
			case 1:
				require.Empty(t, nodes[1])
				require.NoError(t, err)
			default:
				require.NoError(t, err)
			}
		}
		require.Equal(t, 1, lost)
	}
}

// keysOf gives a key of each vbucket.
func keysOf(t testing.TB, b *core.Bucket, vbuckets int) [][]byte {
	t.Helper()
	keys := make([][]byte, vbuckets)
	for i, found := 0, 0; found < vbuckets; i++ {
		key := fmt.Appendf(nil, "key-%d", i)
		vb, _, ok := b.Locate(key)
		require.True(t, ok)
		if keys[vb] == nil {
			keys[vb] = key
			found++
		}
	}
	return keys
}

// Members are known by their exact names: others are unknown members.
func TestMembersMatchExactly_D136(t *testing.T) {
	b := ready(t, mapsThrough(t, 1, scripted.Spec{Extra: `,"NODES":[],"NodesExt":[],"REV":"x","Uuid":7,"vbucketServerMap":{"vBucketMap":[]}`},
		func(_ *scripted.Cluster, raw string) string { return raw }))
	require.NoError(t, upsert(t, b))
}

// A revision is a number of 64 bits without a sign.
func TestRevisionsGoTo64Bits_D136(t *testing.T) {
	nearly, most := "18446744073709551614", "18446744073709551615"
	var rev atomic.Pointer[string]
	rev.Store(&nearly)
	s := mapsThrough(t, 1, scripted.Spec{}, func(_ *scripted.Cluster, raw string) string {
		members := `"rev":` + *rev.Load() + `,`
		if *rev.Load() == most {
			raw = strings.Replace(raw, `"collections",`, ``, 1)
		}
		return strings.Replace(raw, `"rev":1,`, members, 1)
	})
	b := ready(t, s, func(cfg *core.Config) { cfg.Maps.PollInterval = 20 * time.Millisecond })
	require.NoError(t, upsert(t, b))
	m, ok := b.Map()
	require.True(t, ok)
	require.Equal(t, int64(math.MaxInt64), m.Rev, "which is what fits")
	has := func() bool {
		l, err := b.Layout(within(t, time.Second))
		require.NoError(t, err)
		has, _ := l.Capability("collections")
		return has
	}
	require.True(t, has())
	rev.Store(&most)
	require.Eventually(t, func() bool { return !has() }, 5*time.Second, 10*time.Millisecond, "the newer one is taken")
	require.NoError(t, upsert(t, b))
}

// The list of servers and nodesExt may have different orders: the rows count by the list of servers.
func TestRowsCountByTheListOfServers_D136(t *testing.T) {
	s := mapsThrough(t, 3, scripted.Spec{VBuckets: 3}, func(s *scripted.Cluster, raw string) string {
		list := fmt.Sprintf("%q,%q,%q", s.Nodes[0].Addr(), s.Nodes[1].Addr(), s.Nodes[2].Addr())
		turned := fmt.Sprintf("%q,%q,%q", s.Nodes[2].Addr(), s.Nodes[0].Addr(), s.Nodes[1].Addr())
		return strings.Replace(raw, `"serverList":[`+list, `"serverList":[`+turned, 1)
	})
	b := ready(t, s)
	for vb, key := range keysOf(t, b, 3) {
		_, nodes, _ := b.Locate(key)
		require.Equal(t, s.Nodes[[]int{2, 0, 1}[vb]].Addr(), nodes[0])
	}
}

// A server that only the list of servers names has no node: its vbuckets are lost alone, and the others do not move.
func TestAServerThatNodesExtLacks_D136(t *testing.T) {
	s := mapsThrough(t, 2, scripted.Spec{VBuckets: 3, Row: func(vb int) []int { return []int{vb} }},
		func(s *scripted.Cluster, raw string) string {
			return strings.Replace(raw, `"serverList":[`, `"serverList":["10.9.9.9:11210",`, 1)
		})
	b := ready(t, s)
	keys := keysOf(t, b, 3)
	for vb, want := range []string{"", s.Nodes[0].Addr(), s.Nodes[1].Addr()} {
		_, nodes, _ := b.Locate(keys[vb])
		require.Equal(t, want, nodes[0])
	}
}

// A node's name in nodesExt may have a port beside it, which says nothing: the services have theirs.
func TestAPortBesideANodesName_D136(t *testing.T) {
	b := ready(t, mapsThrough(t, 1, scripted.Spec{Hostname: func(*scripted.Node) string { return "127.0.0.1:8091" }},
		func(_ *scripted.Cluster, raw string) string {
			return strings.ReplaceAll(raw, "127.0.0.1:8091:", "127.0.0.1:")
		}))
	require.NoError(t, upsert(t, b))
}
