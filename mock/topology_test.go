package mock_test

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// config is what the tests read of a configuration.
type config struct {
	Rev, RevEpoch int64
	Map           struct {
		ServerList []string `json:"serverList"`
		Map        [][]int  `json:"vBucketMap"`
		Forward    [][]int  `json:"vBucketMapForward"`
	} `json:"vBucketServerMap"`
	Nodes    []any `json:"nodes"`
	NodesExt []struct {
		Hostname string
		ThisNode bool
		Services map[string]int
	} `json:"nodesExt"`
	ManifestUID string `json:"collectionsManifestUid"`
}

func configOf(t testing.TB, c *mock.Cluster) config {
	t.Helper()
	return parseConfig(t, c.ConfigJSON("default"))
}

func parseConfig(t testing.TB, text []byte) config {
	t.Helper()
	var g config
	require.NoError(t, json.Unmarshal(text, &g))
	return g
}

func at(p memd.Packet, vb uint16) memd.Packet {
	p.VBucket = vb
	return p
}

func TestMoveVBucketAnswersWithTheNewConfig(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 4))
	old, other := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, old.call(storePacket(memd.OpSet, "k", "v")).Status)
	require.Equal(t, memd.StatusNotMyVBucket, other.call(getPacket("k")).Status)
	require.NoError(t, c.MoveVBucket("default", 0, 1))
	p := old.call(getPacket("k"))
	require.Equal(t, memd.StatusNotMyVBucket, p.Status)
	g := parseConfig(t, p.Value)
	require.Equal(t, []int{1}, g.Map.Map[0])
	require.EqualValues(t, 2, g.Rev)
	require.True(t, g.NodesExt[0].ThisNode)
	p = other.call(getPacket("k"))
	require.Equal(t, memd.StatusSuccess, p.Status, "the data moved too")
	require.Equal(t, "v", string(p.Value))
	require.Error(t, c.MoveVBucket("default", 4, 1))
	require.Error(t, c.MoveVBucket("default", 0, 2))
	require.Error(t, c.MoveVBucket("nope", 0, 1))
}

func TestNotMyVBucketIsDedupedOnRequestOnly(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 4))
	saslPlainPacket := loginAt(t, c, 1, baseFeatures...)
	dedupe := loginAt(t, c, 1, append(baseFeatures, memd.FeatureDedupeNotMyVBucket)...)
	for range 2 {
		require.NotEmpty(t, saslPlainPacket.call(getPacket("k")).Value)
	}
	require.NotEmpty(t, dedupe.call(getPacket("k")).Value, "the first time it is news")
	require.Empty(t, dedupe.call(getPacket("k")).Value)
	c.BumpRevision()
	require.NotEmpty(t, dedupe.call(getPacket("k")).Value)
	c.BumpRevision()
	require.Equal(t, memd.StatusSuccess, dedupe.call(memd.Packet{Opcode: memd.OpGetClusterConfig}).Status)
	require.Empty(t, dedupe.call(getPacket("k")).Value, "the configuration asked for counts")
	require.Equal(t, memd.StatusSuccess, dedupe.call(selectPacket("default")).Status)
	require.NotEmpty(t, dedupe.call(getPacket("k")).Value, "selecting the bucket forgets")
	require.Equal(t, memd.StatusNotMyVBucket, saslPlainPacket.call(at(getPacket("k"), 9)).Status, "no such vbucket")
}

