package sim_test

import (
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
