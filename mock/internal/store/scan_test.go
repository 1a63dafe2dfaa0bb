package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPlanScan reads any request for a scan, and executes what is one.
func FuzzPlanScan(f *testing.F) {
	f.Add([]byte(`{"range":{"start":"YQ==","excl_end":"Yg=="},"snapshot_requirements":{"vb_uuid":"1","seqno":2}}`))
	f.Add([]byte(`{"sampling":{"samples":18446744073709551615}}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		p, wrong := PlanScan(value)
		if wrong != "" {
			return
		}
		require.LessOrEqual(t, len(p.from), maxScanTerm)
		c := &docCopy{docs: map[docID]*doc{
			{p.Collection, p.from}: {}, {p.Collection, "a"}: {},
			{p.Collection + 1, "a"}: {},
		}}
		require.LessOrEqual(t, len(p.pick(c, storeStart)), 2)
	})
}