func TestFailoverPromotesReplicas(t *testing.T) {
	c := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 6))
	r0, r1 := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	before := configOf(t, c)
	require.Equal(t, 0, before.Map.Map[0][0])
	heir := before.Map.Map[0][1]
	require.Equal(t, memd.StatusSuccess, r0.call(storePacket(memd.OpSet, "k", "v")).Status)
	require.NoError(t, c.Failover(0))
	p := r0.call(getPacket("k"))
	require.Equal(t, memd.StatusNotMyVBucket, p.Status)
	g := parseConfig(t, p.Value)
	require.Len(t, g.NodesExt, 2)
	require.Len(t, g.Nodes, 2)
	require.NotContains(t, g.Map.ServerList, c.Node(0).Addr(), "the sender has dropped out")
	require.Equal(t, memd.StatusKeyNotFound, r0.call(selectPacket("default")).Status)
	for vb, row := range g.Map.Map {
		require.GreaterOrEqual(t, row[0], 0, "vbucket %d", vb)
	}
	keeper := loginAt(t, c, heir, baseFeatures...)
	require.Equal(t, "v", string(keeper.call(getPacket("k")).Value))
	require.Equal(t, memd.StatusSuccess, r1.call(memd.Packet{Opcode: memd.OpNoop}).Status)
	require.NotContains(t, c.ConnString(), c.Node(0).Addr())

	require.NoError(t, c.Respawn(0))
	require.Len(t, configOf(t, c).NodesExt, 3)
	require.Len(t, configOf(t, c).Nodes, 2, "it waits for a rebalance")
	require.NoError(t, c.Rebalance())
	g = configOf(t, c)
	require.Len(t, g.Nodes, 3)
	require.Equal(t, 0, g.Map.Map[0][0])
	require.Equal(t, "v", string(r0.call(getPacket("k")).Value), "the document came along")
	require.Error(t, c.Failover(7))
}

func TestFailoverWithoutReplicaLeavesNoActiveNode(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 2))
	r := loginAt(t, c, 0, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "v")).Status)
	require.NoError(t, c.FailoverHard(0))
	r.closed()
	g := configOf(t, c)
	require.Equal(t, [][]int{{-1}, {0}}, g.Map.Map)
}

func TestKillAndRespawnKeepAddressAndDocuments(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 2))
	r := login(t, c, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "v")).Status)
	addr := c.Node(0).Addr()
	require.NoError(t, c.Kill(0))
	require.False(t, c.Node(0).Up())
	r.closed()
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)
	require.NoError(t, c.Respawn(0))
	require.Equal(t, addr, c.Node(0).Addr())
	r = login(t, c, baseFeatures...)
	require.Equal(t, "v", string(r.call(getPacket("k")).Value))
	require.Equal(t, 1, c.Node(0).Connections())
	require.NoError(t, c.CloseConns(0))
	r.closed()
	r = login(t, c, baseFeatures...)
	c.DisconnectAll()
	r.closed()
}

// TestTheSystemGivesThePortsOfADeadNodeToNoOther_D253: a program that asked for a free port could get that of a node
// that was killed, and answered the node's clients.
func TestTheSystemGivesThePortsOfADeadNodeToNoOther_D253(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 2), mock.TLS())
	node := c.Node(1)
	addrs := []string{node.Addr(), node.TLSAddr(), node.ManagementAddr(), node.ServiceAddr(mock.QueryService)}
	notFree := func() (n int) {
		for _, addr := range addrs {
			if l, err := net.Listen("tcp", addr); err == nil {
				require.NoError(t, l.Close())
			} else {
				n++
			}
		}
		return n
	}
	for range 2 { // killing it again holds them anew
		require.NoError(t, c.Kill(1))
		require.Equal(t, len(addrs), notFree())
		for _, addr := range addrs {
			_, err := net.Dial("tcp", addr)
			require.Error(t, err)
		}
	}
	require.NoError(t, c.Respawn(1))
	require.Equal(t, addrs[0], node.Addr())
	loginAt(t, c, 1, baseFeatures...)
	require.NoError(t, c.Kill(1))
	require.NoError(t, c.Close())
	require.Zero(t, notFree(), "they are free after Close")
}

func TestAddRebalanceRemove(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 12))
	r := loginAt(t, c, 0, append(baseFeatures, memd.FeatureDuplex, memd.FeatureClustermapChange)...)
	require.Equal(t, 2, c.AddNode())
	push := func() config {
		p, err := r.read()
		require.NoError(t, err)
		require.Equal(t, memd.MagicServerReq, p.Magic)
		return parseConfig(t, p.Value)
	}
	g := push()
	require.Len(t, g.NodesExt, 3)
	require.Len(t, g.Nodes, 2)
	require.NoError(t, c.Rebalance())
	g = push()
	require.Len(t, g.Map.Forward, 12, "the goal is announced")
	require.Len(t, g.Nodes, 3)
	last := g.Rev
	for g.Map.Forward != nil {
		g = push()
		require.Equal(t, last+1, g.Rev)
		last = g.Rev
	}
	held := map[int]int{}
	for _, row := range g.Map.Map {
		require.NotEqual(t, row[0], row[1])
		held[row[0]]++
	}
	require.Equal(t, map[int]int{0: 4, 1: 4, 2: 4}, held)
	require.NoError(t, c.RemoveNode(1))
	g = configOf(t, c)
	require.Len(t, g.Nodes, 2)
	for _, row := range g.Map.Map {
		require.Subset(t, []int{0, 1}, row, "places, not numbers")
	}
	require.Error(t, c.RemoveNode(1))
	require.NoError(t, c.RemoveNode(2))
	require.Error(t, c.RemoveNode(0), "someone has to hold the vbuckets")
}

