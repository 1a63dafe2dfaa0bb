package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGarbageHasAFifthOfALargeHeap holds the policy of limitGarbage: the runtime's own for a small mock, a fifth of
// what lives for one with a million documents.
func TestGarbageHasAFifthOfALargeHeap(t *testing.T) {
	for live, percent := range map[uint64]int{
		0: 100, 4 << 20: 100, 64 << 20: 100, 128 << 20: 50, 320 << 20: 20, 450 << 20: 20, 8 << 30: 19,
	} {
		require.Equal(t, percent, collectorPercent(live), "%d live bytes", live)
	}
}
