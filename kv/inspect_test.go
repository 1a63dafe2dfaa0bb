package kv_test

import (
	"reflect"

	"github.com/couchcore/couchcore/internal/call"
)

// spareCap is how much memory c keeps for compressed values.
func spareCap(c *call.Call) int { return kept(c).FieldByName("spare").Cap() }

// kept is what the call has that its next use has again.
func kept(c *call.Call) reflect.Value {
	return reflect.ValueOf(&c.Req).Elem().FieldByName("own").Elem()
}

// isPacked reports whether the call's value has been compressed.
func isPacked(c *call.Call) bool {
	return !kept(c).FieldByName("packed").IsNil()
}

// leftovers names the fields of a call that are not zero, but for those that may stay when it is used again.
func leftovers(c *call.Call) []string {
	var left []string
	if c.State.Strategy != nil || !c.State.Deadline.IsZero() || c.State.Idempotent {
		left = append(left, "State")
	}
	v := reflect.ValueOf(c).Elem().FieldByName("use")
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name != "Req" && !v.Field(i).IsZero() {
			left = append(left, name)
		}
	}
	req := reflect.ValueOf(&c.Req).Elem()
	for i := range req.NumField() {
		name := req.Type().Field(i).Name
		if name != "own" && !req.Field(i).IsZero() {
			left = append(left, "Req."+name)
		}
	}
	if own := kept(c); own.IsValid() && !own.FieldByName("cold").IsZero() {
		left = append(left, "Req.own")
	}
	if s := c.Slow(); !reflect.ValueOf(s).Elem().IsZero() {
		for i := range reflect.ValueOf(s).Elem().NumField() {
			name := reflect.TypeOf(s).Elem().Field(i).Name
			if name != "watcher" && !reflect.ValueOf(s).Elem().Field(i).IsZero() { // whose memory is used again
				left = append(left, "Slow."+name)
			}
		}
	}
	return left
}
