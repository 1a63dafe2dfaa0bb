package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/memd"
)

const (
	// retireLimit is how long what is in flight on a connection has for its answers that an answer has put out of use.
	retireLimit = time.Second
	// renewApart is how long a node's connection is kept at least before an answer has it replaced.
	renewApart = time.Second
)

// uselessError is why a connection is closed after an answer. It is not the error of that answer, which is the answered
// call's alone: that call goes on writing to it, and what it says is not true of the connection's other calls.
type uselessError struct {
	status memd.Status
	name   string
}

func (e *uselessError) Error() string {
	return fmt.Sprintf("the connection is of no use after an answer with status 0x%02x %s", uint16(e.status), e.name)
}

// useless reports whether a connection has ended because of an answer.
func useless(err error) bool {
	var u *uselessError
	return errors.As(err, &u)
}

// retire takes a connection out of use on which nothing can succeed. It is closed when what is in flight on it has been
// answered, or soon; new calls wait for the next one.
func (p *pipeline) retire(cn *conn.Conn, cause error) {
	if p.retiring.Swap(cn) == cn {
		return
	}
	cn.Refuse()
	if !p.starts(func() { closeWhenIdle(p.r.ctx, cn, retireLimit, cause) }) {
		cn.Close(cause)
	}
}

// renew makes a new connection in place of one that works but is not to be relied on. Calls go on using the old one
// until the new one is there.
func (p *pipeline) renew(cn *conn.Conn, cause error) {
	now := p.r.now() + 1 // 0 is never
	last := p.renewed.Load()
	if p.conn.Load() != cn || last != 0 && now-last < int64(renewApart) || !p.renewed.CompareAndSwap(last, now) {
		return
	}
	p.starts(func() { _ = p.replace(p.r.ctx, cn, retireLimit, cause) }) // if that fails, the old one stays
}

// closeWhenIdle closes a connection that takes no more calls as soon as those in flight are answered, after limit at
// most.
func closeWhenIdle(ctx context.Context, cn *conn.Conn, limit time.Duration, cause error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !cn.Idle() && ctx.Err() == nil {
		pause(ctx, 5*time.Millisecond, nil)
	}
	cn.Close(cause)
}
