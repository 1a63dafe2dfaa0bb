package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line takes longer than it does on one core, and not as long as it would if nobody waited for it.
func TestHowFarCoresAreApart(t *testing.T) {
	if runtime.NumCPU() < 2 {
		require.Zero(t, coresApart())
		return
	}
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	ns := coresApart()
	t.Log(ns)
	require.Greater(t, ns, 1.0)
	require.Less(t, ns, 1e5)
	runtime.GOMAXPROCS(1)
	require.Zero(t, coresApart(), "nobody would be on the other core")
}
