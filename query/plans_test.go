package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlansHoldBoundedMemoryD112: texts of statements count as well as plans.
func TestPlansHoldBoundedMemoryD112(t *testing.T) {
	p := newPlans(DefaultMaxPlans)
	long := strings.Repeat("x", 1<<20)
	for i := range 100 {
		p.put(planKey{statement: fmt.Sprint(i) + long}, &plan{name: "n", encoded: long})
		require.LessOrEqual(t, p.bytes, maxPlanBytes)
	}
	require.Equal(t, 15, p.recent.Len())
	require.Len(t, p.byKey, 15)
	require.NotNil(t, p.get(planKey{statement: "99" + long}))
	require.Nil(t, p.get(planKey{statement: "80" + long}))
	huge := planKey{statement: strings.Repeat("x", maxPlanBytes)}
	p.put(huge, &plan{name: "n"}) // not kept
	require.Zero(t, p.recent.Len())
	require.Zero(t, p.bytes)
	p.put(planKey{statement: "a"}, &plan{name: "n"})
	p.put(planKey{statement: "a"}, &plan{name: "longer"})
	require.Equal(t, 7, p.bytes)
	p.clear()
	require.Zero(t, p.bytes)
}

// TestOnlyThePlanThatFailedIsDropped: another request may have made a new one meanwhile.
func TestOnlyThePlanThatFailedIsDropped(t *testing.T) {
	p := newPlans(10)
	old, now := &plan{name: "old"}, &plan{name: "new"}
	key := planKey{statement: "a"}
	p.put(key, old)
	p.put(key, now)
	p.drop(key, old)
	require.Equal(t, now, p.get(key))
	p.drop(key, now)
	require.Nil(t, p.get(key))
	p.drop(key, now)
}
