package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
)

// A processor changes sides only when nearly all calls are on its own.
func TestWhenAProcessorChangesSides(t *testing.T) {
	for name, c := range map[string]struct {
		here, there int
		crammed     bool
	}{
		"equal":          {500, 500, false},
		"more here":      {900, 120, false},
		"all here":       {1000, 0, true},
		"nearly all":     {1000, 124, true},
		"all there":      {0, 1000, false},
		"all, but few":   {conn.Crowd / 2, 0, false},
		"a few too many": {conn.Crowd/2 + 1, 0, true},
	} {
		require.Equal(t, c.crammed, crammed(c.here, c.there), name)
	}
}
