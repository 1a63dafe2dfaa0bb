package mock_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// subject is a server that programs run on.
type subject struct {
	r      *raw
	keys   string // what its keys begin with
	last   map[int]uint64
	former map[int]uint64 // the CAS before the last one
	era    map[int]int    // how often a key has begun anew
}

// begin prepares for another program.
func (s *subject) begin(keys string) {
	s.keys, s.last, s.former, s.era = keys, map[int]uint64{}, map[int]uint64{}, map[int]int{}
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

// say sends a step and puts in words what a client sees of the answer.
func (s *subject) say(st step) answer {
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
		q.CAS = s.last[st.key] ^ 0x5a5a
	case formerCAS:
		q.CAS = cmp.Or(s.former[st.key], s.last[st.key]^0x5a5a)
	}
	p := s.r.call(q)
	a := answer{said: fmt.Sprintf("%#02x", uint16(p.Status))}
	ok := p.Status == memd.StatusSuccess
	if several(st.op) && (ok || p.Status == memd.StatusSubdocMultiPathFailure) {
		a.paths = s.paths(st, &p)
		a.said += fmt.Sprint(" ", strings.Join(a.paths, ", "))
		ok = ok || st.op == memd.OpSubdocMultiLookup
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
	case st.op == memd.OpDelete:
		delete(s.last, st.key)
		return a
	}
	a.said += s.cas(st, p.CAS)
	return a
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
	if !lookup && p.Status != memd.StatusSuccess {
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
	require.Equal(s.r.t, p.Status == memd.StatusSubdocMultiPathFailure, failed, "%s", words)
	return words
}
