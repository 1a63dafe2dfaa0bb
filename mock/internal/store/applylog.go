package store

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

// MaxToken is how many bytes of a value an entry has.
const MaxToken = 64

// Log returns the mutations in the order of their execution. The slice is the caller's.
func (s *Store) Log() []Applied {
	return slices.Clone(s.wanted())
}

// wanted are the entries that the limit leaves.
func (s *Store) wanted() []Applied {
	if s.keep == 0 || len(s.applied) <= s.keep {
		return s.applied
	}
	return s.applied[len(s.applied)-s.keep:]
}

// Limit keeps the newest n entries only, or all with 0.
func (s *Store) Limit(n int) {
	s.applied = s.wanted() // what an old limit has made invisible stays so
	s.keep = n
	s.applied = slices.Clone(s.wanted())
}

func (s *Store) record(o *Op, before, after uint64, now time.Time) {
	if s.keep > 0 && len(s.applied) >= 2*s.keep {
		s.Limit(s.keep)
	}
	a := Applied{
		Node: o.Node, VBucket: o.VBucket, Opcode: o.Opcode, Collection: o.Collection, Key: string(o.Key),
		Token: string(o.Value[:min(len(o.Value), MaxToken)]), CASBefore: before, CASAfter: after, At: now,
	}
	s.applied = append(s.applied, a)
	if s.Journal {
		s.unwritten = append(s.unwritten, a)
	}
}

// TakeUnwritten returns the mutations that the journal has not got yet, once; nil unless the store keeps them for one.
func (s *Store) TakeUnwritten() []Applied {
	list := s.unwritten
	s.unwritten = nil
	return list
}
