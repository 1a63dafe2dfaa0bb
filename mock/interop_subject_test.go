package mock_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// subject is a server that programs run on.
type subject struct {
	server
	r      *raw
	nodes  []*raw // by place, where there are several
	keys   string // what its keys begin with
	last   map[int]uint64
	former map[int]uint64 // the CAS before the last one
	era    map[int]int    // how often a key has begun anew
	passed int            // seconds, in this program
	uuid   uint64         // of the vbucket, by the last token
	seqno  uint64
}

// newSubject connects to a server's nodes.
func newSubject(s server, nodes int) *subject {
	sub := &subject{server: s, r: s.dial(0)}
	if nodes > 1 {
		sub.nodes = places(s, nodes)
		sub.r = sub.nodes[onActive]
	}
	return sub
}

// begin prepares for another program.
func (s *subject) begin(keys string) {
	s.keys, s.last, s.former, s.era = keys, map[int]uint64{}, map[int]uint64{}, map[int]int{}
	if s.passed > 0 { // each program begins in the present
		s.pass(-s.passed)
		s.passed = 0
	}
	s.endure()
}

// endure lets the connections wait for as long as answers may take from here on.
func (s *subject) endure() {
	for _, r := range append(slices.Clone(s.nodes), s.r) {
		require.NoError(r.t, r.nc.SetDeadline(time.Now().Add(patience)))
	}
}

// renew lets the program go on with a document that is not there yet.
func (s *subject) renew(key int) {
	s.era[key]++
	delete(s.last, key)
	delete(s.former, key)
}

// answer is what a client sees of one, in words.
type answer struct {
	said  string
	paths []string // of each path of a lookup, and of a mutation up to the first that fails
}

// stranger makes of a CAS one that no document has: peers count theirs from 1.
const stranger = 0x5a5a << 40

// say sends a step and puts in words what a client sees of the answer.
func (s *subject) say(st step) answer {
	if st.passes > 0 {
		s.pass(st.passes)
		s.passed += st.passes
		s.endure()
		return answer{said: "later"}
	}
	key := fmt.Sprintf("%s-%d", s.keys, st.key)
	if s.era[st.key] > 0 {
		key += fmt.Sprintf("-%d", s.era[st.key])
	}
	q := st.packet(key)
	switch st.cas {
	case lastCAS:
		q.CAS = s.last[st.key]
	case noCAS:
	case wrongCAS:
		q.CAS = s.last[st.key] ^ stranger
	case formerCAS:
		q.CAS = cmp.Or(s.former[st.key], s.last[st.key]^stranger)
	}
	switch {
	case st.quiet:
		return s.whisper(st, q)
	case st.op == memd.OpObserve, st.op == memd.OpObserveSeqno:
		return s.observe(st, q)
	case s.nodes != nil:
		return s.words(st, s.nodes[st.place].call(q))
	}
	return s.words(st, s.r.call(q))
}

// words says what a client sees of an answer.
func (s *subject) words(st step, p memd.Packet) answer {
	a := answer{said: fmt.Sprintf("%#02x", uint16(p.Status))}
	ok := p.Status == memd.StatusSuccess || p.Status == memd.StatusSubdocSuccessDeleted
	if several(st.op) && (ok || failedPaths(p.Status)) {
		a.paths = s.paths(st, &p)
		a.said += fmt.Sprint(" ", strings.Join(a.paths, ", "))
		ok = ok || st.op == memd.OpSubdocMultiLookup
	}
	if len(p.Key) > 0 {
		a.said += " key"
	}
	switch {
	case !ok:
		if p.CAS != 0 {
			a.said += " with a CAS"
		}
		return a
	case reads(st.op):
		a.said += fmt.Sprintf(" flags=%x %q", p.Extras, p.Value)
	case subdocument(st.op) || counts(st.op):
		a.said += fmt.Sprintf(" %q", p.Value)
	}
	a.said += s.token(&p, reads(st.op))
	if st.op == memd.OpDelete {
		delete(s.last, st.key)
		return a
	}
	a.said += s.cas(st, p.CAS)
	return a
}

// failedPaths reports whether a status is that of a command for several paths some of which failed.
func failedPaths(s memd.Status) bool {
	return s == memd.StatusSubdocMultiPathFailure || s == memd.StatusSubdocMultiPathFailureDeleted
}

// cas says what an answer's CAS is, and remembers it.
func (s *subject) cas(st step, cas uint64) string {
	before := s.last[st.key]
	switch {
	case cas == 0:
		return " no CAS"
	case cas == math.MaxUint64:
		return " hidden CAS"
	case cas == before:
		return " same CAS"
	}
	s.last[st.key], s.former[st.key] = cas, before
	return " new CAS"
}

// paths are the words for each path of an answer to a command for several.
func (s *subject) paths(st step, p *memd.Packet) (words []string) {
	b, lookup := p.Value, st.op == memd.OpSubdocMultiLookup
	if !lookup && failedPaths(p.Status) {
		require.Len(s.r.t, b, 3, "a failed mutation tells one path and its status")
		require.Less(s.r.t, int(b[0]), len(st.specs))
		return append(slices.Repeat([]string{"0x00"}, int(b[0])), fmt.Sprintf("%#02x", binary.BigEndian.Uint16(b[1:])))
	}
	words = slices.Repeat([]string{"0x00"}, len(st.specs))
	for i := 0; len(b) > 0; i++ {
		if !lookup {
			i, b = int(b[0]), b[1:]
		}
		require.Less(s.r.t, i, len(words))
		require.GreaterOrEqual(s.r.t, len(b), 6)
		status, n := binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])
		require.LessOrEqual(s.r.t, int(n), len(b)-6)
		words[i] = fmt.Sprintf("%#02x", status)
		if n > 0 || !lookup {
			words[i] += fmt.Sprintf(" %q", b[6:6+n])
		}
		if b = b[6+n:]; lookup && len(b) == 0 {
			require.Equal(s.r.t, len(words)-1, i, "a lookup answers each path")
		}
	}
	failed := slices.ContainsFunc(words, func(word string) bool { return !strings.HasPrefix(word, "0x00") })
	require.Equal(s.r.t, failedPaths(p.Status), failed, "%s", words)
	return words
}
