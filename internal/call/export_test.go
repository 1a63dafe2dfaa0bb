package call

import "github.com/couchcore/couchcore/memd"

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

// RowsOf gives every row of the table of operations.
func RowsOf() []*Spec {
	var all []*Spec
	for _, s := range specs {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}