func TestPushesOfAnyMap(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	r := loginAt(t, c, 1, append(baseFeatures, memd.FeatureDuplex, memd.FeatureClustermapChange)...)
	login(t, c, append(baseFeatures, memd.FeatureDuplex, memd.FeatureClustermapChange,
		memd.FeatureClustermapChangeBrief)...)
	require.Zero(t, c.PushMap(0, "", 1, 2, []byte("{}")), "it has asked for no whole maps")
	require.Zero(t, c.PushMap(2, "", 1, 2, []byte("{}")))
	require.Equal(t, 1, c.PushMap(1, "other", 7, 9, []byte(`{"rev":5}`)))
	p, err := r.read()
	require.NoError(t, err)
	require.Equal(t, memd.ServerOpClustermapChange, p.Opcode)
	require.Equal(t, "other", string(p.Key))
	require.Equal(t, []uint64{7, 9}, []uint64{binary.BigEndian.Uint64(p.Extras), binary.BigEndian.Uint64(p.Extras[8:])})
	require.Equal(t, `{"rev":5}`, string(p.Value))
}

func TestBriefPushCarriesTheVersionOnly(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, append(baseFeatures, memd.FeatureDuplex, memd.FeatureClustermapChange,
		memd.FeatureClustermapChangeBrief)...)
	c.BumpEpoch()
	p, err := r.read()
	require.NoError(t, err)
	require.Equal(t, memd.MagicServerReq, p.Magic)
	require.Empty(t, p.Value)
	require.Equal(t, "default", string(p.Key))
	require.EqualValues(t, 2, binary.BigEndian.Uint64(p.Extras))
	require.EqualValues(t, 1, binary.BigEndian.Uint64(p.Extras[8:]))
	c.Push()
	again, err := r.read()
	require.NoError(t, err)
	require.Equal(t, p.Extras, again.Extras)
	// A node takes the client's answer to a push and does not answer it.
	b, err := (&memd.Packet{Magic: memd.MagicServerRes, Opcode: memd.ServerOpClustermapChange}).AppendTo(nil)
	require.NoError(t, err)
	_, err = r.nc.Write(b)
	require.NoError(t, err)
	r.silent()
}

func TestBuckets(t *testing.T) {
	c := mock.Start(t, mock.User("Administrator", "password"), mock.User("app", "secret", "default"))
	r := login(t, c, baseFeatures...)
	require.Equal(t, memd.StatusKeyNotFound, r.call(selectPacket("new")).Status, "absent, for one who may open it")
	require.NoError(t, c.CreateBucket("new", 8))
	require.Error(t, c.CreateBucket("new", 8))
	require.Equal(t, memd.StatusSuccess, r.call(selectPacket("new")).Status)
	app := dial(t, c, c.Node(0).Addr())
	app.send(helloPacket(baseFeatures...), saslPlainPacket("app", "secret"))
	app.next(memd.OpHello, 1)
	require.Equal(t, memd.StatusSuccess, app.next(memd.OpSASLAuth, 2).Status)
	require.Equal(t, memd.StatusAccess, app.call(selectPacket("new")).Status)
	require.Equal(t, memd.StatusAccess, app.call(selectPacket("absent")).Status, "no rights can exist")
	require.Equal(t, memd.StatusSuccess, app.call(selectPacket("default")).Status)
	require.NoError(t, c.DropBucket("new"))
	r.closed()
	require.Error(t, c.DropBucket("new"))
	require.Nil(t, c.ConfigJSON("new"))
	app.silent()
}
