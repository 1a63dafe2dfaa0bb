package call

import (
	"context"

	"github.com/couchcore/couchcore/memd"
)

// loginSpec is the row of a login. It is not in the table: only the client itself logs in, over a connection that
// has long been made.
var loginSpec = &Spec{
	Opcode: memd.OpSASLAuth, Name: "login", Traits: AnyNode | NoRetry, ReqExtras: none,
	ResExtras: none,
}

// LoginAgain sends a login of one step over a live connection of the node with that index, which Via.Local names, and
// waits for the answer. Calls before and behind it on the connection are not disturbed. payload is lent until it
// returns. An explicit refusal is cberr.AuthenticationFailure.
func LoginAgain(ctx context.Context, run Runner, node int, connection, mechanism string, payload []byte,
	common Common,
) error {
	c := run.NewCall()
	c.Req.Common, c.Req.Opcode, c.Req.Key, c.Req.Value = common, memd.OpSASLAuth, []byte(mechanism), payload
	c.Req.Pinned, c.Req.Node, c.Req.Connection = true, node, connection
	c.ownSpec, c.has = loginSpec, c.has|hasSpec
	err := c.Run(ctx, run)
	run.Release(c)
	return err
}
