package kv_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// scanServer scans vbuckets as nodes do, with faults on demand.
type scanServer struct {
	*topo
	t    testing.TB
	keys [][]string // by vbucket, sorted

	mu       sync.Mutex
	scans    map[[16]byte]*serverScan
	made     int
	running  int // scans at a time
	most     int
	cancels  int
	creates  []string // the JSON of each
	limits   [][]byte // of each answer
	limit    int      // scans at a time, 0 for any number
	conn     string   // the current connection
	onCreate func(vb uint16, n int) memd.Status
	// onContinue gives what to do about the n-th answer: a status, or lost.
	onContinue func(vb uint16, n int) (st memd.Status, lost bool)
	continued  int
	hold       chan struct{} // continuing waits for it
	slow       time.Duration // before a scan's creation is answered
}

// Runner implements kv.Dispatcher.
func (x *scanServer) Runner() call.Runner { return x }

type serverScan struct {
	vb   uint16
	keys []string
	docs bool
	conn string
}

func newScanServer(t testing.TB, vbuckets, nodes, keys int) *scanServer {
	s := &scanServer{t: t, scans: map[[16]byte]*serverScan{}, conn: "c0", keys: make([][]string, vbuckets)}
	l := &fakeLayout{nodes: nodes, caps: map[string]bool{call.CapabilityRangeScan: true}}
	for vb := range vbuckets {
		l.rows = append(l.rows, []int{vb % nodes})
	}
	for i := range keys {
		k := fmt.Sprintf("k%04d", i)
		vb := l.VBucket([]byte(k))
		s.keys[vb] = append(s.keys[vb], k)
	}
	s.topo = inLayout(l, s.answer)
	return s
}

func (s *scanServer) all() (all []string) {
	for _, k := range s.keys {
		all = append(all, k...)
	}
	slices.Sort(all)
	return all
}

func (s *scanServer) answer(c *call.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := common
	w.CollectionID, w.VBucket, w.Via = 0, c.Req.VBucket, &call.Via{Local: s.conn}
	c.SetVia(fakeVia)
	wire, err := wireOf(c, w)
	if err != nil {
		c.Fail(err)
		return
	}
	var p memd.Packet
	_, err = p.Parse(wire, 0)
	require.NoError(s.t, err)
	reply := &memd.Packet{Opcode: p.Opcode, CAS: cas}
	switch p.Opcode {
	case memd.OpRangeScanCreate:
		if s.create(&p, reply); s.slow > 0 {
			c.Share()
			c.State.Sent()
			time.AfterFunc(s.slow, func() {
				if c.State.Answered(c.State.Epoch()) {
					give(c, reply)
				}
			})
			return
		}
	case memd.OpRangeScanContinue:
		s.limits = append(s.limits, bytes.Clone(p.Extras[16:]))
		s.next(c, &p, reply)
		return
	case memd.OpRangeScanCancel:
		s.cancels++
		if s.scans[[16]byte(p.Extras)] == nil {
			reply.Status = memd.StatusKeyNotFound
		}
		s.end([16]byte(p.Extras))
	}
	give(c, reply)
}

func (s *scanServer) end(id [16]byte) {
	if s.scans[id] != nil {
		delete(s.scans, id)
		s.running--
	}
}

func (s *scanServer) create(p, reply *memd.Packet) {
	s.creates = append(s.creates, string(p.Value))
	if s.onCreate != nil {
		if reply.Status = s.onCreate(p.VBucket, len(s.creates)); reply.Status != 0 {
			return
		}
	}
	if s.limit > 0 && s.running >= s.limit {
		reply.Status = memd.StatusBusy
		return
	}
	var j struct {
		KeyOnly  bool              `json:"key_only"`
		Range    map[string]string `json:"range"`
		Sampling *struct {
			Samples int `json:"samples"`
		} `json:"sampling"`
	}
	require.NoError(s.t, json.Unmarshal(p.Value, &j))
	scan := &serverScan{vb: p.VBucket, docs: !j.KeyOnly, conn: s.conn}
	term := func(name string) (string, bool) {
		for _, n := range []string{name, "excl_" + name} {
			if v, ok := j.Range[n]; ok {
				b, err := base64.StdEncoding.DecodeString(v)
				require.NoError(s.t, err)
				return string(b), n != name
			}
		}
		return "", false
	}
	from, noFrom := term("start")
	to, noTo := term("end")
	for _, k := range s.keys[p.VBucket] {
		if j.Sampling != nil || (k > from || k == from && !noFrom) && (k < to || k == to && !noTo) {
			scan.keys = append(scan.keys, k)
		}
	}
	if j.Sampling != nil && len(scan.keys) > j.Sampling.Samples {
		scan.keys = scan.keys[:j.Sampling.Samples]
	}
	if len(scan.keys) == 0 {
		reply.Status = memd.StatusKeyNotFound
		return
	}
	s.made++
	s.running++
	s.most = max(s.most, s.running)
	id := [16]byte{1}
	binary.BigEndian.PutUint32(id[12:], uint32(s.made))
	s.scans[id] = scan
	reply.Value = id[:]
}

