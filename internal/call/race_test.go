package call_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// A call that ends on its way to a connection: the goroutine that brings it there goes on, and another one makes the
// error. The race detector is the judge.
func TestTheErrorOfACallReadsNothingThatItsSenderWrites_D187(t *testing.T) {
	c := new(call.Call)
	c.Req.Opcode, c.Req.Key, c.Req.Value = memd.OpSet, []byte("k"), bytes.Repeat([]byte("v"), 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		c.Route.CollectionID, c.Route.Opaque = 8, 1
		c.Pack(&call.Packer{})
	})
	wg.Go(func() {
		require.Zero(t, c.Req.Replica())
		var e *call.Error
		ended := &retry.Error{Info: retry.Info{Stage: retry.StageDispatch}}
		require.ErrorAs(t, c.Translate(ended, false), &e)
		require.Zero(t, e.CollectionID)
	})
	wg.Wait()
}
