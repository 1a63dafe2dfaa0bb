package sim_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/sim"
)

// A set of which many histories are not judged says nothing of P5, and fails.
func TestHistoriesThatAreNotJudgedAreAViolation(t *testing.T) {
	finished := func(unjudged int) *sim.Totals {
		totals := sim.NewTotals()
		totals.Add(&sim.Report{Seed: 7, Reached: map[string]int{"history judged": 96}})
		totals.Add(&sim.Report{Seed: 8, Reached: map[string]int{"history not judged in time": unjudged}})
		totals.Finish()
		return totals
	}
	require.Empty(t, finished(2).Failures)
	totals := finished(4)
	require.Equal(t, 1, totals.Violations)
	require.Equal(t, "P5", totals.Failures[0].Property)
	require.EqualValues(t, 8, totals.Failures[0].Seed)
	require.Contains(t, totals.Failures[0].What, "4 of 100 histories were not judged in time")
}

// A twin counts as noticed by what its runs have shown, never by the slowness of the machine.
func TestHistoriesThatAreNotJudgedNoticeNothing(t *testing.T) {
	noticed := func(reports ...*sim.Report) map[string]bool {
		totals := sim.NewTotals()
		for _, r := range reports {
			totals.Add(r)
		}
		totals.Finish()
		require.NotZero(t, totals.Violations)
		b, err := json.Marshal(totals) // so the command hands them on
		require.NoError(t, err)
		var again sim.Totals
		require.NoError(t, json.Unmarshal(b, &again))
		return again.Noticed()
	}
	slow := &sim.Report{Seed: 8, Reached: map[string]int{"history not judged in time": 4}}
	require.Empty(t, noticed(slow))
	for _, property := range []string{"P2", "P5"} {
		bad := &sim.Report{Seed: 9, Violations: []sim.Violation{{Seed: 9, Property: property}}}
		require.Equal(t, map[string]bool{property: true}, noticed(slow, bad))
	}
}

// A large set has to meet each fault with TLS and without.
func TestFaultsAreToBeMetWithTLSAndWithout(t *testing.T) {
	const fault, forTLS = "7 half-open", "47 certificate rotated"
	missing := func(encrypted bool) []string {
		totals := sim.NewTotals()
		totals.Add(&sim.Report{
			Ops: 1_000_000, Encrypted: encrypted, FaultsFired: map[string]int{fault: 1, forTLS: 1},
		})
		return totals.NotReached
	}
	with, without := missing(true), missing(false)
	require.Contains(t, without, fault+", over TLS")
	require.NotContains(t, without, fault+", without TLS")
	require.Contains(t, with, fault+", without TLS")
	require.NotContains(t, with, fault+", over TLS")
	require.NotContains(t, with, forTLS+", without TLS")
}
