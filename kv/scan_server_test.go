package kv_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