// next answers with two packets, each with some items.
func (s *scanServer) next(c *call.Call, p, reply *memd.Packet) {
	id := [16]byte(p.Extras[:16])
	scan := s.scans[id]
	s.continued++
	if s.onContinue != nil {
		st, lost := s.onContinue(p.VBucket, s.continued)
		switch {
		case lost:
			s.conn += "x"
			s.end(id)
			c.Share()
			c.State.Sent()
			c.State.Lost(c.State.Epoch())
			c.Fail(retry.ErrCanceled)
			return
		case st != 0:
			s.end(id)
			reply.Status = st
			give(c, reply)
			return
		}
	}
	if scan == nil || scan.conn != s.conn {
		reply.Status = memd.StatusKeyNotFound
		give(c, reply)
		return
	}
	if s.hold != nil {
		hold := s.hold
		c.Share()
		c.State.Sent()
		c.Watch()
		go func() { <-hold }()
		return
	}
	n := min(int(binary.BigEndian.Uint32(p.Extras[16:])), len(scan.keys))
	keys := scan.keys[:n]
	scan.keys = scan.keys[n:]
	reply.Status = memd.StatusRangeScanMore
	if len(scan.keys) == 0 {
		reply.Status = memd.StatusRangeScanComplete
		s.end(id)
	}
	half := len(keys) / 2
	give(c, &memd.Packet{Opcode: p.Opcode, Extras: scan.extras(), Value: scan.items(keys[:half])})
	reply.Extras, reply.Value = scan.extras(), scan.items(keys[half:])
	give(c, reply)
}

func (s *serverScan) extras() []byte {
	if s.docs {
		return []byte{0, 0, 0, 1}
	}
	return []byte{0, 0, 0, 0}
}

func (s *serverScan) items(keys []string) (b []byte) {
	for _, k := range keys {
		if s.docs {
			b = append(b, make([]byte, 25)...)
		}
		b = append(append(b, byte(len(k))), k...)
		if s.docs {
			b = append(append(b, byte(len(k)+1)), "v"+k...)
		}
	}
	return b
}

// found runs a scan to its end and gives the keys it found, in its order.
func found(t testing.TB, s *scanServer, op kv.Scan) ([]string, error) {
	t.Helper()
	run, err := op.Run(testContext(t), s.topo)
	require.NoError(t, err)
	defer run.Close()
	var keys []string
	for run.Next(testContext(t)) {
		it := run.Item()
		if !op.KeysOnly {
			require.Equal(t, "v"+string(it.Key), string(it.Value))
		}
		keys = append(keys, string(it.Key))
	}
	require.False(t, run.Next(testContext(t)), "it stays ended")
	return keys, run.Err()
}

func sorted(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

// B64: everything once, keys alone or documents, whatever the sizes of the answers.
func TestAScanFindsEverythingOnce_B64(t *testing.T) {
	for _, op := range []kv.Scan{
		{},
		{KeysOnly: true},
		{KeysOnly: true, BatchItems: 1},
		{BatchItems: 7, Concurrency: 1},
		{Concurrency: 64},
		{KeysOnly: true, Sorted: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 32, 3, 1000)
			keys, err := found(t, s, op)
			require.NoError(t, err)
			require.Equal(t, s.all(), sorted(keys))
			if op.Sorted {
				require.Equal(t, s.all(), keys)
			}
			want := op.Concurrency
			if want == 0 {
				want = 3
			}
			require.LessOrEqual(t, s.most, want, "vbuckets at a time")
			require.Empty(t, s.scans, "none is left on the server")
			require.Zero(t, s.cancels)
			require.Len(t, s.creates, 32)
		})
	}
}

