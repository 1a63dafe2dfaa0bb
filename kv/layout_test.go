package kv_test

import (
	"context"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// fakeLayout is a cluster map: for each vbucket the nodes of its copies, -1 for none.
type fakeLayout struct {
	rows     [][]int
	replicas int
	nodes    int
	groups   []string
	caps     map[string]bool // nil: the map lists none
}

var _ call.Layout = (*fakeLayout)(nil)

func (l *fakeLayout) NumVBuckets() int { return len(l.rows) }
func (l *fakeLayout) NumReplicas() int { return l.replicas }

func (l *fakeLayout) VBucket(key []byte) uint16 {
	return uint16(crc32.ChecksumIEEE(key) >> 16 & 0x7fff % uint32(max(len(l.rows), 1)))
}

func (l *fakeLayout) NodeIndex(vb uint16, replica int) int {
	if int(vb) >= len(l.rows) || replica < 0 || replica >= len(l.rows[vb]) {
		return -1
	}
	return l.rows[vb][replica]
}

func (l *fakeLayout) DataNodes() []int {
	all := make([]int, l.nodes)
	for i := range all {
		all[i] = i
	}
	return all
}

func (l *fakeLayout) ServerGroup(node int) string {
	if node < 0 || node >= len(l.groups) {
		return ""
	}
	return l.groups[node]
}

func (l *fakeLayout) Version() (epoch, rev int64)  { return 1, 1 }
func (l *fakeLayout) BucketUUID() string           { return "" }
func (l *fakeLayout) Cluster() (uuid, name string) { return "", "" }

func (l *fakeLayout) Capability(name string) (has, known bool) { return l.caps[name], l.caps != nil }

// topo is a fake dispatcher that knows where things are.
type topo struct {
	*fake
	layout func(call.MapWait) (call.Layout, error)
}

var _ call.Mapped = (*topo)(nil)

func (t *topo) Runner() call.Runner { return t }

func (t *topo) AwaitMap(_ context.Context, w call.MapWait) (call.Layout, error) { return t.layout(w) }

func inLayout(l call.Layout, answer func(c *call.Call)) *topo {
	return &topo{newFake(answer), func(call.MapWait) (call.Layout, error) { return l, nil }}
}

func TestPickReplica(t *testing.T) {
	l := &fakeLayout{
		rows: [][]int{{0, 1, 2}, {0, -1, 2}, {0, -1, -1}, {0}}, replicas: 2, nodes: 3,
		groups: []string{"a", "b", "a"},
	}
	none := &fakeLayout{rows: [][]int{{0}}}
	outside, away := cberr.ReplicaIndexOutOfBounds, cberr.ReplicaIndexCurrentlyUnavailable
	for _, c := range []struct {
		l       *fakeLayout
		vb      uint16
		replica int
		wrap    bool
		group   string
		node    int
		kind    *cberr.Kind
	}{
		{l, 0, 1, false, "", 1, nil},
		{l, 0, 2, false, "", 2, nil},
		{l, 0, 3, false, "", 0, outside},
		{l, 0, 3, true, "", 1, nil},
		{l, 0, 4, true, "", 2, nil},
		{l, 0, 0, false, "", 0, outside},
		{l, 1, 1, false, "", 0, away},
		{l, 1, 1, true, "", 2, nil},
		{l, 1, 2, true, "", 2, nil},
		{l, 1, 3, true, "", 2, nil},
		{l, 2, 1, true, "", 0, away},
		{l, 3, 1, false, "", 0, away},
		{l, 9, 1, true, "", 0, away},
		{none, 0, 1, false, "", 0, outside},
		{none, 0, 1, true, "", 0, outside},
		{l, 0, 1, false, "a", 0, away},
		{l, 0, 1, true, "a", 2, nil},
		{l, 0, 2, false, "a", 2, nil},
		{l, 0, 1, true, "c", 0, away},
	} {
		node, err := call.PickReplica(c.l, c.vb, c.replica, c.wrap, c.group)
		if c.kind != nil {
			require.ErrorIs(t, err, c.kind, "%+v", c)
			require.Equal(t, -1, node)
			require.NotEmpty(t, err.Error())
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.node, node, "%+v", c)
	}
}

func TestWhatAMapForbids(t *testing.T) {
	l := &fakeLayout{rows: make([][]int, 4), caps: map[string]bool{call.CapabilityRangeScan: true}}
	require.NoError(t, asking("").Check(l))
	require.NoError(t, asking(call.CapabilityRangeScan).Check(l))
	err := asking(call.CapabilityReplicaLookup).Check(l)
	require.ErrorIs(t, err, cberr.FeatureNotAvailable)
	require.ErrorContains(t, err, "subdoc.ReplicaRead")
	require.NoError(t, asking(call.CapabilityReplicaLookup).Check(&fakeLayout{}),
		"a map that lists none forbids none")
	require.NoError(t, ofVBucket(3).Check(l))
	require.ErrorIs(t, ofVBucket(4).Check(l), cberr.InvalidArgument)
	require.NoError(t, ofVBucket(4).Check(&fakeLayout{}),
		"a map that is still empty says nothing")
}

func TestAReplicaThatIsNotThereSaysWhich(t *testing.T) {
	l := &fakeLayout{rows: [][]int{{0, -1}}, replicas: 1, nodes: 1}
	_, err := call.PickReplica(l, 0, 2, false, "")
	require.EqualError(t, err, "replica 2 is asked for, the bucket has 1")
	_, err = call.PickReplica(l, 0, 1, false, "")
	require.EqualError(t, err, "no node holds replica 1 of vbucket 0")
}

// The operations of a server that must be able to do them say so.
func TestCapabilitiesThatOperationsNeed(t *testing.T) {
	key := []byte("k")
	for want, op := range map[string]subject{
		call.CapabilityReplicaLookup: on("", kv.LookupIn{
			Key: key, Replica: 1, Specs: []kv.LookupSpec{kv.GetPath("a")},
		}),
		call.CapabilityReviveDocument: on("", kv.MutateIn{
			Key: key, Revive: true, AccessDeleted: true,
			Specs: []kv.MutateSpec{kv.ReplaceBody("x")},
		}),
		call.CapabilityRangeScan:    on("", kv.RangeScanCreate{Range: &kv.ScanRange{}}),
		call.CapabilityDurableWrite: on("", kv.Upsert{Key: key, Durability: memd.DurabilityMajority}),
		"":                          on("", kv.Get{Key: key}),
	} {
		got := "not asked"
		d := newFake(func(c *call.Call) { got = c.Req.Capability(); c.Fail(errSeen) })
		_, _ = op.do(testContext(t), d)
		require.Equal(t, want, got)
	}
}

func TestContinues(t *testing.T) {
	for op := range 256 {
		op := memd.Opcode(op)
		stat, scan := op == memd.OpStat, op == memd.OpRangeScanContinue
		require.Equal(t, scan, call.Continues(&memd.Packet{Opcode: op}), op)
		require.Equal(t, scan || stat, call.Continues(&memd.Packet{Opcode: op, Key: []byte("k")}), op)
		require.Equal(t, scan || stat, call.Continues(&memd.Packet{Opcode: op, Value: []byte("v")}), op)
		for _, st := range []memd.Status{
			memd.StatusRangeScanMore, memd.StatusRangeScanComplete,
			memd.StatusKeyNotFound,
		} {
			require.False(t, call.Continues(&memd.Packet{Opcode: op, Status: st, Value: []byte("v")}), op)
		}
	}
}

// An answer of several packets takes a bounded amount of memory, and parts of a lost attempt are forgotten.
func TestPartsOfAnswers(t *testing.T) {
	part := &memd.Packet{Opcode: memd.OpStat, Key: []byte("k"), Value: []byte("v")}
	last := &memd.Packet{Opcode: memd.OpStat}
	d := newFake(func(c *call.Call) {
		c.TakePart(part, 1)
		c.TakePart(part, 1)
		c.TakePart(&memd.Packet{Opcode: memd.OpStat, Key: []byte("second"), Value: []byte("attempt")}, 2)
		c.Succeed(last, false)
	})
	res, err := kv.Do(testContext(t), d, kv.Stat{})
	require.NoError(t, err)
	require.Equal(t, []struct{ Name, Value string }{{Name: "second", Value: "attempt"}}, res.Stats)
	v, ok := res.Get("second")
	require.True(t, ok)
	require.Equal(t, "attempt", v)
	_, ok = res.Get("k")
	require.False(t, ok)

	big := &memd.Packet{Opcode: memd.OpStat, Key: []byte("k"), Value: make([]byte, 16<<20)}
	d = newFake(func(c *call.Call) {
		for range 100 {
			c.TakePart(big, 1)
		}
		sum := 0
		for _, p := range c.Res.Parts() {
			sum += len(p.Value)
		}
		require.LessOrEqual(t, sum, kv.MaxParts)
		c.Succeed(last, false)
	})
	_, err = kv.Do(testContext(t), d, kv.Stat{})
	require.ErrorIs(t, err, cberr.DecodingFailure)
	var se *kv.ResponseError
	require.ErrorAs(t, err, &se)
}

// A request that is bound to a connection goes nowhere else.
func TestARequestOfOneConnection(t *testing.T) {
	op := on("", kv.RangeScanCancel{Scan: kv.RangeScan{Result: kv.ResultVia(&call.Via{Local: "one"}, 0, 0)}})
	w := common
	w.Via = &call.Via{Local: "one"}
	_, err := op.encoded(w)
	require.NoError(t, err)
	w.Via = &call.Via{Local: "another"}
	_, err = op.encoded(w)
	var gone *call.ConnectionGoneError
	require.ErrorAs(t, err, &gone)
	require.ErrorIs(t, err, cberr.RequestCanceled)
	require.False(t, kvError(t, err).Ambiguous())
}

// B51: every node of a fan-out is asked in the user's name.
func TestEveryNodeIsAskedInTheUsersName_B51(t *testing.T) {
	users := make(chan string, 3)
	nodes := make(chan int, 3)
	d := inLayout(threeCopies(), func(c *call.Call) {
		users <- c.Req.OnBehalfOf()
		nodes <- c.Req.Node()
		give(c, &memd.Packet{Opcode: memd.OpStat})
	})
	all, err := kv.StatAll(testContext(t), d, kv.Stat{Common: kv.Common{OnBehalfOf: "jane"}})
	require.NoError(t, err)
	require.Len(t, all, 3)
	seen := map[int]bool{}
	for range 3 {
		require.Equal(t, "jane", <-users)
		seen[<-nodes] = true
	}
	require.Len(t, seen, 3)
	d.layout = func(call.MapWait) (call.Layout, error) { return nil, errSeen }
	_, err = kv.StatAll(testContext(t), d, kv.Stat{})
	require.ErrorIs(t, err, errSeen)
}

// asking is a request that needs a capability.
func asking(capability string) *call.Request {
	var r call.Request
	r.Own().Capability = capability
	return &r
}

// ofVBucket is a request for a vbucket.
func ofVBucket(vb uint16) *call.Request {
	var r call.Request
	r.ByVBucket, r.VBucket = true, vb
	return &r
}
