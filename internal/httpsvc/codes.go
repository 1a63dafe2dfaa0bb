package httpsvc

import (
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// CodeRow is a row of a service's table of codes, for guides and commands. The first row that matches an answer counts.
type CodeRow struct {
	Low, High int    // codes, or HTTP statuses, both inclusive
	When      string // what else the answer has, in words; empty: nothing
	Kind      *cberr.Kind
	Reason    retry.Reason // for which a request that only reads is retried; Unknown: it is not
}
