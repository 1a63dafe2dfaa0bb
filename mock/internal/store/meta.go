package store

import (
	"cmp"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Options of writes with metadata.
const (
	SkipConflict  = 0x01
	ForceAccept   = 0x02
	RegenerateCAS = 0x04
	isExpiration  = 0x10
	AllOptions    = SkipConflict | ForceAccept | RegenerateCAS | 0x08 | isExpiration
)

// Meta is what a request with metadata brings.
type Meta struct {
	Flags, Expiry, Options uint32
	Rev, CAS               uint64
	Xattrs                 Xattrs
}

// applyMeta is the version of a document that a write with metadata brings. Conflicts are resolved before the CAS and a
// lock are looked at. A removal compares its CAS with a tombstone's, or with 0 where there never was a document.
func (s *Store) applyMeta(o *Op, old doc, found bool, now time.Time) (doc, memd.Status) {
	m, removes, cas := o.Meta, o.Opcode == memd.OpDelWithMeta, old.writeCAS(now)
	next := doc{
		value: o.Value, datatype: o.Datatype, packed: o.Packed, attrs: m.Xattrs.kept(), flags: m.Flags,
		expiry: m.Expiry, rev: m.Rev, cas: m.CAS, deleted: removes,
	}
	skip, there := m.Options&SkipConflict != 0, found && !old.deleted
	switch {
	case found && !skip && !next.wins(&old, m.Options&ForceAccept != 0):
		return old, memd.StatusKeyExists
	case o.Opcode == memd.OpAddWithMeta && there:
		return old, memd.StatusKeyExists
	case found && old.isLocked(now) && o.CAS != cas:
		return old, memd.StatusLocked
	case removes && !found && skip, o.CAS == 0, found && o.CAS == cas: // no other CAS than the request's
	case removes, there:
		return old, memd.StatusKeyExists
	default:
		return old, memd.StatusKeyNotFound
	}
	if removes && len(o.Value) > 0 {
		return old, memd.StatusInvalid
	}
	if m.Options&RegenerateCAS != 0 {
		next.cas = 0
	}
	s.lastCAS = max(s.lastCAS, next.cas)
	return next, memd.StatusSuccess
}

// wins reports whether a version from elsewhere replaces the one that is here. Of a removal only revision and CAS
// count; of equal versions one with attributes wins over one without.
func (d *doc) wins(here *doc, byTime bool) bool {
	order := cmp.Or(cmp.Compare(d.rev, here.rev), cmp.Compare(d.cas, here.cas))
	if byTime {
		order = cmp.Or(cmp.Compare(d.cas, here.cas), cmp.Compare(d.rev, here.rev))
	}
	if d.deleted {
		return order > 0
	}
	order = cmp.Or(order, cmp.Compare(d.expiry, here.expiry), cmp.Compare(d.flags, here.flags))
	return order > 0 || order == 0 && d.attrs != nil && here.attrs == nil
}
