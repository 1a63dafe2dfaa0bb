package store

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// mutate is the next version of a document.
func (s *Store) mutate(o *Op, old doc, live bool, now time.Time) (doc, Result) {
	if !live {
		old = doc{}
	}
	switch o.Opcode {
	case memd.OpAdd:
		if live {
			return old, failure(memd.StatusKeyExists)
		}
	case memd.OpIncrement, memd.OpDecrement:
		if !live && o.Expiry == math.MaxUint32 {
			return old, failure(memd.StatusKeyNotFound)
		}
	case memd.OpAppend, memd.OpPrepend:
		if !live {
			return old, failure(memd.StatusNotStored)
		}
	case memd.OpSet:
		if !live && o.CAS != 0 {
			return old, failure(memd.StatusKeyNotFound)
		}
	default:
		if !live {
			return old, failure(memd.StatusKeyNotFound)
		}
	}
	var res Result
	if o.Opcode == memd.OpIncrement || o.Opcode == memd.OpDecrement { // a server counts before it looks at a lock
		var ok bool
		if res.Number, ok = count(o, old, live); !ok {
			return old, failure(memd.StatusDeltaBadVal)
		}
	}
	switch cas := old.writeCAS(now); {
	case old.isLocked(now) && o.CAS != cas:
		return old, failure(memd.StatusLocked)
	case o.CAS != 0 && o.CAS != cas:
		return old, failure(memd.StatusKeyExists)
	}
	next := old
	next.cas = 0
	switch o.Opcode {
	case memd.OpSet, memd.OpAdd, memd.OpReplace:
		// The request's buffer has its key and extras too, and is of a larger size of the allocator.
		next = doc{
			value: slices.Clone(o.Value), flags: o.Flags, datatype: o.Datatype, packed: o.Packed,
			expiry: o.expires(now), attrs: old.attrs,
		}
		if o.PreserveTTL && live {
			next.expiry = old.expiry
		}
	case memd.OpDelete:
		next = next.tombstone()
	case memd.OpAppend:
		next.value = slices.Concat(old.value, o.Value)
		next.datatype, next.packed = ValueType(next.value), false
	case memd.OpPrepend:
		next.value = slices.Concat(o.Value, old.value)
		next.datatype, next.packed = ValueType(next.value), false
	case memd.OpTouch, memd.OpGAT:
		next.expiry = o.expires(now)
	case memd.OpIncrement, memd.OpDecrement:
		if !live {
			next = doc{expiry: o.expires(now)}
		}
		next.packed = false
		next.value, next.datatype = strconv.AppendUint(nil, res.Number, 10), memd.DatatypeJSON
	}
	if len(next.value) > MaxValue {
		return old, failure(memd.StatusTooBig)
	}
	return next, res
}

// count is a counter's next number.
func count(o *Op, old doc, live bool) (uint64, bool) {
	if !live {
		return o.Initial, true
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(old.value)), 10, 64)
	switch {
	case err != nil:
		return 0, false
	case o.Opcode == memd.OpIncrement:
		return n + o.Delta, true
	}
	return n - min(n, o.Delta), true
}
