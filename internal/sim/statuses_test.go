package sim_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/sim"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// The judges and the client know the protocol by tables of their own, which say the same.
func TestTheJudgesKnowTheProtocol(t *testing.T) {
	for _, op := range sim.Operations() {
		for st := range math.MaxUint16 + 1 {
			for _, cas := range []bool{false, true} {
				require.Equal(t, call.Classify(op, memd.Status(st), cas), sim.Meaning(op, memd.Status(st), cas),
					"%v answered %#x, CAS %t", op, st, cas)
			}
		}
	}
	at := time.Duration(0)
	for i, want := range []time.Duration{1, 11, 61, 161, 661, 1661, 2661, 3661} {
		require.Equal(t, retry.Controlled(i, 0), sim.ElsewhereWait(i))
		at += sim.ElsewhereWait(i)
		require.Equal(t, want*time.Millisecond, at)
	}
}
