package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections that were broken excuse dials to their own node, or to all nodes, but to no other one.
func TestBrokenConnectionsExcuseDialsToTheirNode(t *testing.T) {
	const dialled, other = "10.0.0.1:11210", "10.0.0.2:11210"
	violations := func(broken string) int {
		w := &world{plan: &plan{connections: 1}, report: newReport(Options{}), began: time.Now()}
		w.facts = &facts{dials: map[string][]time.Time{}}
		w.breaks(broken)
		for i := range dialsFree + 1 {
			at := w.began.Add(time.Duration(i) * time.Millisecond)
			w.facts.dials[dialled] = append(w.facts.dials[dialled], at)
		}
		w.checkDials()
		return len(w.report.Violations)
	}
	require.Zero(t, violations(dialled))
	require.Zero(t, violations(everywhere))
	require.Zero(t, violations("10.0.0.1:11207"), "another port of the node")
	require.Equal(t, 1, violations(other))
}
