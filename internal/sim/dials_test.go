package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
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

// A client that has connected to the nodes without a bucket, too, dials for two connections to each.
func TestConnectionsWithoutABucketExcuseDials(t *testing.T) {
	const node = "10.0.0.1:11210"
	violations := func(handshake ...memd.Opcode) int {
		w := &world{plan: &plan{connections: 1}, report: newReport(Options{}), began: time.Now()}
		w.facts = &facts{dials: map[string][]time.Time{}}
		for _, op := range handshake {
			w.facts.frames = append(w.facts.frames, mock.Frame{Conn: 7, Opcode: op, At: w.began})
		}
		for i := range dialsFree + 1 {
			w.facts.dials[node] = append(w.facts.dials[node], w.began.Add(time.Duration(i)*time.Millisecond))
		}
		w.checkDials()
		return len(w.report.Violations)
	}
	require.Equal(t, 1, violations())
	require.Equal(t, 1, violations(memd.OpHello, memd.OpSASLAuth), "it is not known what they were for")
	require.Equal(t, 1, violations(memd.OpHello, memd.OpSelectBucket, memd.OpGetClusterConfig))
	require.Zero(t, violations(memd.OpHello, memd.OpGetClusterConfig))
}
