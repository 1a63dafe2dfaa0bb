package mock

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// mutate is the next version of a document.
func (s *store) mutate(o *docOp, old doc, live, locked bool, now time.Time) (doc, docResult) {
	if !live {
		old = doc{}
	}
	switch o.op {
	case memd.OpAdd:
		if live {
			return old, failure(memd.StatusKeyExists)
		}
	case memd.OpIncrement, memd.OpDecrement:
		if !live && o.expiry == math.MaxUint32 {
			return old, failure(memd.StatusKeyNotFound)
		}
	case memd.OpAppend, memd.OpPrepend:
		if !live {
			return old, failure(memd.StatusNotStored)
		}
	case memd.OpSet:
		if !live && o.cas != 0 {
			return old, failure(memd.StatusKeyNotFound)
		}
	default:
		if !live {
			return old, failure(memd.StatusKeyNotFound)
		}
	}
	switch {
	case locked && o.cas != old.cas:
		return old, failure(memd.StatusLocked)
	case o.cas != 0 && o.cas != old.cas:
		return old, failure(memd.StatusKeyExists)
	}
	next := old
	next.cas = 0
	var res docResult
	switch o.op {
	case memd.OpSet, memd.OpAdd, memd.OpReplace:
		next = doc{
			value: o.value, flags: o.flags, datatype: o.datatype, packed: o.packed, expiry: o.expires(now),
			xattrs: old.xattrs,
		}
		if o.preserveTTL && live {
			next.expiry = old.expiry
		}
	case memd.OpDelete:
		next = next.tombstone()
	case memd.OpAppend:
		next.value = slices.Concat(old.value, o.value)
		next.datatype, next.packed = valueType(next.value), false
	case memd.OpPrepend:
		next.value = slices.Concat(o.value, old.value)
		next.datatype, next.packed = valueType(next.value), false
	case memd.OpTouch, memd.OpGAT:
		next.expiry = o.expires(now)
	case memd.OpIncrement, memd.OpDecrement:
		n, ok := count(o, old, live)
		if !ok {
			return old, failure(memd.StatusDeltaBadVal)
		}
		if !live {
			next = doc{expiry: o.expires(now)}
		}
		next.packed = false
		next.value, next.datatype, res.number = strconv.AppendUint(nil, n, 10), memd.DatatypeJSON, n
	}
	if len(next.value) > maxValue {
		return old, failure(memd.StatusTooBig)
	}
	return next, res
}

// count is a counter's next number.
func count(o *docOp, old doc, live bool) (uint64, bool) {
	if !live {
		return o.initial, true
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(old.value)), 10, 64)
	switch {
	case err != nil:
		return 0, false
	case o.op == memd.OpIncrement:
		return n + o.delta, true
	}
	return n - min(n, o.delta), true
}
