package retry_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Operations fail one after the other, and their strategies answer on goroutines of their own, in any order. Those that
// are due at one moment go in the order in which they have failed.
func TestWhatIsDueTogetherGoesInTheOrderInWhichItFailed_D250(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: retry.Func(
			func(context.Context, *retry.Request, retry.Reason) retry.Action {
				return retry.After(10 * time.Millisecond)
			})})
		var order []int
		for i := range 20 {
			x := newOp(true, time.Minute)
			x.dispatch = func() { order = append(order, i) }
			x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("they went in the order %v", order)
		}
	})
}