func TestAScanOfARange(t *testing.T) {
	for name, c := range map[string]struct {
		r    *kv.ScanRange
		from string
		n    int
	}{
		"prefix":      {kv.PrefixRange([]byte("k01")), "k0100", 100},
		"both ends":   {&kv.ScanRange{Start: []byte("k0010"), End: []byte("k0019")}, "k0010", 10},
		"no start":    {&kv.ScanRange{Start: []byte("k0010"), ExcludeStart: true, End: []byte("k0019")}, "k0011", 9},
		"no end":      {&kv.ScanRange{Start: []byte("k0010"), End: []byte("k0019"), ExcludeEnd: true}, "k0010", 9},
		"open end":    {&kv.ScanRange{Start: []byte("k0990")}, "k0990", 10},
		"open start":  {&kv.ScanRange{End: []byte("k0009")}, "k0000", 10},
		"nothing":     {kv.PrefixRange([]byte("x")), "", 0},
		"a long term": {&kv.ScanRange{Start: bytes.Repeat([]byte("z"), 250)}, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 8, 2, 1000)
			keys, err := found(t, s, kv.Scan{Range: c.r, KeysOnly: true, Sorted: true})
			require.NoError(t, err, name)
			require.Len(t, keys, c.n, name)
			if c.n > 0 {
				require.Equal(t, c.from, keys[0], name)
			}
		})
	}
}

// K31: a vbucket that moves or a connection that is lost is scanned on from the last key: nothing twice, nothing left
// out.
func TestAScanResumesAfterTheLastKey_K31(t *testing.T) {
	for name, fault := range map[string]func(n int) (memd.Status, bool){
		"moved": func(n int) (memd.Status, bool) {
			return map[bool]memd.Status{true: memd.StatusNotMyVBucket}[n%3 == 0], false
		},
		"lost connections": func(n int) (memd.Status, bool) { return 0, n%4 == 0 },
		"forgotten": func(n int) (memd.Status, bool) {
			return map[bool]memd.Status{true: memd.StatusKeyNotFound}[n%5 == 0], false
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 8, 2, 400)
			s.onContinue = func(_ uint16, n int) (memd.Status, bool) { return fault(n) }
			keys, err := found(t, s, kv.Scan{KeysOnly: true, BatchItems: 5})
			require.NoError(t, err, name)
			require.Equal(t, s.all(), sorted(keys), name)
			require.Greater(t, len(s.creates), 8)
			// of all keys, k0000 to k0399: which of them depends on what is scanned when
			behindAKey := []byte(`"excl_start":"azA`)
			resumed := slices.ContainsFunc(s.creates, func(j string) bool {
				return bytes.Contains([]byte(j),
					behindAKey)
			})
			require.True(t, resumed, "%s: behind the last key", name)
		})
	}
}

func TestAScanGivesUpWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 2, 1, 10)
		s.onContinue = func(uint16, int) (memd.Status, bool) { return memd.StatusNotMyVBucket, false }
		began := time.Now()
		_, err := found(t, s, kv.Scan{Common: kv.Common{Timeout: 5 * time.Second}})
		require.Equal(t, memd.StatusNotMyVBucket, kvError(t, err).Status)
		require.InDelta(t, 5*time.Second, time.Since(began), float64(time.Second))
	})
}

// With as many scans as nodes each node has one, whatever the order of the vbuckets.
func TestScansAreSpreadOverTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 64, 4, 500)
		s.slow = time.Millisecond
		perNode := map[int]int{}
		s.onCreate = func(vb uint16, _ int) memd.Status {
			perNode[int(vb)%4]++
			if len(perNode) == 4 { // all began at the same moment
				for node, n := range perNode {
					require.Equal(t, 1, n, "node %d", node)
				}
				clear(perNode)
			}
			return 0
		}
		_, err := found(t, s, kv.Scan{KeysOnly: true, Concurrency: 4})
		require.NoError(t, err)
	})
}

