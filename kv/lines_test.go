package kv

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// No two calls' channels share a cache line.
func TestAChannelHasItsCacheLines(t *testing.T) {
	for range 1000 {
		c := NewCall()
		c.block()
		require.Zero(t, reflect.ValueOf(c.wake).Pointer()%64)
	}
}
