package call

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// failing is a dispatcher whose calls fail at once.
type failing struct{ cause error }

func (failing) NewCall() *Call     { return NewCall() }
func (failing) Release(*Call)      {}
func (f failing) Dispatch(c *Call) { c.Fail(f.cause) }

// A hedged read's failure is that of the active copy, unless that read was only canceled because another one had ended
// the call.
func TestACanceledReadSaysNothingAboutTheActiveCopy(t *testing.T) {
	for cause, says := range map[error]bool{
		cberr.TemporaryFailure: true, cberr.UnambiguousTimeout: true,
		cberr.RequestCanceled: false,
	} {
		x := &hedged{
			on: failing{cause}, plan: HedgePlan{Copies: []string{"a", "b"}}, ended: make(chan struct{}),
		}
		x.req.Opcode, x.req.Key, x.req.Timeout = memd.OpGet, []byte("k"), time.Second
		_, err := x.try(context.Background(), 0, nil)
		require.ErrorIs(t, err, cause)
		require.Equal(t, says, x.active != nil, cause)
	}
}