// A node with too many scans gets fewer of them, and the vbucket its turn later.
func TestAScanOfBusyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 32, 4, 500)
		s.limit, s.slow = 2, time.Millisecond
		keys, err := found(t, s, kv.Scan{KeysOnly: true, Concurrency: 8})
		require.NoError(t, err)
		require.Equal(t, s.all(), sorted(keys))
		require.Equal(t, 2, s.most)
		require.LessOrEqual(t, len(s.creates), 32+8, "each refusal ends one worker")

		s = newScanServer(t, 4, 1, 50)
		s.onCreate = func(_ uint16, n int) memd.Status {
			if n < 20 {
				return memd.StatusBusy
			}
			return 0
		}
		keys, err = found(t, s, kv.Scan{KeysOnly: true, Concurrency: 4})
		require.NoError(t, err, "the last worker waits")
		require.Equal(t, s.all(), sorted(keys))
	})
}

func TestFatalFailuresEndAScan(t *testing.T) {
	for st, kind := range map[memd.Status]*cberr.Kind{
		memd.StatusAccess: cberr.AuthenticationFailure, memd.StatusInvalid: cberr.InvalidArgument,
		memd.StatusVBUUIDNotEqual: cberr.Couchbase,
		memd.StatusNotStored:      cberr.Couchbase, memd.StatusInternal: cberr.InternalServerFailure,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 8, 2, 100)
			s.onCreate = func(uint16, int) memd.Status { return st }
			_, err := found(t, s, kv.Scan{})
			require.ErrorIs(t, err, kind)
			require.Equal(t, st, kvError(t, err).Status)

			s = newScanServer(t, 8, 2, 100)
			s.onContinue = func(uint16, int) (memd.Status, bool) { return st, false }
			_, err = found(t, s, kv.Scan{})
			require.ErrorIs(t, err, kind)
			require.Empty(t, s.scans)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 8, 2, 100)
		s.onContinue = func(uint16, int) (memd.Status, bool) { return memd.StatusRangeScanCancelled, false }
		_, err := found(t, s, kv.Scan{})
		require.ErrorIs(t, err, cberr.RequestCanceled, "somebody has cancelled it on the server")
	})
}

// K30: who stops early leaves nothing behind on the servers.
func TestAScanThatStopsIsCancelledOnTheServer_K30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 8, 2, 2000)
		n := 0
		run, err := kv.Scan{BatchItems: 10}.Run(testContext(t), s.topo)
		require.NoError(t, err)
		for _, err := range run.All(testContext(t)) {
			require.NoError(t, err)
			if n++; n == 15 {
				break
			}
		}
		require.NoError(t, run.Err())
		require.Empty(t, s.scans)
		require.Positive(t, s.cancels)
		run.Close()
		require.False(t, run.Next(t.Context()))
	})
}

func TestAScanEndsWithItsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 8, 2, 100)
		s.hold = make(chan struct{})
		defer close(s.hold)
		ctx, cancel := context.WithCancel(testContext(t))
		run, err := kv.Scan{}.Run(ctx, s.topo)
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		require.False(t, run.Next(testContext(t)))
		require.ErrorIs(t, run.Err(), cberr.RequestCanceled)
		require.Empty(t, s.scans, "cancelled on the server")

		run, err = kv.Scan{}.Run(testContext(t), s.topo)
		require.NoError(t, err)
		next, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, run.Next(next))
		require.ErrorIs(t, run.Err(), cberr.UnambiguousTimeout)
		require.Empty(t, s.scans)
	})
}

func TestASamplingScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before []string
		for range 2 {
			s := newScanServer(t, 16, 2, 500)
			keys, err := found(t, s, kv.Scan{
				Sampling: &kv.ScanSampling{Samples: 25, Seed: 7}, KeysOnly: true,
				Concurrency: 1,
			})
			require.NoError(t, err)
			require.Len(t, keys, 25)
			require.Empty(t, s.scans)
			require.True(t, before == nil || slices.Equal(before, keys), "the same seed, the same vbuckets")
			before = keys
		}
		s := newScanServer(t, 16, 2, 40)
		s.onCreate = func(vb uint16, _ int) memd.Status {
			if vb%2 == 0 {
				return memd.StatusRange
			}
			return 0
		}
		interrupted := map[uint16]bool{}
		s.onContinue = func(vb uint16, _ int) (memd.Status, bool) {
			first := !interrupted[vb]
			interrupted[vb] = true
			return map[bool]memd.Status{true: memd.StatusNotMyVBucket}[first && vb%3 == 0], false
		}
		keys, err := found(t, s, kv.Scan{Sampling: &kv.ScanSampling{Samples: 1000}, KeysOnly: true, BatchItems: 1})
		require.NoError(t, err, "vbuckets with too few documents are left out")
		require.Len(t, slices.Compact(sorted(keys)), len(keys), "nothing twice, though scans begin anew")
		require.NotEmpty(t, keys)
	})
}

