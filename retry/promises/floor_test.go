package promises_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// hurries is a strategy that asks for the next attempt at once, always.
type hurries struct{}

func (hurries) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.After(0)
}

// Inline implements retry.Inline.
func (hurries) Inline() bool { return true }

// TestAStrategyCannotDriveTheLoop: one that asks again and again for an attempt at once gets the first at once, and
// then no more than one a millisecond.
func TestAStrategyCannotDriveTheLoop(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 50, memd.StatusTmpFail)
		took, info, err := w.upsert(hurries{})
		require.NoError(t, err)
		require.Equal(t, 50, info.Counted)
		require.GreaterOrEqual(t, took, 49*time.Millisecond)
		require.Less(t, took, 60*time.Millisecond)
	})
}
