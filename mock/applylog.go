package mock

import (
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Applied is one mutation as a node executed it.
type Applied struct {
	Node       int
	VBucket    uint16
	Opcode     memd.Opcode
	Collection uint32
	Key        string
	Token      string // the first bytes of the request's value, up to 64
	CASBefore  uint64 // 0 when there was no document
	CASAfter   uint64
	At         time.Time
}

const maxToken = 64

// log returns the mutations in the order of their execution. The slice is the caller's.
func (s *store) log() []Applied {
	return slices.Clone(s.wanted())
}

// wanted are the entries that the limit leaves.
func (s *store) wanted() []Applied {
	if s.keep == 0 || len(s.applied) <= s.keep {
		return s.applied
	}
	return s.applied[len(s.applied)-s.keep:]
}

// limit keeps the newest n entries only, or all with 0.
func (s *store) limit(n int) {
	s.applied = s.wanted() // what an old limit has made invisible stays so
	s.keep = n
	s.applied = slices.Clone(s.wanted())
}

func (s *store) record(o *docOp, before, after uint64, now time.Time) {
	if s.keep > 0 && len(s.applied) >= 2*s.keep {
		s.limit(s.keep)
	}
	a := Applied{
		Node: o.node, VBucket: o.vb, Opcode: o.op, Collection: o.cid, Key: string(o.key),
		Token: string(o.value[:min(len(o.value), maxToken)]), CASBefore: before, CASAfter: after, At: now,
	}
	s.applied = append(s.applied, a)
	if s.journal {
		s.unwritten = append(s.unwritten, a)
	}
}
