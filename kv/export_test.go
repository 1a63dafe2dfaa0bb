package kv

import (
	"reflect"
	"unsafe"

	"github.com/couchcore/couchcore/memd"
)

// NewPathResult makes a PathResult with the caller's index of its spec.
func NewPathResult(i int, path string, st memd.Status, value []byte) PathResult {
	return PathResult{Path: path, Status: st, Value: value, index: uint8(i)}
}

// ResultVia makes the result of an answer that came by a connection.
func ResultVia(v *Via, cas uint64) Result { return Result{CAS: cas, via: v} }

// CallSize is what a call takes.
const CallSize = unsafe.Sizeof(Call{})

// SpareCap is how much memory c keeps for compressed values.
func SpareCap(c *Call) int { return cap(c.spare) }

// Packed reports whether the call's value has been compressed.
func Packed(c *Call) bool { return c.Req.packed != nil }

// Leftovers names the fields of a call that are not zero, but for those that may stay when it is used again.
func Leftovers(c *Call) []string {
	var left []string
	if c.State.Strategy != nil || !c.State.Deadline.IsZero() || c.State.Idempotent {
		left = append(left, "State")
	}
	v := reflect.ValueOf(&c.use).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "policyHedge" && !v.Field(i).IsZero() {
			left = append(left, name)
		}
	}
	return left
}

// HasRow reports whether a status has one.
func HasRow(st memd.Status) bool { return rowOf(st) != nil }

// StatusesOutOfStep are those whose row does not say whether overrides has them.
func StatusesOutOfStep() []memd.Status {
	var out []memd.Status
	has := map[memd.Status]bool{}
	for o := range overrides {
		has[o.st] = true
		if rowOf(o.st) == nil {
			out = append(out, o.st)
		}
	}
	for st := range rows {
		if s := memd.Status(st); rows[st].varies != has[s] {
			out = append(out, s)
		}
	}
	return out
}
