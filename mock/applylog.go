package mock

import (
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
	Token      string // the first bytes of the value, up to 64
	CASBefore  uint64 // 0 when there was no document
	CASAfter   uint64
	At         time.Time
}

const maxToken = 64

// log returns the mutations in the order of their execution.
func (s *store) log() []Applied { return append([]Applied(nil), s.applied...) }

func (s *store) record(o *docOp, before, after uint64, now time.Time) {
	s.applied = append(s.applied, Applied{
		Node: o.node, VBucket: o.vb, Opcode: o.op, Collection: o.cid, Key: string(o.key),
		Token: string(o.value[:min(len(o.value), maxToken)]), CASBefore: before, CASAfter: after, At: now,
	})
}
