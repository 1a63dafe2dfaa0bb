package call

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// loginSpec is the row of a login. It is not in the table: only the client itself logs in, over a connection that
// has long been made.
var loginSpec = &Spec{
	Opcode: memd.OpSASLAuth, Name: "login", Traits: AnyNode | NoRetry, ReqExtras: none, ResExtras: none,
}

// LoginAgain sends a login of one step over a live connection of the node with that index, which Via.Local names, and
// waits for the answer. Calls before and behind it on the connection are not disturbed. payload is lent until it
// returns. An explicit refusal is cberr.AuthenticationFailure.
func LoginAgain(ctx context.Context, run Runner, node int, connection, mechanism string, payload []byte,
	timeout time.Duration, s retry.Strategy,
) error {
	c := run.NewCall()
	r, o := &c.Req, c.Req.Own()
	r.Opcode, r.Key, r.Value, r.Timeout = memd.OpSASLAuth, []byte(mechanism), payload, timeout
	r.Pinned, o.Node, o.Connection, o.Retry = true, node, connection, s
	o.spec, c.has = loginSpec, c.has|hasSpec
	err := c.Run(ctx, run)
	run.Release(c)
	return err
}
