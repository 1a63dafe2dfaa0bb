package httpsvc

import (
	"fmt"
	"time"

	"github.com/couchcore/couchcore/cberr"
)

// Hedge asks for a request that only reads to be sent to more nodes than one: first to one of them, then, each time
// Delay has passed without an answer, to one that has not been asked yet. The first good answer wins and the others are
// cancelled. Each node is asked once.
type Hedge struct {
	MaxAttempts int           // nodes at most, the first included; below 2 there is only that one
	Delay       time.Duration // from one node to the next; 0 asks all at once
	// NonFatal says after which failures other nodes are still of use. Nil means every failure that has a retry reason.
	// That a node cannot be reached, or that the connection to it is lost before anything comes back, is never the end,
	// whatever it says.
	NonFatal func(error) bool
}

// Reads reports whether a raw request only reads: of some methods that is known.
func Reads(method string, idempotent bool) bool {
	return idempotent || method == "GET" || method == "HEAD"
}

// Check says why a request cannot be hedged: it does not only read, or it names its node. A nil Hedge, and one that
// asks one node, always can.
func (h *Hedge) Check(reads bool, endpoint string) error {
	switch {
	case h == nil || h.MaxAttempts < 2:
		return nil
	case h.Delay < 0:
		return fmt.Errorf("%w: Hedge.Delay is negative", cberr.InvalidArgument)
	case !reads:
		return fmt.Errorf("%w: Hedge is set on a request that may change something", cberr.InvalidArgument)
	case endpoint != "":
		return fmt.Errorf("%w: Hedge is set beside Endpoint", cberr.InvalidArgument)
	}
	return nil
}