func TestAScanIsConsistentWithMutations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 4, 1, 40)
		_, err := found(t, s, kv.Scan{Common: kv.Common{Timeout: 10 * time.Second}, ConsistentWith: []kv.MutationToken{
			{VBucket: 2, UUID: 7, Seqno: 5}, {VBucket: 2, UUID: 7, Seqno: 9}, {VBucket: 2, UUID: 7, Seqno: 8},
		}})
		require.NoError(t, err)
		n := 0
		for _, j := range s.creates {
			if bytes.Contains([]byte(j), []byte(`"snapshot_requirements":{"vb_uuid":"7","seqno":9,"timeout_ms":9000}`)) {
				n++
			}
		}
		require.Equal(t, 1, n, "%v", s.creates)
	})
}

// inBucket is a dispatcher that has a name.
type inBucket struct {
	*topo
	name string
}

// Runner implements kv.Dispatcher.
func (x inBucket) Runner() call.Runner { return x }

func (b inBucket) Name() string { return b.name }

// The longest prefix is a whole key; a server takes no longer terms.
func TestThePrefixOfAWholeKey(t *testing.T) {
	key := bytesOf('k', kv.MaxKeyLen)
	require.Equal(t, &kv.ScanRange{Start: key, End: key}, kv.PrefixRange(key))
	require.Equal(t, &kv.ScanRange{Start: []byte("k"), End: []byte("k\xff")}, kv.PrefixRange([]byte("k")))
	_, err := on("", kv.RangeScanCreate{Range: kv.PrefixRange(key)}).encoded(common)
	require.NoError(t, err)
}

func TestScansThatNeverBegin(t *testing.T) {
	s := newScanServer(t, 4, 1, 40)
	for _, op := range []kv.Scan{
		{Range: &kv.ScanRange{}, Sampling: &kv.ScanSampling{Samples: 1}},
		{Sampling: &kv.ScanSampling{}},
		{KeysOnly: true, WithXattrs: true},
		{Range: &kv.ScanRange{Start: make([]byte, 300)}},
		{Common: kv.Common{Collection: "a.b"}},
		{Common: kv.Common{Timeout: -1}},
	} {
		_, err := op.Run(testContext(t), s.topo)
		require.ErrorIs(t, kvError(t, err), cberr.InvalidArgument, "%+v", op)
	}
	for _, tokens := range [][]kv.MutationToken{
		{{VBucket: 3, UUID: 1}, {VBucket: 4, UUID: 1}},
		{{Bucket: "travel", VBucket: 1}, {Bucket: "other", VBucket: 1}},
	} {
		_, err := kv.Scan{ConsistentWith: tokens}.Run(testContext(t), inBucket{s.topo, "travel"})
		require.ErrorIs(t, kvError(t, err), cberr.InvalidArgument, "%+v", tokens)
		require.ErrorContains(t, err, "mutation 1")
	}
	s.layout = func(call.MapWait) (call.Layout, error) { return &fakeLayout{caps: map[string]bool{}}, nil }
	_, err := kv.Scan{}.Run(testContext(t), s.topo)
	require.ErrorIs(t, err, cberr.FeatureNotAvailable)
	s.layout = func(call.MapWait) (call.Layout, error) { return nil, errSeen }
	_, err = kv.Scan{}.Run(testContext(t), s.topo)
	require.ErrorIs(t, err, errSeen)
	require.Zero(t, s.dispatched.Load())
}

// The limits of one answer are those of the scan, or the usual ones.
func TestTheBatchesOfAScan(t *testing.T) {
	for want, op := range map[string]kv.Scan{
		"00000032" + "00000000" + "00003a98": {}, "00000007" + "00000000" + "00000064": {
			BatchItems: 7,
			BatchBytes: 100,
		},
	} {
		s := newScanServer(t, 2, 1, 10)
		_, err := found(t, s, op)
		require.NoError(t, err)
		require.NotEmpty(t, s.limits)
		for _, limits := range s.limits {
			require.Equal(t, want, fmt.Sprintf("%x", limits))
		}
	}
}
