package mock_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// place is a node by what it has of the vbucket that programs use.
type place int

const (
	onActive place = iota
	onReplica
	onNeither
)

// places connects to the nodes of a server, in the order of place.
func places(s server, nodes int) []*raw {
	out := make([]*raw, nodes)
	for n := range nodes {
		r := s.dial(n)
		at := onNeither
		for where, op := range []memd.Opcode{memd.OpGet, memd.OpGetReplica} {
			if p := r.call(memd.Packet{Opcode: op, Key: []byte("where")}); p.Status != memd.StatusNotMyVBucket {
				at = place(where)
				break
			}
		}
		require.Nil(r.t, out[at], "two nodes are %d", at)
		out[at] = r
	}
	return out
}

// copyStep is a step of a program on three nodes: reads of copies, and what changes them.
func copyStep(random *rand.Rand) step {
	ops := []memd.Opcode{
		memd.OpGet, memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpDelete, memd.OpAppend, memd.OpTouch, memd.OpGAT,
		memd.OpSubdocDictUpsert, memd.OpSubdocGet,
	}
	copies := []memd.Opcode{
		memd.OpGetReplica, memd.OpGetReplica, memd.OpGetReplica, memd.OpObserve, memd.OpObserveSeqno, memd.OpEvictKey,
	}
	switch n := random.IntN(12); {
	case n < 5:
		st := randomStep(random, copies)
		st.value, st.place = "", place(random.IntN(3))
		return st
	case n == 5:
		return step{op: memd.OpGetLocked, key: random.IntN(3), lock: lockTimes[random.IntN(len(lockTimes))]}
	case n == 6:
		return step{op: memd.OpUnlockKey, key: random.IntN(3), cas: lastCAS}
	}
	st := randomStep(random, ops)
	if random.IntN(8) == 0 {
		st.place = place(random.IntN(3))
	}
	return st
}

// token says what the extras of an answer are that is no read, and remembers a mutation token.
func (s *subject) token(p *memd.Packet, reads bool) string {
	switch {
	case reads || len(p.Extras) == 0:
		return ""
	case len(p.Extras) != 16:
		return fmt.Sprintf(" %d bytes", len(p.Extras))
	}
	seqno := binary.BigEndian.Uint64(p.Extras[8:])
	require.Greater(s.r.t, seqno, s.seqno)
	s.uuid, s.seqno = binary.BigEndian.Uint64(p.Extras), seqno
	return " token"
}

// observe sends a request about what copies have, and says what a client sees of the answer.
func (s *subject) observe(st step, q memd.Packet) answer {
	if st.op == memd.OpObserveSeqno {
		q.Key, q.Value = nil, binary.BigEndian.AppendUint64(nil, s.uuid)
	}
	p := s.nodes[st.place].call(q)
	said := fmt.Sprintf("%#02x", uint16(p.Status))
	switch {
	case p.Status != memd.StatusSuccess:
	case st.op == memd.OpObserveSeqno:
		require.Len(s.r.t, p.Value, 27)
		require.Equal(s.r.t, append([]byte{0, 0, 0}, q.Value...), p.Value[:11])
		persisted, current := binary.BigEndian.Uint64(p.Value[11:]), binary.BigEndian.Uint64(p.Value[19:])
		said += fmt.Sprintf(" persisted=%v past=%v", persisted == current, current >= s.seqno)
	default:
		tail, ok := bytes.CutPrefix(p.Value, q.Value)
		require.True(s.r.t, ok)
		require.Len(s.r.t, tail, 9)
		said += fmt.Sprintf(" state=%#02x%s", tail[0], s.cas(st, binary.BigEndian.Uint64(tail[1:])))
	}
	return answer{said: said}
}

// What CouchbaseMock does otherwise with copies.
var copiesDiffer = []difference{
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   append([]memd.Opcode{memd.OpGetReplica, memd.OpEvictKey, memd.OpObserve, memd.OpAdd}, readingOps...),
		when:  namesCAS, ours: "0x04", theirs: "0x.*", differ: true,
		why: "kv_engine refuses it as invalid (mcbp_validators.cc, ExpectedCas::NotSet)",
	},
	{
		topic: "copies",
		ops:   []memd.Opcode{memd.OpGetReplica}, when: placed(onActive), ours: "0x07", theirs: "0x00.*|0x01",
		why: "the active copy is no replica to kv_engine (KVBucket::getReplica)",
	},
	{
		topic: "copies",
		ops:   []memd.Opcode{memd.OpGetReplica}, when: placed(onReplica), ours: "0x00 flags.* (same|new) CAS",
		theirs: "0x00 key flags.* (same|new) CAS",
		why:    "kv_engine tells the key for GETK alone (get_context.cc)",
	},
	{
		topic: "copies",
		ops:   []memd.Opcode{memd.OpGetReplica, memd.OpObserve}, when: locked, ours: "0x00 .* (same|new) CAS",
		theirs: "0x00 .* hidden CAS", differ: true,
		why: "replicas know no locks, and OBSERVE tells the document's own CAS",
	},
	{
		topic: "copies",
		ops:   []memd.Opcode{memd.OpObserve}, when: locked, ours: "0x00 state=0x01 .*",
		theirs: "0x00 state=0x0.*", differ: true,
		why: "a lock changes nothing on disk",
	},
	{
		topic: "copies",
		ops:   []memd.Opcode{memd.OpObserve}, when: placed(onReplica), ours: "0x00 state=0x80 .*",
		theirs: "0x00 state=0x81 .*",
		why:    "a document whose removal is on disk is not found",
	},
	{
		topic: "OBSERVE_SEQNO",
		ops:   []memd.Opcode{memd.OpObserveSeqno}, when: placed(onNeither), ours: "0x07", theirs: "0x00.*|0x84",
		why: "a node without the vbucket knows nothing of it",
	},
	{
		topic: "OBSERVE_SEQNO",
		ops:   []memd.Opcode{memd.OpObserveSeqno}, ours: "0x01", theirs: "0x84",
		why: "an unknown id of the vbucket is not found (EventuallyPersistentEngine::observe_seqno)",
	},
}

// placed gives whether a step is for the node at a place.
func placed(where place) func([]step, step) bool {
	return func(_ []step, st step) bool { return st.place == where }
}
